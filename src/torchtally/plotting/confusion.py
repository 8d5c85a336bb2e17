"""Confusion matrices as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .canvas import axes, names_for, on_host, pyplot

_MOST_WRITTEN = 25
_MOST_NAMED = 40


def plot_confusion_matrix(
    val: Any,
    ax: Any = None,
    *,
    add_text: bool = True,
    labels: Sequence[str] | None = None,
    cmap: Any = None,
    percent: bool = True,
    name: str = "Confusion matrix",
    normalize: str | None = None,
) -> tuple[Any, Any]:
    """Draw a confusion matrix `(C, C)`, or those of several labels `(L, 2, 2)`: rows are true classes, columns predicted ones.

    Cells are shaded, and with `percent` also written, by their share of the true class, so that rare classes can be read beside common
    ones. `labels` names the classes (of several labels: the labels). A matrix of shares (`normalize`) is drawn as it is.
    """
    if isinstance(val, list | tuple) and not all(isinstance(x, int | float | list | tuple) for x in val):
        raise TypeError(f"{name}: val is a list of matrices; draw each on its own.")
    matrix = on_host(val)
    if matrix.ndim not in (2, 3) or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(
            f"{name}: the value has shape {matrix.shape}; expected one confusion matrix (C, C), or one for each label (L, 2, 2)."
        )
    style: dict[str, Any] = {"add_text": add_text, "cmap": cmap or "Blues", "percent": percent, "normalize": normalize}
    if matrix.ndim == 2:
        classes = matrix.shape[0]
        figure, ax = axes(ax, (3.2 + 0.55 * min(classes, 16),) * 2 if classes > 2 else (4.4, 4.0))
        _draw(ax, matrix, names_for(labels, classes, "class") if labels is not None else [str(i) for i in range(classes)], **style)
        ax.set_title(name)
        return figure, ax
    return _grid(matrix, ax, names_for(labels, len(matrix), "label"), name, style)


def _grid(matrices: Any, ax: Any, titles: list[str], name: str, style: dict[str, Any]) -> tuple[Any, Any]:
    """One small matrix for each label."""
    count = len(matrices)
    columns = count if count <= 3 else int(np.ceil(np.sqrt(count)))
    rows = -(-count // columns)
    if ax is None:
        figure, grid = pyplot().subplots(
            rows, columns, figsize=(2.7 * columns + 0.6, 2.8 * rows + 0.9), squeeze=False, layout="constrained"
        )
        figure.suptitle(name)
    else:
        grid = np.atleast_1d(np.asarray(ax, dtype=object))
        if grid.size < count:
            raise ValueError(f"{name}: ax holds {grid.size} axes; expected {count}, one for each label.")
        figure = grid.flat[0].get_figure()
    for place, one in enumerate(grid.flat):
        if place >= count:
            one.set_axis_off()
            continue
        _draw(one, matrices[place], ["no", "yes"], **style)
        one.set_title(titles[place], fontsize=10)
        if ax is None:  # inner axes repeat what the outer say
            one.set_xlabel("predicted" if place + columns >= count else "")
            one.set_ylabel("true" if place % columns == 0 else "")
    return figure, grid if ax is None else ax


def _draw(ax: Any, matrix: Any, names: list[str], *, add_text: bool, cmap: Any, percent: bool, normalize: str | None) -> None:
    classes = len(names)
    counts = normalize in (None, "none")
    whole = matrix.sum(1, keepdims=True)
    share = np.divide(matrix, whole, out=np.zeros_like(matrix), where=whole > 0) if counts else matrix
    top = 1.0 if normalize != "all" else max(float(share.max()), 1e-12)
    image = ax.imshow(share, cmap=cmap, vmin=0.0, vmax=top)
    if add_text and classes <= _MOST_WRITTEN:
        size = float(np.clip(11 - 0.3 * classes, 5, 10))
        for row, column in np.ndindex(matrix.shape):
            text = _cell(matrix[row, column], share[row, column], counts, percent and classes <= 12)
            dark = sum(image.cmap(image.norm(share[row, column]))[:3]) / 3 < 0.55
            ax.text(column, row, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")
    else:
        of = {"pred": "of the predicted class", "all": "of all"}.get(normalize or "", "of the true class")
        ax.get_figure().colorbar(image, ax=ax, label=f"share {of}", shrink=0.8)
    places = list(range(0, classes, -(-classes // _MOST_NAMED)))
    shown = [names[i] for i in places]
    tilted = max(map(len, shown)) * len(shown) > 40
    ax.set_xticks(
        places, shown, rotation=45 if tilted else 0, ha="right" if tilted else "center", rotation_mode="anchor" if tilted else None
    )
    ax.set_yticks(places, shown)
    ax.set(xlabel="predicted class", ylabel="true class")
    ax.spines[:].set_visible(False)


def _cell(x: float, share: float, counts: bool, percent: bool) -> str:
    if not counts:
        return f"{100 * x:.0f} %" if 0 < x * 100 >= 1 or x == 0 else f"{100 * x:.1f} %"
    number = f"{x:,.0f}".replace(",", " ")
    return f"{number}\n{100 * share:.0f} %" if percent else number
