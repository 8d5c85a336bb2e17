"""Scores of whole rows that have weights, and weighted events."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ..statistic import Piece, Slot, Slots
from .rows import EventCounts, Events, Rows, RowScores
from .weights import Weighed, like, of_device, taken


@dataclass(frozen=True)
class _AtOnce(Weighed):
    """An input of two tensors and weights that are settled as they come."""

    weighs_rows: ClassVar[bool] = False

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        left, right, weight = (*batch, None)[:3]
        key, piece = super().take(strict, left, right)
        assert piece is not None
        return key, (*piece, taken(strict, like(weight, right, left.shape[:1] if self.weighs_rows else None)))

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        ((left, right, weight),) = pieces
        return left, right, of_device(slots, weight, None, 1, first)


@dataclass(frozen=True)
class WeightedRows(_AtOnce, Rows):
    """Two tensors `(N, D)`, or ensembles and targets, and the weight of each row: float64 `(N,)`."""

    weighs_rows = True


@dataclass(frozen=True)
class WeightedRowScores(RowScores):
    """The weight of all rows, and the weighted sum of their scores. What has no weight has no say."""

    @property
    def input(self) -> Rows:  # type: ignore[override]
        plain = super().input
        return WeightedRows(plain.ensemble, plain.names)

    def slots(self) -> dict[str, Slot]:
        return {"total": Slot(dtype=torch.float64), "count": Slot(dtype=torch.float64)}

    def update(self, slots: Slots, *normal: Any) -> None:
        left, right, weight = normal
        for rows, scores in self.some(left, right):
            slots.total.add_((scores.where(weight[rows] > 0, 0.0) * weight[rows]).sum())
        slots.count.add_(weight.sum())


@dataclass(frozen=True)
class WeightedEvents(_AtOnce, Events):
    """Values and weights, all of one shape."""


@dataclass(frozen=True)
class WeightedEventCounts(EventCounts):
    """The weight of hits, misses and false alarms of values that reach a threshold; with `keep`, for every place along that dimension."""

    @property
    def input(self) -> Events:  # type: ignore[override]
        return WeightedEvents(self.keep)

    def slots(self) -> dict[str, Slot]:
        return {name: Slot(slot.shape, torch.float64, slot.combine) for name, slot in super().slots().items()}

    def update(self, slots: Slots, *normal: Any) -> None:
        preds, target, weight = normal
        for name, cell in self.cells(preds, target).items():
            found, into = weight.where(cell, 0.0), getattr(slots, name)
            if self.keep is None:
                into.add_(found.sum())
            else:
                into.append(self.along(found))
