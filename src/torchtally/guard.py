"""Order between threads and between streams: what one reads is never half of what another writes, and nobody waits for a device."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor

_Stream = torch.cuda.Stream  # the real one, also while another is pretended
_stream_id: Any = getattr(torch._C, "_cuda_getCurrentStream", None)

Method = TypeVar("Method", bound=Callable[..., Any])


class Guard(type(threading.RLock())):  # type: ignore[misc]  # the class has no public name
    """A lock that is copied and pickled as a new one. Held while totals are written or taken, never while ranks are waited for."""

    def __reduce__(self) -> Any:
        return Guard, ()


def guarded(method: Method) -> Method:
    """One thread at a time in such methods of a metric, or of a collection and its members."""

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # locks cannot be traced
            return method(self, *args, **kwargs)
        with self._guard:
            return method(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]  # the same signature


def stream_of(device: torch.device) -> Any:
    """The stream that takes what is asked of a device now; None where there are no streams."""
    return torch.cuda.current_stream(device) if device.type == "cuda" and torch.cuda.is_available() else None


def follow(before: Any, device: torch.device, held: Callable[[], Iterable[Any]]) -> Any:
    """Let the current stream of a device wait for another, `before`, that has used what is `held`; returns the current one.

    The device waits, not the host. Memory that is held stays reserved until the current stream, too, is done with it. A capture is left
    alone: it may not wait for streams outside.
    """
    if type(before) is _Stream and _stream_id(device.index)[0] == before.stream_id:
        return before  # the same as below, in a tenth of the time
    now = torch.cuda.current_stream(device)
    if now == before or torch.cuda.is_current_stream_capturing():
        return before
    if before is not None:
        now.wait_stream(before)
        for x in held():
            if isinstance(x, Tensor) and x.is_cuda:
                x.record_stream(now)
    return now
