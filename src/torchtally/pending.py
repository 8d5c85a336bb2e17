"""Results on their way to the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .faults import Fault, report


@dataclass
class Unfinished:
    """A result of which the rest is done on the host, once it is there."""

    value: Tensor
    finish: Callable[[Tensor], Any]


class Pending:
    """Results being copied to the host: `ready`, `result(timeout)`, `then(callback)`. On the CPU they are ready at once.

    `result()` gives Python numbers for single values and CPU tensors for the rest, in full precision, and raises `FaultError`
    or warns where values were kept out.
    """

    def __init__(self, values: Any, faults: list[tuple[str, Fault]]) -> None:
        self._faults = [(name, fault) for name, fault in faults]
        leaves, self._tree = pytree.tree_flatten(values)
        counts = [x for _, f in faults for x in (f.count, f.first)]
        self._finish = {i: x.finish for i, x in enumerate(leaves) if isinstance(x, Unfinished)}
        leaves = [x.value if isinstance(x, Unfinished) else x for x in leaves]
        self._event: Any = None
        self._leaves = _to_host([*leaves, *counts])
        self._cut = len(leaves)
        self._result: Any = None
        self._done = False
        self._callbacks: list[Callable[[Any], None]] = []
        devices = {x.device for x in [*leaves, *counts] if isinstance(x, Tensor) and x.is_cuda}
        if devices:
            self._event = [torch.cuda.Event() for _ in devices]
            for event, device in zip(self._event, devices):
                event.record(torch.cuda.current_stream(device))

    @property
    def ready(self) -> bool:
        """Whether the results have arrived; asking does not wait."""
        arrived = self._event is None or all(e.query() for e in self._event)
        if arrived and self._callbacks:
            self.result()
        return arrived

    def result(self, timeout: float | None = None) -> Any:
        """The results; waits for them for at most `timeout` seconds, then raises TimeoutError."""
        if not self._done:
            self._wait(timeout)
            host = [_plain(self._finish[i](x) if i in self._finish else x) for i, x in enumerate(self._leaves)]
            counts = [int(x) for x in host[self._cut :]]
            self._result = pytree.tree_unflatten(host[: self._cut], self._tree)
            self._leaves, self._done, self._event = [], True, None
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

    def _wait(self, timeout: float | None) -> None:
        if self._event is None:
            return
        if timeout is None:
            for event in self._event:
                event.synchronize()
            return
        end = time.monotonic() + timeout
        while not all(e.query() for e in self._event):
            if time.monotonic() > end:
                raise TimeoutError(f"results did not arrive within {timeout} s; the device is still at work. Ask again, or wait longer.")
            time.sleep(0.0005)

    def then(self, callback: Callable[[Any], None]) -> Pending:
        """Call `callback(result)` once the results have arrived and somebody asks (`ready` or `result`); at once if they are here."""
        if self._done:
            callback(self._result)
        else:
            self._callbacks.append(callback)
            if self._event is None:
                self.result()
        return self


def _to_host(leaves: list[Any]) -> list[Any]:
    """Start one copy per device and dtype to pinned memory; CPU tensors are cloned, so that nothing changes later."""
    out = list(leaves)
    packs: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for i, x in enumerate(leaves):
        if isinstance(x, Tensor):
            if x.is_cpu:
                out[i] = x.detach().clone()
            else:
                packs.setdefault((x.device, x.dtype), []).append(i)
    for (_, dtype), places in packs.items():
        flat = torch.cat([leaves[i].detach().reshape(-1) for i in places])
        host = torch.empty(flat.shape, dtype=dtype, pin_memory=True).copy_(flat, non_blocking=True)
        for i, part in zip(places, host.split([leaves[i].numel() for i in places])):
            out[i] = part.view(leaves[i].shape)
    return out


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) and x.numel() == 1 and x.ndim == 0 else x
