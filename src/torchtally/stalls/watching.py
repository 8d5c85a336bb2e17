"""Learns a running program's steps by listening to its optimisers, data loaders and loops; ends it after as many as asked for."""

from __future__ import annotations

import ast
import gc
import linecache
import sys
import threading
import weakref
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType, TracebackType
from typing import Any, NoReturn

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from .ownership import Owner, Ownership
from .steps import Loop, StepLog


class EnoughSteps(SystemExit):
    """Ends the program once it has made the steps asked for. A SystemExit of code 0, so that child processes end cleanly too."""

    def __init__(self) -> None:
        super().__init__(0)


_watching: list[StepWatch] = []  # several may be entered at once, and be left in any order
_lock = threading.Lock()
_fetch: Any = None  # the loaders' own `__next__`, while any watch is entered


def _watch_loaders(watch: StepWatch) -> None:
    global _fetch
    with _lock:
        if not _watching:
            _fetch = _BaseDataLoaderIter.__next__
            _BaseDataLoaderIter.__next__ = _fetch_watched  # type: ignore[assignment, method-assign]  # undone by `_leave_loaders`
        _watching.append(watch)


def _leave_loaders(watch: StepWatch) -> None:
    with _lock:
        _watching.remove(watch)
        if not _watching:
            _BaseDataLoaderIter.__next__ = _fetch  # type: ignore[method-assign]


def _fetch_watched(iterator: Any) -> Any:
    watches, fetch = list(_watching), _fetch
    for watch in watches:
        watch._fetching(iterator)
    try:
        return fetch(iterator)
    except StopIteration:
        for watch in watches:
            watch._exhausted(iterator)
        raise


class StepWatch:
    """While entered, writes into `log` what optimisers, loaders and loops do.

    `limit` raises EnoughSteps where the loop turns after that many steps, or one more batch is fetched in a program that only evaluates.
    `on_step(made)` is called after each optimiser step, and after each batch as long as nothing optimises.
    """

    def __init__(self, log: StepLog, ownership: Ownership, limit: int | None = None, on_step: Callable[[int], None] | None = None) -> None:
        self.log = log
        self.ownership = ownership
        self.limit = limit
        self.on_step = on_step
        self.made = 0
        self._batches = 0
        self._stepped: set[int] = set()
        self._before: set[int] = set()
        self._counted = False
        self._first_frames: list[tuple[FrameType, int]] = []
        self._earlier: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._thread = threading.get_ident()
        self._watched: dict[FrameType, Loop] = {}
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> StepWatch:
        if self.limit is not None:  # a whole program is watched: what was there before it began is none of its optimisers
            self._earlier = weakref.WeakSet(_optimisers())
        self._undo = [
            register_optimizer_step_pre_hook(self._before_optimising).remove,
            register_optimizer_step_post_hook(self._optimised).remove,
        ]
        _watch_loaders(self)
        self._undo.append(lambda: _leave_loaders(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop_tracing()
        self._first_frames.clear()
        for undo in self._undo:
            undo()

    def marked(self) -> None:
        """The program itself says that a step ends."""
        self.log.add("marked")
        self.made = sum(e.what == "marked" for e in self.log.events)
        self._tell()
        self._end_if_enough()

    def _before_optimising(self, optimiser: Optimizer, args: Any, kwargs: Any) -> None:
        if id(optimiser) in self._stepped:
            self._end_if_enough()

    def _optimised(self, optimiser: Optimizer, args: Any, kwargs: Any) -> None:
        who = id(optimiser)
        self._thread = threading.get_ident()
        frames = self._user_frames()
        if who in self._stepped:
            if not self._counted:  # fewer optimisers than in the step before
                self._count()
            self._before, self._stepped, self._counted = self._stepped, set(), False
            self._settle(frames)
        elif not self._stepped and not self._first_frames and not self.log.settled:
            self._first_frames = frames
            self.log.loop = next((found for frame, line in frames if (found := loop_around(frame.f_code, line))), None)
        self._stepped.add(who)
        self.log.add("optimised", who)
        if not self._counted and len(self._stepped) >= len(self._before):
            self._count()
        self._watch_loops(frames)

    def _count(self) -> None:
        self._counted = True
        self.made += 1
        self._tell()

    def _settle(self, frames: list[tuple[FrameType, int]]) -> None:
        """The training loop is the one around both of the first two steps, in the innermost function that ran through both."""
        if self.log.settled:
            return
        first = dict(self._first_frames)
        for frame, line in frames:
            if frame in first:
                self.log.loop = loop_around(frame.f_code, line, first[frame]) or self.log.loop
                break
        self.log.settled = True
        self._first_frames = []

    def _fetching(self, iterator: Any) -> None:
        if threading.get_ident() != self._thread:  # a thread that prefetches says nothing about the loop
            return
        self._stop_tracing()
        self._end_if_enough()
        if self.limit is not None and self._batches >= self.limit and self._only_evaluates():
            self._end()
        self._batches += 1
        self.log.add("fetching", id(iterator))
        if not self._stepped:
            self._tell()

    def _only_evaluates(self) -> bool:
        """Whether batches are all there is to count: gradients are off and the program has made no optimiser, so this is not the warm-up of a training."""
        return not self._stepped and not torch.is_grad_enabled() and all(o in self._earlier for o in _optimisers())

    def _exhausted(self, iterator: Any) -> None:
        if threading.get_ident() == self._thread:
            self._batches -= 1
            self.log.add("exhausted", id(iterator))

    def _turned(self) -> None:
        self._stop_tracing()
        self.log.add("turned")
        self._end_if_enough()

    def _end_if_enough(self) -> None:
        if self.limit is not None and self.made >= self.limit:
            self._end()

    def _end(self) -> NoReturn:
        self.log.add("ended")  # what the program does on its way out is in no step
        raise EnoughSteps

    def _tell(self) -> None:
        if self.on_step is not None:
            self.on_step(self.made or self._batches)

    def _user_frames(self) -> list[tuple[FrameType, int]]:
        frames = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self.ownership(frame.f_code.co_filename) is Owner.USER:
                frames.append((frame, frame.f_lineno))
            frame = frame.f_back
        return frames

    def _watch_loops(self, frames: list[tuple[FrameType, int]]) -> None:
        """Trace only the functions now running that hold the loop, only until it turns: everything else stays at full speed."""
        if sys.gettrace() is not None and not self._watched:  # a debugger or coverage is at work; loaders and optimisers must do
            return
        self._stop_tracing()
        known = self.log.loop if self.log.settled else None
        for frame, line in frames:
            if (known is None or frame.f_code is known.code) and (loop := loop_around(frame.f_code, line)) is not None:
                self._watched[frame] = known or loop
                frame.f_trace = self._trace
        if self._watched:
            sys.settrace(_trace_nothing_new)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        loop = self._watched.get(frame)
        if loop is None:
            return None
        left = event == "line" and not loop.statement <= frame.f_lineno <= loop.last
        if left or (event == "return" and len(self._watched) == 1):
            self._turned()
            return None
        if event == "return":
            del self._watched[frame]
        return self._trace

    def _stop_tracing(self) -> None:
        if self._watched:
            for frame in self._watched:
                frame.f_trace = None
            self._watched.clear()
            sys.settrace(None)


def _optimisers() -> list[Optimizer]:
    return [o for o in gc.get_objects() if issubclass(type(o), Optimizer)]


def _trace_nothing_new(frame: FrameType, event: str, argument: Any) -> None:
    return None


def loop_around(code: CodeType, *lines: int) -> Loop | None:
    """The innermost loop of a function around all the lines, if its source can be read."""
    around = [
        (first, last)
        for first, last in _spans(code.co_filename)[0]
        if first >= code.co_firstlineno and all(first <= line <= last for line in lines)
    ]
    if not around:
        return None
    first, last = max(around)
    statement = min((s for s, end in _spans(code.co_filename)[1] if first < s <= lines[0] <= end), default=lines[0])
    return Loop(code, first, last, statement)


@lru_cache(maxsize=256)
def _spans(file: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """First and last lines of every loop, and of every statement, of a source file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return [], []
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]
    loops = [(n.lineno, n.end_lineno or n.lineno) for n in nodes if isinstance(n, (ast.For, ast.AsyncFor, ast.While))]
    return loops, [(n.lineno, n.end_lineno or n.lineno) for n in nodes]
