"""`plot` of the metrics whose value is a curve, or a point of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .naming import Named

    Drawn = Named
else:
    Drawn = object


class CurvePlot(Drawn):
    """Draws curves."""

    def plot(  # type: ignore[override]  # torchmetrics' order of arguments
        self,
        curve: Any = None,
        score: Any = None,
        ax: Any = None,
        labels: Sequence[str] | None = None,
        threshold: float | None = 0.5,
    ) -> tuple[Any, Any]:
        """Draw the curve, or `curve`, with the area under it (or `score`; False for none) and the point at `threshold` (None for none)."""
        found = self.compute() if curve is None else curve
        if isinstance(found, dict):
            labels, found = labels or list(found), _lists(found)
        return self._draw(
            found,
            score,
            ax,
            labels=self.labels if labels is None else labels,
            threshold=threshold if _has_thresholds(self) else None,
            noun=_noun(self),
        )

    def _draw(self, *drawn: Any, **how: Any) -> tuple[Any, Any]:
        """Draw what `plot` has found."""
        raise NotImplementedError


class ROCPlot(CurvePlot):
    """Draws ROC curves."""

    def _draw(self, *drawn: Any, **how: Any) -> tuple[Any, Any]:
        from ..plotting.canvas import spaced
        from ..plotting.curves import plot_roc

        return plot_roc(*drawn, name=f"{spaced(type(self).__name__)} curve", **how)


class PrecisionRecallPlot(CurvePlot):
    """Draws precision-recall curves; the area is the average precision."""

    def _draw(self, *drawn: Any, **how: Any) -> tuple[Any, Any]:
        from ..plotting.canvas import spaced
        from ..plotting.curves import plot_precision_recall

        return plot_precision_recall(*drawn, name=spaced(type(self).__name__), **how)


class OperatingPointPlot(Drawn):
    """Draws the best rate, and writes the threshold it is reached at."""

    def plot(self, val: Any = None, ax: Any = None, *, labels: Sequence[str] | None = None) -> tuple[Any, Any]:
        """Draw the rate, or that of `val`: what `compute` gave, or a list of that, one for each step. `labels` names the classes."""
        from ..plotting.curves import plot_operating_point
        from ..plotting.values import plot_values, scale_of

        found = self.compute() if val is None else val
        first = found[0] if isinstance(found, list) else found
        if isinstance(first, dict):
            labels = labels or list(first)
            found = [_stacked(x) for x in found] if isinstance(found, list) else _stacked(found)
        scale = scale_of(self, found[0])
        if isinstance(found, list):
            return plot_values([rate for rate, _ in found], ax, labels=self.labels if labels is None else labels, scale=scale)
        rate, threshold = found
        return plot_operating_point(rate, threshold, ax, labels=self.labels if labels is None else labels, scale=scale)


def _lists(named: dict[str, Any]) -> tuple[Any, ...]:
    """What the parts of every class are, from the parts of each: as a value without names has them."""
    return tuple(list(part) for part in zip(*named.values()))


def _stacked(named: dict[str, Any]) -> tuple[Tensor, ...]:
    return tuple(torch.stack([torch.as_tensor(x) for x in part]) for part in _lists(named))


def _has_thresholds(metric: Any) -> bool:
    """Whether each point of a curve has a threshold: those of a mean of curves have not."""
    return getattr(metric, "average", None) != "macro"


def _noun(metric: Any) -> str:
    return "label" if type(metric).__name__.startswith("Multilabel") else "class"
