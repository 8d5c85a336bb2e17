"""What one run did, in columns: host calls, operators, Python frames, regions, device work, steps.

A trace file, a live run and a pretend device all end in a `Timeline`. `Draft` collects one, record by record:

>>> draft = Draft("three records")
>>> main = draft.lane("thread 1")
>>> draft.call("cudaLaunchKernel", main, 0.0, 5.0, CallKind.LAUNCH, link=7)
>>> draft.work("gemm", draft.lane("stream 7", device=0, stream=7), 6.0, 96.0, WorkKind.KERNEL, link=7)
>>> timeline = draft.timeline()
>>> len(timeline.calls), timeline.work.end_us[0].item()
(1, 96.0)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Self = TypeVar("Self", bound="Spans")


class CallKind(IntEnum):
    """What a host call into the device's runtime does."""

    OTHER = 0
    LAUNCH = 1
    GRAPH_LAUNCH = 2
    COPY = 3
    """An asynchronous copy: it waits only if one end is pageable host memory."""
    BLOCKING_COPY = 4
    STREAM_SYNC = 5
    EVENT_SYNC = 6
    DEVICE_SYNC = 7
    ALLOCATE = 8
    FREE = 9
    SYNC_RECORD = 10
    """The profiler's second record of a wait that a host call shows as well; it lies on a device lane."""


class WorkKind(IntEnum):
    """What the device did. Copies are named by their ends; HOST is host memory of unknown kind."""

    KERNEL = 0
    MEMSET = 1
    COPY = 2
    HOST_TO_DEVICE = 3
    PAGEABLE_TO_DEVICE = 4
    PINNED_TO_DEVICE = 5
    DEVICE_TO_HOST = 6
    DEVICE_TO_PAGEABLE = 7
    DEVICE_TO_PINNED = 8


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline: a host thread (`device` is None) or a stream of a device."""

    label: str
    device: int | None = None
    stream: int | None = None
    process: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One training or evaluation step, as the run marked it."""

    number: int
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Spans:
    """Intervals in columns, in order of start. `name` and `lane` index `Timeline.names` and `Timeline.lanes`."""

    start_us: NDArray[np.float64]
    end_us: NDArray[np.float64]
    name: NDArray[np.int32]
    lane: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start_us)

    def take(self: Self, which: NDArray[Any]) -> Self:
        """The spans that a mask or an array of positions picks."""
        return replace(self, **{f.name: getattr(self, f.name)[which] for f in fields(self)})


@dataclass(frozen=True)
class Calls(Spans):
    """Calls into the device's runtime. `link` joins a call to the device work it started, `external` to its operator; -1 is none."""

    kind: NDArray[np.int8]
    link: NDArray[np.int64]
    external: NDArray[np.int64]


@dataclass(frozen=True)
class Work(Spans):
    """What the device did, on its streams."""

    kind: NDArray[np.int8]
    link: NDArray[np.int64]


@dataclass(frozen=True)
class Operators(Spans):
    """Operators as the host ran them. A backward operator has the `sequence` of its forward one; `stack` (index of names, -1 none) is a recorded call stack."""

    external: NDArray[np.int64]
    sequence: NDArray[np.int64]
    backward: NDArray[np.int8]
    stack: NDArray[np.int32]


@dataclass(frozen=True)
class Frames(Spans):
    """Python functions. `name` reads `file(line): function`; `called_from` (index of names, -1 none) reads `file:line`, the caller's line."""

    called_from: NDArray[np.int32]


@dataclass(frozen=True)
class Timeline:
    """One run of one rank. Time 0 is its first record; `origin_ns` is that moment since the Unix epoch, where known.

    `zero_us` is what the source's own clock showed at time 0: adding it leads back to the times of a trace file.
    """

    source: str
    rank: int
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    calls: Calls
    operators: Operators
    frames: Frames
    regions: Spans
    work: Work
    steps: tuple[Step, ...] = ()
    origin_ns: int | None = None
    devices: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    stacks_have_lines: bool = True
    """Whether call stacks recorded with operators tell the lines that ran, or those where functions begin."""
    zero_us: float = 0.0

    @property
    def end_us(self) -> float:
        """When the last record ends: the length of the run."""
        spans: tuple[Spans, ...] = (self.calls, self.operators, self.frames, self.regions, self.work)
        return max((float(s.end_us.max()) for s in spans if len(s)), default=0.0)

    def name(self, index: int) -> str:
        return "" if index < 0 else self.names[index]

    def lane_of(self, label: str) -> int:
        """The lane of that label, or -1."""
        return next((i for i, lane in enumerate(self.lanes) if lane.label == label), -1)


class Draft:
    """A timeline in the making. Records are packed rows from the start: a trace has millions, and as objects they would not fit."""

    def __init__(self, source: str, rank: int = 0) -> None:
        self.source, self.rank = source, rank
        self.names: dict[str, int] = {}
        self.lanes: list[Lane] = []
        self._lane_of: dict[str, int] = {}
        self.calls = Rows(kind="i1", link="i8", external="i8")
        self.operators = Rows(external="i8", sequence="i8", backward="i1", stack="i4")
        self.frames = Rows(called_from="i4")
        self.regions = Rows()
        self.device_work = Rows(kind="i1", link="i8")
        self.steps: list[Step] = []
        self.devices: tuple[str, ...] = ()
        self.origin_ns: int | None = None
        self.stacks_have_lines = True
        self.zero_us = 0.0
        self.notes: list[str] = []

    def text(self, name: str) -> int:
        """The index of a name."""
        return self.names.setdefault(name, len(self.names))

    def lane(self, label: str, device: int | None = None, stream: int | None = None, process: int | None = None) -> int:
        """The index of a lane; the label tells lanes apart."""
        if label not in self._lane_of:
            self._lane_of[label] = len(self.lanes)
            self.lanes.append(Lane(label, device, stream, process))
        return self._lane_of[label]

    def call(self, name: str, lane: int, start_us: float, end_us: float, kind: CallKind, link: int = -1, external: int = -1) -> None:
        self.calls.add(start_us, end_us, self.text(name), lane, kind, link, external)

    def operator(
        self,
        name: str,
        lane: int,
        start_us: float,
        end_us: float,
        external: int = -1,
        sequence: int = -1,
        backward: bool = False,
        stack: str = "",
    ) -> None:
        trace = self.text(stack) if stack else -1
        self.operators.add(start_us, end_us, self.text(name), lane, external, sequence, backward, trace)

    def frame(self, name: str, lane: int, start_us: float, end_us: float, called_from: str = "") -> None:
        self.frames.add(start_us, end_us, self.text(name), lane, self.text(called_from) if called_from else -1)

    def region(self, name: str, lane: int, start_us: float, end_us: float) -> None:
        self.regions.add(start_us, end_us, self.text(name), lane)

    def work(self, name: str, lane: int, start_us: float, end_us: float, kind: WorkKind, link: int = -1) -> None:
        self.device_work.add(start_us, end_us, self.text(name), lane, kind, link)

    def step(self, number: int, start_us: float, end_us: float) -> None:
        self.steps.append(Step(number, start_us, end_us))

    def timeline(self) -> Timeline:
        """The finished timeline: spans in order of start, the enclosing before the enclosed, time 0 at the first record."""
        tables = [rows.columns() for rows in (self.calls, self.operators, self.frames, self.regions, self.device_work)]
        starts = [float(t["start_us"][0]) for t in tables if len(t["start_us"])] + [s.start_us for s in self.steps]
        zero = min(starts, default=0.0)
        for t in tables:
            t["start_us"] -= zero
            t["end_us"] -= zero
        calls, operators, frames, regions, work = tables
        return Timeline(
            source=self.source,
            rank=self.rank,
            names=tuple(self.names),
            lanes=tuple(self.lanes),
            calls=Calls(**calls),
            operators=Operators(**operators),
            frames=Frames(**frames),
            regions=Spans(**regions),
            work=Work(**work),
            steps=tuple(Step(s.number, s.start_us - zero, s.end_us - zero) for s in sorted(self.steps, key=lambda s: s.start_us)),
            origin_ns=None if self.origin_ns is None else self.origin_ns + round(zero * 1000),
            devices=self.devices,
            notes=tuple(self.notes),
            stacks_have_lines=self.stacks_have_lines,
            zero_us=self.zero_us + zero,
        )


class Rows:
    """A growing table of intervals with further columns, packed row after row."""

    def __init__(self, **extra: str) -> None:
        self.dtype = np.dtype([("start_us", "f8"), ("end_us", "f8"), ("name", "i4"), ("lane", "i4"), *extra.items()])
        self.pack = struct.Struct("=ddii" + "".join({"i1": "b", "i4": "i", "i8": "q"}[code] for code in extra.values())).pack
        self.packed = bytearray()

    def add(self, *row: float) -> None:
        """Append a row whole or, where a value does not fit its column, not at all (struct.error)."""
        self.packed += self.pack(*row)

    def __len__(self) -> int:
        return len(self.packed) // self.dtype.itemsize

    def array(self) -> NDArray[Any]:
        """The rows as they are, to be changed in place; no row can be added while the array lives."""
        return np.frombuffer(self.packed, self.dtype)

    def keep(self, rows: NDArray[Any]) -> None:
        """Replace all rows."""
        self.packed = bytearray(rows.tobytes())

    def columns(self) -> dict[str, NDArray[Any]]:
        """One array per column, in order of start; of two rows that start together the longer comes first."""
        rows = self.array()
        start, end = rows["start_us"], rows["end_us"]
        if np.any(start[1:] < start[:-1]) or np.any((start[1:] == start[:-1]) & (end[1:] > end[:-1])):
            order = np.lexsort((-end, start))
            return {name: rows[name][order] for name in self.dtype.names or ()}
        return {name: rows[name].copy() for name in self.dtype.names or ()}
