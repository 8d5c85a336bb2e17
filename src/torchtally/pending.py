"""Results on their way to the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .distributed import Flights
from .faults import Fault, report
from .transfer import to_host


@dataclass
class Unfinished:
    """A result of which the rest is done on the host, once it is there."""

    value: Tensor
    finish: Callable[[Tensor], Any]


def finished(value: Any) -> Any:
    """The same nest with what is unfinished done here and now."""
    return pytree.tree_map(lambda x: x.finish(x.value) if isinstance(x, Unfinished) else x, value)


class Pending:
    """Results being copied to the host: `ready`, `result(timeout)`, `then(callback)`. On the CPU they are ready at once.

    `result()` gives Python numbers for single values and CPU tensors for the rest, in full precision, and raises `FaultError`
    or warns where values were kept out.
    """

    def __init__(self, values: Any, faults: list[tuple[str, Fault]]) -> None:
        self._prepare()
        self._begin(values, faults)

    @classmethod
    def after(cls, flights: Flights, evaluate: Callable[[Any], tuple[Any, list[tuple[str, Fault]]]]) -> Pending:
        """Results of totals that other ranks have yet to send; `evaluate` makes values and faults of them when they have come."""
        new = cls.__new__(cls)
        new._prepare()
        new._flights, new._evaluate = flights, evaluate
        return new

    def _prepare(self) -> None:
        self._flights: Flights | None = None
        self._evaluate: Any = None
        self._events: list[Any] = []
        self._result: Any = None
        self._done = False
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[Any], None]] = []

    def _arrive(self, deadline: float | None) -> None:
        """Turn what other ranks sent into values, and start the copy to the host."""
        flights = self._flights
        if flights is not None:
            totals = flights.outcome(deadline)
            with torch.no_grad():
                self._begin(*self._evaluate(totals))
            self._flights = self._evaluate = None

    def _begin(self, values: Any, faults: list[tuple[str, Fault]]) -> None:
        self._faults = [(name, fault) for name, fault in faults]
        leaves, self._tree = pytree.tree_flatten(values)
        counts = [x for _, f in faults for x in (f.count, f.first)]
        self._on_host = {i: x.finish for i, x in enumerate(leaves) if isinstance(x, Unfinished)}
        leaves = [x.value if isinstance(x, Unfinished) else x for x in leaves]
        self._leaves, self._events = to_host([*leaves, *counts])
        self._cut = len(leaves)

    @property
    def ready(self) -> bool:
        """Whether the results have arrived; asking does not wait."""
        with self._lock:
            return self._ready()

    def _ready(self) -> bool:
        if self._flights is not None:
            if not self._flights.ready:
                return False
            if self._flights.failed is not None:
                return True  # `result` says so
            self._arrive(None)
        arrived = all(e.query() for e in self._events)
        if arrived and self._callbacks:
            self.result()
        return arrived

    def result(self, timeout: float | None = None) -> Any:
        """The results; waits for them for at most `timeout` seconds, then raises TimeoutError."""
        with self._lock:
            return self._finish(None if timeout is None else time.monotonic() + timeout)

    def _finish(self, deadline: float | None) -> Any:
        if not self._done:
            self._arrive(deadline)
            self._wait(deadline)
            host = [_plain(self._on_host[i](x) if i in self._on_host else x) for i, x in enumerate(self._leaves)]
            counts = [int(x) for x in host[self._cut :]]
            self._result = pytree.tree_unflatten(host[: self._cut], self._tree)
            self._leaves, self._done, self._events = [], True, []
            callbacks, self._callbacks = self._callbacks, []
            self._counts = counts
            self._report()
            for callback in callbacks:
                callback(self._result)
        else:
            self._report()
        return self._result

    def _report(self) -> None:
        by_name: dict[str, list[tuple[Fault, int, int]]] = {}
        for (name, fault), count, first in zip(self._faults, self._counts[::2], self._counts[1::2]):
            by_name.setdefault(name, []).append((fault, count, first))
        for name, found in by_name.items():
            report(name, found, self._result)

    def _wait(self, deadline: float | None) -> None:
        if deadline is None:
            for event in self._events:
                event.synchronize()
            return
        while not all(e.query() for e in self._events):
            if time.monotonic() > deadline:
                raise TimeoutError("results did not arrive in time; the device is still at work. Ask again, or wait longer.")
            time.sleep(0.0005)

    def then(self, callback: Callable[[Any], None]) -> Pending:
        """Call `callback(result)` once the results have arrived and somebody asks (`ready` or `result`); at once if they are here."""
        if self._done:
            callback(self._result)
        else:
            self._callbacks.append(callback)
            if not self._events and self._flights is None:
                self.result()
        return self


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) and x.numel() == 1 and x.ndim == 0 else x
