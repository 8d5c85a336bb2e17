"""Exact curves of scores against yes/no targets: every sample, and one sort for all that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..lazy import Once
from ..statistic import Slot, Slots, Statistic, host_visible
from .readings import outside
from .scores import Scores, log_odds

_ONE = np.int32(0x3F800000)  # the bits of 1.0; those of numbers in [0, 1] are in the order of the numbers

_RADIX = 1 << 15  # from this length on torch sorts integers by radix, faster than NumPy sorts; below it is slower


class Curve:
    """True and false positives of each column as the threshold falls, float64 `(K, M)`; points may repeat.

    `score` holds the threshold of each point (None for a histogram) and `distinct` tells which points are not repetitions of another (None: all).
    """

    def __init__(self, tp: Tensor, fp: Tensor, score: Tensor | None = None, distinct: Tensor | None = None) -> None:
        self.tp, self.fp, self.score, self.distinct = tp, fp, score, distinct
        none = tp.new_zeros(tp.shape[0])
        self.positives = tp[:, -1] if tp.shape[1] else none
        self.negatives = fp[:, -1] if tp.shape[1] else none

    @Once
    def tpr(self) -> Tensor:
        """True positive rate: recall, sensitivity. NaN without positives."""
        return self.tp / self.positives[:, None]

    @Once
    def fpr(self) -> Tensor:
        """False positive rate, NaN without negatives."""
        return self.fp / self.negatives[:, None]

    @Once
    def precision(self) -> Tensor:
        """NaN where nothing is predicted."""
        return self.tp / (self.tp + self.fp)


def ranked(scores: Tensor, mark: Tensor) -> Curve:
    """The exact curve of each column of `(N, K)` scores: one sort; ties are one point."""
    if scores.numel() == 0:
        nothing = torch.zeros(scores.shape[1], 0, dtype=torch.float64, device=scores.device)
        return Curve(nothing, nothing, nothing)
    if host_visible(scores, mark):
        return _ranked_on_host(scores.numpy(), mark.numpy())
    live = mark.ge(0)
    least = scores.where(live, inf).amin(0)
    ordered, order = scores.where(live, least).t().sort(1, descending=True)  # what is not counted is tied with the last
    mark = mark.t().gather(1, order)
    end = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[:, 1:], ordered[:, :-1], out=end[:, :-1])
    most = scores.shape[0] + 1
    tp, fp = (
        x.cumsum(1).where(end, most).flip(1).cummin(1).values.flip(1).double()  # every point of a tie is the last of it
        for x in (mark.eq(1), mark.eq(0))
    )
    return Curve(tp, fp, ordered, end & live.any(0)[:, None])


def _ranked_on_host(scores: np.ndarray, mark: np.ndarray) -> Curve:
    columns = [_falling(s, m) for s, m in zip(np.ascontiguousarray(scores.T), np.ascontiguousarray(mark.T))]
    if len(columns) == 1:
        return Curve(*(torch.from_numpy(x)[None] for x in columns[0]))
    lengths = [len(tp) for tp, _, _ in columns]
    longest = max(lengths)
    tp, fp, score = (_stacked(parts, longest) for parts in zip(*columns))
    return Curve(tp, fp, score, torch.arange(longest) < torch.tensor(lengths)[:, None])


def _stacked(rows: Sequence[np.ndarray], longest: int) -> Tensor:
    """Rows of different lengths, their last numbers repeated."""
    table = np.zeros((len(rows), longest), rows[0].dtype)
    for into, row in zip(table, rows):
        into[: len(row)] = row
        into[len(row) :] = row[-1] if len(row) else 0
    return torch.from_numpy(table)


def _falling(scores: np.ndarray, mark: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True positives, false positives and thresholds of one column, at each distinct score from the highest on."""
    if not len(scores):
        return np.empty(0), np.empty(0), scores
    if mark.min() < 0:
        live = mark >= 0
        scores, mark = scores[live], mark[live]
    if scores.dtype == np.float32:
        yes, level = _sorted_keys(scores, mark)
    else:
        key = ~_in_order(scores)
        order = np.argsort(key) if len(key) < _RADIX else torch.from_numpy(key).sort().indices.numpy()
        yes, level = mark[order], scores[order]
    end = np.append(np.flatnonzero(level[1:] != level[:-1]), len(level) - 1) if len(level) else np.empty(0, np.int64)
    tp = np.cumsum(yes, dtype=np.int32 if len(yes) < 1 << 31 else np.int64)[end].astype(np.float64)
    fp = np.subtract(end, tp)
    fp += 1
    level = level[end]
    return tp, fp, level if level.dtype == scores.dtype else _scores_of(level)


def _sorted_keys(scores: np.ndarray, mark: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Marks and levels, rising as the scores fall, of which `_scores_of` makes the scores again.

    A score and its mark are sorted as one integer, which takes a tenth of the time that floats and their order take.
    """
    bits = scores.view(np.int32)
    if len(bits) and bits.min() >= 0 and bits.max() <= _ONE:
        key = np.subtract(_ONE, bits)
    else:
        key = np.int64(0x7FFFFFFF) - _in_order(scores)
    key <<= 1
    key |= mark
    key = np.sort(key) if len(key) < _RADIX else torch.from_numpy(key).sort().values.numpy()
    yes = np.empty(len(key), np.int8)
    np.bitwise_and(key, 1, out=yes, casting="unsafe")
    key >>= 1
    return yes, key


def _in_order(x: np.ndarray) -> np.ndarray:
    """Integers in the order of floats without NaN; -0 is 0."""
    whole = np.int32 if x.dtype == np.float32 else np.int64
    bits = (x + x.dtype.type(0)).view(whole)
    return bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(whole).max)


def _scores_of(level: np.ndarray) -> np.ndarray:
    if level.dtype == np.int32:
        return np.subtract(_ONE, level).view(np.float32)
    bits = (0x7FFFFFFF - level).astype(np.int32)
    return (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).view(np.float32)


class Curves:
    """What formulas over curves see: the curve of each column, and of all columns as one. Each is sorted once for all that read it."""

    def __init__(self, scores: Tensor, mark: Tensor, kind: Scores, logits: bool | Tensor | None = None) -> None:
        self._scores, self._mark, self._kind, self._told = scores, mark, kind, logits

    @Once
    def _logits(self) -> bool | Tensor:
        """Whether the scores are logits: all of them, or none."""
        if self._told is not None:
            return self._told
        if self._kind.logits is not None or not self._kind.normalize:
            return bool(self._kind.logits and self._kind.normalize)
        found = outside(self._scores)
        return bool(found.numpy()) if host_visible(found) else found

    @Once
    def _rankable(self) -> Tensor:
        """Scores to rank by: as they came, but classes share the probability, so their logits are compared by log-odds."""
        if not self._kind.exclusive or self._logits is False or not self._scores.numel():
            return self._scores
        exact = self._scores.double()
        return log_odds(exact) if self._logits is True else torch.where(self._logits, log_odds(exact), exact)

    @Once
    def each(self) -> Curve:
        return ranked(self._rankable, self._mark)

    @Once
    def joined(self) -> Curve:
        return ranked(self._rankable.reshape(-1, 1), self._mark.reshape(-1, 1))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Thresholds of curves as probabilities."""
        if self._logits is False:
            return scores
        exact = scores.double()
        if self._logits is True:
            return exact.sigmoid()
        return torch.where(self._logits, exact.sigmoid(), exact)


@dataclass(frozen=True)
class ScoreSamples(Statistic):
    """Every score with its target. Samples have no order of their own, so a read may join them for the next."""

    input: Scores

    kept: ClassVar[tuple[str, ...]] = ("score", "mark")
    curves: ClassVar[Callable[..., Curves]] = Curves

    def slots(self) -> dict[str, Slot]:
        columns = (self.input.columns,)
        return {"score": Slot(columns, torch.float32, "cat"), "mark": Slot(columns, torch.int8, "cat")}

    def update(self, slots: Slots, *normal: Any) -> None:
        slots.score.append(normal[0])
        slots.mark.append(normal[1])

    def lists(self, slots: Slots) -> list[list[Tensor]]:
        """All that is kept of samples: scores first."""
        return [getattr(slots, name) for name in self.kept]

    def totals(self, slots: Slots) -> Curves:
        lists, kinds = self.lists(slots), self.slots()
        if not lists[0]:
            return self.curves(*(torch.zeros(0, *kinds[n].shape, dtype=kinds[n].dtype) for n in self.kept), self.input)
        for samples in lists:
            samples[:] = [torch.cat(samples)] if len(samples) > 1 else samples
        scores = lists[0][0]
        known = slots.__dict__.get("derived")  # what another reader of the same slots has sorted
        if known is None or known[0] is not scores:
            known = slots.__dict__["derived"] = scores, self.curves(*(samples[0] for samples in lists), self.input)
        curves: Curves = known[1]
        return curves
