"""Several ways of doing one job, timed side by side: in turn, in short blocks, so that drift of the machine hits all alike."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median, and the least, which is the least disturbed."""

    median: float
    least: float
    calls: int


BLOCK = 9  # calls of one way before the next has its turn; the first finds cold caches and is not counted
SLOW = 0.05  # seconds from which one call is a block of its own


def interleaved(ways: dict[str, Callable[[], object]], seconds: float = 2.0, before: dict[str, Callable[[], object]] | None = None) -> dict[str, Timing]:
    """Time every way for about `seconds` in all. `before[name]` runs untimed before each call of that way."""
    before = before or {}
    spans: dict[str, list[float]] = {name: [] for name in ways}
    block: dict[str, int] = {}
    for name, call in ways.items():  # warm up, and see who is slow
        for _ in range(2):
            before.get(name, _nothing)()
            start = time.perf_counter()
            call()
            took = time.perf_counter() - start
        block[name] = 1 if took > SLOW else BLOCK
    order, end = list(ways), time.perf_counter() + seconds
    gc.disable()
    try:
        while time.perf_counter() < end or min(map(len, spans.values())) < 3:
            random.shuffle(order)
            for name in order:
                call, prepare = ways[name], before.get(name)
                for i in range(block[name]):
                    if prepare is not None:
                        prepare()
                    start = time.perf_counter()
                    call()
                    took = time.perf_counter() - start
                    if i or block[name] == 1:
                        spans[name].append(took)
    finally:
        gc.enable()
    return {name: Timing(statistics.median(s), min(s), len(s)) for name, s in spans.items()}


def _nothing() -> None: ...
