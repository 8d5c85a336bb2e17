"""How well the labels of each sample are ranked: coverage error, label ranking average precision, ranking loss."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..options import Unpack, WeighableOptions
from ..statistics.curves import Scores
from ..statistics.label_ranks import LabelRanks
from ..weighing import Weighable
from .options import checked


class RankingFormula(Weighable):
    """A mean over samples, from the ranks of their labels. All three come from one sort, and are shared. A weight is that of a sample."""

    is_differentiable = False
    plot_lower_bound = 0.0
    plot_upper_bound: float | None = 1.0

    def __init__(self, num_labels: int, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[WeighableOptions]) -> None:
        checked(self, num_labels=num_labels, ignore_index=ignore_index)
        super().__init__(LabelRanks(Scores(num_labels, ignore_index)), validate_args=validate_args, **kwargs)


class MultilabelCoverageError(RankingFormula):
    """How many of the highest scores must be taken on average to cover all relevant labels; at best the mean number of relevant labels.

    `preds` are scores of any size, `target` labels, both `(N, L, ...)`. Tied labels are taken together; a sample without relevant labels counts
    0. Ignored labels are in no ranking. NaN of no samples. Source: Tsoumakas et al., Mining multi-label data, 2010.

    >>> from torch import tensor
    >>> MultilabelCoverageError(num_labels=3)(tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.3]]), tensor([[1, 0, 0], [1, 1, 0]]))
    tensor(2.)
    """

    higher_is_better = False
    plot_upper_bound = None

    def value(self, sums: Any) -> Tensor:
        return sums.coverage / sums.count


class MultilabelRankingAveragePrecision(RankingFormula):
    """The share of relevant labels among those that score at least as high, averaged over relevant labels, then samples; at best 1.

    `preds` are scores of any size, `target` labels, both `(N, L, ...)`. A sample whose labels are all relevant, or none of them, counts 1.
    Ignored labels are in no ranking. NaN of no samples. Source: Tsoumakas et al., Mining multi-label data, 2010.

    >>> from torch import tensor
    >>> MultilabelRankingAveragePrecision(num_labels=3)(tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.3]]), tensor([[1, 0, 0], [1, 1, 0]]))
    tensor(0.9167)
    """

    higher_is_better = True

    def value(self, sums: Any) -> Tensor:
        return sums.precision / sums.count


class MultilabelRankingLoss(RankingFormula):
    """The share of pairs of a relevant and another label that are not ranked in this order, averaged over samples; at best 0.

    `preds` are scores of any size, `target` labels, both `(N, L, ...)`. A tie is a wrong order. A sample whose labels are all relevant, or none
    of them, counts 0. Ignored labels are in no ranking. NaN of no samples. Source: Tsoumakas et al., Mining multi-label data, 2010.

    >>> from torch import tensor
    >>> MultilabelRankingLoss(num_labels=3)(tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.3]]), tensor([[1, 0, 0], [1, 1, 0]]))
    tensor(0.2500)
    """

    higher_is_better = False

    def value(self, sums: Any) -> Tensor:
        return sums.loss / sums.count
