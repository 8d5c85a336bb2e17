"""What passes hand on: the stalls so far, and what a reader must know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..stall import Stall
from ..timeline import Timeline


@dataclass(frozen=True, slots=True)
class Findings:
    """Stalls in order of start, and notes."""

    stalls: tuple[Stall, ...] = ()
    notes: tuple[str, ...] = ()

    def without(self, dropped: set[int], why: str) -> Findings:
        """Less the stalls at these positions; the note says how many went and why."""
        if not dropped:
            return self
        kept = tuple(s for i, s in enumerate(self.stalls) if i not in dropped)
        return Findings(kept, (*self.notes, f"{len(dropped):,} {why}"))

    def changed(self, change: Callable[[Stall], Stall]) -> Findings:
        """Each stall changed."""
        return replace(self, stalls=tuple(change(s) for s in self.stalls))


Pass = Callable[[Timeline, Findings], Findings]
