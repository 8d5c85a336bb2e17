"""Counts of right and wrong yes/no decisions in each of several groups."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..faults import Fault, FaultError, note
from ..kernels import count_on_device
from ..refusal import integers
from ..statistic import Piece, Slot, Slots, Statistic
from .class_counts import Counts
from .decisions import Decisions, joined


@dataclass(frozen=True)
class GroupDecisions(Decisions):
    """Yes or no, and the group of each element or of each sample. Without `targeted` the target may be None.

    The normal form is a table of counts: of each group, and a spare one for what does not count, negatives decided no and positives decided
    no, negatives decided yes and positives decided yes.
    """

    groups: int = 1
    targeted: bool = True

    def faults(self, slots: Slots) -> list[Fault]:
        found = super().faults(slots)
        problem = f"impossible (expected targets 0 and 1, groups 0..{self.groups - 1} and scores without NaN)"
        return [Fault(slots.bad, slots.first_bad, problem, "Pass ignore_index for a padding label, or check num_groups."), *found[1:]]

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, groups = batch
        if target is None:
            if self.targeted:
                raise ValueError("target is None; expected labels shaped as preds. Only task='demographic_parity' does without.")
            target = torch.zeros_like(preds, dtype=torch.int64)
        integers("groups", groups)
        if groups.shape != preds.shape and groups.shape != preds.shape[:1]:
            raise ValueError(
                f"groups has shape {tuple(groups.shape)}; expected {tuple(preds.shape)} as preds, or {tuple(preds.shape[:1])}."
            )
        if preds.shape == target.shape:
            groups = groups.reshape(-1, *[1] * (preds.ndim - 1)).expand(preds.shape) if groups.ndim < preds.ndim else groups
            preds, target, groups = preds.reshape(-1, 1), target.reshape(-1, 1), groups.reshape(-1)
        key, piece = super().take(strict, preds, target)
        if isinstance(piece[0], np.ndarray):
            return key, (*piece, self._numbered(strict, groups.numpy(), piece[2]))
        return key, (*piece, groups if key is None else groups.to(torch.int64, copy=True))

    def _numbered(self, strict: bool, groups: np.ndarray, live: np.ndarray | None) -> np.ndarray:
        """Groups in memory of their own; the number of groups where there is no such group."""
        wrong = (groups < 0) | (groups >= self.groups)
        if not wrong.any():
            return groups.astype(np.int64)
        refused = wrong if live is None else wrong & live[:, 0]
        if strict and refused.any():
            raise FaultError(
                f"groups has {groups[refused][0]}; expected 0..{self.groups - 1}. Check num_groups, or pass ignore_index for padding."
            )
        return np.where(wrong, self.groups, groups)

    @property
    def size(self) -> int:
        """Of the table."""
        return 4 * (self.groups + 1)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        cells = self.cells(slots, pieces, first)
        if isinstance(cells, np.ndarray):
            return (torch.from_numpy(np.bincount(cells, minlength=self.size)).view(-1, 4),)
        counts = cells.new_zeros(self.size)
        count_on_device(counts, cells)
        return (counts.view(-1, 4),)

    def cells(self, slots: Slots, pieces: list[Piece], first: Any) -> Any:
        """Where in the table each element is counted; the last cell if it is not."""
        yes, true, live = self._elements(slots, pieces, first)
        column = tuple(piece[4] for piece in pieces)
        if isinstance(yes, np.ndarray):
            key = joined(column) * 4
            key += yes[:, 0] * np.int64(2) + true[:, 0]
            return key if live is None else np.where(live[:, 0], key, self.size - 1)
        groups = (column[0] if len(column) == 1 else torch.cat(column)).long()
        yes, true, live = yes.reshape(-1), true.reshape(-1), live.reshape(-1)
        outside = groups.lt(0) | groups.ge(self.groups)
        note(slots, (outside & live).reshape(len(pieces), -1), first)
        return (groups * 4 + yes.long() * 2 + true.long()).masked_fill(outside | ~live, self.size - 1)


@dataclass(frozen=True)
class GroupCounts(Statistic):
    """True negatives, false negatives, false positives and true positives of each group."""

    input: GroupDecisions

    def slots(self) -> dict[str, Slot]:
        return {"counts": Slot((self.input.groups + 1, 4))}  # a spare group, for what does not count

    def update(self, slots: Slots, *normal: Any) -> None:
        slots.counts.add_(normal[0])

    def totals(self, slots: Slots) -> Counts:
        tn, fn, fp, tp = slots.counts[: self.input.groups].double().unbind(1)
        return Counts(tp, tp + fp, tp + fn, tn + fn + fp + tp)
