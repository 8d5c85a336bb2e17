"""Public reports about metrics of others, each distilled to a case that runs: what went wrong there, on data made up here, and what is right by the definition."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

LIGHTNING, TORCHMETRICS = "Lightning-AI/pytorch-lightning", "Lightning-AI/torchmetrics"
TORCHEVAL, IGNITE = "meta-pytorch/torcheval", "pytorch/ignite"


@dataclass(frozen=True)
class Report:
    """Where it was reported, what was wrong there, a case of it, and the truth: numbers, or the error that says so."""

    where: str
    wrong: str
    case: Callable[[], Any]
    right: Any


class Table(list[Report]):
    """Reports of one test module. `@table(TORCHMETRICS, 2685, "…", right)` adds the function below it; several numbers are one case."""

    def __call__(self, project: str, numbers: int | tuple[int, ...], wrong: str, right: Any) -> Callable[[Callable[[], Any]], None]:
        numbers = (numbers,) if isinstance(numbers, int) else numbers
        return lambda case: self.append(Report(" ".join(f"{project}#{n}" for n in numbers), wrong, case, right))

    def params(self) -> list[Any]:
        return [pytest.param(r, id=f"{r.where.replace('/', '.')} {r.wrong}"[:120]) for r in self]


def check(report: Report) -> None:
    if isinstance(report.right, type) and issubclass(report.right, Exception):
        with pytest.raises(report.right):
            report.case()
        return
    found = report.case()
    assert same(found, report.right), f"{report.where}: {report.wrong}: {found} is not {report.right}"


def same(found: Any, right: Any, tolerance: float = 2e-6) -> bool:
    """Equal in form, and in numbers to float32's precision; NaN is NaN."""
    if isinstance(found, Tensor):
        found = found.tolist()
    if isinstance(right, Tensor):
        right = right.tolist()
    if isinstance(right, dict):
        return isinstance(found, dict) and list(found) == list(right) and all(same(found[k], right[k], tolerance) for k in right)
    if isinstance(right, list | tuple):
        return isinstance(found, list | tuple) and len(found) == len(right) and all(map(same, found, right))
    if isinstance(right, bool | str | torch.dtype) or right is None:
        return type(found) is type(right) and found == right
    if not isinstance(found, int | float) or isinstance(found, bool):
        return False
    least = 0.0 if 0 < abs(right) < tolerance else tolerance
    return math.isnan(found) if math.isnan(right) else math.isclose(found, right, rel_tol=tolerance, abs_tol=least)


def fed(metric: Any, *batches: tuple[Any, ...]) -> Any:
    """The value after these batches."""
    for batch in batches:
        metric.update(*batch)
    return metric.compute()
