"""Host calls that wait, joined with the device work they started and the operator they ran in, as stalls."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from ..catalogue import ROWS
from ..sources.names import SYNC_RECORDS
from ..stall import Kind, Stall
from ..timeline import CallKind, Timeline, WorkKind
from .findings import Findings
from .nesting import Nesting

TO_DEVICE = frozenset({WorkKind.HOST_TO_DEVICE, WorkKind.PAGEABLE_TO_DEVICE, WorkKind.PINNED_TO_DEVICE})
TO_HOST = frozenset({WorkKind.DEVICE_TO_HOST, WorkKind.DEVICE_TO_PAGEABLE, WorkKind.DEVICE_TO_PINNED})
PAGEABLE = frozenset({WorkKind.PAGEABLE_TO_DEVICE, WorkKind.DEVICE_TO_PAGEABLE})
SYNCS = frozenset({CallKind.STREAM_SYNC, CallKind.EVENT_SYNC, CallKind.DEVICE_SYNC})
ALLOCATOR = frozenset({CallKind.ALLOCATE, CallKind.FREE})
ACTS = SYNCS | {CallKind.COPY, CallKind.BLOCKING_COPY, CallKind.LAUNCH, CallKind.GRAPH_LAUNCH}

TOWARDS = ("host_to_device",)
"""What a copy's record tells for certain; that something was copied to the host only tells that it was read, and the operator tells why."""
NEAR_US = 1000.0
"""A copy and a synchronisation outside any operator belong together if they follow each other this closely."""

CLOCKS_US = 2.0
"""How far the clocks of a call and of its second record may differ."""

KINDS_BY_OPERATOR: dict[str, frozenset[Kind]] = {
    name: frozenset(row.kind for row in ROWS if row.operator == name) for name in {row.operator for row in ROWS}
}


@dataclass(slots=True)
class _Wait:
    """One logical wait: its first and last call, and the copy it contains."""

    first: int
    last: int
    copied: WorkKind | None


def find_waits(timeline: Timeline, findings: Findings) -> Findings:
    """Every wait of the host once.

    A copy waits if it is a blocking call or one end is pageable memory. A copy that a synchronisation follows within the same operator is one
    wait with it, whichever of the two holds the time. A profiler's second record of a wait counts only where the first is missing.
    """
    calls = timeline.calls
    operators = Nesting(timeline.operators)
    copied = {int(link): WorkKind(kind) for link, kind in zip(timeline.work.link, timeline.work.kind) if kind >= WorkKind.COPY}
    before: dict[int, int] = {}  # lane → its last call that did something
    waits: dict[int, _Wait] = {}  # by last call
    linked = {int(link) for link, kind in zip(calls.link, calls.kind) if kind != CallKind.SYNC_RECORD and link >= 0}
    seen = _Seen(timeline)
    interesting = np.isin(calls.kind, [*ACTS, *ALLOCATOR, CallKind.SYNC_RECORD])
    for i in np.flatnonzero(interesting).tolist():
        kind = CallKind(calls.kind[i])
        link = int(calls.link[i])
        lane = int(calls.lane[i])
        work = copied.get(link) if link >= 0 else None
        if kind is CallKind.SYNC_RECORD:
            if link not in linked and not seen(i):
                waits[i] = _Wait(i, i, None)
            continue
        if kind in ALLOCATOR:
            waits[i] = _Wait(i, i, None)
            continue
        if kind is CallKind.STREAM_SYNC and (copy := before.get(lane, -1)) >= 0 and _belong_together(timeline, operators, copy, i):
            waits.pop(copy, None)
            waits[i] = _Wait(copy, i, copied.get(int(calls.link[copy])))
        elif kind in SYNCS:
            waits[i] = _Wait(i, i, None)
        elif kind is CallKind.BLOCKING_COPY or (kind is CallKind.COPY and work in PAGEABLE):
            waits[i] = _Wait(i, i, work)
        before[lane] = i
    starts = [s.start_us for s in timeline.steps]
    by_external = _operators_by_external(timeline)
    stalls = [_stall(timeline, operators, by_external, wait, starts) for wait in waits.values()]
    return Findings((*findings.stalls, *sorted(stalls, key=lambda s: s.start_us or 0.0)), findings.notes)


def _belong_together(timeline: Timeline, operators: Nesting, copy: int, sync: int) -> bool:
    calls = timeline.calls
    if calls.kind[copy] != CallKind.COPY:
        return False
    lane = int(calls.lane[sync])
    around = [operators.at(lane, float(calls.start_us[i]))[-1:] for i in (copy, sync)]
    if around[0] and around[0] == around[1]:
        return True
    if calls.external[copy] >= 0 and calls.external[copy] == calls.external[sync]:
        return True
    return not around[0] and not around[1] and calls.start_us[sync] - calls.end_us[copy] < NEAR_US


class _Seen:
    """Whether a host call of the same kind holds a second record in time: some files have lost the link between them."""

    def __init__(self, timeline: Timeline) -> None:
        calls = timeline.calls
        self.timeline = timeline
        self.spans = {kind: calls.take(calls.kind == kind) for kind in SYNCS}

    def __call__(self, record: int) -> bool:
        calls = self.timeline.calls
        spans = self.spans.get(SYNC_RECORDS.get(self.timeline.names[calls.name[record]], CallKind.OTHER))
        if spans is None:
            return False
        stop = int(np.searchsorted(spans.start_us, calls.start_us[record] + CLOCKS_US, side="right"))
        return bool(np.any(spans.end_us[max(0, stop - 16) : stop] + CLOCKS_US >= calls.end_us[record]))


def _operators_by_external(timeline: Timeline) -> dict[int, int]:
    """The innermost operator of each external id: files of some years write threads of calls and operators differently."""
    known = np.flatnonzero(timeline.operators.external >= 0)
    return dict(zip(timeline.operators.external[known].tolist(), known.tolist()))


def _stall(timeline: Timeline, operators: Nesting, by_external: dict[int, int], wait: _Wait, steps: list[float]) -> Stall:
    calls = timeline.calls
    start, end = float(calls.start_us[wait.first]), float(calls.end_us[wait.last])
    lane = int(calls.lane[wait.first])
    call = timeline.names[calls.name[wait.last]]
    inside = operators.at(lane, start)
    if not inside:
        same = by_external.get(int(calls.external[wait.last]), -1)
        if same >= 0 and timeline.operators.start_us[same] <= start <= timeline.operators.end_us[same]:
            inside = [same]
    chain = [timeline.names[timeline.operators.name[i]] for i in inside]
    kind, operator = _meaning(CallKind(calls.kind[wait.last]), call, chain, wait.copied)
    step = bisect_right(steps, start) - 1
    within = step >= 0 and start < timeline.steps[step].end_us
    return Stall(
        kind=kind,
        operator=operator,
        step=step if within else None,
        start_us=start,
        host_wait_us=end - start,
        rank=timeline.rank,
        thread=timeline.lanes[lane].label,
    )


def _meaning(kind: CallKind, call: str, chain: list[str], copied: WorkKind | None) -> tuple[Kind, str]:
    """What the wait was for, and the operator to name: the innermost that the catalogue knows for it, else the innermost at all."""
    if kind in ALLOCATOR:
        return "allocator", call
    plain: Kind = "host_to_device" if copied in TO_DEVICE else "device_to_host" if copied in TO_HOST else "synchronize"
    for operator in reversed(chain):
        kinds = KINDS_BY_OPERATOR.get(operator)
        if kinds:
            return next(iter(kinds)) if len(kinds) == 1 and plain not in TOWARDS else plain, operator
    return plain, chain[-1] if chain else call
