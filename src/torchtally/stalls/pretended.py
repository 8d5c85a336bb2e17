"""The timeline of a run on a pretend device: its steps and regions on the host, at this machine's own pace. No device worked, so none is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .timeline import Draft, Timeline

MOST_REGIONS = 100_000
"""Regions that are kept: a program may open millions."""
_NOTE = f"only the first {MOST_REGIONS:,} record_function regions are in the timeline"


@dataclass(frozen=True, slots=True)
class Opened:
    """A region that was open on a thread, in seconds of `time.perf_counter`."""

    name: str
    thread: str
    began: float
    ended: float


def host_timeline(source: str, began: float, ended: float, steps: Sequence[tuple[float, float]], regions: Sequence[Opened]) -> Timeline:
    """Time 0 is where the program began, so that the times of its stalls fit."""

    def us(moment: float) -> float:
        return max(0.0, moment - began) * 1e6

    draft = Draft(source)
    draft.region(source, draft.lane("MainThread"), 0.0, us(ended))
    for r in regions:
        if r.began >= began and r.ended <= ended:
            draft.region(r.name, draft.lane(r.thread), us(r.began), us(r.ended))
    for number, (first, last) in enumerate(steps):
        draft.step(number, us(first), us(last))
    if len(regions) >= MOST_REGIONS:
        draft.notes.append(_NOTE)
    return draft.timeline()
