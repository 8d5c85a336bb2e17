"""Metrics of several tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from ..apart import Call
from ..collection import MetricCollection
from ..interval_reading import joined, of_those_that_have
from ..intervals import Intervals
from ..options import affix_of
from .abstract import WrapperMetric, checked_metric


class MultitaskWrapper(WrapperMetric):
    """A metric or a collection for each of several tasks, by name, updated and read together.

    `update(task_preds, task_targets)` takes two dicts with the names of `task_metrics`; the value is a dict of them, each with `prefix` and
    `postfix`. `interval()` leaves tasks out whose metrics have none.

    >>> from torch import tensor
    >>> from torchtally import MeanSquaredError
    >>> from torchtally.classification import BinaryAccuracy
    >>> from torchtally.wrappers import MultitaskWrapper
    >>> metric = MultitaskWrapper({"class": BinaryAccuracy(), "age": MeanSquaredError()})
    >>> metric.update({"class": tensor([1, 0]), "age": tensor([30.0])}, {"class": tensor([1, 1]), "age": tensor([32.0])})
    >>> metric.compute()
    {'class': tensor(0.5000), 'age': tensor(4.)}
    """

    is_differentiable = False

    def __init__(self, task_metrics: dict[str, Any], prefix: str | None = None, postfix: str | None = None) -> None:
        super().__init__()
        if not isinstance(task_metrics, dict):
            raise TypeError(f"MultitaskWrapper: task_metrics is a {type(task_metrics).__name__}; expected a dict of metrics by task.")
        for name, m in task_metrics.items():
            try:
                checked_metric("MultitaskWrapper", f"task_metrics[{name!r}]", m)
            except ValueError as error:
                raise TypeError(str(error)) from None
        self.task_metrics = nn.ModuleDict(task_metrics)
        self._prefix, self._postfix = _checked(prefix, "prefix"), _checked(postfix, "postfix")
        self._hold()

    def _parts(self) -> list[Any]:
        return list(self.task_metrics.values())

    def update(self, task_preds: dict[str, Any], task_targets: dict[str, Any]) -> None:
        """Add a batch of every task."""
        super().update(task_preds, task_targets)

    def forward(self, task_preds: dict[str, Any], task_targets: dict[str, Any]) -> dict[str, Any]:
        """The values on this batch, which is also accumulated."""
        found: dict[str, Any] = super().forward(task_preds, task_targets)
        return found

    def _calls(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Call]:
        preds, targets = args
        wanted = self.task_metrics.keys()
        for name, x in zip(("task_preds", "task_targets"), args):
            if not isinstance(x, Mapping):
                raise TypeError(f"MultitaskWrapper: {name} is a {type(x).__name__}; expected a dict with the tasks {sorted(wanted)}.")
        if not wanted == preds.keys() == targets.keys():
            raise ValueError(
                f"MultitaskWrapper: task_preds has the tasks {sorted(preds)} and task_targets {sorted(targets)}; expected {sorted(wanted)} in both."
            )
        return [(m, (preds[name], targets[name]), {}) for name, m in self.task_metrics.items()]

    def plot(self, val: Any = None, axes: Any = None) -> list[Any]:  # type: ignore[override]  # torchmetrics' name
        """Draw the value of each task, or of `val`, into axes of its own: a list with what `plot` of its metric gives."""
        from ..plotting.wrappers import plot_tasks

        return plot_tasks(self, val, axes)

    def _value(self, values: list[Any]) -> dict[str, Any]:
        return {self._name(name): value for name, value in zip(self.task_metrics, values)}

    def _bounds_later(self, read: Any, asked: Intervals) -> Any:
        later = of_those_that_have(dict(self.task_metrics.items()), read, asked, "MultitaskWrapper")
        return joined(later, lambda bounds: {self._name(name): bound for name, bound in bounds.items()}, self._name)

    def _name(self, name: str) -> str:
        return f"{self._prefix}{name}{self._postfix}"

    @property
    def higher_is_better(self) -> dict[str, Any]:  # type: ignore[override]  # one for each task
        return {self._name(name): getattr(m, "higher_is_better", None) for name, m in self.task_metrics.items()}

    def items(self, flatten: bool = True) -> Iterator[tuple[str, Any]]:
        """Names and metrics; `flatten` goes into collections."""
        for name, m in self.task_metrics.items():
            if flatten and isinstance(m, MetricCollection):
                yield from ((self._name(f"{name}_{inner}"), x) for inner, x in m.items())
            else:
                yield self._name(name), m

    def keys(self, flatten: bool = True) -> Iterator[str]:
        """Names; `flatten` goes into collections."""
        return (name for name, _ in self.items(flatten))

    def values(self, flatten: bool = True) -> Iterator[Any]:
        """Metrics; `flatten` goes into collections."""
        return (m for _, m in self.items(flatten))

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> MultitaskWrapper:
        """A copy with the same totals and nothing shared; another prefix or postfix if given."""
        new: MultitaskWrapper = super().clone()
        if prefix is not None:
            new._prefix = _checked(prefix, "prefix")
        if postfix is not None:
            new._postfix = _checked(postfix, "postfix")
        return new


def _checked(x: Any, name: str) -> str:
    return affix_of("MultitaskWrapper", name, x) or ""
