"""Means of errors, element by element."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..options import PairOptions, Unpack
from ..statistics.moments import Moments, PairMoments, Single, TargetRange
from ..statistics.pairs import ErrorSums
from ..weighing import Weighable
from .options import choice_of, count_of, flag_of

EPSILON = 1.17e-06
"""The least that a percentage is taken of."""


class PairMetric(Weighable):
    """A metric of predictions and targets of one shape, in which samples have weights with `weighted=True`: see `Weighable`."""

    is_differentiable: bool | None = True
    higher_is_better: bool | None = False
    plot_lower_bound: float | None = 0.0


class MeanSquaredError(PairMetric):
    """Mean of the squared differences; its root with `squared=False`. 0 is best; NaN without data.

    `preds` and `target` have any one shape, or `(N, num_outputs)` for a value per column.

    >>> from torch import tensor
    >>> MeanSquaredError()(tensor([0.0, 1.0, 2.0, 3.0]), tensor([0.0, 1.0, 2.0, 1.0]))
    tensor(1.)
    """

    def __init__(self, squared: bool = True, num_outputs: int = 1, **kwargs: Unpack[PairOptions]) -> None:
        name = type(self).__name__
        count_of(name, "num_outputs", num_outputs)
        super().__init__(PairMoments(num_outputs), **kwargs)
        self.squared, self.num_outputs = flag_of(name, "squared", squared), num_outputs

    def value(self, m: Moments) -> Tensor:
        mean: Tensor = m.squared_error / m.count
        return mean if self.squared else mean.sqrt()


class MeanAbsoluteError(PairMetric):
    """Mean of the absolute differences. 0 is best; NaN without data.

    `preds` and `target` have any one shape, or `(N, num_outputs)` for a value per column.

    >>> from torch import tensor
    >>> MeanAbsoluteError()(tensor([0.0, 1.0, 2.0, 3.0]), tensor([0.0, 1.0, 2.0, 1.0]))
    tensor(0.5000)
    """

    def __init__(self, num_outputs: int = 1, **kwargs: Unpack[PairOptions]) -> None:
        count_of(type(self).__name__, "num_outputs", num_outputs)
        super().__init__(ErrorSums("absolute", outputs=num_outputs), **kwargs)
        self.num_outputs = num_outputs

    def value(self, sums: Any) -> Tensor:
        return sums.total / sums.count


class MeanAbsolutePercentageError(PairMetric):
    """Mean of the absolute differences as fractions of the targets' size (at least 1.17e-6). 0 is best, 1 is one hundred percent.

    `preds` and `target` have any one shape.

    >>> from torch import tensor
    >>> MeanAbsolutePercentageError()(tensor([0.9, 15.0, 1.2e6]), tensor([1.0, 10.0, 1e6]))
    tensor(0.2667)
    """

    def __init__(self, **kwargs: Unpack[PairOptions]) -> None:
        super().__init__(ErrorSums("percentage", EPSILON), **kwargs)

    def value(self, sums: Any) -> Tensor:
        return sums.total / sums.count


class SymmetricMeanAbsolutePercentageError(PairMetric):
    """Mean of twice the absolute difference over the sum of both sizes (at least 1.17e-6). From 0, the best, to 2.

    `preds` and `target` have any one shape.

    >>> from torch import tensor
    >>> SymmetricMeanAbsolutePercentageError()(tensor([0.9, 15.0, 1.2e6]), tensor([1.0, 10.0, 1e6]))
    tensor(0.2290)
    """

    plot_upper_bound = 2.0

    def __init__(self, **kwargs: Unpack[PairOptions]) -> None:
        super().__init__(ErrorSums("symmetric", EPSILON), **kwargs)

    def value(self, sums: Any) -> Tensor:
        return sums.total / sums.count


class WeightedMeanAbsolutePercentageError(PairMetric):
    """Sum of the absolute differences over the sum of the targets' sizes (at least 1.17e-6). 0 is best, and the value without data.

    `preds` and `target` have any one shape.

    >>> from torch import tensor
    >>> WeightedMeanAbsolutePercentageError()(tensor([1.0, 2.0]), tensor([2.0, 2.0]))
    tensor(0.2500)
    """

    def __init__(self, **kwargs: Unpack[PairOptions]) -> None:
        super().__init__(ErrorSums("absolute"), ErrorSums("target"), **kwargs)

    def value(self, errors: Any, targets: Any) -> Tensor:
        return errors.total / targets.total.clamp(min=EPSILON)


class MeanSquaredLogError(PairMetric):
    """Mean of the squared differences of log(1 + x): errors of ratios rather than of amounts. 0 is best.

    `preds` and `target` have any one shape and values above -1; a value below gives NaN.

    >>> from torch import tensor
    >>> MeanSquaredLogError()(tensor([0.0, 1.0, 2.0, 3.0]), tensor([0.0, 1.0, 2.0, 2.0]))
    tensor(0.0207)
    """

    def __init__(self, **kwargs: Unpack[PairOptions]) -> None:
        super().__init__(ErrorSums("squared log"), **kwargs)

    def value(self, sums: Any) -> Tensor:
        return sums.total / sums.count


class LogCoshError(PairMetric):
    """Mean of the logarithm of the hyperbolic cosine of the differences: quadratic for small ones, linear for large ones. 0 is best.

    `preds` and `target` are `(N,)`, or `(N, num_outputs)` for a value per column. Finite differences of any size give finite values.

    >>> from torch import tensor
    >>> LogCoshError()(tensor([3.0, 5.0, 2.5, 7.0]), tensor([2.5, 5.0, 4.0, 8.0]))
    tensor(0.3523)
    """

    def __init__(self, num_outputs: int = 1, **kwargs: Unpack[PairOptions]) -> None:
        count_of(type(self).__name__, "num_outputs", num_outputs)
        single = (Single(),) if num_outputs == 1 else ()
        super().__init__(ErrorSums("log cosh", outputs=num_outputs), *single, **kwargs)
        self.num_outputs = num_outputs

    def value(self, sums: Any, *_: Any) -> Tensor:
        return sums.total / sums.count


class NormalizedRootMeanSquaredError(PairMetric):
    """Root of the mean squared difference, in units of the targets' "mean", "range", standard deviation ("std") or "l2" norm.

    `preds` and `target` have any one shape, or `(N, num_outputs)` for a value per column. 0 is best.

    >>> from torch import tensor
    >>> NormalizedRootMeanSquaredError("range")(tensor([0.0, 1.0, 2.0, 3.0]), tensor([0.0, 1.0, 2.0, 5.0]))
    tensor(0.2000)
    """

    full_state_update = True

    def __init__(self, normalization: str = "mean", num_outputs: int = 1, **kwargs: Unpack[PairOptions]) -> None:
        name = type(self).__name__
        choice_of(name, "normalization", normalization, ("mean", "range", "std", "l2"))
        count_of(name, "num_outputs", num_outputs)
        extremes = (TargetRange(num_outputs),) if normalization == "range" else ()
        super().__init__(PairMoments(num_outputs), *extremes, **kwargs)
        self.normalization, self.num_outputs = normalization, num_outputs

    def value(self, m: Moments, extremes: Any = None) -> Tensor:
        if self.normalization == "mean":
            unit = m.mean_target
        elif self.normalization == "range":
            unit = extremes.most - extremes.least
        elif self.normalization == "std":
            unit = (m.target / m.count).sqrt()
        else:
            unit = (m.target + m.count * m.mean_target.square()).sqrt()
        result: Tensor = (m.squared_error / m.count).sqrt() / unit
        return result
