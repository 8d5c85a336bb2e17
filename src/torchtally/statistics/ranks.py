"""All pairs, and their ranks: for metrics that know order only."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kernels import runs_on_device, runs_on_host
from ..lazy import Once
from ..statistic import Input, Piece, Slot, Slots, Statistic, host_visible
from .pairs import Pairs


@dataclass(frozen=True)
class KeptPairs(Pairs):
    """Pairs in memory of their own, in the dtype they came in: `(N,)`, or `(N, outputs)`."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        key, (preds, target) = super().take(strict, *batch)
        return None, (preds, target) if key is not None else (preds.clone(), target.clone())

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        return pieces[0]


_BITS = {torch.float32: (torch.int32, 31), torch.float64: (torch.int64, 63)}
"""The integers of as many bits, and the place of the sign."""


class Ranked:
    """What formulas see of all pairs of each output: values, places after sorting, runs of ties."""

    def __init__(self, columns: list[tuple[Tensor, Tensor]]) -> None:
        self.columns = [(sortable(p), sortable(t)) for p, t in columns]
        self.unordered = [_some_nan(p) | _some_nan(t) for p, t in columns]

    @Once
    def sorted(self) -> list[tuple[Sorted, Sorted]]:
        return [(Sorted(p), Sorted(t)) for p, t in self.columns]


def _some_nan(x: Tensor) -> Tensor:
    """Whether there is a NaN, as a tensor."""
    if x.dtype in _BITS and host_visible(x):  # five times as fast in NumPy
        return torch.tensor(bool(np.isnan(x.numpy()).any()))
    return x.isnan().any()


def sortable(x: Tensor) -> Tensor:
    """Numbers in the same order that sort fastest: on the CPU floats as integers of as many bits, in which -0 is 0."""
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    if x.dtype == torch.bool:
        return x.to(torch.uint8)
    if x.dtype not in _BITS or not x.is_cpu:
        return x
    integer, sign = _BITS[x.dtype]
    bits = (x + 0.0).view(integer)
    return bits ^ ((bits >> sign) & ((1 << sign) - 1))


class Sorted:
    """The order of some numbers, and where their runs of equals begin and end."""

    def __init__(self, x: Tensor) -> None:
        values, self.order = x.sort()
        if host_visible(values):
            self.begin, self.end = (torch.from_numpy(places) for places in runs_on_host(values.numpy()))
        else:
            self.begin, self.end = runs_on_device(values)

    def back(self, x: Tensor) -> Tensor:
        """Numbers in sorted order, put back in the order of the data."""
        return torch.empty_like(x).scatter_(0, self.order, x)

    @Once
    def deviation(self) -> Tensor:
        """Twice the rank of each number less the mean rank: whole numbers in float64. Equals share the mean of theirs."""
        return self.back((self.begin + self.end).sub_(len(self.begin) - 1).double())

    @Once
    def level(self) -> Tensor:
        """Integers in the same order as the numbers, equal where they are."""
        return self.back(self.begin)

    @Once
    def ties(self) -> Tensor:
        """Sizes of the runs of equals, at the first place of each run and else 1, in float64."""
        size = self.end - self.begin + 1
        return torch.where(self.begin == torch.arange(len(size), device=size.device), size, 1).double()

    @Once
    def distinct(self) -> Tensor:
        """How many different numbers there are."""
        return (self.begin == torch.arange(len(self.begin), device=self.begin.device)).sum()


def discordant(levels: Tensor) -> Tensor:
    """How many pairs of places hold the larger of two integers in [0, N) first, counted in N log N steps.

    The integers are sorted bit by bit from the highest: where two first differ in a bit, the one with a 1 before one with a 0 is such a pair.
    """
    n = len(levels)
    total = torch.zeros((), dtype=torch.int64, device=levels.device)
    begin = torch.zeros_like(levels)  # of the group with the same higher bits, for each place
    end = torch.full_like(levels, n)
    places = torch.arange(n, device=levels.device)
    for bit in reversed(range(max(n - 1, 0).bit_length())):
        one = (levels >> bit) & 1
        ones = torch.cat([one.new_zeros(1), one.cumsum(0)])  # before each place
        before = ones[:-1] - ones[begin]
        zeros = end - begin - (ones[end] - ones[begin])  # of the group
        total = total + (before * (1 - one)).sum()
        middle = begin + zeros
        place = torch.where(one == 1, middle + before, places - before)
        begin, end = torch.where(one == 1, middle, begin), torch.where(one == 1, end, middle)
        levels, begin, end = (torch.empty_like(x).scatter_(0, place, x) for x in (levels, begin, end))
    return total


def pairs_of(sizes: Tensor) -> Tensor:
    """How many pairs can be made within runs of these sizes."""
    return (sizes * (sizes - 1) / 2).sum()


class KendallCounts:
    """What Kendall's coefficients see of one output, in float64: pairs, those tied, and the balance of concordant and discordant ones."""

    def __init__(self, p: Sorted, t: Sorted) -> None:
        n = len(p.order)
        order = (p.level * max(n, 1) + t.level).sort().indices  # by prediction, then by target
        key = (p.level * max(n, 1) + t.level)[order]
        both = Sorted(key)
        self.count = float(n)
        self.p, self.t = p, t
        self.pairs = n * (n - 1) / 2
        self.tied_p, self.tied_t, tied_both = pairs_of(p.ties), pairs_of(t.ties), pairs_of(both.ties)
        self.discordant = discordant(t.level[order]).double()
        self.balance = self.pairs - self.tied_p - self.tied_t + tied_both - 2 * self.discordant


@dataclass(frozen=True)
class PairSamples(Statistic):
    """All predictions and targets."""

    outputs: int = 1

    @property
    def input(self) -> Input:  # type: ignore[override]
        return KeptPairs(self.outputs)

    def slots(self) -> dict[str, Slot]:
        return {"preds": Slot(dtype=torch.float32, combine="cat"), "target": Slot(dtype=torch.float32, combine="cat")}

    def update(self, slots: Slots, *normal: Any) -> None:
        slots.preds.append(normal[0])
        slots.target.append(normal[1])

    def totals(self, slots: Slots) -> Ranked:
        preds, target = _joined(slots.preds), _joined(slots.target)
        if self.outputs == 1:
            return Ranked([(preds, target)])
        return Ranked(list(zip(preds.reshape(-1, self.outputs).T.contiguous(), target.reshape(-1, self.outputs).T.contiguous())))


def _joined(pieces: list[Tensor]) -> Tensor:
    if not pieces:
        return torch.zeros(0)
    if len({x.dtype for x in pieces}) > 1:  # the type that torch.cat would choose may not hold them all
        pieces = [x.double() for x in pieces]
    return torch.cat(list(pieces))
