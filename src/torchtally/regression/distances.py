"""Distances and divergences of vectors and distributions, deviances, and scores of forecasts."""

from __future__ import annotations

from math import isfinite
from typing import Any

import torch
from torch import Tensor

from ..formula import feeds
from ..options import PairOptions, Unpack
from ..statistics.moments import Moments, PairMoments
from ..statistics.pairs import ErrorSums
from ..statistics.rows import EventCounts, RowScores
from ..valid import Valid
from ..weighing import Weighable
from .errors import PairMetric
from .options import REDUCTION, choice_of, count_of, flag_of


class MinkowskiDistance(Weighable):
    """Minkowski distance of order `p` between all predictions and all targets: 1 is the city block's, 2 Euclid's. 0 is best.

    `preds` and `targets` have any one shape. 0 without data.

    >>> from torch import tensor
    >>> MinkowskiDistance(2)(tensor([0.0, 1.0, 2.0, 3.0]), tensor([0.0, 1.0, 5.0, 7.0]))
    tensor(5.)
    """

    is_differentiable = True
    higher_is_better = False
    plot_lower_bound = 0.0
    entries = ("preds", "targets")

    def __init__(self, p: float, **kwargs: Unpack[PairOptions]) -> None:
        if not isinstance(p, int | float) or isinstance(p, bool) or not (p >= 1 and isfinite(p)):
            raise ValueError(f"{type(self).__name__}: p is {p!r}; expected a finite number of at least 1.")
        super().__init__(ErrorSums("absolute") if p == 1 else ErrorSums("power", float(p)), **kwargs)
        self.p = p

    @feeds
    def update(self, preds: Tensor, targets: Tensor, weight: Tensor | None = None, *, valid: Valid = None) -> None:
        self._weigh(weight, preds, targets, valid=valid)

    def value(self, sums: Any) -> Tensor:
        return sums.total.pow(1 / self.p)


class TweedieDevianceScore(Weighable):
    """Mean Tweedie deviance: power 0 is the squared error, 1 Poisson's deviance, 2 Gamma's; others weigh errors by the mean to that power.

    `preds` and `targets` have any one shape; predictions must be above 0 unless power is 0, targets at least 0 for powers in [1, 2) and above
    0 from 2 on. Impossible pairs raise at once on the CPU; on a device they are left out and raise when the value is read. 0 is best.

    >>> from torch import tensor
    >>> TweedieDevianceScore(power=2)(tensor([4.0, 3.0, 2.0, 1.0]), tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(1.2083)
    """

    is_differentiable = True
    plot_lower_bound = 0.0
    entries = ("preds", "targets")

    def __init__(self, power: float = 0.0, **kwargs: Unpack[PairOptions]) -> None:
        if not isinstance(power, int | float) or isinstance(power, bool) or 0 < power < 1 or not isfinite(power):
            raise ValueError(f"{type(self).__name__}: power is {power!r}; expected a finite number outside (0, 1).")
        super().__init__(ErrorSums("deviance", float(power)) if power else PairMoments(), **kwargs)
        self.power = power

    @feeds
    def update(self, preds: Tensor, targets: Tensor, weight: Tensor | None = None, *, valid: Valid = None) -> None:
        self._weigh(weight, preds, targets, valid=valid)

    def value(self, sums: Any) -> Tensor:
        return sums.squared_error / sums.count if isinstance(sums, Moments) else sums.total / sums.count


class CosineSimilarity(PairMetric):
    """Cosine of the angle between each prediction and its target, summed, averaged ("mean") or one by one ("none"). 1 is best, -1 opposite.

    `preds` and `target` are `(N, D)`, a vector in each row; a row of zeros has no angle and gives NaN. Only "none" grows with the data.

    >>> from torch import tensor
    >>> CosineSimilarity("mean")(tensor([[1.0, 0.0], [1.0, 1.0]]), tensor([[2.0, 0.0], [1.0, -1.0]]))
    tensor(0.5000)
    """

    higher_is_better = True
    plot_lower_bound = None  # of the sum, which is the default

    def __init__(self, reduction: str | None = "sum", **kwargs: Unpack[PairOptions]) -> None:
        self.__dict__["reduction"] = choice_of(type(self).__name__, "reduction", reduction, REDUCTION)
        super().__init__(RowScores("cosine", kept=reduction in ("none", None)), **kwargs)

    reduction: str | None

    def _unweighable(self) -> str | None:
        return one_by_one(self.reduction)

    def value(self, scores: Any) -> Tensor:
        return reduced(scores, self.reduction, self.device)


class KLDivergence(Weighable):
    """Kullback–Leibler divergence of distributions `q` from `p`: mean, "sum" or one by one ("none"). From 0, for equal ones, to infinity.

    `p` and `q` are `(N, D)`, a distribution in each row, scaled to sum 1; or with `log_prob=True` its logarithms, taken as they are.

    >>> from torch import tensor
    >>> KLDivergence()(tensor([[0.36, 0.48, 0.16]]), tensor([[1.0, 1.0, 1.0]]))
    tensor(0.0853)
    """

    is_differentiable = True
    higher_is_better = False
    plot_lower_bound = 0.0
    entries = ("p", "q")
    score = "divergence"

    def __init__(self, log_prob: bool = False, reduction: str | None = "mean", **kwargs: Unpack[PairOptions]) -> None:
        name = type(self).__name__
        self.__dict__["reduction"] = choice_of(name, "reduction", reduction, REDUCTION)
        super().__init__(RowScores(self.score, flag_of(name, "log_prob", log_prob), reduction in ("none", None)), **kwargs)
        self.log_prob = log_prob

    reduction: str | None

    @feeds
    def update(self, p: Tensor, q: Tensor, weight: Tensor | None = None, *, valid: Valid = None) -> None:
        self._weigh(weight, p, q, valid=valid)

    def _unweighable(self) -> str | None:
        return one_by_one(self.reduction)

    def value(self, scores: Any) -> Tensor:
        return reduced(scores, self.reduction, self.device)


class JensenShannonDivergence(KLDivergence):
    """Mean of the divergences of two distributions from their mean: symmetric, from 0, for equal ones, to log 2, for disjoint ones.

    `p` and `q` are `(N, D)` as for `KLDivergence`, and so is `reduction`.

    >>> from torch import tensor
    >>> JensenShannonDivergence()(tensor([[0.36, 0.48, 0.16]]), tensor([[1.0, 1.0, 1.0]]))
    tensor(0.0225)
    """

    score = "mid divergence"
    plot_upper_bound = 0.6931471805599453


class ContinuousRankedProbabilityScore(PairMetric):
    """Continuous ranked probability score of ensembles: the distance between a forecast distribution and what happened. 0 is best.

    `preds` is `(N, M)` with M members of each ensemble, at least two, and `target` is `(N,)`. The unit is that of the targets.

    >>> from torch import tensor
    >>> ContinuousRankedProbabilityScore()(tensor([[1.0, 3.0], [2.0, 2.0]]), tensor([2.0, 3.0]))
    tensor(0.7500)
    """

    is_differentiable = False

    def __init__(self, **kwargs: Unpack[PairOptions]) -> None:
        super().__init__(RowScores("ranked probability"), **kwargs)

    def value(self, scores: Any) -> Tensor:
        return scores.total / scores.count


class CriticalSuccessIndex(PairMetric):
    """Hits over hits, misses and false alarms, of values that reach `threshold`. From 0 to 1, the best; 0 where nothing reached it.

    `preds` and `target` have any one shape. With `keep_sequence_dim` there is a value for each place along that dimension, batches one
    after another.

    >>> from torch import tensor
    >>> CriticalSuccessIndex(0.5)(tensor([0.9, 0.1, 0.6]), tensor([0.8, 0.7, 0.2]))
    tensor(0.3333)
    """

    is_differentiable = False
    higher_is_better = True
    plot_upper_bound = 1.0

    def __init__(self, threshold: float, keep_sequence_dim: int | None = None, **kwargs: Unpack[PairOptions]) -> None:
        name = type(self).__name__
        if keep_sequence_dim is not None:
            count_of(name, "keep_sequence_dim", keep_sequence_dim, 0)
        if not isinstance(threshold, int | float):
            raise ValueError(f"{name}: threshold is {threshold!r}; expected a number.")
        super().__init__(EventCounts(float(threshold), keep_sequence_dim), **kwargs)
        self.threshold, self.keep_sequence_dim = float(threshold), keep_sequence_dim

    def value(self, counts: Any) -> Tensor:
        parts = [counts.hits, counts.misses, counts.false_alarms]
        if self.keep_sequence_dim is not None:
            empty = [torch.zeros(0, dtype=torch.int64, device=self.device)]
            parts = [torch.cat(list(x) or empty) for x in parts]
        hits, misses, false_alarms = (x.double() for x in parts)
        whole = hits + misses + false_alarms
        return hits / torch.where(whole > 0, whole, 1.0)


def one_by_one(reduction: str | None) -> str | None:
    """Why rows have no weights where each is listed."""
    return f"reduction={reduction!r} lists the value of each row, which a weight does not change" if reduction in ("none", None) else None


def reduced(scores: Any, how: str | None, device: Any) -> Tensor:
    """The sum, the mean, or all of the scores of rows."""
    if how in ("none", None):
        return torch.zeros(0, dtype=torch.float64, device=device) if scores is None else scores
    return scores.total.clone() if how == "sum" else scores.total / scores.count
