"""How many samples were predicted right in every position or label."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..statistic import Number, Piece, Slot, Slots, Statistic
from .class_counts import Labels
from .decisions import Decisions


@dataclass(frozen=True)
class LabelRows(Labels):
    """Predicted and true classes, a row for each sample; labels `(N,)` are rows of one."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        if target.ndim == 1 and preds.ndim in (1, 2):
            preds, target = preds[..., None], target[..., None]
        return super().take(strict, preds, target)


@dataclass(frozen=True)
class DecisionRows(Decisions):
    """Decisions on the labels of each position: counts `(N, M, 4, L)` for M positions in each sample."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        n = target.shape[0] if target.ndim else 0
        if target.ndim > 2 and preds.shape == target.shape and target.shape[1] == self.labels:
            preds, target = (x.movedim(1, -1).reshape(-1, self.labels) for x in (preds, target))
        if preds.ndim == 2 and target.ndim == 2:
            preds, target = preds[..., None], target[..., None]
        _, piece = super().take(strict, preds, target)  # decisions of samples never wait
        return None, (piece, n)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        ((piece, n),) = pieces
        (counts,) = super().settle(slots, [piece], first)
        return (counts.reshape(n, -1 if n > 0 else 0, *counts.shape[1:]),)


@dataclass(frozen=True)
class WholeRows(Statistic):
    """Rows without a wrong element, and all rows; with `listed` both for each sample. What is ignored is not wrong."""

    input: LabelRows | DecisionRows
    listed: bool = False

    def slots(self) -> dict[str, Slot]:
        return {"rows": Slot((2,), combine="cat")} if self.listed else {"hit": Slot(), "seen": Slot()}

    def lane(self) -> list[int] | None:
        return None if self.listed else [0, 0]

    def drain(self, host: list[int]) -> dict[str, Number]:
        drained: dict[str, Number] = {"hit": host[0], "seen": host[1]} if host[1] else {}
        host[:] = 0, 0
        return drained

    def right(self, *normal: Any) -> Any:
        """Which of `(N, M)` rows are."""
        if isinstance(self.input, DecisionRows):
            (counts,) = normal
            return (2 * counts[:, :, 0] == counts[:, :, 1] + counts[:, :, 2]).all(2)  # every prediction and every target is a hit
        p, y = normal
        return (p.eq(y) | ~self.input.live(y)).all(1)[:, None]

    def update(self, slots: Slots, *normal: Any) -> None:
        right = self.right(*normal)
        n, positions = right.shape
        if self.listed:
            hit = (torch.from_numpy(right) if isinstance(right, np.ndarray) else right).sum(1)
            slots.rows.append(torch.stack([hit, torch.full_like(hit, positions)], 1))
        elif isinstance(right, np.ndarray):
            slots.host[0] += int(np.count_nonzero(right))
            slots.host[1] += right.size
        else:
            slots.hit.add_(right.sum())
            slots.seen.add_(n * positions)

    def totals(self, slots: Slots) -> tuple[Tensor, Tensor]:
        if not self.listed:
            return slots.hit.double(), slots.seen.double()
        none = torch.zeros(0, 2, dtype=torch.int64, device=slots.rows[0].device if slots.rows else None)
        hit, seen = torch.cat([*slots.rows, none]).double().unbind(1)
        return hit, seen
