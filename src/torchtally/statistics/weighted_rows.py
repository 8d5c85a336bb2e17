"""Scores of whole rows that have weights, and weighted events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..statistic import Slot, Slots
from .rows import EventCounts, Events, Rows, RowScores
from .weights import WeighedAtOnce, floating


@dataclass(frozen=True)
class WeightedRows(WeighedAtOnce, Rows):
    """Two tensors `(N, D)`, or ensembles and targets, and the weight of each row: float64 `(N,)`."""

    def rows(self, right: Tensor) -> tuple[int, ...]:
        return right.shape[:1]


@dataclass(frozen=True)
class WeightedRowScores(RowScores):
    """The weight of all rows, and the weighted sum of their scores. What has no weight has no say."""

    @property
    def input(self) -> Rows:  # type: ignore[override]
        plain = super().input
        return WeightedRows(plain.ensemble, plain.names)

    def slots(self) -> dict[str, Slot]:
        return floating(super().slots())

    def update(self, slots: Slots, *normal: Any) -> None:
        left, right, weight = normal
        for rows, scores in self.some(left, right):
            slots.total.add_((scores.where(weight[rows] > 0, 0.0) * weight[rows]).sum())
        slots.count.add_(weight.sum())


@dataclass(frozen=True)
class WeightedEvents(WeighedAtOnce, Events):
    """Values and weights, all of one shape."""


@dataclass(frozen=True)
class WeightedEventCounts(EventCounts):
    """The weight of hits, misses and false alarms of values that reach a threshold; with `keep`, for every place along that dimension."""

    @property
    def input(self) -> Events:  # type: ignore[override]
        return WeightedEvents(self.keep)

    def slots(self) -> dict[str, Slot]:
        return floating(super().slots())

    def update(self, slots: Slots, *normal: Any) -> None:
        preds, target, weight = normal
        for name, cell in self.cells(preds, target).items():
            found, into = weight.where(cell, 0.0), getattr(slots, name)
            if self.keep is None:
                into.add_(found.sum())
            else:
                into.append(self.along(found))
