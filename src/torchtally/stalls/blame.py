"""Which line, metric and region of the running program a wait is blamed on, from the frames that are on the stack while it waits."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from .ownership import Owner, Ownership
from .pretended import MOST_REGIONS, Opened
from .regions import LINE_PREFIX, METRIC_PREFIX

Line = tuple[CodeType, int]
"""A line of running code: cheap to keep, turned into a Site once the run is over."""

_ENGINE = torch.autograd.graph._engine_run_backward.__code__
_METRIC_BASES = ("Metric", "MetricCollection")
_METRIC_ROOTS = ("torchmetrics", "torcheval", "ignite", "torchtally")


@dataclass(slots=True)
class MetricName:
    """What a metric object is called: its class, and the name the program knows it by, once that is found (it may have none yet while it is being made)."""

    kind: str
    name: str | None = None
    looked: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


@dataclass(frozen=True, slots=True)
class Blame:
    """`own` is the user's innermost line, `inner` the innermost at all; `backward` is true where autograd's engine runs between the two."""

    own: Line | None
    inner: Line | None
    metric: MetricName | None
    backward: bool
    chain: tuple[Line, ...]
    """All the user's lines on the stack, innermost first."""


class Blamer:
    """Walks frames. It keeps nothing of a frame but its code and line, and of a metric but a weak reference and its name."""

    def __init__(self, ownership: Ownership) -> None:
        self.ownership = ownership
        self._kinds: dict[type, bool] = {}
        self._known: dict[int, tuple[Owner, bool, CodeType]] = {}  # by id, as hashing code reads all of it; held so that no id is used again
        self._names: dict[int, tuple[weakref.ref[Any], MetricName]] = {}

    def __call__(self, frame: FrameType | None) -> Blame:
        chain: list[Line] = []
        inner: Line | None = None
        backward = False
        metric: MetricName | None = None
        outermost_metrics: FrameType | None = None
        start = frame
        while frame is not None:
            code = frame.f_code
            owner, method, _ = self._known.get(id(code)) or self._learn(code)
            if owner is Owner.USER:
                chain.append((code, frame.f_lineno))
            elif owner is Owner.METRICS and not chain:
                outermost_metrics = frame
            elif code is _ENGINE and not chain:
                backward = True
            if method and metric is None and (found := self._metric_of(frame)) is not None:
                metric = self.name(found, frame)
            if inner is None and owner is not Owner.PLUMBING:
                inner = (code, frame.f_lineno)
            frame = frame.f_back
        if metric is None and outermost_metrics is not None:  # a functional form
            metric = MetricName(outermost_metrics.f_code.co_name)
        if not chain and start is not None and (caller := _caller_of_backward()) is not None:
            outside = self(caller)
            return Blame(outside.own, inner or outside.inner, metric or outside.metric, True, outside.chain)
        return Blame(chain[0] if chain else inner, inner, metric, backward, tuple(chain))

    def _learn(self, code: CodeType) -> tuple[Owner, bool, CodeType]:
        """Whose a function is, and whether it may be a metric's method. A torchmetrics method is wrapped: there `self` is a free variable."""
        owner = self.ownership(code.co_filename)
        has_self = (code.co_argcount > 0 and code.co_varnames[0] == "self") or "self" in code.co_freevars
        known = self._known[id(code)] = (owner, has_self and owner >= Owner.METRICS, code)
        return known

    def _metric_of(self, frame: FrameType) -> Any:
        """The metric whose method this frame runs, or None."""
        obj = frame.f_locals.get("self")
        return obj if obj is not None and self.is_metric(type(obj)) else None

    def is_metric(self, kind: type) -> bool:
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = any(
                base.__name__ in _METRIC_BASES and base.__module__.partition(".")[0] in _METRIC_ROOTS for base in kind.__mro__
            )
        return known

    def name(self, metric: Any, frame: FrameType) -> MetricName:
        """Its name, looked for on the stack: its key in a collection or dict, its attribute, or its variable. Later finds name earlier waits too."""
        known = self._names.get(id(metric))
        called = known[1] if known is not None and known[0]() is metric else MetricName(type(metric).__name__)
        if called.name is None and called.looked < _LOOKS:
            called.looked += 1
            called.name = self._look(metric, frame)
            try:
                self._names[id(metric)] = (weakref.ref(metric), called)
            except TypeError:  # a class with slots: looked up each time
                pass
        return called

    def _look(self, metric: Any, frame: FrameType) -> str | None:
        frames = list(_outwards(frame))
        own = [f for f in frames if self.ownership(f.f_code.co_filename) is Owner.USER]
        held = (name for f in frames if (name := _as_member(metric, f, f in own)) is not None)
        return next(held, None) or next((name for f in own if (name := _as_value(metric, f.f_locals)) is not None), None)


def _caller_of_backward() -> FrameType | None:
    """The frame that called `backward`, while a thread of autograd's engine has no Python frames of its own to blame."""
    for thread, frame in sys._current_frames().items():
        if thread == threading.get_ident():
            continue
        innermost: FrameType | None = frame
        while frame is not None:
            if frame.f_code is _ENGINE:
                return innermost
            frame = frame.f_back  # type: ignore[assignment]  # ends in None
    return None


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


_SAYS_NOTHING = ("self", "metric", "m", "base_metric")
_LARGEST_CONTAINER = 1000
_LOOKS = 20


def _as_member(metric: Any, frame: FrameType, own: bool) -> str | None:
    """Its attribute in, or key in a container of, the object whose method runs here; or its key in a container among the user's own variables."""
    names = frame.f_locals
    held = getattr(names.get("self"), "__dict__", {})
    for candidates in (held.get("_modules") or {}, held):
        if (found := _as_value(metric, candidates) or _as_item(metric, candidates)) is not None:
            return found
    return _as_item(metric, names) if own else None


def _as_value(metric: Any, names: dict[str, Any]) -> str | None:
    return next((str(k) for k, v in names.items() if v is metric and k not in _SAYS_NOTHING), None)


def _as_item(metric: Any, names: dict[str, Any]) -> str | None:
    for name, container in names.items():
        if issubclass(type(container), torch.nn.Module):
            container = container._modules
        if type(container) not in (dict, list, tuple) or len(container) > _LARGEST_CONTAINER:
            continue
        if type(container) is dict:
            found = _as_value(metric, container)
        else:
            found = next((f"{name}[{n}]" for n, v in enumerate(container) if v is metric), None)
        if found is not None:
            return found
    return None


class Regions:
    """The `record_function` regions that are open, per thread, learnt by standing in for its `__enter__` and `__exit__` while anyone records."""

    def __init__(self) -> None:
        self.closed: list[Opened] = []
        """The first of the regions that were open since the first user attached."""
        self._open = threading.local()
        self._users = 0
        self._lock = threading.Lock()
        self._originals: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def innermost(self) -> str | None:
        """The innermost that names a part of the program, not a line or a metric: those are blamed by themselves."""
        stack: list[str] = getattr(self._open, "names", None) or []
        return next((name for name in reversed(stack) if not name.startswith((LINE_PREFIX, METRIC_PREFIX))), None)

    def attach(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            closed: list[Opened] = []
            self.closed = closed
            record_function = torch.autograd.profiler.record_function
            enter, leave = self._originals = (record_function.__enter__, record_function.__exit__)
            opened = self._open

            def __enter__(this: Any) -> Any:
                opened.__dict__.setdefault("names", []).append(this.name)
                opened.__dict__.setdefault("began", []).append(time.perf_counter())
                return enter(this)

            def __exit__(this: Any, *exc: Any) -> Any:
                names = opened.__dict__.get("names")
                if names:
                    name, began = names.pop(), opened.began.pop()
                    if len(closed) < MOST_REGIONS:
                        closed.append(Opened(name, threading.current_thread().name, began, time.perf_counter()))
                return leave(this, *exc)

            record_function.__enter__, record_function.__exit__ = __enter__, __exit__  # type: ignore[method-assign]

    def detach(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._originals is not None:
                record_function = torch.autograd.profiler.record_function
                record_function.__enter__, record_function.__exit__ = self._originals  # type: ignore[method-assign]
                self._originals = None


REGIONS = Regions()
