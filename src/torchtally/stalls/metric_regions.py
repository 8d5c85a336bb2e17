"""A region around every `update`, `forward` and `compute` of every metric, while a profiler runs.

Metrics are found where they are, by the classes of torchmetrics and torchtally that the program has loaded: in the class tree, and among the living
objects those that carry methods of their own, as torchmetrics' do.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from torch.profiler import record_function

from .blame import Blamer
from .ownership import Ownership
from .regions import metric_region

METHODS = ("update", "forward", "compute")
_BASES = (("torchmetrics", "Metric"), ("torchmetrics", "MetricCollection"), ("torchtally", "Metric"), ("torchtally", "MetricCollection"))
_ABSENT = object()


class MetricRegions:
    """`with MetricRegions(): ...` marks the metrics of all threads. Marks may be nested; the innermost ones count."""

    def __init__(self) -> None:
        self._active = False
        self._undo: list[Callable[[], None]] = []
        self._blamer = Blamer(Ownership())
        self._inside = threading.local()

    def __enter__(self) -> MetricRegions:
        self._active = True
        bases = _loaded_bases()
        for cls in dict.fromkeys(c for base in bases for c in _descendants(base)):
            for name, member in list(vars(cls).items()):
                if isinstance(member, FunctionType) and member.__name__ in METHODS and name in (*METHODS, "__call__"):
                    self._replace(cls, name, member, self._method(member))
        for metric in _with_own_methods(bases):
            for name in METHODS:
                if callable(member := vars(metric).get(name)):
                    vars(metric)[name] = marked = self._bound(metric, name, member)
                    self._undo.append(functools.partial(_put_back, vars(metric), name, marked, member))
        return self

    def __exit__(self, *error: object) -> None:
        self._active = False
        while self._undo:
            self._undo.pop()()

    def _replace(self, cls: type, name: str, old: FunctionType, new: Callable[..., Any]) -> None:
        setattr(cls, name, new)

        def undo() -> None:
            if vars(cls).get(name) is new:
                setattr(cls, name, old)

        self._undo.append(undo)

    def _method(self, function: FunctionType) -> Callable[..., Any]:
        @functools.wraps(function)
        def method(self_: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self._call(self_, function.__name__, functools.partial(function, self_), args, kwargs)

        return method

    def _bound(self, metric: Any, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def bound(*args: Any, **kwargs: Any) -> Any:
            return self._call(metric, name, function, args, kwargs)

        return bound

    def _call(self, metric: Any, method: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """In a region, unless this metric's method calls itself: a class calling its base's, an object's own method calling its class's."""
        running: set[tuple[int, str]] = self._inside.__dict__.setdefault("running", set())
        key = (id(metric), method)
        if not self._active or key in running:
            return function(*args, **kwargs)
        running.add(key)
        try:
            with record_function(metric_region(str(self._blamer.name(metric, sys._getframe(2))), method)):
                return function(*args, **kwargs)
        finally:
            running.discard(key)


def _loaded_bases() -> tuple[type, ...]:
    found = (getattr(sys.modules.get(package), name, None) for package, name in _BASES)
    return tuple(base for base in found if isinstance(base, type))


def _descendants(cls: type) -> Iterator[type]:
    yield cls
    children: list[type] = type.__subclasses__(cls)
    for child in children:
        yield from _descendants(child)


def _with_own_methods(bases: tuple[type, ...]) -> list[Any]:
    """Living metrics that hold methods in themselves, made before their class was marked."""
    if not bases:
        return []
    found = []
    for thing in gc.get_objects():
        kind = type(thing)  # isinstance would ask the object, and some (proxies, lazy modules) act on being asked
        if any(base in kind.__mro__ for base in bases) and any(name in vars(thing) for name in METHODS):
            found.append(thing)
    return found


def _put_back(held: dict[str, Any], name: str, marked: object, member: object) -> None:
    if held.get(name, _ABSENT) is marked:
        held[name] = member
