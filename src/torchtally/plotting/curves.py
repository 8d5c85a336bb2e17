"""ROC and precision-recall curves as pictures, with the operating point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .canvas import COLOURS, GREY, INK, PALE, axes, bare, names_for, on_host, short, stroke
from .values import Scale, figure_legend, plot_values

_MOST_LINES = 10


@dataclass(frozen=True)
class Line:
    """One curve: its points, and the threshold of each."""

    name: str
    x: Any
    y: Any
    thresholds: Any
    area: float

    def at(self, threshold: float) -> int | None:
        """The point where scores from the threshold on are positive: that of the lowest threshold which is not below it."""
        reached = np.flatnonzero(self.thresholds >= threshold)
        if not len(reached):
            return None
        place = int(reached[np.argmin(self.thresholds[reached])])
        return place if np.isfinite([self.x[place], self.y[place]]).all() else None


def plot_roc(
    curve: Any,
    score: Any = None,
    ax: Any = None,
    *,
    labels: Sequence[str] | None = None,
    threshold: float | None = 0.5,
    name: str = "ROC curve",
    noun: str = "class",
) -> tuple[Any, Any]:
    """Draw `(fpr, tpr, thresholds)`, or lists of them: one curve for each class.

    The legend tells the area under each curve, or the `score` given; `score=False` leaves it out. The point at `threshold` is marked;
    None marks none. The dashed line is what guessing gives.
    """
    lines = []
    for n, x, y, t in _curves(curve, labels, name, noun):
        x, y = (np.pad(rate, 1, constant_values=(0.0, 1.0)) for rate in (x, y))  # every curve begins and ends in a corner
        area = float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum())
        lines.append(Line(n, x, y, np.pad(t, 1, constant_values=np.nan), area))
    figure, ax = axes(ax, (5.4, 5.2))
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)), label="guessing")
    _draw(ax, lines, score, "area", threshold, {})
    return _framed(figure, ax, name, "false positive rate", "true positive rate (recall)")


def plot_precision_recall(
    curve: Any,
    score: Any = None,
    ax: Any = None,
    *,
    labels: Sequence[str] | None = None,
    threshold: float | None = 0.5,
    name: str = "Precision-recall curve",
    noun: str = "class",
) -> tuple[Any, Any]:
    """Draw `(precision, recall, thresholds)`, or lists of them: one curve for each class.

    The legend tells the average precision of each curve, or the `score` given; `score=False` leaves it out. The point at `threshold` is
    marked; None marks none. The pale lines join points of equal F1 score.
    """
    lines = []
    for n, precision, recall, t in _curves(curve, labels, name, noun):
        area = float(-np.nansum(np.diff(recall) * precision[:-1]))
        t = np.pad(t, (0, len(recall) - len(t)), constant_values=np.nan)  # the last point has none
        lines.append(Line(n, recall, precision, t, area))
    figure, ax = axes(ax, (5.4, 5.2))
    for f1 in (0.2, 0.4, 0.6, 0.8):
        recall = np.linspace(f1 / (2 - f1), 1, 100)
        ax.plot(recall, f1 * recall / (2 * recall - f1), color=PALE, linewidth=0.9, zorder=0)
        ax.annotate(
            f"F1 {f1}",
            (1.0, f1 / (2 - f1)),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=GREY,
            annotation_clip=False,
        )
    _draw(ax, lines, score, "average precision", threshold, {"drawstyle": "steps-post"})
    return _framed(figure, ax, name, "recall", "precision")


def plot_at_every_k(curve: Any, ax: Any = None, *, name: str = "Precision and recall") -> tuple[Any, Any]:
    """Draw `(precision, recall, k)`: both rates of the first k documents."""
    precision, recall, k = (on_host(x) for x in curve)
    if not len(k):
        raise ValueError(f"{name}: there is nothing to draw, the curve has no points.")
    figure, ax = axes(ax, (6.4, 4.4))
    for i, (rate, label) in enumerate(((precision, "precision"), (recall, "recall"))):
        ax.plot(k, rate, label=label, **stroke(i), marker="o" if len(k) == 1 else None)
    ax.set(ylim=(-0.01, 1.01), xlabel="k, the documents looked at", ylabel="rate (0 to 1)", title=name)
    figure_legend(ax, columns=2)
    bare(ax)
    return figure, ax


def plot_operating_point(
    rate: Any, threshold: Any, ax: Any, *, labels: Sequence[str] | None, scale: Scale, what: str = "threshold"
) -> tuple[Any, Any]:
    """A rate, or one for each class, with the threshold it is reached at."""
    at = on_host(threshold)
    if not at.ndim:
        figure, ax = plot_values(rate, ax, scale=scale)
        ax.set_title(f"{ax.get_title()} at {what} {short(float(at))}")
        return figure, ax
    names = [f"{name} (at {short(t)})" for name, t in zip(names_for(labels, len(at), scale.noun), at)]
    return plot_values(rate, ax, labels=names, scale=scale)


def _curves(curve: Any, labels: Sequence[str] | None, name: str, noun: str) -> list[tuple[str, Any, Any, Any]]:
    """Each curve with its name, from one curve, lists of curves, or tensors of curves that share thresholds."""
    if not isinstance(curve, tuple | list) or len(curve) != 3:
        raise ValueError(
            f"{name}: the curve is {type(curve).__name__}; expected a tuple of two rates and the thresholds, as compute() gives it."
        )
    first, second, thresholds = curve
    if not isinstance(first, list | tuple) and on_host(first).ndim == 1:
        return [("", *map(on_host, curve))]
    names = names_for(labels, len(first), noun)
    each = list(thresholds) if isinstance(thresholds, list | tuple) or on_host(thresholds).ndim > 1 else [thresholds] * len(first)
    return [(n, on_host(x), on_host(y), on_host(t)) for n, x, y, t in zip(names, first, second, each)]


def _draw(ax: Any, lines: list[Line], score: Any, what: str, threshold: float | None, style: dict[str, Any]) -> None:
    """The curves; of very many, all pale and the best and worst in colour."""
    scores = _scores(lines, score)
    shown = list(range(len(lines)))
    if len(lines) > _MOST_LINES:
        order = [i for i in sorted(shown, key=lambda i: lines[i].area) if np.isfinite(lines[i].area)]
        shown = [*order[::-1][:3], *order[:3]]
        for line in lines:
            ax.plot(line.x, line.y, color=PALE, linewidth=0.8, **style)
        ax.plot([], [], color=PALE, label=f"{len(lines)} in all; the best and the worst three:")
    marks = []
    for k, i in enumerate(shown):
        line = lines[i]
        told = "" if (known := scores[i]) is None else f"{what} {short(known)}"
        drawn = {**style, **({"drawstyle": "default"} if len(line.x) == 1 else {})}
        ax.plot(line.x, line.y, linewidth=1.8, label=", ".join(filter(None, (line.name, told))) or "curve", **stroke(k), **drawn)
        place = line.at(threshold) if threshold is not None else None
        if place is not None:
            marks.append((line.x[place], line.y[place], COLOURS[k % len(COLOURS)]))
    ring = {"marker": "o", "markersize": 8, "markerfacecolor": "white", "markeredgewidth": 2, "linestyle": "none", "zorder": 5}
    for x, y, colour in marks:
        ax.plot([x], [y], color=colour, clip_on=False, **ring)
    if marks:
        at = f": ({short(marks[0][0])}, {short(marks[0][1])})" if len(lines) == 1 else ""
        ax.plot([], [], color=marks[0][2] if len(lines) == 1 else INK, label=f"threshold {threshold:g}{at}", **ring)


def _scores(lines: list[Line], score: Any) -> list[float | None]:
    if score is False:
        return [None] * len(lines)
    if score is None or score is True:
        return [line.area for line in lines]
    given = on_host(score).reshape(-1)
    if len(given) != len(lines):
        raise ValueError(f"plot: score has {len(given)} numbers; expected {len(lines)}, one for each curve.")
    return [float(x) for x in given]


def _framed(figure: Any, ax: Any, name: str, x: str, y: str) -> tuple[Any, Any]:
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal", xlabel=x, ylabel=y, title=name)
    figure_legend(ax, columns=1 if len(ax.get_legend_handles_labels()[1]) <= 4 else 2)
    bare(ax)
    return figure, ax
