"""How fast this machine's Python and dispatcher are: a calibration of some milliseconds, in CPU time of the thread, so that other jobs do not count."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch

from .prices import Price


@dataclass(frozen=True, slots=True)
class HostSpeed:
    """Microseconds one operator takes on the host beyond its launch: `dispatch_us` with a result to allocate and autograd to tell, `view_us` without work."""

    dispatch_us: float
    view_us: float
    source: str

    @staticmethod
    def of(price: Price) -> HostSpeed:
        """As the price list has it, typical case, for a prediction that shall not depend on this machine."""
        dispatch = price.host["dispatch_us"]
        return HostSpeed(dispatch.at("typical"), dispatch.at("typical") / 2, dispatch.source)


@lru_cache(maxsize=1)
def calibrate(rounds: int = 7, calls: int = 300) -> HostSpeed:
    """Time small operators on the CPU, where the arithmetic itself takes next to nothing. The fastest round counts: disturbances only ever add."""
    x = torch.ones(8, requires_grad=True)
    y = torch.ones(8)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.enable_grad(), torch.inference_mode(False):
            dispatch = _fastest(lambda: torch.mul(x, y), rounds, calls)
            view = _fastest(lambda: x.view(2, 4), rounds, calls)
    finally:
        torch.set_num_threads(threads)
    return HostSpeed(dispatch, view, f"measured here: {dispatch:.2f} us for a small multiplication with autograd, {view:.2f} us for a view")


def _fastest(call: Callable[[], object], rounds: int, calls: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.thread_time_ns() - start) / calls / 1000)
    return best
