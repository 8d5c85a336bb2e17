"""Which spans of one lane enclose a moment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..timeline import Spans

_BLOCK = 256


class Nesting:
    """Finds the spans that are open at a moment, without looking at all that came before: of each block of spans it knows the latest end."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        self._lanes: dict[int, tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]] = {}

    def lane(self, lane: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Positions, starts and ends of the lane's spans, and the latest end of each block of them."""
        if lane not in self._lanes:
            where = np.flatnonzero(self.spans.lane == lane)
            start, end = self.spans.start_us[where], self.spans.end_us[where]
            latest = np.maximum.reduceat(end, np.arange(0, len(end), _BLOCK)) if len(end) else end
            self._lanes[lane] = where, start, end, latest
        return self._lanes[lane]

    def at(self, lane: int, moment_us: float) -> list[int]:
        """Positions of the spans open at that moment, the outermost first. A span that starts then is open, one that ends then is not."""
        where, start, end, latest = self.lane(lane)
        stop = int(np.searchsorted(start, moment_us, side="right"))
        found: list[int] = []
        for block in np.flatnonzero(latest[: -(-stop // _BLOCK)] >= moment_us):
            low, high = block * _BLOCK, min(stop, (block + 1) * _BLOCK)
            open_ = (end[low:high] > moment_us) | (start[low:high] == moment_us)
            found.extend(where[low:high][open_].tolist())
        return found

    def last_before(self, lane: int, moment_us: float) -> int:
        """The position of the span that started last before that moment, or -1."""
        where, start, _, _ = self.lane(lane)
        at = int(np.searchsorted(start, moment_us, side="left")) - 1
        return int(where[at]) if at >= 0 else -1

    def first_after(self, lane: int, moment_us: float) -> int:
        """The position of the span that starts first after that moment, or -1."""
        where, start, _, _ = self.lane(lane)
        at = int(np.searchsorted(start, moment_us, side="right"))
        return int(where[at]) if at < len(where) else -1
