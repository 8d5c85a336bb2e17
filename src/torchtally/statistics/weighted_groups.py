"""The weight of right and wrong yes/no decisions in each of several groups."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..kernels import add_on_device
from ..statistic import Piece, Slot, Slots
from .decisions import joined
from .groups import GroupCounts, GroupDecisions
from .weights import Weighed, floating, like, of_device, of_host


@dataclass(frozen=True)
class WeightedGroupDecisions(Weighed, GroupDecisions):
    """Yes or no, the group and the weight of each element. The normal form is the table of `GroupDecisions`, of weights."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, groups, weight = (*batch, None)[:4]
        key, piece = super().take(strict, preds, target, groups)
        weight = like(weight, preds if target is None else target).to(torch.float64).reshape(-1)
        if isinstance(piece[0], np.ndarray):
            return key, (*piece, of_host(strict, weight.numpy(), None if piece[2] is None else piece[2][:, 0]))
        return key, (*piece, weight.clone() if key is not None else weight)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        cells, column = self.cells(slots, pieces, first), tuple(piece[5] for piece in pieces)
        if isinstance(cells, np.ndarray):
            return (torch.from_numpy(np.bincount(cells, joined(column), self.size)).view(-1, 4),)
        weight = column[0] if len(column) == 1 else torch.cat(column)
        weight = of_device(slots, weight, cells.lt(self.size - 4), len(pieces), first)
        sums = weight.new_zeros(self.size)
        add_on_device(sums, cells, weight)
        return (sums.view(-1, 4),)


@dataclass(frozen=True)
class WeightedGroupCounts(GroupCounts):
    """The weight of true negatives, false negatives, false positives and true positives of each group."""

    def slots(self) -> dict[str, Slot]:
        return floating(super().slots())
