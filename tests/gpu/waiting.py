"""What makes the host wait for the GPU of this machine, told by torch's own signs and by nothing of torchtally."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.cuda import _gpu_trace

SIGN = "called a synchronizing CUDA operation"


def _set_mode(mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says of itself that it is a prototype
        torch.cuda.set_sync_debug_mode(mode)


class Waits:
    """How often the host waited while `counted`: by torch's synchronisation warning or its GPU trace, whichever says more.

    A warning misses device and event waits, the trace misses waits inside thrust and MAGMA.
    """

    def __init__(self) -> None:
        self.seen = self._traced = 0
        _gpu_trace.register_callback_for_stream_synchronization(lambda stream: self._add())
        _gpu_trace.register_callback_for_event_synchronization(lambda event: self._add())
        _gpu_trace.register_callback_for_device_synchronization(self._add)
        torch._C._activate_gpu_trace()

    def _add(self) -> None:
        self._traced += 1

    @contextmanager
    def counted(self) -> Iterator[Waits]:
        """Count the waits inside into `seen`."""
        torch.cuda.synchronize()
        self._traced = 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _set_mode("warn")
            try:
                yield self
            finally:
                _set_mode("default")
                self.seen = max(self._traced, sum(SIGN in str(w.message) for w in caught))

    @contextmanager
    def none(self) -> Iterator[None]:
        """Raise at the first line that waits."""
        torch.cuda.synchronize()
        self._traced = 0
        _set_mode("error")
        try:
            yield
        finally:
            _set_mode("default")
        assert not self._traced, f"the GPU trace tells of {self._traced} waits"
