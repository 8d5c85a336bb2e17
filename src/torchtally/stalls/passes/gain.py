"""What a run would save without some of its stalls: the run is replayed, because taking out one wait often only moves it to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..stall import Gain, Stall
from ..timeline import CallKind, Timeline
from .price import unseen_graphs

CALL_US = 5.0
"""What a wait costs the host if nothing has to be waited for, and a copy if it does not block."""
JOIN_US = 20.0
"""Work that starts this soon after work of another stream ended is taken to have waited for it."""
MOST_EVENTS = 2_000_000


@dataclass(frozen=True, slots=True)
class _Event:
    """A launch (`work` is its position) or a wait (`stall` is its position) on the host."""

    start_us: float
    end_us: float
    work: int = -1
    stall: int = -1


class Replay:
    """A run as launches and waits in the order the host made them, and device work that follows launches and the work before it.

    Host work between the events keeps its length, device work its duration and its order on each stream. A wait ends as long after the work it
    waited for as it did. Threads are taken as one sequence, which they are where one waits for the other, as in a backward pass.
    """

    def __init__(self, timeline: Timeline, stalls: Sequence[Stall]) -> None:
        work = timeline.work
        self.begin, self.finish, self.stream = work.start_us, work.end_us, work.lane
        calls = timeline.calls
        order = np.argsort(work.link, kind="stable")
        at = np.searchsorted(work.link[order], calls.link)
        events: list[_Event] = []
        for i in np.flatnonzero((calls.link >= 0) & (calls.kind != CallKind.SYNC_RECORD)).tolist():
            j = int(at[i])
            while j < len(order) and work.link[order[j]] == calls.link[i]:
                events.append(_Event(float(calls.start_us[i]), float(calls.end_us[i]), work=int(order[j])))
                j += 1
        for i, stall in enumerate(stalls):
            if stall.start_us is not None and stall.host_wait_us is not None:
                events.append(_Event(stall.start_us, stall.start_us + stall.host_wait_us, stall=i))
        self.events = sorted(events, key=lambda e: (e.start_us, e.stall))  # a copy is launched before it is waited for
        self.end_us = timeline.end_us
        self.after = self._other_streams()
        self.awaited = set(self.after.values())

    def _other_streams(self) -> dict[int, int]:
        """Work that began right when work of another stream ended, though it could have begun before: it waited for that."""
        found: dict[int, int] = {}
        free: dict[int, float] = {}
        order = np.argsort(self.finish, kind="stable")
        ends = self.finish[order]
        for event in self.events:
            if event.work < 0:
                continue
            i = event.work
            begin, stream = float(self.begin[i]), int(self.stream[i])
            if begin - max(event.start_us, free.get(stream, -np.inf)) > JOIN_US:
                at = int(np.searchsorted(ends, begin, side="right")) - 1
                if at >= 0 and begin - ends[at] < JOIN_US and self.stream[order[at]] != stream:
                    found[i] = int(order[at])
            free[stream] = max(free.get(stream, -np.inf), float(self.finish[i]))
        return found

    def without(self, removed: set[int]) -> float:
        """How much sooner the run ends without these stalls."""
        earlier = 0.0
        last: dict[int, tuple[float, float]] = {}  # stream → end of its last work, as it was and as it would be
        ended: dict[int, float] = {}
        was = now = 0.0
        for event in self.events:
            if event.work >= 0:
                begin, finish, stream = float(self.begin[event.work]), float(self.finish[event.work]), int(self.stream[event.work])
                free_was, free_now = last.get(stream, (-np.inf, -np.inf))
                moment = max(event.start_us - earlier, free_now)
                before = self.after.get(event.work)
                if before is not None and before in ended:
                    moment = max(moment, ended[before] + begin - float(self.finish[before]))
                else:
                    moment += max(0.0, begin - max(event.start_us, free_was))
                ends = moment + finish - begin
                if event.work in self.awaited:
                    ended[event.work] = ends
                last[stream] = (max(finish, free_was), max(ends, free_now))
                was, now = max(was, finish), max(now, ends)
                continue
            length = event.end_us - event.start_us
            start = event.start_us - earlier
            if event.stall in removed:
                earlier += max(0.0, length - CALL_US)
                continue
            if event.start_us < was <= event.end_us:
                end = max(start + CALL_US, now + event.end_us - was)
            else:  # it ended before the work did, or there was none: it did not wait for that
                end = start + length
            earlier = event.end_us - max(start, end)
        tail_was = max(self.end_us, was)
        tail_now = max(self.end_us - earlier, now + max(0.0, tail_was - max(was, self.end_us)))
        return max(0.0, tail_was - tail_now)


def gains(timelines: Sequence[Timeline], stalls: Sequence[Stall], most: int = 8) -> tuple[Gain, ...]:
    """What would be saved without all stalls, without those of each metric, and without those of each of the costliest lines, over all ranks."""
    if not stalls or not any(len(t.work) for t in timelines):
        return ()
    sets: dict[str, Callable[[Stall], bool]] = {"all stalls": lambda s: True}
    for metric in sorted({s.metric for s in stalls if s.metric}):
        sets[f"metric {metric}"] = lambda s, metric=metric: s.metric == metric  # type: ignore[misc]  # a lambda with a default
    costs: dict[str, float] = {}
    for s in stalls:
        if s.site is not None:
            costs[str(s.site)] = costs.get(str(s.site), 0.0) + (s.host_wait_us or 0.0)
    for site in sorted(costs, key=lambda c: -costs[c])[:most]:
        sets[site] = lambda s, site=site: str(s.site) == site  # type: ignore[misc]
    by_rank = {t.rank: [s for s in stalls if s.rank == t.rank] for t in timelines}
    replays = {t.rank: Replay(t, by_rank[t.rank]) for t in timelines}
    hidden = any(len(unseen_graphs(t)) for t in timelines)
    room = MOST_EVENTS // max(1, sum(len(r.events) for r in replays.values()))
    found = []
    for what, belongs in list(sets.items())[: max(1, room)]:
        chosen = {rank: {i for i, s in enumerate(own) if belongs(s)} for rank, own in by_rank.items()}
        saved = None if hidden else sum(replays[rank].without(positions) for rank, positions in chosen.items())
        found.append(Gain(what, sum(map(len, chosen.values())), saved))
    return tuple(found)
