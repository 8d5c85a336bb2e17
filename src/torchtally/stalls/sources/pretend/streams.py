"""Streams and events. Work on the pretend device is done as soon as it is asked for, so that they are never behind."""

from __future__ import annotations

import itertools
import time
from typing import Any

import torch

from .memory import class_of
from .session import STATE, index_of_device, tell

_numbers = itertools.count(1)


class Stream:
    """Stands for `torch.cuda.Stream`."""

    def __init__(self, device: Any = None, priority: int = 0, **rest: Any) -> None:
        self.device_index = index_of_device(device)
        self.priority = priority
        self.stream_id = rest.get("stream_id", next(_numbers) << 5)
        self.device_type = 1

    @property
    def device(self) -> torch.device:
        return class_of(self.device_index).device

    @property
    def cuda_stream(self) -> int:
        return int(self.stream_id)

    def wait_event(self, event: Event) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        tell("torch.cuda.Stream.synchronize", (self,))

    def is_capturing(self) -> bool:
        return STATE.graph is not None

    def native_handle(self) -> int:
        return int(self.stream_id)

    def __enter__(self) -> Stream:
        self._before = (STATE.index, current_stream(self.device_index))
        STATE.index = self.device_index
        set_stream(self)
        return self

    def __exit__(self, *error: Any) -> None:
        STATE.index, before = self._before
        STATE.streams[before.device_index] = before

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device_index, self.stream_id) == (other.device_index, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.stream_id:#x}>"


class ExternalStream(Stream):
    """Stands for `torch.cuda.ExternalStream`."""

    def __init__(self, stream_ptr: int, device: Any = None, **rest: Any) -> None:
        super().__init__(device, stream_id=stream_ptr)


class Event:
    """Stands for `torch.cuda.Event`."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False, **rest: Any) -> None:
        self.enable_timing = enable_timing
        self.at: float | None = None
        self.device: torch.device | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.at = time.perf_counter()
        self.device = (stream or current_stream()).device

    def wait(self, stream: Stream | None = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        tell("torch.cuda.Event.synchronize", (self,))

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds of the host's clock between two events."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.at is None or end_event.at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return max(end_event.at - self.at, 1e-6) * 1e3

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {'uninitialized' if self.at is None else 'recorded'}>"


def default_stream(device: Any = None) -> Stream:
    return Stream(device, stream_id=0)


def current_stream(device: Any = None) -> Stream:
    index = index_of_device(device)
    stream: Stream | None = STATE.streams.get(index)
    return default_stream(index) if stream is None else stream


def set_stream(stream: Stream | None) -> None:
    """Make a stream, and its device, the current ones."""
    if stream is not None:
        STATE.index = stream.device_index
        STATE.streams[stream.device_index] = stream


class StreamContext:
    """Stands for `torch.cuda.stream(stream)`."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)
