"""Curves that are exact while the scores fit a budget of memory, and from then on of rounded scores, in constant memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..lazy import Once
from ..statistic import Slot, Slots, host_visible
from .curves import Curve, Curves, ScoreSamples
from .readings import outside
from .scores import constant

BUDGET = 1 << 25
"""Bytes of scores and targets that are kept as they are."""

ROOM = 1 << 25
"""Bytes of counts that take their place: with many columns, scores are rounded more."""

_FINEST = 64
"""Steps per unit of log-odds, where there is room."""

_AT_ONCE = 1 << 18  # scores that are sorted together to be rounded, as far as they came in smaller pieces


@functools.lru_cache(16)
def limits(steps: int) -> tuple[float, ...]:
    """What scores are rounded down to: rising numbers that suit probabilities and logits alike.

    They are 1 / `steps` apart in log-odds in (0, 1), and 1 / `steps` apart within ±64. Larger numbers have 8 / `steps` of a power of two between them.
    """
    logits = np.arange(-64 * steps, 64 * steps + 1) / steps
    probabilities = 1 / (1 + np.exp(-np.arange(-88 * steps, 37 * steps + 1) / steps))
    large = 2.0 ** np.arange(6, 128, min(8 / steps, 61))
    return (-inf, *np.unique(np.concatenate([-large, logits, probabilities, large])).tolist(), inf)


def reached(curve: Curve, at: Tensor) -> Tensor:
    """True and false positives at thresholds: `(2, K, L)`."""
    assert curve.score is not None
    rising = curve.score.double().flip(1).contiguous()
    below = torch.searchsorted(rising, at.expand(len(rising), -1).contiguous())
    points = rising.shape[1] - below
    return torch.stack([torch.nn.functional.pad(x, (1, 0)).gather(1, points) for x in (curve.tp, curve.fp)])


class RoundedCurves:
    """What formulas over curves see of rounded scores, as of exact ones: a point for each limit that has scores."""

    def __init__(self, counts: Tensor, at: Tensor, logits: bool | Tensor) -> None:
        self._tp, self._fp = counts.flip(-1).double().unbind()
        self._at, self._logits = at.flip(0), logits

    def _curve(self, tp: Tensor, fp: Tensor) -> Curve:
        found = tp + fp
        more = torch.cat([found[:, :1].gt(0), found.diff().gt(0)], 1)
        return Curve(tp, fp, self._at.expand(tp.shape), more)

    @Once
    def each(self) -> Curve:
        return self._curve(self._tp, self._fp)

    @Once
    def joined(self) -> Curve:
        return self._curve(self._tp.sum(0, keepdim=True), self._fp.sum(0, keepdim=True))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Thresholds of curves as probabilities."""
        if isinstance(self._logits, bool):
            return scores.sigmoid() if self._logits else scores
        return torch.where(self._logits, scores.sigmoid(), scores)


@dataclass(frozen=True)
class AutoSamples(ScoreSamples):
    """Every score with its target, until they need more than `budget` bytes; then how many are at or above each of many limits.

    The host knows how many scores there are, so nothing is read to decide. `reached` and `outside` are empty until then.
    """

    budget: int = BUDGET

    sums: ClassVar[torch.dtype] = torch.int64

    def slots(self) -> dict[str, Slot]:
        columns = self.input.columns
        return {
            **super().slots(),
            "reached": Slot((2, columns, len(self.limits)), self.sums, "cat"),
            "outside": Slot((), torch.bool, "cat"),
        }

    @property
    def most(self) -> int:
        """Rows of scores that are kept."""
        return max(1, self.budget // self.row_bytes)

    @property
    def row_bytes(self) -> int:
        return 5 * self.input.columns

    @property
    def limits(self) -> tuple[float, ...]:
        """As many as there is room for counts of."""
        steps = _FINEST
        while steps > 1 and len(limits(steps)) * 16 * self.input.columns > ROOM:
            steps //= 2
        return limits(steps)

    def update(self, slots: Slots, *normal: Any) -> None:
        super().update(slots, *normal)
        if not torch.compiler.is_compiling():
            self.tidy(slots)

    def tidy(self, slots: Slots) -> None:
        if self._held(slots) > self.most:
            self._round(slots)

    def _held(self, slots: Slots) -> int:
        """How many rows are kept after one more piece, without asking every piece each time."""
        pieces = self.lists(slots)[0]
        count, last, rows = slots.__dict__.get("held", (0, None, 0))
        same = count == len(pieces) - 1 and (not count or pieces[-2] is last)
        rows = rows + len(pieces[-1]) if same else _rows(pieces)
        slots.__dict__["held"] = len(pieces), pieces[-1], rows
        return rows

    def _round(self, slots: Slots) -> None:
        """Count what is kept at the limits instead."""
        logits, lists = self._logits(slots), self.lists(slots)
        at = constant(self.limits, lists[0][0].device)
        count = torch.zeros((), dtype=self.sums, device=at.device)
        for samples in self._together(slots):
            count = count + reached(self.curves(*samples, self.input, logits).each, at).to(self.sums)
        slots.reached[:] = [torch.cat([*slots.reached, count[None]]).sum(0, keepdim=True)]
        if self._asks:
            slots.outside[:] = [torch.as_tensor(logits, device=at.device).reshape(1)]
        for samples in lists:
            samples.clear()
        for name in ("derived", "held"):
            slots.__dict__.pop(name, None)

    @property
    def _asks(self) -> bool:
        return self.input.logits is None and self.input.normalize

    def _together(self, slots: Slots) -> Iterator[list[Tensor]]:
        """What is kept, piece by piece or several small ones at a time."""
        lists = self.lists(slots)
        most, begin = max(1, _AT_ONCE // self.input.columns), 0
        ends = np.cumsum([x.shape[0] for x in lists[0]])
        while begin < len(ends):
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + most, "right")))
            yield [torch.cat(samples[begin:end]) for samples in lists]
            begin = end

    def _logits(self, slots: Slots) -> bool | Tensor:
        """Whether scores are logits: as told, or because one so far is outside [0, 1]."""
        if not self._asks:
            return bool(self.input.logits and self.input.normalize)
        found = torch.cat([x.reshape(-1) for x in (*slots.outside, *(outside(scores) for scores, *_ in self._together(slots)))]).any()
        return bool(found.numpy()) if host_visible(found) else found

    def totals(self, slots: Slots) -> Curves | RoundedCurves:  # type: ignore[override]  # the same to those who read it
        held = _rows(self.lists(slots)[0])
        if not slots.reached and held <= self.most:
            return super().totals(slots)
        if held:
            self._round(slots)
        counts = torch.cat(slots.reached).view(-1, 2, self.input.columns, len(self.limits)).sum(0)
        return RoundedCurves(counts, constant(self.limits, counts.device), self._logits(slots))


def _rows(pieces: list[Tensor]) -> int:
    return sum(x.shape[0] for x in pieces)
