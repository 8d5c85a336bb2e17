"""The best that one rate can be where another has to be at least so much, and the threshold that gives it."""

from __future__ import annotations

from math import inf, nan
from typing import Any, ClassVar

import torch
from torch import Tensor

from .curve_formula import AnyCurves, CurveFormula, Points, Thresholds
from .options import checked
from .pictures import OperatingPointPlot

NO_THRESHOLD = 1e6
"""Of an ROC curve of which no point meets the demand: above every score."""


class OperatingPoint(OperatingPointPlot, CurveFormula):
    """The largest `aim` among the points of a curve whose `demand` is at least the number given as the argument `least`."""

    higher_is_better = None
    least: ClassVar[str]

    def _begin(
        self,
        columns: int | None,
        exclusive: bool | None,
        least: float,
        thresholds: Thresholds,
        ignore: int | None,
        validate: bool,
        from_logits: bool | None,
        **kwargs: Any,
    ) -> None:
        """`exclusive`: whether columns are classes, or labels; None for one column of scores."""
        sized = {} if exclusive is None else {"num_classes" if exclusive else "num_labels": columns}
        checked(self, **sized, ignore_index=ignore, from_logits=from_logits)
        if not isinstance(least, int | float) or isinstance(least, bool) or not 0 <= least <= 1:
            raise ValueError(f"{type(self).__name__}: {self.least} is {least!r}; expected a number in [0, 1].")
        self.columns = columns
        self.__dict__[self.least] = float(least)
        self._start(thresholds, bool(exclusive), validate, **kwargs)

    def rates(self, points: Points) -> tuple[Points, Tensor, Tensor, Tensor]:
        """The points in question, the aim, the demand, and what decides between points of equal aim before the higher threshold does."""
        raise NotImplementedError

    def nowhere(self, points: Points) -> tuple[Tensor | float, Tensor | float]:
        """The value and the threshold of columns of which no point meets the demand."""
        raise NotImplementedError

    def value(self, curves: AnyCurves) -> Any:
        best, at = self.best(curves)
        return (best[0], at[0]) if self.columns is None else self.named((best, at), 0)

    def best(self, curves: AnyCurves) -> tuple[Tensor, Tensor]:
        """The value and the threshold of every column."""
        points, aim, demand, second = self.rates(self.points(curves, curves.each))
        allowed = demand.ge(self.__dict__[self.least])
        best = _largest(aim, allowed)
        allowed = allowed & aim.eq(best[:, None])
        allowed = allowed & second.eq(_largest(second, allowed)[:, None])
        value, at = self.nowhere(points)
        found = best.isfinite()
        return torch.where(found, best, value), torch.where(found, _largest(points.at, allowed), at)


def _largest(x: Tensor, among: Tensor) -> Tensor:
    """In each row; -inf where there is none."""
    return x.masked_fill(~among, -inf).amax(1) if x.shape[1] else x.new_full(x.shape[:1], -inf)


class OnPrecisionRecall(OperatingPoint):
    """On the curve of precision against recall. Where no point will do, or only one of value 0, the value is 0 and the threshold NaN."""

    def nowhere(self, points: Points) -> tuple[float, float]:
        return 0.0, nan

    def best(self, curves: AnyCurves) -> tuple[Tensor, Tensor]:
        best, at = super().best(curves)
        return best, at.masked_fill(best.eq(0), nan)


class PrecisionAtRecall(OnPrecisionRecall):
    """The largest precision where recall is at least `min_recall`."""

    least = "min_recall"

    def rates(self, points: Points) -> tuple[Points, Tensor, Tensor, Tensor]:
        recall = points.tpr
        return points, points.precision.nan_to_num(nan=-inf), recall, recall


class RecallAtPrecision(OnPrecisionRecall):
    """The largest recall where precision is at least `min_precision`."""

    least = "min_precision"

    def rates(self, points: Points) -> tuple[Points, Tensor, Tensor, Tensor]:
        precision = points.precision
        return points, points.tpr, precision, precision


class OnROC(OperatingPoint):
    """On the ROC curve. Where no point will do, the value is 0 and the threshold 1e6; without both classes they are NaN."""

    def nowhere(self, points: Points) -> tuple[Tensor, Tensor]:
        absent = points.curve.positives.mul(points.curve.negatives).eq(0)
        nothing = absent.double().masked_fill(absent, nan)
        return nothing, nothing + NO_THRESHOLD

    def _both(self, points: Points) -> tuple[Points, Tensor, Tensor]:
        points = points.from_nothing() if self.exact else points
        negatives = points.curve.negatives[:, None]
        defined = points.curve.positives[:, None].mul(negatives).gt(0)
        return points, points.tpr.where(defined, nan), ((negatives - points.fp) / negatives).where(defined, nan)


class SensitivityAt(OnROC):
    """The largest sensitivity where specificity is at least `min_specificity`."""

    least = "min_specificity"

    def rates(self, points: Points) -> tuple[Points, Tensor, Tensor, Tensor]:
        points, sensitivity, specificity = self._both(points)
        return points, sensitivity, specificity, specificity


class SpecificityAt(OnROC):
    """The largest specificity where sensitivity is at least `min_sensitivity`."""

    least = "min_sensitivity"

    def rates(self, points: Points) -> tuple[Points, Tensor, Tensor, Tensor]:
        points, sensitivity, specificity = self._both(points)
        return points, specificity, sensitivity, sensitivity
