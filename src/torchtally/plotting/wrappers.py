"""Pictures of metrics around metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from .values import Scale, plot_values, scale_of


def plot_classwise(wrapper: Any, val: Any, ax: Any, labels: Sequence[str] | None) -> tuple[Any, Any]:
    """`ClasswiseWrapper.plot`: the names of a value's entries less what they have in common."""
    val = wrapper.compute() if val is None else val
    steps = val if isinstance(val, list | tuple) else [val]
    scale = replace(scale_of(wrapper.metric, val), noun="class")
    names = labels or wrapper.labels or [str(i) for i in range(len(steps[0]))]
    if len(names) == len(steps[0]):
        steps = [dict(zip(names, v.values())) for v in steps]
    return plot_values(steps if isinstance(val, list | tuple) else steps[0], ax, scale=scale)


def plot_tasks(wrapper: Any, val: Any, axes: Any) -> list[Any]:
    """`MultitaskWrapper.plot`."""
    val = wrapper.compute() if val is None else val
    steps = val if isinstance(val, list | tuple) else [val]
    tasks = list(wrapper.items(flatten=False))
    given = [None] * len(tasks) if axes is None else list(axes)
    if len(given) != len(tasks):
        raise ValueError(f"MultitaskWrapper.plot: axes holds {len(given)}; expected {len(tasks)}, one for each task.")
    drawn = []
    for (name, metric), ax in zip(tasks, given):
        of_task = [v[name] for v in steps]
        drawn.append(metric.plot(of_task if isinstance(val, list | tuple) else of_task[0], ax=ax))
    return drawn


def plot_tracker(tracker: Any, val: Any, ax: Any, labels: Sequence[str] | None) -> tuple[Any, Any]:
    """`MetricTracker.plot`."""
    steps = _steps(tracker.compute_all() if val is None else val)
    base = tracker._base
    if hasattr(base, "plot_lower_bound"):
        scale = scale_of(base, steps)
        if isinstance(tracker.maximize, bool):
            scale = replace(scale, higher_is_better=tracker.maximize)
    else:
        scale = Scale("Metrics", label="value")
    return plot_values(steps, ax, labels=labels, scale=scale)


def _steps(values: Any) -> list[Any]:
    """A list of values, one for each step, from stacks of them."""
    if isinstance(values, Tensor):
        return list(values.unbind())
    if isinstance(values, Mapping):
        parts = {name: _steps(x) for name, x in values.items()}
        return [dict(zip(parts, step)) for step in zip(*parts.values())]
    return list(values)
