"""Hinge losses of scores against yes/no targets or classes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from ..statistic import Slot, Slots, Statistic
from .curves import Scores


@dataclass(frozen=True)
class HingeSums(Statistic):
    """The sum of `max(0, 1 - margin)`, or of its square, of each column, and how many rows there are.

    The margin of a column is its score where the target is yes, minus its score where it is no. With `best_other` a row has one margin: the
    score of its class less the highest of the others (Crammer and Singer).
    """

    input: Scores
    squared: bool = False
    best_other: bool = False

    def slots(self) -> dict[str, Slot]:
        columns = () if self.best_other else (self.input.labels or 1,)
        return {"total": Slot(columns, torch.float64), "count": Slot()}

    def update(self, slots: Slots, *normal: Any) -> None:
        _, mark = normal
        slots.total.add_(self.losses(*normal).sum(0))
        slots.count.add_(mark[:, 0].ge(0).sum())

    def losses(self, scores: Tensor, mark: Tensor) -> Tensor:
        """Of each row and column, or of each row; 0 where it is not counted."""
        scores, yes, live = scores.double(), mark.eq(1), mark.ge(0)
        if self.best_other:
            margin = torch.where(yes, scores, 0.0).sum(1) - scores.masked_fill(yes, -inf).max(1).values
            loss = (1 - margin).clamp(min=0).where(live[:, 0], 0.0)
        else:
            loss = (1 - torch.where(yes, scores, -scores)).clamp(min=0).where(live, 0.0)
        return loss.square() if self.squared else loss
