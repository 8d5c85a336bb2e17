"""Curves in constant memory: how many scores of each target lie between given thresholds."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kernels import count_on_device, count_on_host
from ..lazy import Once
from ..statistic import Slot, Slots, Statistic, host_visible
from .curves import Curve
from .scores import Scores, constant

_AT_ONCE = 1 << 14
"""Scores that are looked up together: what is made on the way stays in the cache."""

_MOST_CELLS = 1 << 16


class Cells:
    """Finds how many thresholds are at or below each score, without searching where the thresholds allow it.

    [0, 1] is cut into 2^k cells of which none holds more than one threshold; multiplying by 2^k is exact, so a score's cell is, too.
    """

    def __init__(self, thresholds: tuple[float, ...]) -> None:
        self.limits = np.array(thresholds)
        count = 1
        while count <= _MOST_CELLS and len(np.unique(np.floor(self.limits * count))) < len(thresholds):
            count *= 2
        self.count = count if count <= _MOST_CELLS else 0
        cell = np.floor(self.limits * count).astype(np.int64)
        self.base = np.searchsorted(cell, np.arange(count + 1)).astype(np.int32) if self.count else None
        next_ = np.full(count + 1, inf)
        next_[cell[cell <= count]] = self.limits
        self.next = {
            d: next_.astype(d) if (next_.astype(d) == next_).all() else next_ for d in (np.dtype(np.float32), np.dtype(np.float64))
        }

    def find(self, scores: np.ndarray, inside: bool) -> np.ndarray:
        """The places of flat scores, of which the caller knows whether all are inside [0, 1]."""
        if self.base is None:
            return np.searchsorted(self.limits, scores, "right").astype(np.int32)
        if not inside:
            scores = np.minimum(scores, np.finfo(scores.dtype).max)  # infinity would be at or above the next threshold where there is none
        cell = ((scores if inside else scores.clip(0, 1)) * scores.dtype.type(self.count)).astype(np.int32)
        found = self.base.take(cell)
        found += scores >= self.next[scores.dtype].take(cell)
        return found


cells_of = functools.lru_cache(64)(Cells)


class BinnedCurves:
    """What formulas over curves see of a histogram: exact for scores rounded down to the next threshold. The last point has every element."""

    def __init__(self, counts: Tensor) -> None:
        self._no, self._yes = counts.flip(-1).cumsum(-1).unbind()

    @Once
    def each(self) -> Curve:
        return Curve(self._yes.double(), self._no.double())

    @Once
    def joined(self) -> Curve:
        return Curve(self._yes.sum(0, keepdim=True).double(), self._no.sum(0, keepdim=True).double())


@dataclass(frozen=True)
class ScoreHistogram(Statistic):
    """How many scores of each target lie between ascending thresholds: a score on a threshold is above it."""

    input: Scores
    thresholds: tuple[float, ...] = ()

    def slots(self) -> dict[str, Slot]:
        return {"counts": Slot((self._size + 1,))}  # one spare bin, for what does not count

    @property
    def _bins(self) -> int:
        return len(self.thresholds) + 1

    @property
    def _size(self) -> int:
        return 2 * self.input.columns * self._bins

    def update(self, slots: Slots, *normal: Any) -> None:
        scores, mark = normal
        if host_visible(scores, mark, slots.counts) and self._size < 1 << 31:
            self._count(slots.counts.numpy(), scores.numpy(), mark.numpy())
            return
        count_on_device(slots.counts, self.bins_of(scores, mark))

    def bins_of(self, scores: Tensor, mark: Tensor) -> Tensor:
        """The bin of each score and mark, in one row."""
        columns, bins = scores.shape[1], self._bins
        row = torch.bucketize(scores.double().contiguous(), constant(self.thresholds, scores.device), right=True)
        row = row + mark.long() * (columns * bins) + torch.arange(columns, device=row.device) * bins
        return row.where(mark.ge(0), self._size).reshape(-1)

    def _count(self, counts: np.ndarray, scores: np.ndarray, mark: np.ndarray) -> None:
        cells, columns = cells_of(self.thresholds), scores.shape[1]
        place = np.arange(columns, dtype=np.int32) * self._bins
        rows = max(1, _AT_ONCE // columns)
        for i in range(0, len(scores), rows):
            yes = mark[i : i + rows].ravel()
            key = cells.find(scores[i : i + rows].ravel(), self.input.normalize)
            key += np.multiply(yes, self._size // 2, dtype=np.int32)
            if columns > 1:
                by_row = key.reshape(-1, columns)
                by_row += place
            count_on_host(counts, key if yes.min() >= 0 else key[yes >= 0])

    def totals(self, slots: Slots) -> BinnedCurves:
        return BinnedCurves(slots.counts[: self._size].view(2, self.input.columns, self._bins))
