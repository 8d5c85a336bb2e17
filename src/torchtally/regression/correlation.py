"""How predictions and targets vary together."""

from __future__ import annotations

from math import nan
from typing import Any

import torch
from torch import Tensor

from ..formula import Formula, feeds
from ..options import FormulaOptions, PairOptions, Unpack
from ..statistics.moments import Moments, PairMoments, Single
from ..statistics.ranks import KendallCounts, PairSamples, Ranked
from ..valid import Valid
from .errors import PairMetric
from .options import choice_of, count_of, flag_of


class PearsonCorrCoef(PairMetric):
    """Pearson's correlation coefficient: how close to a straight line the pairs lie. From -1 to 1; 0 without linear relation.

    `preds` and `target` are `(N,)`, or `(N, num_outputs)` for a value per column. NaN where either is constant. Right however far from 0
    the values lie, and for batches of one.

    >>> from torch import tensor
    >>> PearsonCorrCoef()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 7.0]))
    tensor(0.9849)
    """

    higher_is_better: bool | None = None
    full_state_update = True
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0

    def __init__(self, num_outputs: int = 1, **kwargs: Unpack[PairOptions]) -> None:
        count_of(type(self).__name__, "num_outputs", num_outputs)
        super().__init__(PairMoments(num_outputs), *((Single(),) if num_outputs == 1 else ()), **kwargs)
        self.num_outputs = num_outputs

    def value(self, m: Moments, *_: Any) -> Tensor:
        result: Tensor = (m.joint / (m.preds.sqrt() * m.target.sqrt())).clamp(-1.0, 1.0)
        return result


class ConcordanceCorrCoef(PearsonCorrCoef):
    """Lin's concordance correlation coefficient: how close to the line of equality the pairs lie. From -1 to 1, the best.

    `preds` and `target` are `(N,)`, or `(N, num_outputs)` for a value per column. Variances have the divisor N - 1; of weighted samples W less
    the sum of the squared weights over W, the sum of the weights, as `numpy.cov` has it of `aweights`: the scale of weights does not matter, and
    one of 2 is not quite the sample twice. NaN with fewer than two pairs, and where both are one and the same constant.

    >>> from torch import tensor
    >>> ConcordanceCorrCoef()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 7.0]))
    tensor(0.9777)
    """

    higher_is_better = True

    def value(self, m: Moments, *_: Any) -> Tensor:
        result: Tensor = 2 * m.joint / (m.preds + m.target + m.freedom * m.gap.square())
        return result


class RankMetric(Formula):
    """A metric of the order of predictions and targets; memory grows with the data."""

    is_differentiable = False
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0
    declined = {"weighted": "there is no agreed definition of the ranks of weighted samples"}

    def __init__(self, num_outputs: int = 1, **kwargs: Unpack[FormulaOptions]) -> None:
        count_of(type(self).__name__, "num_outputs", num_outputs)
        super().__init__(PairSamples(num_outputs), *((Single(),) if num_outputs == 1 else ()), **kwargs)
        self.num_outputs = num_outputs

    @feeds
    def update(self, preds: Tensor, target: Tensor, *, valid: Valid = None) -> None:
        self._add(preds, target, valid=valid)

    def stacked(self, ranked: Ranked, values: list[Tensor]) -> Tensor:
        """A value per output, NaN where there is a NaN among its numbers."""
        out = torch.stack([torch.where(nan, torch.nan, x) for nan, x in zip(ranked.unordered, values)])
        return out[0] if self.num_outputs == 1 else out


class SpearmanCorrCoef(RankMetric):
    """Spearman's rank correlation: Pearson's coefficient of the ranks, where equal numbers share the mean of theirs. From -1 to 1.

    `preds` and `target` are `(N,)`, or `(N, num_outputs)` for a value per column. NaN where either is constant or has a NaN. Keeps all pairs.

    >>> from torch import tensor
    >>> SpearmanCorrCoef()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 1.0]))
    tensor(0.4000)
    """

    higher_is_better = True

    def value(self, ranked: Ranked, *_: Any) -> Tensor:
        values = []
        for p, t in ranked.sorted:
            a, b = p.deviation, t.deviation
            values.append(((a @ b) / ((a @ a).sqrt() * (b @ b).sqrt())).clamp(-1.0, 1.0))
        return self.stacked(ranked, values)


class KendallRankCorrCoef(RankMetric):
    """Kendall's rank correlation: how many pairs of pairs are in the same order, less those in the opposite, as a share. From -1 to 1.

    `variant` "a" takes the share of those without ties, "b" corrects for ties, "c" suits few distinct values. With `t_test` the result is the
    coefficient and the p-value, by the normal approximation, against the `alternative` "two-sided", "less" or "greater". `preds` and `target`
    are `(N,)`, or `(N, num_outputs)` for a value per column. NaN where either is constant or has a NaN. Keeps all pairs; N log N.

    >>> from torch import tensor
    >>> KendallRankCorrCoef()(tensor([2.5, 0.0, 2.0, 8.0]), tensor([3.0, -0.5, 2.0, 1.0]))
    tensor(0.3333)
    """

    higher_is_better = None
    full_state_update = True

    def __init__(
        self, variant: str = "b", t_test: bool = False, alternative: str | None = "two-sided", num_outputs: int = 1, **kwargs: Unpack[FormulaOptions]
    ) -> None:
        name = type(self).__name__
        super().__init__(num_outputs, **kwargs)
        self.variant = choice_of(name, "variant", variant, ("a", "b", "c"))
        self.t_test = flag_of(name, "t_test", t_test)
        self.alternative = choice_of(name, "alternative", alternative, ("two-sided", "less", "greater", *(() if t_test else (None,))))

    def value(self, ranked: Ranked, *_: Any) -> Tensor | tuple[Tensor, Tensor]:
        counts = [KendallCounts(p, t) for p, t in ranked.sorted]
        coefficient = self.stacked(ranked, [self._coefficient(c).clamp(-1.0, 1.0) for c in counts])
        if not self.t_test:
            return coefficient
        return coefficient, self.stacked(ranked, [self._chance(c) for c in counts]).masked_fill(coefficient.isnan(), nan)

    def _coefficient(self, c: KendallCounts) -> Tensor:
        if self.variant == "a":
            untied = (c.balance + 2 * c.discordant).clamp(min=0.0)  # concordant and discordant
            return c.balance / untied
        if self.variant == "b":
            return c.balance / (c.pairs - c.tied_p).sqrt() / (c.pairs - c.tied_t).sqrt()
        least = torch.minimum(c.p.distinct, c.t.distinct).double()
        return 2 * c.balance / (c.count**2 * (least - 1) / least)

    def _chance(self, c: KendallCounts) -> Tensor:
        """The probability of a balance as far from 0 in the direction of the alternative, were there no relation (Kendall 1970)."""
        n = c.count
        spread = torch.full_like(c.balance, n * (n - 1) * (2 * n + 5) / 18)
        if self.variant != "a" and n > 2:
            p, t = c.p.ties, c.t.ties
            by_ties = sum((x * (x - 1) * (2 * x + 5)).sum() / 18 for x in (p, t))
            triples = (p * (p - 1) * (p - 2)).sum() * (t * (t - 1) * (t - 2)).sum()
            spread = spread - by_ties + 2 * c.tied_p * c.tied_t / (n * (n - 1)) + triples / (9 * n * (n - 1) * (n - 2))
        z = c.balance / spread.sqrt()
        if self.alternative == "two-sided":
            return torch.erfc(z.abs() / 2**0.5)
        return torch.erfc((z if self.alternative == "greater" else -z) / 2**0.5) / 2
