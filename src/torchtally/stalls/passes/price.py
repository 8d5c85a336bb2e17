"""What each stall cost: how long the device idled because of it, and how late its next work came."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stall import Stall
from ..timeline import CallKind, Timeline
from .findings import Findings

MOSTLY = 0.5


class Busy:
    """When any stream of any device worked, as disjoint intervals."""

    def __init__(self, timeline: Timeline) -> None:
        start, end = timeline.work.start_us, timeline.work.end_us
        if len(start):
            reach = np.maximum.accumulate(end)
            fresh = np.r_[True, start[1:] > reach[:-1]]
            self.start = start[fresh]
            self.end = np.r_[reach[:-1][fresh[1:]], reach[-1]]
        else:
            self.start = self.end = np.empty(0)
        self._sum = np.r_[0.0, np.cumsum(self.end - self.start)]

    def before(self, moment_us: float) -> float:
        """How long the device has worked until then."""
        at = int(np.searchsorted(self.start, moment_us, side="right"))
        if at == 0:
            return 0.0
        return float(self._sum[at - 1] + min(moment_us, self.end[at - 1]) - self.start[at - 1])

    def within(self, start_us: float, end_us: float) -> float:
        return self.before(end_us) - self.before(start_us)


def price_stalls(timeline: Timeline, findings: Findings) -> Findings:
    """Device idle time and launch lag of each stall that has no price yet.

    A stall is charged for idle time from its start until the device begins what any thread launches next, or until the next stall of the same
    thread. That is an upper bound: a program whose host is slower than its device idles anyway. Where a graph was launched whose kernels the
    file does not show, both are unknown.
    """
    if not len(timeline.work):
        return findings
    busy = Busy(timeline)
    launches, begins = launched(timeline)
    graphs = unseen_graphs(timeline)
    following: dict[str, float] = {}
    ends = np.maximum.accumulate([0.0, *((s.start_us or 0.0) + (s.host_wait_us or 0.0) for s in findings.stalls)])
    priced: list[Stall] = []
    for position, stall in reversed([*enumerate(findings.stalls)]):
        start, wait = stall.start_us, stall.host_wait_us
        if start is None or wait is None or stall.device_idle_us is not None:
            priced.append(stall)
            continue
        end = start + wait
        at = int(np.searchsorted(launches, end, side="left"))
        begin = max(end, float(begins[at])) if at < len(begins) else None
        limit = min(begin if begin is not None else end, max(end, following.get(stall.thread, np.inf)))
        following[stall.thread] = start
        if _any_between(graphs, min(float(ends[position]), start), limit):  # one launched since the last wait may still run
            priced.append(stall)
            continue
        idle = max(0.0, limit - start - busy.within(start, limit))
        priced.append(replace(stall, device_idle_us=idle, launch_lag_us=None if begin is None else begin - end))
    notes = findings.notes
    if len(graphs):
        notes = (*notes, f"{len(graphs):,} launches replay graphs whose kernels the file does not show: idle time around them is unknown")
    return Findings(tuple(reversed(priced)), notes)


def launched(timeline: Timeline) -> tuple[NDArray[Any], NDArray[Any]]:
    """When calls launched work, in order, and when the work of each began."""
    calls, work = timeline.calls, timeline.work
    order = np.argsort(work.link, kind="stable")
    links = work.link[order]
    at = np.searchsorted(links, calls.link)
    at[at == len(links)] = 0
    known = (calls.link >= 0) & (calls.kind != CallKind.SYNC_RECORD) & (links[at] == calls.link if len(links) else False)
    return calls.start_us[known], work.start_us[order][at[known]]


def unseen_graphs(timeline: Timeline) -> NDArray[Any]:
    """When graphs were launched, if the file does not show all their kernels: each has several, and is busy for most of its time."""
    calls, work = timeline.calls, timeline.work
    graphs = calls.take(calls.kind == CallKind.GRAPH_LAUNCH)
    nodes = work.take(np.isin(work.link, graphs.link))
    if not len(nodes):
        return graphs.start_us
    nodes = nodes.take(np.argsort(nodes.link, kind="stable"))
    first = np.flatnonzero(np.r_[True, nodes.link[1:] != nodes.link[:-1]])
    spans = np.maximum.reduceat(nodes.end_us, first) - np.minimum.reduceat(nodes.start_us, first)
    busy = np.add.reduceat(nodes.end_us - nodes.start_us, first)
    several = np.diff(np.r_[first, len(nodes)]) > 1
    all_shown = len(first) == len(np.unique(graphs.link)) and bool(np.all(several & (busy >= MOSTLY * spans)))
    return graphs.start_us[:0] if all_shown else graphs.start_us


def _any_between(moments: NDArray[Any], start_us: float, end_us: float) -> bool:
    return bool(np.searchsorted(moments, end_us, side="right") > np.searchsorted(moments, start_us, side="left"))
