"""What was found out about each variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .loop import Run
from .settings import Settings
from .variants import BASELINE, Variant


@dataclass(frozen=True)
class Result:
    """Figures of one variant; None is unknown. `predicted` holds what a cost model says of another device, `error` what reading the metrics ended in."""

    variant: Variant
    step_ms: float | None = None
    images_per_s: float | None = None
    metric_ms: float | None = None
    stalls_per_step: float | None = None
    loss_percent: float | None = None
    predicted: dict[str, Any] | None = None
    values: dict[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def name(self) -> str:
        return self.variant.name


def whole_ms(run: Run, settings: Settings) -> list[float]:
    """Milliseconds per step with the readings' share: the turn's own reading where each turn ends in one, else the median one."""
    readings = run.read_ms if len(run.read_ms) == len(run.step_ms) else [median(run.read_ms)] * len(run.step_ms)
    return [step + reading / settings.log_interval for step, reading in zip(run.step_ms, readings, strict=True)]


def results(runs: Sequence[Run], settings: Settings, world_size: int = 1) -> list[Result]:
    """Medians over the turns. The loss is the median of the images per second lost against the same turn without metrics.

    The metrics' time is what the host spends in them; on CUDA without the readings, which mostly wait for the model's work.
    """
    baseline = next((whole_ms(run, settings) for run in runs if run.variant.name == BASELINE), None)
    rows = []
    for run in runs:
        times = whole_ms(run, settings)
        step_ms = median(times)
        loss = None if baseline is None else median((1 - b / t) * 100 for b, t in zip(baseline, times, strict=True))
        metric_ms: float | None = None
        if run.variant.name != BASELINE:
            metric_ms = median(run.update_ms) + (0 if run.device == "cuda" else median(run.read_ms) / settings.log_interval)
        rows.append(
            Result(
                variant=run.variant,
                step_ms=step_ms,
                images_per_s=world_size * settings.batch / step_ms * 1e3,
                metric_ms=metric_ms,
                loss_percent=loss,
                values=run.values,
                error=run.error,
            )
        )
    return rows


def disagreement(rows: Sequence[Result]) -> float | None:
    """The largest difference between two variants' values of the same name, or None where fewer than two can be compared.

    Step times are not compared: each variant has its own.
    """
    with_values = [row.values for row in rows if row.values and row.variant.feeds == "batch"]
    if len(with_values) < 2:
        return None
    names = set.intersection(*(set(values) for values in with_values))
    spreads = ([values[name] for values in with_values] for name in names)
    return max((max(spread) - min(spread) for spread in spreads), default=None)
