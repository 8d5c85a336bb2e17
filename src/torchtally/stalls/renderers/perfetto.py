"""A report as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing: the run, with a process "stalls" above it.

The run is written from its timeline or, where its own events are given, as these stand; only then are no other metadata carried over, because
traces in the wild hold secrets there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from ..stall import Report, Stall
from ..timeline import CallKind, Spans, Timeline, WorkKind
from .json import dumps
from .scene import offsets
from .wording import cause_of, place, visible

Event = dict[str, Any]

STALLS = 1_000_000_000
"""Process numbers of the stalls begin here: no system has so many."""
BLOCK = 10_000
WORK = {WorkKind.KERNEL: "kernel", WorkKind.MEMSET: "gpu_memset"}


def render(report: Report, timelines: Sequence[Timeline] = (), originals: Mapping[int, Iterable[list[Event]]] | None = None) -> bytes:
    """The whole trace. `originals` are the events of the files that the timelines were read from, by rank."""
    return b"".join(pieces(report, timelines, originals))


def pieces(report: Report, timelines: Sequence[Timeline] = (), originals: Mapping[int, Iterable[list[Event]]] | None = None) -> Iterator[bytes]:
    """The trace bit by bit: it may be larger than memory."""
    originals = originals or {}
    alone = len(timelines) == 1
    kept = alone and timelines[0].rank in originals  # such a file keeps its own clock
    origins = [t.origin_ns for t in timelines if t.origin_ns is not None]
    base = min(origins) - (round(timelines[0].zero_us * 1000) if kept else 0) if len(origins) == len(timelines) and origins else None
    head: Event = {"schemaVersion": 1, "displayTimeUnit": "ms"}
    if base is not None and base >= 0:
        head["baseTimeNanoseconds"] = base
    yield orjson.dumps(head)[:-1] + b',"traceEvents":['
    comma = b""
    for block in _blocks(report, timelines, originals, kept):
        text = b",\n".join(dumps(event) for event in block)
        if text:
            yield comma + text
            comma = b",\n"
    yield b"]}\n"


def _blocks(report: Report, timelines: Sequence[Timeline], originals: Mapping[int, Iterable[list[Event]]], kept: bool) -> Iterator[list[Event]]:
    numbers: dict[tuple[int, Any], int] = {}
    several = len(timelines) > 1
    if not timelines:
        for rank in sorted({s.rank for s in report.stalls}):
            yield _stalls(report, rank, 0.0, several)
    for t, offset in zip(timelines, offsets(timelines)):
        shift = t.zero_us if kept else offset
        yield _stalls(report, t.rank, shift, several)
        if t.rank not in originals:
            yield from _run(t, shift, numbers, several)
        elif not several:
            yield from originals[t.rank]
        else:
            for block in originals[t.rank]:
                yield [_apart(event, t.rank, offset - t.zero_us, numbers) for event in block]


def _apart(event: Event, rank: int, shift: float, numbers: dict[tuple[int, Any], int]) -> Event:
    """An event of one of several files: its processes and arrows are not those of the other files, and its clock becomes the common one."""
    event = dict(event)
    if "pid" in event:
        event["pid"] = numbers.setdefault((rank, event["pid"]), len(numbers) + 1)
    if "id" in event:
        event["id"] = f"{rank}.{event['id']}"
    if isinstance(event.get("ts"), (int, float)) and event.get("ph") != "M":
        event["ts"] = round(event["ts"] + shift, 3)
    if event.get("ph") == "M" and event.get("name") == "process_name" and isinstance(event.get("args"), dict):
        event["args"] = {"name": f"rank {rank}: {event['args'].get('name', '')}"}
    return event


def _meta(what: str, pid: int, tid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _stalls(report: Report, rank: int, shift: float, several: bool) -> list[Event]:
    """The stalls of a rank: one track per thread, so that two of them never overlap on a track."""
    mine = [s for s in report.stalls if s.rank == rank and s.start_us is not None]
    if not mine:
        return []
    pid = STALLS + rank
    threads = {thread: i + 1 for i, thread in enumerate(dict.fromkeys(s.thread for s in mine))}
    events = [_meta("process_name", pid, 0, name=f"stalls of rank {rank}" if several else "stalls"), _meta("process_sort_index", pid, 0, sort_index=-1 + 2 * rank)]
    for thread, tid in threads.items():
        events.append(_meta("thread_name", pid, tid, name=f"waits of {visible(thread)}" if thread else "waits"))
    for s in mine:
        assert s.start_us is not None
        event: Event = {
            "name": place(s.site) if s.site else s.operator, "cat": "stall", "pid": pid, "tid": threads[s.thread], "ts": round(s.start_us + shift, 3),
            "args": _details(s, report.predicted),
        }  # fmt: skip
        event.update({"ph": "i", "s": "t"} if s.host_wait_us is None else {"ph": "X", "dur": round(s.host_wait_us, 3)})
        events.append(event)
    return events


def _details(s: Stall, predicted: str | None) -> dict[str, Any]:
    found = {
        "cause": cause_of(s.kind, s.operator),
        "code": s.site.code if s.site else "",
        "inner": place(s.inner) if s.inner and s.inner != s.site else "",
        "metric": s.metric,
        "region": s.region,
        "step": s.step,
        "host wait (us)": s.host_wait_us,
        "device idle (us)": s.device_idle_us,
        "launch lag (us)": s.launch_lag_us,
        "line inferred": s.inferred or None,
        "instead": s.remedy,
        "times predicted for": predicted,
    }
    return {k: v for k, v in found.items() if v is not None and v != ""}


def _run(t: Timeline, shift: float, numbers: dict[tuple[int, Any], int], several: bool) -> Iterator[list[Event]]:
    """A timeline in the categories of PyTorch's profiler, which other tools (and `torchtally stalls`) read."""
    prefix = f"rank {t.rank}: " if several else ""
    rows: list[tuple[int, int]] = []
    names: list[Event] = []
    for i, lane in enumerate(t.lanes):
        key = ("host", lane.process) if lane.device is None else ("device", lane.device)
        new = (t.rank, key) not in numbers
        pid = numbers.setdefault((t.rank, key), len(numbers) + 1)
        rows.append((pid, i + 1))
        if new:
            device = f"device {lane.device}" + (f", {t.devices[lane.device]}" if lane.device is not None and lane.device < len(t.devices) else "")
            names.append(_meta("process_name", pid, 0, name=prefix + ("host" if lane.device is None else device)))
            names.append(_meta("process_sort_index", pid, 0, sort_index=2 * t.rank))
        names.append(_meta("thread_name", pid, i + 1, name=visible(lane.label)))
    yield names

    def span(spans: Spans, i: int, category: str, **args: Any) -> Event:
        pid, tid = rows[int(spans.lane[i])]
        start = float(spans.start_us[i])
        return {
            "ph": "X", "cat": category, "name": t.name(int(spans.name[i])), "pid": pid, "tid": tid,
            "ts": round(start + shift, 3), "dur": round(float(spans.end_us[i]) - start, 3), "args": args,
        }  # fmt: skip

    yield from _chunks(span(t.regions, i, "user_annotation") for i in range(len(t.regions)))
    yield from _chunks(span(t.frames, i, "python_function") for i in range(len(t.frames)))
    yield from _chunks(span(t.operators, i, "cpu_op", **_known("External id", t.operators.external[i])) for i in range(len(t.operators)))
    sync = t.calls.kind == CallKind.SYNC_RECORD
    launched = set(t.calls.link[~sync].tolist()) & set(t.work.link.tolist()) - {-1}
    yield from _chunks(
        e
        for i in range(len(t.calls))
        for e in _with_arrow(
            span(t.calls, i, "cuda_sync" if sync[i] else "cuda_runtime", **_known("correlation", t.calls.link[i]), **_known("External id", t.calls.external[i])),
            "s" if not sync[i] and int(t.calls.link[i]) in launched else "",
            prefix,
        )
    )
    first = np.zeros(len(t.work), dtype=bool)
    first[np.unique(t.work.link, return_index=True)[1]] = True  # a graph starts much work by one call: one arrow is enough
    yield from _chunks(
        e
        for i in range(len(t.work))
        for e in _with_arrow(
            span(t.work, i, WORK.get(WorkKind(int(t.work.kind[i])), "gpu_memcpy"), **_known("correlation", t.work.link[i]), **_where(t, int(t.work.lane[i]))),
            "f" if first[i] and int(t.work.link[i]) in launched else "",
            prefix,
        )
    )


def _with_arrow(event: Event, phase: str, prefix: str) -> list[Event]:
    """The event and, from a call to the work it started, one end of an arrow. Every rank counts its links anew, hence the prefix."""
    if not phase:
        return [event]
    link = event["args"]["correlation"]
    arrow = {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": f"{prefix}{link}" if prefix else link, **{k: event[k] for k in ("pid", "tid", "ts")}}
    return [event, {**arrow, "bp": "e"} if phase == "f" else arrow]


def _known(key: str, value: Any) -> dict[str, int]:
    return {key: int(value)} if value >= 0 else {}


def _where(t: Timeline, lane: int) -> dict[str, int]:
    found = {"device": t.lanes[lane].device, "stream": t.lanes[lane].stream}
    return {k: v for k, v in found.items() if v is not None}


def _chunks(events: Iterable[Event]) -> Iterator[list[Event]]:
    block: list[Event] = []
    for event in events:
        block.append(event)
        if len(block) >= BLOCK:
            yield block
            block = []
    yield block
