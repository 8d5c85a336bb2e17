"""Trace events as records of a timeline: which ones matter, and what their fields mean in each era."""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..timeline import CallKind, Draft, Rows, Timeline
from . import names
from .events import Event

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,12})")
_ODD = (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error)
FAR_US = 30 * 86400e6
"""An event a month from all others has a damaged time."""
EPOCH_US = 1e15
"""Times above are microseconds since 1970; below, since the file's own base."""
LATEST_US = 1e17
"""No clock of any era shows more."""
NEVER = float("nan")


def memory_left() -> int | None:
    """Bytes this machine can still give, or None where that is not known."""
    try:
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


class Lanes(dict[tuple[Any, Any], int]):
    """Host threads by process and thread as the file writes them: 2021 wrote one thread as 77 and as "77"."""

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self.draft = draft
        self.process: int | None = None

    def __missing__(self, key: tuple[Any, Any]) -> int:
        pid, tid = whole(key[0], 0), whole(key[1], 0)
        if self.process is None:
            self.process = pid
        label = f"thread {tid}" if pid in (self.process, 0) else f"process {pid}, thread {tid}"
        self[key] = lane = self.draft.lane(label, process=pid)
        return lane


def whole(value: Any, otherwise: int = -1) -> int:
    """The integer in what a file gives for one: 7, "7", 7.0, "stream 7"; `otherwise` where there is none or it has more than 63 bits."""
    if isinstance(value, str):
        found = re.search(r"-?\d{1,20}", value)
        value = int(found[0]) if found else otherwise
    try:
        value = int(value)
    except _ODD:
        return otherwise
    return value if -(1 << 63) <= value < 1 << 63 else otherwise


def number(value: Any) -> float:
    """A time, also where the file has it as text."""
    return value if isinstance(value, int | float) else float(value)


class Records:
    """Takes the events of one file and makes a timeline of those that matter."""

    def __init__(self, source: str) -> None:
        self.draft = Draft(source)
        self.base_ns: int | None = None
        self.seen = 0
        self._zero: float | None = None
        self._lanes = Lanes(self.draft)
        self._device_lanes: dict[tuple[Any, ...], int] = {}
        self._open: dict[tuple[int, int], list[Event]] = defaultdict(list)
        self._flows = Rows(id="i8")  # with other meanings: end_us is 0 where the arrow leaves and 1 where it lands, name is 1 for backward
        self._unreadable = self._endless = 0
        self._handlers: dict[Any, Callable[[Event, float, float], Any]] = {
            **dict.fromkeys(names.OPERATORS, self._operator),
            **dict.fromkeys(names.REGIONS, self._region),
            **dict.fromkeys(names.FRAMES, self._frame),
            **dict.fromkeys(names.CALLS, self._call),
            **dict.fromkeys(names.WORK, self._work),
            **dict.fromkeys(names.SYNCS, self._sync),
        }

    @property
    def size(self) -> int:
        """Bytes held, roughly."""
        tables = (self.draft.calls, self.draft.operators, self.draft.frames, self.draft.regions, self.draft.device_work, self._flows)
        return sum(len(t.packed) for t in tables) + 150 * len(self.draft.names)

    def take(self, events: list[Event]) -> None:
        """Keep what matters of these events."""
        handlers = self._handlers
        zero = self._zero
        for event in events:
            try:
                if event["ph"] == "X":
                    handler = handlers.get(event.get("cat"))
                    if handler is not None:
                        start = event["ts"] - zero
                        handler(event, start, start + event["dur"])
                        self.seen += 1
                else:
                    self._other(event)
            except _ODD:
                self._odd(event)
                zero = self._zero

    def _odd(self, event: Any) -> None:
        """Once more, with fields of the wrong type put right."""
        if not isinstance(event, dict) or "ph" not in event:
            return  # no event: Chrome's format allows what its viewers do not know
        try:
            start = number(event["ts"])
            if not abs(start) < LATEST_US:  # NaN too: nothing could be told from it
                raise ValueError
            if self._zero is None:
                self._zero = float(int(start))
            args = event.get("args")
            args = (
                {k: whole(v) if isinstance(v, float | int) or k in _LINKS else v for k, v in args.items()} if isinstance(args, dict) else {}
            )
            event = {**event, "ts": start, "args": args, "name": str(event.get("name", ""))}
            event["pid"], event["tid"] = whole(event.get("pid"), 0), whole(event.get("tid"), 0)
            if event["ph"] == "X" and event.get("dur") is None:
                self._endless += 1
                event["dur"] = NEVER
            if event["ph"] == "X":
                event["dur"] = number(event["dur"])
                handler = self._handlers.get(event.get("cat"))
                if handler is not None:
                    offset = start - (self._zero or 0.0)
                    handler(event, offset, offset + event["dur"])
                    self.seen += 1
            else:
                self._other(event)
        except _ODD:
            self._unreadable += 1

    def _operator(self, event: Event, start: float, end: float) -> None:
        name = event["name"]
        args = event.get("args") or _NOTHING
        if names.OLD_REGION.match(name):
            self._region(event, start, end)
            return
        text = self.draft.text
        external = args.get("External id", -1)
        stack = args.get("Call stack")
        backward = args.get("Fwd thread id", 0) != 0
        self.draft.operators.add(
            start,
            end,
            text(name),
            self._lanes[event["pid"], event["tid"]],
            external,
            args.get("Sequence number", -1),
            backward,
            text(stack) if stack else -1,
        )

    def _region(self, event: Event, start: float, end: float) -> None:
        self.draft.region(event["name"], self._lanes[event["pid"], event["tid"]], start, end)

    def _frame(self, event: Event, start: float, end: float) -> None:
        name = event["name"]
        if name[:1] == "<":
            name = _ADDRESS.sub("", name)
        args = event.get("args") or _NOTHING
        text = self.draft.text
        caller = args.get("CallFrom")
        self.draft.frames.add(start, end, text(name), self._lanes[event["pid"], event["tid"]], text(caller) if caller else -1)

    def _call(self, event: Event, start: float, end: float) -> None:
        name = event["name"]
        args = event.get("args") or _NOTHING
        external = args.get("External id")
        if external is None:
            external = args.get("external id", -1)
        lane = self._lanes[event["pid"], event["tid"]]
        self.draft.calls.add(start, end, self.draft.text(name), lane, names.call_kind(name), args.get("correlation", -1), external)

    def _work(self, event: Event, start: float, end: float) -> None:
        name = event["name"]
        args = event.get("args") or _NOTHING
        lane = self._device_lane(event, args)
        self.draft.device_work.add(
            start, end, self.draft.text(name), lane, names.work_kind(event["cat"], name), args.get("correlation", -1)
        )

    def _sync(self, event: Event, start: float, end: float) -> None:
        name = event["name"]
        args = event.get("args") or _NOTHING
        if name in names.SYNC_RECORDS or str(args.get("Type", "")).startswith("HOST"):
            device = whole(args.get("device", event.get("pid")), 0)
            lane = self.draft.lane(f"device {device}, waits of the host", device=device)
            self.draft.call(name, lane, start, end, CallKind.SYNC_RECORD, whole(args.get("correlation")))

    def _device_lane(self, event: Event, args: dict[str, Any]) -> int:
        key = (args.get("device", event["pid"]), args.get("stream", event["tid"]))
        if key not in self._device_lanes:
            device, stream = whole(key[0], 0), whole(key[1], 0)
            self._device_lanes[key] = self.draft.lane(f"device {device}, stream {stream}", device=device, stream=stream)
        return self._device_lanes[key]

    def _other(self, event: Event) -> None:
        phase = event["ph"]
        if phase in ("s", "f"):
            category = event.get("cat")
            if category in names.LAUNCH_FLOWS or category in names.BACKWARD_FLOWS:
                start = event["ts"] - (self._zero or 0.0)
                self._flows.add(start, phase == "f", category in names.BACKWARD_FLOWS, _row((0, event["tid"])), whole(event["id"]))
        elif phase == "B":
            self._open[whole(event.get("pid"), 0), whole(event.get("tid"), 0)].append(event)
        elif phase == "E" and (begun := self._open[whole(event.get("pid"), 0), whole(event.get("tid"), 0)]):
            begin = begun.pop()
            self.take(
                [
                    {**begin, **event, "cat": begin.get("cat"), "name": begin.get("name"), "ph": "X", "ts": begin["ts"]}
                    | self._lasting(begin, event)
                ]
            )

    @staticmethod
    def _lasting(begin: Event, end: Event) -> Event:
        return {"dur": number(end["ts"]) - number(begin["ts"]), "args": {**(begin.get("args") or {}), **(end.get("args") or {})}}

    def timeline(self) -> Timeline:
        """The timeline of all events taken."""
        draft = self.draft
        for begun in self._open.values():
            self.take([{**event, "ph": "X", "dur": None} for event in begun])
        self._mend_times()
        self._join_by_flows()
        self._drop_repeated()
        by_index = list(draft.names)
        for row in draft.regions.array():
            if found := _STEP.match(by_index[row["name"]]):
                draft.step(int(found[1]), float(row["start_us"]), float(row["end_us"]))
        if self._unreadable:
            draft.notes.append(f"{self._unreadable:,} events have fields that make no sense and are missing")
        draft.zero_us = self._zero or 0.0
        zero_ns = int(draft.zero_us * 1000)
        if self.base_ns is not None:
            draft.origin_ns = self.base_ns + zero_ns
        elif zero_ns > EPOCH_US * 1000:
            draft.origin_ns = zero_ns
        return draft.timeline()

    def _mend_times(self) -> None:
        """Times that cannot be: not finite, a month away, an end before the start, no end at all."""
        draft = self.draft
        tables = (draft.calls, draft.operators, draft.frames, draft.regions, draft.device_work)
        starts = np.concatenate([t.array()["start_us"] for t in tables])
        starts = starts[np.isfinite(starts)]
        middle = float(np.median(starts)) if len(starts) else 0.0
        last = max((float(t.array()["end_us"][np.isfinite(t.array()["end_us"])].max(initial=middle)) for t in tables), default=middle)
        impossible = backwards = 0
        for table in tables:
            rows = table.array().copy()
            ends = rows["end_us"]
            endless = np.isnan(ends)
            ends[endless] = (
                np.maximum(rows["start_us"], last)[endless] if table in (draft.frames, draft.regions) else rows["start_us"][endless]
            )
            good = np.isfinite(rows["start_us"]) & np.isfinite(ends)
            good &= (np.abs(rows["start_us"] - middle) < FAR_US) & (np.abs(ends - middle) < FAR_US)
            reversed_ = good & (ends < rows["start_us"])
            ends[reversed_] = rows["start_us"][reversed_]
            impossible += int((~good).sum())
            backwards += int(reversed_.sum())
            if endless.any() or reversed_.any() or not good.all():
                table.keep(rows[good])
        for count, what in (
            (impossible, "lie at impossible times and are missing"),
            (backwards, "end before they start and count as points in time"),
        ):
            if count:
                draft.notes.append(f"{count:,} events {what}")
        if self._endless:
            draft.notes.append(
                f"{self._endless:,} events have no end: regions and functions last to the end of the file, others are points in time"
            )

    def _join_by_flows(self) -> None:
        """Some files have lost the fields that join records; the arrows drawn between them tell the same."""
        draft = self.draft
        flows = self._flows.array()
        launches, gradients = flows[flows["name"] == 0], flows[flows["name"] == 1]
        threads = {lane: _row(key) for key, lane in self._lanes.items()}
        streams = {lane: _row(key) for key, lane in self._device_lanes.items()}
        calls, work, operators = draft.calls.array(), draft.device_work.array(), draft.operators.array()
        if len(launches) and len(work) and (work["link"] < 0).all():
            work["link"] = _flow_at(launches[launches["end_us"] == 1], work, streams)
        if len(launches) and len(calls) and (calls["link"] < 0).all():
            calls["link"] = _flow_at(launches[launches["end_us"] == 0], calls, threads)
        if len(gradients) and len(operators) and (operators["sequence"] < 0).all():
            forward = _flow_at(gradients[gradients["end_us"] == 0], operators, threads)
            backward = _flow_at(gradients[gradients["end_us"] == 1], operators, threads)
            operators["backward"] = backward >= 0
            operators["sequence"] = np.where(backward >= 0, backward, forward)

    def _drop_repeated(self) -> None:
        """Some files hold records twice."""
        draft = self.draft
        for table, what in ((draft.calls, "runtime calls"), (draft.device_work, "records of device work"), (draft.regions, "regions")):
            rows = table.array()
            columns = [
                rows[name] for name in ("lane", "name", "end_us", "start_us", *(["link"] if "link" in (rows.dtype.names or ()) else []))
            ]
            order = np.lexsort(columns)
            repeated = np.ones(max(0, len(rows) - 1), dtype=bool)
            for column in columns:
                repeated &= column[order[1:]] == column[order[:-1]]
            if count := int(repeated.sum()):
                kept = np.ones(len(rows), dtype=bool)
                kept[order[1:][repeated]] = False
                table.keep(rows[kept])
                draft.notes.append(f"{count:,} {what} are in the file twice and count once")


def _row(key: tuple[Any, Any]) -> int:
    """A thread or stream in the 31 bits that a flow's record has for it."""
    return whole(key[1], 0) & 0x7FFFFFFF


def _flow_at(flows: Any, rows: Any, row_of: dict[int, int]) -> NDArray[np.int64]:
    """For each of `rows` the id of the flow that touches it where it starts, or -1."""
    ids = {(flow["lane"], flow["start_us"]): flow["id"] for flow in flows}
    return np.array([ids.get((row_of.get(int(row["lane"])), row["start_us"]), -1) for row in rows], dtype=np.int64)


_NOTHING: dict[str, Any] = {}
_LINKS = frozenset({"correlation", "External id", "external id", "Sequence number", "Fwd thread id", "device", "stream"})
