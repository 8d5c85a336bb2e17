"""Reliability diagrams: how often predictions of each confidence come true."""

from __future__ import annotations

from typing import Any

import numpy as np

from .canvas import COLOURS, GREY, INK, axes, bare, on_host, pyplot, short


def plot_calibration(
    count: Any, confidence: Any, accuracy: Any, ax: Any = None, *, score: float | None = None, name: str = "Calibration", norm: str = "l1"
) -> tuple[Any, Any]:
    """Draw the bins of a calibration error: of each, how many predictions it holds, their mean confidence and the share that came true.

    A bar is the share that came true; the hatched part is how far that lies from the confidence. Below, how many predictions each bin has.
    """
    count, confidence, accuracy = (on_host(x) for x in (count, confidence, accuracy))
    if not count.shape == confidence.shape == accuracy.shape or count.ndim != 1:
        raise ValueError(
            f"{name}: the bins have shapes {count.shape}, {confidence.shape}, {accuracy.shape}; expected three of one shape (bins,)."
        )
    bins = len(count)
    left = np.arange(bins) / bins
    held = count > 0
    if ax is None:
        figure, (ax, below) = pyplot().subplots(2, 1, figsize=(5.4, 5.8), height_ratios=[4, 1], sharex=True, layout="constrained")
    else:
        (figure, ax), below = axes(ax, (0, 0)), None
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)), label="perfect calibration")
    ax.bar(left[held], accuracy[held], 1 / bins, align="edge", color=COLOURS[0], edgecolor="white", linewidth=0.8, label="came true")
    gap = confidence - accuracy
    ax.bar(
        left[held],
        gap[held],
        1 / bins,
        bottom=accuracy[held],
        align="edge",
        facecolor="none",
        edgecolor=COLOURS[1],
        hatch="////",
        linewidth=0.8,
        label="gap to the confidence",
    )
    ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that came true", title=name if score is None else f"{name}: {short(score)} ({norm})")
    ax.legend(loc="upper left", frameon=False, fontsize=8.5)
    bare(ax)
    lowest = ax
    if below is not None:
        below.bar(left, count, 1 / bins, align="edge", color=INK, alpha=0.55, edgecolor="white", linewidth=0.8)
        below.set_ylabel("predictions")
        bare(below)
        lowest = below
    lowest.set_xlabel("confidence (probability predicted)")
    return figure, ax
