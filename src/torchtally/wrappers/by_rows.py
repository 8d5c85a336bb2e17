"""Rows of a batch added to several totals in static shapes, each row to its own: nobody needs to know which goes where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..clock import Clock
from ..formula import Formula
from ..ledger import Ledger
from ..loose_ledger import feed_loose
from ..statistic import Input, Slot, Slots, Statistic
from ..statistics.readings import READINGS, outside

ELEMENTS = 1 << 22
"""How many numbers the rows of one pass may add before they are summed."""

WIDE = 1 << 15
"""Of metrics whose every row adds more numbers than this, rows are better sorted."""


def stackable(metric: Any) -> bool:
    """Whether a metric is a formula over slots of constant size."""
    return (
        isinstance(metric, Formula)
        and type(metric).compute is Formula.compute
        and type(metric).forward is Formula.forward
        and not any(slot.combine == "cat" for part in metric.ledger.parts for slot in part.slots().values())
    )


def by_row(metric: Any) -> bool:
    """Whether what a batch adds follows from what its rows add, each alone, so that all rows can be taken at once, whatever totals they go to.

    Whether scores are logits is no exception: the whole batch tells before its rows are added.
    """
    if not stackable(metric) or not metric.only_feeds:
        return False
    ours = all(type(part).__module__.startswith("torchtally.statistics.") for part in metric.ledger.parts)
    numbers = sum(prod(slot.shape) for part in metric.ledger.parts for slot in part.slots().values())
    return ours and numbers <= WIDE and all(s.groups and not s.input.slots() for s in metric.statistics if s.merges)


def sums_rows(metric: Any) -> bool:
    """Whether it is even the sum, or the extreme, of what rows add."""
    return by_row(metric) and not any(s.merges for s in metric.statistics)


def rows_in(batch: Sequence[Any]) -> int | None:
    """How many rows a batch has, if all of it is tensors of as many."""
    if not batch or not all(isinstance(x, Tensor) and x.ndim for x in batch):
        return None
    rows = batch[0].shape[0]
    alike = all(x.shape[0] == rows for x in batch[1:])  # compared, not hashed: a compiled update does not know the number
    return rows if alike else None


def told_formula(base: Formula, logits: bool) -> Formula:
    """An empty copy of a formula that decides whether scores are logits, which is told."""
    new: Formula = base.clone()
    new.reset()
    statistics = tuple(told(s, logits) for s in base.statistics)
    ledger = Ledger([(told(s, logits), entries) for s, entries in base.ledger.keys], base.device)
    ledger.strict = base.ledger.strict
    new.__dict__.update(statistics=statistics, ledger=ledger)
    new.__dict__["_needed"] = new._name_needs()
    return new


def told(part: Any, logits: bool) -> Any:
    """A statistic or input that does not decide whether scores are logits but is told."""
    inside = {f.name: told(x, logits) for f in fields(part) if isinstance(x := getattr(part, f.name), Input | Statistic)}
    decides = isinstance(part, Input) and "logits" in part.slots()
    return replace(part, **inside, **({"logits": logits} if decides else {}))


class ByRow:
    """Adds batches of a formula row by row."""

    def __init__(self, base: Formula) -> None:
        ledger = base.ledger
        self.parts, self.statistics = ledger.parts, base.statistics
        self.decides = any("logits" in input_.slots() for input_, _ in ledger.inputs)
        keys = [(s, e) for s, e in ledger.keys if not s.merges]
        inputs = dict.fromkeys((s.input, e) for s, e in keys)
        self.places = [ledger.keys.index(k) for k in keys] + [len(ledger.keys) + ledger.inputs.index(i) for i in inputs]
        readings = (False, True) if self.decides else (None,)
        # Of what does not merge. Only their lay-out is used: for each reading of scores, or for all.
        self.layouts = [Ledger([(s if r is None else told(s, r), e) for s, e in keys], "meta") for r in readings]
        self.per_row = sum(prod(slot.shape) for part in self.layouts[0].parts for slot in part.slots().values())

    def logits(self, batch: Sequence[Tensor], live: Tensor | None = None) -> Tensor | None:
        """Whether the rows that count hold a score outside [0, 1]; None where the metric does not ask."""
        scores = batch[0]
        if not self.decides or not scores.is_floating_point():
            return None
        if not scores.numel():
            return torch.zeros((), dtype=torch.bool, device=scores.device)
        found = outside(scores.detach().reshape(len(scores), -1), 1)
        return (found if live is None else found & live).any()

    def shares(self, batch: Sequence[Tensor], logits: Tensor | None, clock: Clock) -> list[dict[str, Tensor]]:
        """What each row adds to each part: slots with a first dimension more. Static shapes, no waiting.

        Of an input that decides, without how scores are read, which is told of the batch.
        """
        found, *of_logits = [share_of_rows(layout, batch, clock) for layout in (self.layouts if logits is not None else self.layouts[:1])]
        if logits is not None:
            found = [{n: torch.where(logits, other[n], x) for n, x in slots.items()} for slots, other in zip(found, of_logits[0])]
        by_place = dict(zip(self.places, found))
        return [by_place.get(place, {}) for place in range(len(self.parts))]

    def add(self, into: Sequence[Slots], groups: int, place: Tensor, batch: Sequence[Tensor], clock: Clock) -> None:
        """Add row n to totals `place[n]` of the `groups` that lie along the first dimension of the slots `into`; `groups` is the place of none."""
        rows = len(place)
        if not rows:
            return
        batch = [x.detach() for x in batch]
        with torch.no_grad():
            logits = self.logits(batch, place.lt(groups))
            if self.per_row and torch.compiler.is_compiling():  # which does not know how many parts there would be
                self._add_shares(into, groups, place, self.shares(batch, logits, clock))
            elif self.per_row:
                step = max(1, ELEMENTS // self.per_row)
                for start in range(0, rows, step):
                    part = slice(start, start + step)
                    self._add_shares(into, groups, place[part], self.shares([x[part] for x in batch], logits, clock))
            if logits is not None:
                self._add_readings(into, groups, place, logits)
            self._merge(into, place, batch, clock)

    def _add_shares(self, into: Sequence[Slots], groups: int, place: Tensor, shares: list[dict[str, Tensor]]) -> None:
        for part, slots, share in zip(self.parts, into, shares):
            for name, x in share.items():
                slot, total = part.slots()[name], getattr(slots, name)
                added = gathered(slot, x, place, groups)
                if slot.combine == "sum":
                    total.add_(added)
                else:
                    total.clamp_min_(added) if slot.combine == "max" else total.clamp_max_(added)

    def _add_readings(self, into: Sequence[Slots], groups: int, place: Tensor, logits: Tensor) -> None:
        """One batch more for the totals that have rows of it."""
        there = gathered(READINGS["scored"], torch.ones_like(place), place, groups).clamp_max_(1)
        for part, slots in zip(self.parts, into):
            if isinstance(part, Input) and "logits" in part.slots():
                slots.scored.add_(there)
                slots.logits.add_(there * logits)

    def _merge(self, into: Sequence[Slots], place: Tensor, batch: Sequence[Tensor], clock: Clock) -> None:
        for statistic, slots in zip(self.statistics, into):
            if statistic.merges:
                _, piece = statistic.input.take(False, *batch)
                assert piece is not None
                normal = statistic.input.settle(Slots(None, clock), [piece], clock.now)
                statistic.update_groups(slots, place, *normal)


def gathered(slot: Slot, x: Tensor, place: Tensor, groups: int) -> Tensor:
    """Slots `(N, …)` combined by the total they belong to: `(groups, …)`."""
    if groups == 1:
        x = torch.where(place.eq(0).view(-1, *(1 for _ in slot.shape)), x, slot.neutral)
        return x.sum(0, keepdim=True) if slot.combine == "sum" else x.amax(0, keepdim=True) if slot.combine == "max" else x.amin(0, keepdim=True)
    added = torch.full((groups + 1, *slot.shape), slot.neutral, dtype=x.dtype, device=x.device)
    if slot.combine == "sum":
        return added.index_add_(0, place, x)[:groups]
    at = place.view(-1, *(1 for _ in slot.shape)).expand_as(x)
    return added.scatter_reduce_(0, at, x, "amax" if slot.combine == "max" else "amin")[:groups]


def share_of_rows(layout: Ledger, batch: Sequence[Tensor], clock: Clock) -> list[dict[str, Tensor]]:
    """What each row of a batch adds to the slots of each part of a ledger laid out so."""
    rows = rows_in(batch)
    assert rows is not None
    empty = [
        {
            name: torch.full((rows, *slot.shape), slot.neutral, dtype=slot.dtype, device=batch[0].device)
            for name, slot in part.slots().items()
        }
        for part in layout.parts
    ]

    def of_row(empty: list[dict[str, Tensor]], *row: Tensor) -> list[dict[str, Tensor]]:
        slots = []
        for part, own in zip(layout.parts, empty):
            slots.append(Slots(part.lane() if isinstance(part, Statistic) else None, clock))
            for name, x in own.items():
                setattr(slots[-1], name, x)
        feed_loose(layout, slots, [x[None] for x in row], clock.now)
        return [{name: getattr(found, name) for name in part.slots()} for part, found in zip(layout.parts, slots)]

    if not rows:
        return empty
    with torch.no_grad():
        found: list[dict[str, Tensor]] = torch.vmap(of_row)(empty, *batch)
    return found
