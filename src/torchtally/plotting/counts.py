"""True and false positives and negatives as bars that are parts of a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .canvas import INK, axes, bare, names_for, on_host, short, spaced
from .values import figure_legend

_PARTS = (("true positives", "#0072B2"), ("false negatives", "#E69F00"), ("false positives", "#D55E00"), ("true negatives", "#D9D9D9"))
_PLACES = (0, 3, 1, 2)  # of those parts in (tp, fp, tn, fn, support)
_MOST_ROWS = 60


def plot_counts(
    val: Any, ax: Any = None, *, labels: Sequence[str] | None = None, name: str = "StatScores", label: str = "decisions (count)"
) -> tuple[Any, Any]:
    """Draw `(tp, fp, tn, fn, support)`, or a row of them for each class; `label` is what they are counted in."""
    counts = np.atleast_2d(on_host(val))
    if counts.ndim != 2 or counts.shape[1] not in (4, 5) or len(counts) > _MOST_ROWS:
        raise ValueError(
            f"{name}: a value of shape {counts.shape} cannot be drawn; expected (5,), or (C, 5) of at most {_MOST_ROWS} classes."
        )
    alone = len(counts) == 1
    figure, ax = axes(ax, (6.4, 2.0 if alone else 1.9 + 0.32 * len(counts)))
    rows, left = range(len(counts)), np.zeros(len(counts))
    for (part, colour), place in zip(_PARTS, _PLACES):
        width = counts[:, place]
        ax.barh(rows, width, left=left, color=colour, height=0.7, label=part, edgecolor="white", linewidth=0.6)
        for row in rows:
            if width[row] > 0.06 * counts[:, :4].sum(1).max():
                light = colour in ("#D9D9D9", "#E69F00")
                ax.text(
                    left[row] + width[row] / 2,
                    row,
                    short(width[row]),
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    color=INK if light else "white",
                )
        left = left + width
    ax.set_yticks([] if alone else rows, [] if alone else names_for(labels, len(counts), "class"))
    ax.set(ylim=(len(counts) - 0.4, -0.6), xlabel=label, title=spaced(name))
    figure_legend(ax, columns=2)
    bare(ax)
    return figure, ax
