"""Counts of right and wrong yes/no decisions in each of several groups."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..faults import Fault, FaultError, note
from ..statistic import Piece, Slot, Slots, Statistic, host_visible
from .class_counts import Counts, integers
from .decisions import Decisions


@dataclass(frozen=True)
class GroupDecisions(Decisions):
    """Yes or no, and the group of each element or of each sample. Without `targeted` the target may be None.

    The normal form is counts `(M, 4)` of each element and its group, or the number of groups where it does not count.
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
        _, piece = super().take(strict, preds, target)
        if strict and isinstance(piece[0], np.ndarray) and host_visible(groups):
            wrong = groups.lt(0) | groups.ge(self.groups)
            if piece[2] is not None:
                wrong &= torch.from_numpy(piece[2].reshape(-1))
            if bool(wrong.any()):
                raise FaultError(
                    f"groups has {int(groups[wrong][0])}; expected 0..{self.groups - 1}. Check num_groups, or pass ignore_index for padding."
                )
        return None, (piece, groups)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        ((piece, groups),) = pieces
        (counts,) = super().settle(slots, [piece], first)
        counts = (torch.from_numpy(counts) if isinstance(counts, np.ndarray) else counts)[:, :, 0]
        outside = groups.lt(0) | groups.ge(self.groups)
        note(slots, (outside & counts[:, 3].gt(0))[None], first)
        return counts, groups.long().masked_fill(outside, self.groups)


@dataclass(frozen=True)
class GroupCounts(Statistic):
    """Hits, positive predictions, positive targets and all elements of each group."""

    input: GroupDecisions

    def slots(self) -> dict[str, Slot]:
        return {"counts": Slot((self.input.groups + 1, 4))}  # a spare group, for what does not count

    def update(self, slots: Slots, *normal: Any) -> None:
        counts, groups = normal
        slots.counts.index_add_(0, groups, counts)

    def totals(self, slots: Slots) -> Counts:
        return Counts(*slots.counts[: self.input.groups].double().unbind(1))
