"""Moments of predictions and targets that have weights."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..lazy import Once
from ..statistic import Piece, Slots, host_visible
from .moments import ROWS, Columns, Moments, PairMoments, TargetRange, WideMoments, column_on_host, grown
from .pairs import Block, HostPairs, Pairs
from .weighted_pairs import WeightedPairs
from .weights import like, possible

HEIGHT = ROWS + 2
"""The rows of a table of moments, in which weights are what pairs are counted by; how many pairs have a weight; and the sum of its square."""


class WeightedMoments(Moments):
    """What formulas see of weighted pairs: `count` is the sum of the weights."""

    pairs = Once(lambda self: self.table[ROWS])
    freedom = Once(lambda self: self.count - self.table[ROWS + 1] / self.count)  # as numpy.cov has it of `aweights`


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


def _add_block(table: np.ndarray, block: Block) -> None:
    """The same on the host, in place."""
    rows, w, each, total = list(table[:ROWS]), block.weight, block.each, block.total
    live, mass = w > 0, total(w)
    if not np.any(mass):
        return
    if (rows[0] == 0).any():
        first = np.expand_dims(live.argmax(int(block.across)), int(block.across))
        for i, x in enumerate((block.preds, block.target), 1):
            rows[i] = np.where(rows[0] == 0, np.take_along_axis(x, first, int(block.across)).reshape(-1), rows[i])
    p, t, e = block.preds - each(rows[1]), block.target_beyond(each(rows[2])), block.error
    if not live.all():
        p, t, e = (np.where(live, x, 0.0) for x in (p, t, e))
    some = np.where(mass == 0, 1.0, mass)
    mean_p, mean_t = total(p * w) / some, total(t * w) / some
    p -= each(mean_p)
    t -= each(mean_t)
    products = [total(x * w * y) for x, y in ((p, p), (t, t), (p, t), (e, e))]
    more = grown(rows, some, mean_p, mean_t, *products), table[ROWS] + total(live.astype(np.float64)), table[ROWS + 1] + total(w * w)
    table[:] = np.where(mass == 0, table, np.stack([*more[0], *more[1:]]))


@dataclass(frozen=True)
class WeightedPairMoments(PairMoments):
    """Weight, means, squared deviations and their products of predictions and targets, and squared errors, per output."""

    @property
    def input(self) -> Pairs:  # type: ignore[override]
        return WeightedPairs(self.outputs)

    height = HEIGHT
    added = staticmethod(_added)
    add_block = staticmethod(_add_block)

    @staticmethod
    def column(rows: list[float], block: Block) -> list[float]:
        pairs = int(np.count_nonzero(block.weight))
        if pairs < block.count:
            block = block.part(block.weight > 0)  # whatever the others are: NaN, too
        if not pairs:
            return rows
        mass = float(block.total(block.weight))
        return [*column_on_host(rows[:ROWS], block, mass), rows[ROWS] + pairs, rows[ROWS + 1] + float(block.weight.dot(block.weight))]

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
        weight = weight.double().where(possible(weight), 0.0)
        if host_visible(preds, target, weight):
            return (HostPairs(preds, target, weight),)
        return preds.double(), target.double(), weight


@dataclass(frozen=True)
class WeightedWideMoments(WideMoments):
    """Moments of weighted pairs of several outputs, however many the first batch has; nothing of one output."""

    input = WeightedColumns()
    height = HEIGHT
    seen_as = WeightedMoments
    added = staticmethod(_added)
    add_block = staticmethod(_add_block)


@dataclass(frozen=True)
class WeightedTargetRange(TargetRange):
    """The smallest and the largest target that has a weight, per output."""

    @property
    def input(self) -> Pairs:  # type: ignore[override]
        return WeightedPairs(self.outputs)

    @staticmethod
    def _ends(target: Tensor, *weight: Tensor) -> tuple[Tensor, Tensor]:
        live = weight[0] > 0
        return target.where(live, inf), target.where(live, -inf)
