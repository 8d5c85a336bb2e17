"""What a source tells of waits as they happen, turned into stalls with blame."""

from __future__ import annotations

import linecache
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import torch

from .allowing import allowed
from .blame import REGIONS, Blame, Blamer, Line
from .catalogue import Row
from .ownership import Ownership
from .pretended import host_timeline
from .price.clocks import Wait
from .price.meter import Meter
from .stall import Report, Site, Stall
from .steps import StepLog
from .timeline import Timeline
from .watching import StepWatch

_MOST_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class _Wait:
    """One wait as it was noted, cheap to make: lines become sites, and turns steps, when stalls are asked for."""

    row: Row
    operator: str
    blame: Blame
    region: str | None
    turn: int
    start_us: float
    inferred: bool
    thread: str


class Recorder:
    """Collects stalls. A source calls it with the row of the catalogue and the operator, once per wait, on the thread that waits.

    Enter it around the program: regions and steps are only learnt inside. `own` and `libraries` name packages or paths whose lines are,
    or are not, the user's own where the rules say otherwise. `limit` ends the program with EnoughSteps after that many steps.
    """

    def __init__(self, *, own: Sequence[str] = (), libraries: Sequence[str] = (), limit: int | None = None, on_step: Any = None) -> None:
        self.notes: list[str] = []
        self.device_work = False
        """Set by the source at the first work for the device."""
        self.meter: Meter | None = None
        """Set by a source that predicts times: they become those of the stalls."""
        self._ownership = Ownership(own, libraries)
        self._blamer = Blamer(self._ownership)
        self._log = StepLog()
        self._watch = StepWatch(self._log, self._ownership, limit, on_step)
        self._waits: list[_Wait] = []
        self._remembered: dict[int, Blame] = {}
        self._entered = 0
        self._paused = 0
        self._began = time.perf_counter()
        self._ended: float | None = None

    def __enter__(self) -> Recorder:
        if not self._entered:
            REGIONS.attach()
            self._watch.__enter__()
        self._entered += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._entered -= 1
        if not self._entered:
            self._watch.__exit__(kind, error, trace)
            REGIONS.detach()
            self._ended = time.perf_counter()

    def __call__(self, row: Row, operator: str) -> None:
        self.device_work = True
        if self._paused or allowed(threading.get_ident()):
            return
        blame = self._blamer(sys._getframe(1))
        region = REGIONS.innermost()
        inferred = False
        if blame.backward:
            node = torch._C._current_autograd_node()
            forward = self._remembered.get(node._sequence_nr()) if node is not None else None
            inferred = forward is None
            blame = forward or blame
            if region is None and node is not None:
                region = f"backward: {node.name()}"
        else:
            self._remember(blame)
        start_us = (time.perf_counter() - self._began) * 1e6
        self._waits.append(_Wait(row, operator, blame, region, self._log.turn, start_us, inferred, threading.current_thread().name))

    def remember(self, node: torch.autograd.graph.Node | None = None) -> None:
        """Keep the line that is running now for an autograd node whose backward may wait: the node just made, where none is given.

        Call it where an operator's forward runs. Operators that wait in their forward are remembered without.
        """
        self._remember(self._blamer(sys._getframe(1)), node)

    def _remember(self, blame: Blame, node: Any = None) -> None:
        if node is None and not torch.is_grad_enabled():
            return
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        # a node takes its number before its operator runs, so the last number given is its own. What reads a value makes no node: the first to come stays
        number = torch._C._autograd._get_sequence_nr() - 1 if node is None else node._sequence_nr()
        self._remembered.setdefault(number, blame)

    def step(self) -> None:
        """A step of the program ends here. Once called, optimisers and loaders no longer count."""
        self._watch.marked()

    def note(self, text: str) -> None:
        """What a reader must know, said once however often it happens."""
        if text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what waits inside."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    @property
    def count(self) -> int:
        """How many waits were found so far."""
        return len(self._waits)

    @property
    def steps(self) -> int | None:
        """Steps made so far; None where nothing tells steps apart."""
        return len(self._log.table().starts) or None

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Record inside, though paused."""
        before, self._paused = self._paused, 0
        try:
            yield
        finally:
            self._paused = before

    @property
    def stalls(self) -> list[Stall]:
        """What was found so far, in order."""
        table = self._log.table()
        sites: dict[tuple[int, int], Site] = {}
        found = [
            Stall(
                kind=w.row.kind,
                operator=w.operator,
                site=_site(w.blame.own, sites),
                inner=_site(w.blame.inner, sites),
                metric=str(w.blame.metric) if w.blame.metric else None,
                region=w.region,
                step=table.step_of(w.turn, w.blame.chain),
                start_us=w.start_us,
                inferred=w.inferred,
                remedy=w.row.remedy,
                thread=w.thread,
            )
            for w in self._waits
        ]
        return found if self.meter is None else [_timed(stall, self.meter.timed.get(number)) for number, stall in enumerate(found)]

    def timeline(self, source: str) -> Timeline:
        """Steps and regions so far, on the clock of the stalls' `start_us`."""
        ended = self._ended or time.perf_counter()
        return host_timeline(source, self._began, ended, self._log.spans(ended), list(REGIONS.closed))

    def report(self, source: str, tool: str = "check") -> Report:
        """Everything so far, for renderers."""
        tariff = self.meter.tariff if self.meter else None
        notes, predicted = (*self.notes, *([tariff.note()] if tariff else [])), tariff.price.name if tariff else None
        return Report(tool=tool, source=source, steps=self.steps, stalls=tuple(self.stalls), notes=notes, predicted=predicted)


def _timed(stall: Stall, wait: Wait | None) -> Stall:
    """A stall with the times a price list predicts; those of another thread have none."""
    if wait is None:
        return replace(stall, start_us=None)
    lag = None if wait.next_us is None else max(0.0, wait.next_us - wait.end_us)
    return replace(stall, start_us=wait.start_us, host_wait_us=wait.end_us - wait.start_us, device_idle_us=wait.idle_us, launch_lag_us=lag)


def _site(line: Line | None, known: dict[tuple[int, int], Site]) -> Site | None:
    if line is None:
        return None
    code, number = line
    key = (id(code), number)
    if key not in known:
        known[key] = Site(code.co_filename, number, code.co_name, linecache.getline(code.co_filename, number).strip())
    return known[key]
