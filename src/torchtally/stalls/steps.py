"""Where a program's steps begin and end, worked out from what its optimisers, data loaders and loops did.

A step is one turn of the training loop. It closes when an optimiser steps again that has stepped already: two optimisers of one turn (a GAN) count once,
and batches whose gradients accumulate belong together. What follows an optimiser's step until the loop turns (metrics, logging, a scheduler)
belongs to that step too: the cut lies where the loop turns or the next batch is fetched, whichever comes first.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass, field
from types import CodeType
from typing import Literal

from .blame import Line

What = Literal["fetching", "exhausted", "optimised", "turned", "marked", "ended"]
Unit = Literal["optimiser steps", "batches", "marks"]


@dataclass(frozen=True, slots=True)
class Event:
    """`turn` numbers the events from 1; a stall carries the number of the last event before it. `who` tells optimisers and loaders apart."""

    turn: int
    what: What
    who: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """The source lines of one loop, and the first line of the statement of its body that optimises."""

    code: CodeType
    first: int
    last: int
    statement: int

    def holds(self, chain: tuple[Line, ...]) -> bool:
        return any(code is self.code and self.first <= line <= self.last for code, line in chain)


@dataclass(slots=True)
class StepLog:
    """What happened so far. `loop` is the training loop once it is known; until it is settled, recorders keep the lines above each stall."""

    events: list[Event] = field(default_factory=list)
    turn: int = 0
    loop: Loop | None = None
    settled: bool = False
    times: list[float] = field(default_factory=lambda: [time.perf_counter()])
    """When each turn began, in seconds of `time.perf_counter`; turn 0 is the program's beginning."""

    def add(self, what: What, who: int = 0) -> None:
        self.turn += 1
        self.times.append(time.perf_counter())
        self.events.append(Event(self.turn, what, who))

    def table(self) -> StepTable:
        if any(e.what == "marked" for e in self.events):
            return _by_marks(self.events)
        if any(e.what == "optimised" for e in self.events):
            return _by_optimisers(self.events, self.loop)
        return _by_batches(self.events)

    def spans(self, ended: float) -> list[tuple[float, float]]:
        """When each step began and ended; the last ends with the program unless something told its end before."""
        table = self.table()
        turns = [self.times[turn] for turn in table.starts]
        return list(zip(turns, [*turns[1:], ended if table.end is None else self.times[table.end]]))


@dataclass(frozen=True, slots=True)
class StepTable:
    """The first turn of every step, and the first turn after the last one (None: the program ended within it).

    Until its first step a program sets up. Where the training loop is known, what happens outside its lines is setting up; elsewhere `starts` knows.
    """

    unit: Unit
    starts: tuple[int, ...]
    end: int | None = None
    loop: Loop | None = None

    def step_of(self, turn: int, chain: tuple[Line, ...] | None = None) -> int | None:
        step = bisect_right(self.starts, turn) - 1
        if step < 0 or (self.end is not None and turn >= self.end):
            return None
        if step == 0 and self.loop is not None and chain and not self.loop.holds(chain):
            return None
        return step


def _by_optimisers(events: list[Event], loop: Loop | None) -> StepTable:
    starts = [0 if loop else _first_batch_of_first_step(events)]
    stepped: set[int] = set()
    cut = after = 0
    for e in events:
        if e.what == "optimised":
            if e.who in stepped:
                starts.append(cut or after)
                stepped.clear()
            stepped.add(e.who)
            cut, after = 0, e.turn
        elif e.what in ("turned", "fetching", "ended") and stepped and not cut:
            cut = e.turn
    return StepTable("optimiser steps", tuple(starts), cut or None, loop)


def _first_batch_of_first_step(events: list[Event]) -> int:
    """Where the loader began that fed the first step; 0 where none did. A loader used before (for statistics, say) belongs to setting up."""
    began: dict[int, int] = {}
    start = 0
    for e in events:
        if e.what == "optimised":
            break
        if e.what == "fetching":
            start = began.setdefault(e.who, e.turn)
        elif e.what == "exhausted":
            began.pop(e.who, None)
    return start


def _by_batches(events: list[Event]) -> StepTable:
    starts: list[int] = []
    end = None
    for e in events:
        if e.what == "fetching":
            starts.append(e.turn)
            end = None
        elif e.what == "exhausted" and starts:
            end = starts.pop()
        elif e.what == "ended":
            end = e.turn
    return StepTable("batches", tuple(starts), end)


def _by_marks(events: list[Event]) -> StepTable:
    """Marks end steps. The first begins with the first batch, if the program fetches any before its first mark."""
    marks = [e.turn for e in events if e.what == "marked"]
    first = next((e.turn for e in events if e.what == "fetching" and e.turn < marks[0]), 0)
    return StepTable("marks", (first, *marks[:-1]), marks[-1])
