"""Errors in relation to the variance of the targets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..options import PairOptions, Unpack
from ..statistics.moments import Moments, PairMoments, WideMoments
from .errors import PairMetric
from .options import MULTIOUTPUT, choice_of, count_of, flag_of


def explained(unexplained: Tensor, total: Tensor) -> Tensor:
    """1 - unexplained / total; of constant targets, 1 where nothing is unexplained and else 0, as scikit-learn defines it."""
    constant = total == 0
    share = 1 - unexplained / torch.where(constant, 1.0, total)
    return torch.where(constant, unexplained.eq(0).to(share.dtype), share)


def averaged(scores: Tensor, weights: Tensor, how: str) -> Tensor:
    """Over outputs."""
    if how == "raw_values":
        return scores
    if how == "uniform_average" or scores.ndim == 0:
        return scores.mean()
    even = weights.sum() == 0  # all targets are constant: no output weighs more than another
    weights = torch.where(even, 1.0, weights)
    return (scores * weights).sum() / weights.sum()


class ColumnMetric(PairMetric):
    """A metric of `(N,)`, or of `(N, outputs)` with as many outputs as the data have."""

    def __init__(self, multioutput: str, **kwargs: Any) -> None:
        choice_of(type(self).__name__, "multioutput", multioutput, MULTIOUTPUT)
        super().__init__(PairMoments(), WideMoments(), **kwargs)
        self.multioutput = multioutput

    def value(self, one: Moments, several: Moments | None) -> Tensor:
        m = one if several is None else several
        scores, weights = self.scores(m)
        return averaged(torch.where(m.count == 0, torch.nan, scores), weights, self.multioutput)

    def scores(self, m: Moments) -> tuple[Tensor, Tensor]:
        """The value of each output, and its weight where they are weighed by variance."""
        raise NotImplementedError


class R2Score(ColumnMetric):
    """Coefficient of determination: the share of the targets' variance that predictions account for. 1 is best, 0 what their mean scores.

    `preds` and `target` are `(N,)` or `(N, outputs)`; `multioutput` gives a value for each output ("raw_values"), their mean
    ("uniform_average") or their mean weighted by variance ("variance_weighted"). With `adjusted` regressors the value is adjusted for
    their number, where more than that and one pairs were seen. NaN with fewer than two pairs (that have a weight). Constant targets score 1 where all
    predictions are right and else 0.

    >>> from torch import tensor
    >>> R2Score()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 7.0]))
    tensor(0.9486)
    """

    higher_is_better = True
    plot_lower_bound = None
    plot_upper_bound = 1.0

    adjusted: int

    def __init__(self, adjusted: int = 0, multioutput: str = "uniform_average", **kwargs: Unpack[PairOptions]) -> None:
        self.__dict__["adjusted"] = count_of(type(self).__name__, "adjusted", adjusted, 0)
        super().__init__(multioutput, **kwargs)

    def _unweighable(self) -> str | None:
        return f"adjusted={self.adjusted} asks how many samples there are, and weights of any scale do not say" if self.adjusted else None

    def scores(self, m: Moments) -> tuple[Tensor, Tensor]:
        return torch.where(m.pairs < 2, torch.nan, explained(m.squared_error, m.target)), m.target

    def value(self, one: Moments, several: Moments | None) -> Tensor:
        score = super().value(one, several)
        if not self.adjusted:
            return score
        count = (one if several is None else several).count.reshape(-1)[0]
        spare = count - self.adjusted - 1
        adjusted = 1 - (1 - score) * (count - 1) / torch.where(spare > 0, spare, 1.0)
        return torch.where(spare > 0, adjusted, score)


class ExplainedVariance(ColumnMetric):
    """Share of the targets' variance that is not in the differences: like `R2Score`, but a constant offset costs nothing. 1 is best.

    `preds` and `target` are `(N,)` or `(N, outputs)`; `multioutput` is "raw_values", "uniform_average" or "variance_weighted". NaN without
    data. Constant targets score 1 where the differences are constant too, and else 0.

    >>> from torch import tensor
    >>> ExplainedVariance()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 7.0]))
    tensor(0.9572)
    """

    higher_is_better = True
    plot_lower_bound = None
    plot_upper_bound = 1.0

    def __init__(self, multioutput: str = "uniform_average", **kwargs: Unpack[PairOptions]) -> None:
        super().__init__(multioutput, **kwargs)

    def scores(self, m: Moments) -> tuple[Tensor, Tensor]:
        return explained((m.preds + m.target - 2 * m.joint).clamp(min=0.0), m.target), m.target


class RelativeSquaredError(PairMetric):
    """Sum of the squared differences over that of always predicting the targets' mean; its root with `squared=False`. 0 is best.

    `preds` and `target` are `(N,)`, or `(N, num_outputs)`, of whose columns it is the mean. NaN or infinite for constant targets.

    >>> from torch import tensor
    >>> RelativeSquaredError()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 7.0]))
    tensor(0.0514)
    """

    def __init__(self, num_outputs: int = 1, squared: bool = True, **kwargs: Unpack[PairOptions]) -> None:
        name = type(self).__name__
        super().__init__(PairMoments(count_of(name, "num_outputs", num_outputs)), **kwargs)
        self.num_outputs, self.squared = num_outputs, flag_of(name, "squared", squared)

    def value(self, m: Moments) -> Tensor:
        relative: Tensor = m.squared_error / m.target
        return (relative if self.squared else relative.sqrt()).mean()
