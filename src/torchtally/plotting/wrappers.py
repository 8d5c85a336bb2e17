"""Pictures of metrics around metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from .canvas import COLOURS, GREY, axes, bare, names_for, on_host, short, spaced
from .values import Scale, figure_legend, plot_values, scale_of


def plot_classwise(wrapper: Any, val: Any, ax: Any, labels: Sequence[str] | None) -> tuple[Any, Any]:
    """`ClasswiseWrapper.plot`: the names of a value's entries less what they have in common."""
    val = wrapper.compute() if val is None else val
    steps = val if isinstance(val, list | tuple) else [val]
    scale = replace(scale_of(wrapper.metric, val), noun="class")
    names = labels or wrapper.labels or [str(i) for i in range(len(steps[0]))]
    if len(names) == len(steps[0]):
        steps = [dict(zip(names, v.values())) for v in steps]
    if all(isinstance(x, tuple) for x in steps[0].values()):  # curves, or points of them
        return wrapper.metric.plot(steps if isinstance(val, list | tuple) else steps[0], ax=ax)
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


def plot_bootstrap(wrapper: Any, val: Any, ax: Any, labels: Sequence[str] | None) -> tuple[Any, Any]:
    """`BootStrapper.plot`: a row for each class, with how far resamples lie apart."""
    val = wrapper.compute() if val is None else val
    scale = scale_of(wrapper, val.get("mean") if isinstance(val, Mapping) else None)
    if not isinstance(val, Mapping) or "mean" not in val or isinstance(val["mean"], Mapping):
        return plot_values(val, ax, labels=labels, scale=scale)
    found = {name: on_host(x) for name, x in val.items()}
    mean = np.atleast_1d(found["mean"])
    rows = np.arange(len(mean))
    figure, ax = axes(ax, (6.4, 1.9 + 0.35 * len(mean)))
    if "raw" in found:
        raw = found["raw"].reshape(-1, len(mean))
        spread = np.linspace(-0.25, 0.25, len(raw))[:, None] if len(raw) > 1 else np.zeros((1, 1))
        ax.plot(raw, rows + spread, ".", color=GREY, markersize=4, label=None)
        ax.plot([], [], ".", color=GREY, label="resamples")
    if "quantile" in found and isinstance(wrapper.quantile, list) and len(wrapper.quantile) > 1:
        low, high = (np.atleast_1d(found["quantile"][i]) for i in (int(np.argmin(wrapper.quantile)), int(np.argmax(wrapper.quantile))))
        told = f"{100 * min(wrapper.quantile):g} % to {100 * max(wrapper.quantile):g} %"
        ax.hlines(rows, low, high, color=COLOURS[5], linewidth=7, alpha=0.6, label=told)
    if "std" in found:
        ax.errorbar(
            mean,
            rows,
            xerr=np.atleast_1d(found["std"]),
            fmt="none",
            color=COLOURS[1],
            capsize=4,
            linewidth=1.6,
            label="± standard deviation",
        )
    ax.plot(mean, rows, "o", color=COLOURS[0], markersize=7, label=f"mean {short(mean[0])}" if len(mean) == 1 else "mean")
    ax.set_yticks([] if len(mean) == 1 else rows, [] if len(mean) == 1 else names_for(labels, len(mean), scale.noun))
    ax.set(ylim=(len(mean) - 0.4, -0.6), xlabel=scale.axis, title=f"{spaced(scale.name)} of {wrapper.num_bootstraps} resamples")
    figure_legend(ax, columns=4)
    bare(ax)
    return figure, ax


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
