"""Moments of predictions and targets that have weights."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import torch
from torch import Tensor

from ..statistic import Piece, Slot, Slots
from .moments import ROWS, Columns, Moments, PairMoments, TargetRange, WideMoments, grown, merged
from .pairs import Pairs
from .weighted_pairs import WeightedPairs
from .weights import like, possible

HEIGHT = ROWS + 2
"""The rows of a table of moments, in which weights are what pairs are counted by; how many pairs have a weight; and the sum of its square."""


class WeightedMoments(Moments):
    """What formulas see of weighted pairs: `count` is the sum of the weights."""

    pairs = cached_property(lambda self: self.table[ROWS])
    freedom = cached_property(lambda self: self.count - self.table[ROWS + 1] / self.count)  # as numpy.cov has it of `aweights`


def _added(table: Tensor, preds: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """The table with a batch; what has no weight has no say."""
    n, outputs = len(preds), table.shape[1]
    preds, target, weight = (x.reshape(n, outputs) for x in (preds, target, weight))
    live, mass = weight > 0, weight.sum(0)
    some = torch.where(mass == 0, 1.0, mass)
    first = live.to(torch.uint8).argmax(0, keepdim=True)  # that has a weight
    pivots = torch.where(table[0] == 0, torch.cat([preds.gather(0, first), target.gather(0, first)]).detach(), table[1:3])
    p, t, error = (x.where(live, 0.0) for x in (preds - pivots[0], target - pivots[1], preds - target))
    mean_p, mean_t = (p * weight).sum(0) / some, (t * weight).sum(0) / some
    p, t = p - mean_p, t - mean_t
    products = [(x * y * weight).sum(0) for x, y in ((p, p), (t, t), (p, t), (error, error))]
    rows = grown([table[0], *pivots, *table[3:ROWS]], some, mean_p, mean_t, *products)
    return torch.where(mass == 0, table, torch.stack([*rows, table[ROWS] + live.sum(0), table[ROWS + 1] + weight.square().sum(0)]))


@dataclass(frozen=True)
class WeightedPairMoments(PairMoments):
    """Weight, means, squared deviations and their products of predictions and targets, and squared errors, per output."""

    @property
    def input(self) -> Pairs:  # type: ignore[override]
        return WeightedPairs(self.outputs)

    def slots(self) -> dict[str, Slot]:
        return {"moments": Slot((HEIGHT, self.outputs), torch.float64)}

    def lane(self) -> None:
        return None

    def update(self, slots: Slots, *normal: Any) -> None:
        if len(normal[0]):
            slots.moments.copy_(_added(slots.moments.clone(), *normal))

    def merge(self, slots: Slots, other: Slots) -> None:
        slots.moments.copy_(merged(slots.moments.clone(), other.moments))

    def totals(self, slots: Slots) -> Moments:
        return WeightedMoments(slots.moments)


@dataclass(frozen=True)
class WeightedColumns(Columns):
    """Pairs of several outputs and their weights, in float64. Impossible weights are counted by the statistic beside it."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece | None]:
        preds, target, weight = (*batch, None)[:3]
        key, piece = super().take(strict, preds, target)
        return key, None if piece is None else (*piece, like(weight, target))

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        ((preds, target, weight),) = pieces
        return preds.double(), target.double(), weight.double().where(possible(weight), 0.0)


@dataclass(frozen=True)
class WeightedWideMoments(WideMoments):
    """Moments of weighted pairs of several outputs, however many the first batch has; nothing of one output."""

    input = WeightedColumns()
    height = HEIGHT
    seen_as = WeightedMoments
    added = staticmethod(_added)


@dataclass(frozen=True)
class WeightedTargetRange(TargetRange):
    """The smallest and the largest target that has a weight, per output."""

    @property
    def input(self) -> Pairs:  # type: ignore[override]
        return WeightedPairs(self.outputs)

    def update(self, slots: Slots, *normal: Any) -> None:
        _, target, weight = normal
        if len(target):
            live = weight > 0
            slots.least.copy_(torch.minimum(slots.least.clone(), target.where(live, inf).amin(0)))
            slots.most.copy_(torch.maximum(slots.most.clone(), target.where(live, -inf).amax(0)))
