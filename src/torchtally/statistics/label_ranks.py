"""How the labels of each sample are ranked by their scores."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from ..statistic import Slot, Slots, Statistic
from .curves import Scores


@dataclass(frozen=True)
class LabelRanks(Statistic):
    """Sums over samples of coverage, ranking average precision and ranking loss, from one sort; and how many samples have a label at all.

    The rank of a label is how many labels of its sample score at least as high, so ties are as bad as they can be.
    """

    input: Scores

    def slots(self) -> dict[str, Slot]:
        sums = {name: Slot(dtype=torch.float64) for name in ("coverage", "precision", "loss")}
        return {**sums, "count": Slot()}

    def update(self, slots: Slots, *normal: Any) -> None:
        _, mark = normal
        for name, values in self.of_rows(*normal).items():
            getattr(slots, name).add_(values.sum())
        slots.count.add_(mark.ge(0).any(1).sum())

    def of_rows(self, scores: Tensor, mark: Tensor) -> dict[str, Tensor]:
        """Coverage, precision and loss of each sample; 0 of one without labels."""
        yes, true_above, false_above = _ranked(scores, mark)
        relevant, others = mark.eq(1).sum(1), mark.eq(0).sum(1)
        decided = relevant.gt(0) & others.gt(0)
        counted = mark.ge(0).any(1)
        rank = true_above + false_above
        precision = (true_above.double() / rank.clamp(min=1)).where(yes, 0.0).sum(1) / relevant.clamp(min=1)
        wrong_pairs = false_above.where(yes, 0).sum(1).double() / (relevant * others).clamp(min=1)
        return {
            "coverage": rank.where(yes, 0).amax(1),
            "precision": precision.where(decided, 1.0).where(counted, 0.0),
            "loss": wrong_pairs.where(decided, 0.0),
        }


def _ranked(scores: Tensor, mark: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each label, by falling score: whether it is relevant, and how many relevant and other labels score at least as high."""
    ordered, order = scores.where(mark.ge(0), -inf).sort(1, descending=True)
    mark = mark.gather(1, order)
    last_of_ties = torch.cat([ordered[:, 1:].ne(ordered[:, :-1]), mark.new_ones(len(mark), 1, dtype=torch.bool)], 1)
    most = scores.shape[1] + 1

    def at_least(x: Tensor) -> Tensor:
        return x.cumsum(1).where(last_of_ties, most).flip(1).cummin(1).values.flip(1)

    return mark.eq(1), at_least(mark.eq(1)), at_least(mark.eq(0))
