"""Pictures of values: one number, one for each class, or any of them over steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from .canvas import COLOURS, GREY, INK, PALE, axes, bare, names_for, on_host, quantity, short, spaced, stroke

_MOST_BARS = 40
_MOST_LINES = 10


@dataclass(frozen=True)
class Scale:
    """What a value is called, what it is of, between which bounds it lies, and which end is better."""

    name: str = "Value"
    noun: str = "class"
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    higher_is_better: bool | None = None
    label: str | None = None

    @property
    def axis(self) -> str:
        """The title of an axis of such values: the label, or what is known of them."""
        if self.label is not None:
            return self.label
        about = [] if self.unit is None else [f"in {self.unit}"]
        if self.low is not None and self.high is not None:
            about.append(f"{short(self.low)} to {short(self.high)}")
        elif self.low is not None or self.high is not None:
            about.append(f"at least {short(self.low)}" if self.low is not None else f"at most {short(self.high or 0.0)}")
        if self.higher_is_better is not None:
            about.append("higher is better" if self.higher_is_better else "lower is better")
        return f"{quantity(self.name)} ({', '.join(about)})" if about else quantity(self.name)

    def best(self, x: Any) -> int | None:
        """Where the best of some values is, if there is a better end."""
        if self.higher_is_better is None or not np.isfinite(x).any():
            return None
        return int(np.nanargmax(x) if self.higher_is_better else np.nanargmin(x))


def plot_values(
    val: Any, ax: Any = None, *, labels: Sequence[str] | None = None, scale: Scale | None = None, **about: Any
) -> tuple[Any, Any]:
    """Draw a value: a number, a tensor with one number for each class, a dict of named numbers; or a list of such values, one for each step.

    `labels` names the classes. `about` is what `Scale` takes: `name`, `noun` ("class", "output", …), `unit`, `low`, `high`,
    `higher_is_better`, and `label` of the axis in place of them. Returns the figure and the axes.
    """
    scale = scale or Scale(**about)
    if isinstance(val, list | tuple):
        return _over_steps(list(val), ax, labels, scale)
    if isinstance(val, Mapping):
        names, numbers = _parts(val, None, scale)
        return _bars(numbers, names, ax, scale, "")
    x = on_host(val)
    if x.size == 0:
        raise ValueError(f"{scale.name}: there is nothing to draw, the value has shape {x.shape}.")
    if x.ndim == 0:
        return _gauge(float(x), ax, scale)
    if x.ndim == 1:
        return _bars(x, names_for(labels, len(x), scale.noun), ax, scale, scale.noun)
    if x.ndim == 2:
        return _table(x, names_for(labels, len(x), scale.noun), ax, scale)
    raise ValueError(
        f"{scale.name}: a value of shape {x.shape} cannot be drawn; expected at most two dimensions. Draw its parts: plot(value[0])."
    )


def _parts(val: Any, labels: Sequence[str] | None, scale: Scale) -> tuple[list[str], Any]:
    """A value as named numbers."""
    if isinstance(val, Mapping):
        names, numbers = [], []
        for key, x in val.items():
            inner, found = _parts(x, None, scale)
            names += [f"{key}" if len(found) == 1 else f"{key}, {n}" for n in inner]
            numbers += list(found)
        return names, np.asarray(numbers)
    x = np.concatenate([on_host(e).reshape(-1) for e in val]) if isinstance(val, tuple) else on_host(val)
    if x.ndim > 1:
        raise ValueError(
            f"{scale.name}: values of shape {x.shape} cannot be drawn over steps; expected one number, or one for each {scale.noun}."
        )
    return ([scale.name] if x.ndim == 0 else names_for(labels, len(x), scale.noun)), x.reshape(-1)


def _gauge(x: float, ax: Any, scale: Scale) -> tuple[Any, Any]:
    figure, ax = axes(ax, (6.4, 1.7))
    low, high = _reach(np.array([x]), scale)
    if scale.low is not None and scale.high is not None:
        ax.barh([0], [high - low], left=low, color=PALE, height=0.5)
    if np.isfinite(x):
        ax.barh([0], [x], color=COLOURS[0], height=0.5)
    ax.set(xlim=(low, high), ylim=(-0.6, 0.6), yticks=[], xlabel=scale.axis, title=f"{spaced(scale.name)}: {short(x)}")
    ax.spines["left"].set_visible(False)
    bare(ax)
    return figure, ax


def _reach(x: Any, scale: Scale) -> tuple[float, float]:
    """The part of the axis that bars take: from their bounds, or from 0, to a little beyond the longest."""
    x = x[np.isfinite(x)]
    low, high = min([0.0, *x]), max([0.0, *x])
    room = 0.12 * ((high - low) or 1.0)
    low = scale.low if scale.low is not None else low - room * (low < 0)
    high = scale.high if scale.high is not None else high + room * (high > 0 or low == 0)
    return float(low), float(high)


def _write(ax: Any, x: float, place: float, low: float, high: float) -> None:
    """A bar's number: at its end, inside where there is no room beyond it."""
    end = x if np.isfinite(x) else 0.0
    left = end < 0
    inside = (end - low if left else high - end) < 0.1 * (high - low) and abs(end) > 0.1 * (high - low)
    ax.annotate(
        short(x),
        (end, place),
        xytext=(4 if inside == left else -4, 0),
        textcoords="offset points",
        va="center",
        ha="left" if inside == left else "right",
        fontsize=8.5,
        color="white" if inside else INK,
        bbox=None if inside else {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
    )


def _bars(x: Any, names: list[str], ax: Any, scale: Scale, noun: str) -> tuple[Any, Any]:
    if len(x) > _MOST_BARS:
        return _ranked(x, names, ax, scale, noun)
    figure, ax = axes(ax, (6.4, 1.4 + 0.27 * len(x)))
    low, high = _reach(x, scale)
    ax.barh(range(len(x)), np.nan_to_num(x, posinf=0.0, neginf=0.0), color=COLOURS[0], height=0.7)
    for i, value in enumerate(x):
        _write(ax, value, i, low, high)
    meaningful = noun and len(x) > 1 and scale.higher_is_better is not None and np.isfinite(x).all()
    if meaningful:
        _mean(ax, float(x.mean()))
    if noun:
        ax.set_ylabel(noun)
    ax.set_yticks(range(len(x)), names)
    ax.set(xlim=(low, high), ylim=(len(x) - 0.4, -0.6), xlabel=scale.axis)
    ax.set_title(spaced(scale.name) + (f" of each {noun}" if noun else ""), pad=16 if meaningful else None)
    ax.axvline(0, color=INK, linewidth=0.8)
    bare(ax)
    return figure, ax


def _mean(ax: Any, mean: float) -> None:
    ax.axvline(mean, color=COLOURS[1], linewidth=1.2, linestyle="--", zorder=1.5)
    ax.annotate(
        f"mean {short(mean)}",
        (mean, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
        color=COLOURS[1],
    )


def _ranked(x: Any, names: list[str], ax: Any, scale: Scale, noun: str) -> tuple[Any, Any]:
    """Too many for bars: the values in order, with the ends named."""
    figure, ax = axes(ax, (6.4, 4.2))
    known = np.flatnonzero(~np.isnan(x))
    order = known[np.argsort(x[known], kind="stable")]
    rank = np.arange(1, len(order) + 1)
    ax.plot(rank, x[order], color=COLOURS[0], linewidth=1.6)
    ax.fill_between(rank, x[order], min(0.0, *x[order]), color=COLOURS[0], alpha=0.12, linewidth=0)
    if len(order):
        mean = float(x[order].mean())
        ax.axhline(mean, color=COLOURS[1], linewidth=1.2, linestyle="--", label=f"mean {short(mean)}")
        ends = (("lowest", order[:3]), ("highest", order[::-1][:3]))
        for which, places in ends:
            ax.plot([], [], " ", label=f"{which}: " + ", ".join(f"{names[i]} ({short(x[i])})" for i in places))
    noun = noun or "value"
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    absent = f", {len(x) - len(order)} undefined" if len(order) < len(x) else ""
    ax.set(xlabel=f"{plural} in order of value ({len(x)}{absent})", ylabel=scale.axis, title=f"{spaced(scale.name)} of each {noun}")
    ax.set_xlim(1, max(len(order), 2))
    figure_legend(ax, columns=1)
    bare(ax)
    return figure, ax


def figure_legend(ax: Any, columns: int) -> None:
    """A legend under the axes and their title, where it hides nothing."""
    from matplotlib.transforms import ScaledTranslation

    below = ax.transAxes + ScaledTranslation(0, -0.45, ax.figure.dpi_scale_trans)  # inches, however high the axes are
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=columns, frameon=False, fontsize=8.5)


def _table(x: Any, names: list[str], ax: Any, scale: Scale) -> tuple[Any, Any]:
    rows, columns = x.shape
    figure, ax = axes(ax, (min(2.6 + 0.45 * columns, 12.0), min(1.6 + 0.4 * rows, 12.0)))
    image = ax.imshow(x, cmap="cividis", vmin=scale.low, vmax=scale.high, aspect="auto")
    figure.colorbar(image, ax=ax, label=scale.axis, shrink=0.9)
    ax.set_yticks(range(rows), names) if rows <= _MOST_BARS else ax.set_ylabel(scale.noun)
    ax.set(title=spaced(scale.name))
    return figure, ax


def _over_steps(values: list[Any], ax: Any, labels: Sequence[str] | None, scale: Scale) -> tuple[Any, Any]:
    if not values:
        raise ValueError(f"{scale.name}: there is nothing to draw; expected a value, or a list with one value for each step.")
    parts = [_parts(v, labels, scale) for v in values]
    names = parts[0][0]
    if any(n != names for n, _ in parts):
        raise ValueError(f"{scale.name}: the values of the steps have different parts; expected each to have {names}.")
    lines = np.stack([x for _, x in parts], 1)
    figure, ax = axes(ax, (6.4, 4.0))
    steps = np.arange(lines.shape[1])
    if len(lines) > _MOST_LINES:
        _bundle(ax, steps, lines, names, scale)
    else:
        for i, (name, line) in enumerate(zip(names, lines)):
            ax.plot(
                steps,
                line,
                label=name if len(lines) > 1 else None,
                linewidth=1.6,
                marker="o" if len(steps) <= 30 else None,
                markersize=3.5,
                **stroke(i),
            )
    if len(lines) == 1:
        _mark_best(ax, lines[0], scale)
    elif len(lines) <= _MOST_LINES:
        figure_legend(ax, columns=min(3, len(lines)))
    for bound in (scale.low, scale.high):
        _bound(ax, bound)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="step", ylabel=scale.axis, title=f"{spaced(scale.name)} over {len(steps)} steps")
    bare(ax)
    return figure, ax


def _bundle(ax: Any, steps: Any, lines: Any, names: list[str], scale: Scale) -> None:
    """Too many lines to tell apart: all of them pale, their mean and the ends of the last step in colour."""
    ax.plot(steps, lines.T, color=PALE, linewidth=0.8)
    last = np.nan_to_num(lines[:, -1], nan=-np.inf)
    for i, (which, place) in enumerate((("highest", int(last.argmax())), ("lowest", int(last.argmin())))):
        ax.plot(steps, lines[place], linewidth=1.6, label=f"{names[place]} ({which} at the end)", **stroke(i + 1))
    ax.plot(steps, np.nanmean(lines, 0), color=INK, linewidth=2.0, label=f"mean of {len(lines)}")
    figure_legend(ax, columns=3)


def _mark_best(ax: Any, line: Any, scale: Scale) -> None:
    best = scale.best(line)
    if best is None or len(line) < 2:
        return
    ax.plot(
        [best],
        [line[best]],
        marker="*",
        markersize=13,
        color=COLOURS[1],
        linestyle="none",
        label=f"best: {short(line[best])} at step {best}",
    )
    ax.legend(frameon=False, fontsize=8.5)


def _bound(ax: Any, bound: float | None) -> None:
    """A line at a bound, where the data come near it."""
    if bound is None:
        return
    low, high = ax.get_ylim()
    reach = 0.1 * (high - low)
    if low - reach <= bound <= high + reach:
        ax.axhline(bound, color=GREY, linewidth=0.9, linestyle=(0, (1, 2)))
        ax.set_ylim(min(low, bound), max(high, bound))


def values_of(metric: Any, val: Any, ax: Any, labels: Sequence[str] | None) -> tuple[Any, Any]:
    """`plot` of a metric whose value needs no picture of its own."""
    if val is None:
        val = metric.compute()
        if isinstance(val, tuple | list):  # one value of several parts, not several steps
            val = {str(i): x for i, x in enumerate(val)}
    return plot_values(val, ax, labels=labels if labels is not None else _labels_of(metric), scale=scale_of(metric, val))


def scale_of(metric: Any, val: Any) -> Scale:
    """What is known of a metric's values; of a metric around another, what that says of its own."""
    while hasattr(metric, "_measured") and hasattr(metric._measured(), "plot_lower_bound"):
        metric = metric._measured()
    count = next((x.numel() for x in (val if isinstance(val, list | tuple) else [val]) if isinstance(x, Tensor)), 1)
    kinds = {"num_classes": "class", "num_labels": "label", "num_outputs": "output"}
    noun = next((noun for attribute, noun in kinds.items() if getattr(metric, attribute, None) == count), "sample")
    return Scale(
        type(metric).__name__,
        noun,
        getattr(metric, "unit", None),
        metric.plot_lower_bound,
        metric.plot_upper_bound,
        metric.higher_is_better if isinstance(metric.higher_is_better, bool) else None,
    )


def _labels_of(metric: Any) -> Sequence[str] | None:
    labels = getattr(metric, "labels", None)
    return labels if isinstance(labels, list | tuple) and all(isinstance(x, str) for x in labels) else None
