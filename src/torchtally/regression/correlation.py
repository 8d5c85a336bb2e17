"""How predictions and targets vary together."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..statistics.moments import Moments, PairMoments, Single
from .errors import PairMetric
from .options import count_of


class PearsonCorrCoef(PairMetric):
    """Pearson's correlation coefficient: how close to a straight line the pairs lie. From -1 to 1; 0 without linear relation.

    `preds` and `target` are `(N,)`, or `(N, num_outputs)` for a value per column. NaN where either is constant. Right however far from 0
    the values lie, and for batches of one.

    >>> from torch import tensor
    >>> PearsonCorrCoef()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 7.0]))
    tensor(0.9849)
    """

    higher_is_better = None  # type: ignore[assignment]
    full_state_update = True
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0

    def __init__(self, num_outputs: int = 1, **kwargs: Any) -> None:
        count_of(type(self).__name__, "num_outputs", num_outputs)
        super().__init__(PairMoments(num_outputs), *((Single(),) if num_outputs == 1 else ()), **kwargs)
        self.num_outputs = num_outputs

    def value(self, m: Moments, *_: Any) -> Tensor:
        result: Tensor = (m.joint / (m.preds.sqrt() * m.target.sqrt())).clamp(-1.0, 1.0)
        return result


class ConcordanceCorrCoef(PearsonCorrCoef):
    """Lin's concordance correlation coefficient: how close to the line of equality the pairs lie. From -1 to 1, the best.

    `preds` and `target` are `(N,)`, or `(N, num_outputs)` for a value per column. Variances have the divisor N - 1. NaN with fewer than two
    pairs, and where both are one and the same constant.

    >>> from torch import tensor
    >>> ConcordanceCorrCoef()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 7.0]))
    tensor(0.9777)
    """

    higher_is_better = True  # type: ignore[assignment]

    def value(self, m: Moments, *_: Any) -> Tensor:
        result: Tensor = 2 * m.joint / (m.preds + m.target + (m.count - 1) * m.gap.square())
        return result
