"""What all pictures share: axes to draw on, colours, numbers on the host, names as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito's, which colour-blind readers tell apart
STROKES = ("-", "--", "-.", ":")
MINUS = "\N{MINUS SIGN}"
INK, GREY, PALE = "#333333", "#767676", "#D9D9D9"
_PEOPLE = (
    "Cohen",
    "Cramer",
    "Fleiss",
    "Hamming",
    "Jaccard",
    "Jensen",
    "Kendall",
    "Lin",
    "Matthews",
    "Minkowski",
    "Pearson",
    "Rand",
    "Shannon",
    "Spearman",
    "Theil",
    "Tschuprow",
    "Tweedie",
)
_TASKS = ("Binary ", "Multiclass ", "Multilabel ")


def pyplot() -> Any:
    """matplotlib.pyplot; it is optional."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ModuleNotFoundError("plot() needs matplotlib: pip install 'torchtally[plot]', or pip install matplotlib.") from None
    return pyplot


def axes(ax: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    """The axes to draw on and their figure: those given, or new ones of a size in inches."""
    plt = pyplot()
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")
    if not hasattr(ax, "get_figure"):
        raise TypeError(f"plot: ax is {type(ax).__name__}; expected matplotlib axes, as plt.subplots() gives them.")
    return ax.get_figure(), ax


def bare(ax: Any) -> None:
    """No more frame than the two axes that carry numbers."""
    ax.spines[["top", "right"]].set_visible(False)


def on_host(x: Any) -> Any:
    """A tensor, number or sequence of numbers as a NumPy array of float64. Waits for the device: a picture needs the numbers."""
    return x.detach().cpu().double().numpy() if isinstance(x, Tensor) else np.asarray(x, dtype=np.float64)


def stroke(i: int) -> dict[str, str]:
    """Colour and line style of the i-th line."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": STROKES[i // len(COLOURS) % len(STROKES)]}


def spaced(name: str) -> str:
    """`MulticlassF1Score` → `Multiclass F1 score`, `BinaryAUROC` → `Binary AUROC`, `PearsonCorrCoef` → `Pearson correlation coefficient`."""
    name = name.replace("CorrCoef", "CorrelationCoefficient").removesuffix("Metric") or name
    words = re.findall(r"[A-Z]+\d*(?![a-z])|[A-Z][a-z]*\d*[a-z]*|[a-z0-9]+|\S", name)
    return " ".join(w if i == 0 or w in _PEOPLE or re.fullmatch(r"[A-Z]+\d*", w) else w.lower() for i, w in enumerate(words))


def quantity(name: str) -> str:
    """What an axis of a metric's values is called: its name without the task."""
    text = spaced(name)
    for task in _TASKS:
        text = text.removeprefix(task)
    proper = text[:2].isupper() or text[1:2].isdigit() or text.split()[0] in _PEOPLE
    return text if proper else text[:1].lower() + text[1:]


def names_for(labels: Sequence[str] | None, count: int, noun: str) -> list[str]:
    """Names of classes, or of other parts of a value: those given, else the noun with numbers."""
    if labels is None:
        return [f"{noun} {i}" for i in range(count)]
    if isinstance(labels, str) or len(labels) != count:
        raise ValueError(f"plot: labels is {labels!r}; expected {count} names, one for each {noun}.")
    return [str(x) for x in labels]


def short(x: float) -> str:
    """A number in the few digits that a picture has room for."""
    if not np.isfinite(x):
        return {True: "NaN"}.get(bool(np.isnan(x)), "∞" if x > 0 else f"{MINUS}∞")
    text = f"{x:.0f}" if x == round(x) and abs(x) < 1e5 else f"{x:.3g}" if abs(x) >= 1e-3 else f"{x:.1e}"
    return text.replace("-", MINUS)
