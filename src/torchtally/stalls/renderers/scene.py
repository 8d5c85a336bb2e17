"""What the page draws: timelines reduced to what fits in a page, as plain values for its JSON.

Times are whole nanoseconds. Starts are written as differences, because small numbers make a small page.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import IntEnum
from heapq import nlargest
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stall import Report, Stall, StallGroup
from ..timeline import CallKind, Spans, Timeline, WorkKind
from .wording import cause, place, visible

BUDGET = 120_000
"""Events drawn one by one, over all ranks; the shortest beyond it are drawn as a haze."""
DEPTH = 5
"""Nested operators shown below each other on one host thread."""
LANES = 6
"""Host threads, and streams, shown of one rank."""
HAZE = 2000
"""Cells of time in which events too short to draw are counted."""
GAPS = 16
SHORTEST_GAP = 1.0
"""Gaps of the device drawn per stall, and the shortest of them in microseconds."""
NAME = 200
"""Characters of a name that are kept."""

Floats = NDArray[np.float64]


class Paint(IntEnum):
    """How an event is coloured."""

    REGION = 0
    OPERATOR = 1
    CALL = 2
    KERNEL = 3
    COPY = 4


class Names:
    """Names in order of their first use."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.index.setdefault(visible(name[:NAME] + "…" if len(name) > NAME else name), len(self.index))


def scene(report: Report, rows: Sequence[StallGroup], timelines: Sequence[Timeline], budget: int = BUDGET) -> dict[str, Any]:
    """The timelines, their steps and their stalls; a stall names its row of the table by position."""
    names = Names()
    shortest = _shortest(timelines, budget)
    row_of = {_key(r): i for i, r in enumerate(rows)}
    ranks = []
    for t, offset in sorted(zip(timelines, offsets(timelines)), key=lambda pair: pair[0].rank):
        stalls = [s for s in report.stalls if s.rank == t.rank and s.start_us is not None]
        lanes, hidden = _lanes(t, names, shortest)
        device = [times.tolist() for times in busy(t.work)]
        ranks.append(
            {
                "rank": t.rank,
                "offset": _ns(offset),
                "end": _ns(max([t.end_us, *((s.start_us or 0.0) + (s.host_wait_us or 0.0) for s in stalls), *(s.end_us for s in t.steps)])),
                "steps": [[s.number, _ns(s.start_us), _ns(s.end_us)] for s in t.steps],
                "stalls": [_stall(s, row_of, *device) for s in sorted(stalls, key=lambda s: s.start_us or 0.0)],
                "lanes": lanes,
                "hidden": hidden,
            }
        )
    return {
        "names": list(names.index),
        "ranks": ranks,
        "sites": [{"place": place(r.site), "code": visible(r.site.code) if r.site else "", "cause": cause(r)} for r in rows],
        "shortest": _ns(shortest),
        "predicted": report.predicted is not None,
    }


def steps_of(timeline: Timeline, stalls: Sequence[Stall]) -> list[dict[str, Any]]:
    """Per step, in microseconds: its length, the device's busy time, and what the stalls of the rank made host and device wait. None is unknown."""
    starts, ends = busy(timeline.work)
    found = []
    for step in timeline.steps:
        mine = [s for s in stalls if s.rank == timeline.rank and _within(s, step.number, step.start_us, step.end_us)]
        overlap = np.clip(np.minimum(ends, step.end_us) - np.maximum(starts, step.start_us), 0.0, None)
        found.append(
            {
                "number": step.number,
                "length": step.end_us - step.start_us,
                "busy": float(overlap.sum()) if len(timeline.work) else None,
                "wait": _known_sum([s.host_wait_us for s in mine]),
                "idle": _known_sum([s.device_idle_us for s in mine]),
                "stalls": len(mine),
            }
        )
    return found


def _known_sum(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known or not values else None


def busy(spans: Spans) -> tuple[Floats, Floats]:
    """The union of spans, whatever their lane: its starts and its ends."""
    if not len(spans):
        return np.empty(0), np.empty(0)
    order = np.argsort(spans.start_us, kind="stable")
    start, end = spans.start_us[order], np.maximum.accumulate(spans.end_us[order])
    first = np.concatenate([[True], start[1:] > end[:-1]])
    return start[first], end[np.concatenate([first[1:], [True]])]


def _within(stall: Stall, number: int, start_us: float, end_us: float) -> bool:
    return stall.step == number if stall.step is not None else stall.start_us is not None and start_us <= stall.start_us < end_us


def _key(s: Stall | StallGroup) -> tuple[object, ...]:
    return (s.kind, s.operator, s.site, s.inner, s.metric, s.region)


def _stall(s: Stall, row_of: dict[tuple[object, ...], int], starts: list[float], ends: list[float]) -> list[Any]:
    return [_ns(s.start_us), _ns(s.host_wait_us), _ns(s.device_idle_us), _gaps(s, starts, ends), row_of.get(_key(s), -1), s.step]


def _gaps(s: Stall, starts: list[float], ends: list[float]) -> list[int]:
    """Where the device had nothing to do from the start of the wait to the next work after it: starts and lengths, the longest gaps only."""
    if not starts or s.start_us is None or not s.device_idle_us:
        return []
    begin = s.start_us
    until = begin + (s.host_wait_us or 0.0) + (s.device_idle_us if s.launch_lag_us is None else s.launch_lag_us)
    gaps = []
    for i in range(bisect_right(ends, begin), bisect_left(starts, until)):
        gaps.append((begin, starts[i] - begin))
        begin = max(begin, ends[i])
    gaps.append((begin, until - begin))
    if len(gaps) > GAPS:
        gaps = sorted(nlargest(GAPS, gaps, key=itemgetter(1)))
    return [_ns(x) for gap in gaps if gap[1] >= SHORTEST_GAP for x in gap]


def _ns(us: float | None) -> Any:
    return None if us is None else round(us * 1000)


def offsets(timelines: Sequence[Timeline]) -> list[float]:
    """When each timeline starts on the common axis: by the clock where the clocks agree that they overlap, else all at 0."""
    origins = [t.origin_ns for t in timelines if t.origin_ns is not None]
    longest = max((t.end_us for t in timelines), default=0.0)
    if len(origins) < len(timelines) or not origins or (max(origins) - min(origins)) / 1000 > longest:
        return [0.0] * len(timelines)
    return [(o - min(origins)) / 1000 for o in origins]


def _shortest(timelines: Sequence[Timeline], budget: int) -> float:
    """The length in microseconds below which events are not drawn one by one."""
    lengths = [s.end_us - s.start_us for t in timelines for s in (t.regions, t.operators, t.calls, t.work)]
    every = np.concatenate(lengths) if lengths else np.empty(0)
    if len(every) <= budget:
        return 0.0
    return float(np.nextafter(np.partition(every, len(every) - budget)[len(every) - budget], np.inf))


def _lanes(t: Timeline, names: Names, shortest: float) -> tuple[list[dict[str, Any]], int]:
    copies = t.work.kind >= WorkKind.MEMSET
    marks = np.array([n.startswith("ProfilerStep#") for n in t.names], dtype=bool)
    regions = t.regions.take(~marks[t.regions.name]) if t.steps else t.regions
    sources: list[tuple[Spans, Paint | NDArray[Any]]] = [
        (regions, Paint.REGION),
        (t.operators, Paint.OPERATOR),
        (t.calls.take(t.calls.kind != CallKind.SYNC_RECORD), Paint.CALL),
        (t.work, np.where(copies, Paint.COPY, Paint.KERNEL)),
    ]
    start = np.concatenate([s.start_us for s, _ in sources])
    end = np.concatenate([s.end_us for s, _ in sources])
    name = np.concatenate([s.name for s, _ in sources])
    lane = np.concatenate([s.lane for s, _ in sources])
    paint = np.concatenate([np.full(len(s), p) if isinstance(p, Paint) else p for s, p in sources])
    length = np.bincount(lane, weights=end - start, minlength=len(t.lanes))
    used = np.bincount(lane, minlength=len(t.lanes)) > 0
    shown, hidden = [], 0
    for on_device in (False, True):
        mine = [i for i, row in enumerate(t.lanes) if used[i] and (row.device is not None) == on_device]
        mine.sort(key=lambda i: -length[i])
        shown += sorted(mine[:LANES])
        hidden += len(mine[LANES:])
    several = len({row.device for row in t.lanes if row.device is not None}) > 1
    found = []
    for i in shown:
        which = np.flatnonzero(lane == i)
        which = which[np.lexsort((paint[which], -end[which], start[which]))]
        kept = which[end[which] - start[which] >= shortest]
        dropped = which[end[which] - start[which] < shortest]
        row = t.lanes[i]
        found.append(
            {
                "label": visible(row.label if row.stream is None or several else f"stream {row.stream}"),
                "device": row.device,
                "tracks": _tracks(start[kept], end[kept], name[kept], paint[kept], t, names, DEPTH if row.device is None else 2),
                "haze": _haze(start[dropped], end[dropped], t.end_us),
            }
        )
    return found, hidden


def _tracks(start: Floats, end: Floats, name: NDArray[Any], paint: NDArray[Any], t: Timeline, names: Names, depth: int) -> list[dict[str, Any]]:
    """Nested spans as tracks of spans that do not overlap, the outermost first."""
    tracks: list[dict[str, list[int]]] = []
    last: list[int] = []
    open_ends: list[float] = []
    for s, e, n, p in zip(start.tolist(), end.tolist(), name.tolist(), paint.tolist()):
        while open_ends and open_ends[-1] <= s:
            open_ends.pop()
        level = len(open_ends)
        open_ends.append(e)
        if level >= depth:
            continue
        if level == len(tracks):
            tracks.append({"start": [], "length": [], "name": [], "paint": []})
            last.append(0)
        track, at = tracks[level], _ns(s)
        track["start"].append(at - last[level])
        track["length"].append(_ns(e) - at)
        track["name"].append(names(t.names[n]))
        track["paint"].append(p)
        last[level] = at
    return tracks


def _haze(start: Floats, end: Floats, whole: float) -> list[int]:
    """How full each cell of time is with events too short to draw, in percent; empty where there are none."""
    if not len(start) or whole <= 0:
        return []
    cell = np.minimum((start * (HAZE / whole)).astype(np.int64), HAZE - 1)
    filled = np.bincount(cell, weights=end - start, minlength=HAZE) / (whole / HAZE)
    seen = np.bincount(cell, minlength=HAZE) > 0
    percent: list[int] = np.where(seen, np.clip(np.ceil(100 * filled), 1, 100), 0).astype(int).tolist()
    return percent
