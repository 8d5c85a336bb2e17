"""Ranks on one clock: the clocks of hosts differ, but a collective ends everywhere at the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..timeline import Timeline

FEWEST = 3
COLLECTIVES = ("nccl", "rccl", "oneccl")


def aligned(timelines: Sequence[Timeline]) -> list[Timeline]:
    """The timelines with `origin_ns` moved so that their collectives end together, where all ranks show the same ones in the same order."""
    if len(timelines) < 2 or any(t.origin_ns is None for t in timelines):
        return list(timelines)
    shown = [_collectives(t) for t in timelines]
    first_names, first_ends = shown[0]
    if len(first_names) < FEWEST or any(names != first_names for names, _ in shown):
        return list(timelines)
    zero = timelines[0].origin_ns or 0
    found = []
    for timeline, (_, ends) in zip(timelines, shown):
        own = timeline.origin_ns or 0
        found.append(replace(timeline, origin_ns=own - round(float(np.median((own - zero) + (ends - first_ends) * 1000)))))
    moved = max(abs((a.origin_ns or 0) - (b.origin_ns or 0)) for a, b in zip(timelines, found)) / 1000
    note = f"the clocks of the ranks were set by {len(first_names):,} collectives that they share: by up to {moved:,.0f} µs"
    return [replace(found[0], notes=(*found[0].notes, note)), *found[1:]]


def _collectives(timeline: Timeline) -> tuple[list[str], np.ndarray]:
    """Names and ends of the collectives, in order of their ends."""
    known = {i for i, name in enumerate(timeline.names) if any(c in name.lower() for c in COLLECTIVES)}
    where = np.flatnonzero(np.isin(timeline.work.name, list(known)))
    where = where[np.argsort(timeline.work.end_us[where], kind="stable")]
    return [timeline.names[i].partition("(")[0] for i in timeline.work.name[where]], timeline.work.end_us[where]
