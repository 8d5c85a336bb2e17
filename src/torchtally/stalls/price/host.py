"""How fast this machine's Python and dispatcher are: a calibration of some milliseconds, in CPU time of the thread, so that other jobs do not count."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .prices import Price

MACHINERY = (
    *(f"{Path(__file__).parents[2] / part}{os.sep}" for part in ("stalls", f"bench{os.sep}cost")),
    f"torch{os.sep}overrides.py",
    f"torch{os.sep}_library{os.sep}",
    f"torch{os.sep}utils{os.sep}_python_dispatch.py",
)

CHAIN = 40


@dataclass(frozen=True, slots=True)
class HostSpeed:
    """Microseconds one operator takes on the host beyond its launch: `dispatch_us` with a result to allocate and autograd to tell, `view_us` without
    work; `backward_us` is what the autograd engine adds to an operator it runs, `call_us` what one function call of a Python program takes, with its
    share of the code around it."""

    dispatch_us: float
    view_us: float
    backward_us: float
    call_us: float
    source: str

    @staticmethod
    def of(price: Price) -> HostSpeed:
        """As the price list has it, typical case, for a prediction that shall not depend on this machine."""
        dispatch, backward, call = (price.host[name].at("typical") for name in ("dispatch_us", "backward_us", "call_us"))
        return HostSpeed(dispatch, dispatch / 2, backward, call, "the price list")


@lru_cache(maxsize=1)
def calibrate(rounds: int = 40, calls: int = 60) -> HostSpeed:
    """Time small operators on the CPU, where the arithmetic itself takes next to nothing. The fastest round counts: disturbances only ever add."""
    x = torch.ones(8, requires_grad=True)
    y = torch.ones(8)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.enable_grad(), torch.inference_mode(False), _disable_current_modes(), torch._C.DisableTorchFunction():  # nor is pretending the host
            dispatch = _fastest(lambda: torch.mul(x, y), rounds, calls)
            view = _fastest(lambda: x.view(2, 4), rounds, calls)
            backward = max(0.0, _fastest(lambda: _chain(x, y).backward(), rounds, max(1, calls // 30)) / CHAIN - 2 * dispatch)
            layers = torch.nn.Sequential(*[torch.nn.Identity() for _ in range(32)])
            counter = CallCounter()
            with counter:
                layers(y)
            call = _fastest(lambda: layers(y), rounds, max(1, calls // 10)) / counter.calls
    finally:
        torch.set_num_threads(threads)
    return HostSpeed(
        dispatch,
        view,
        backward,
        call,
        f"measured here: {dispatch:.2f} us for a small multiplication with autograd, {backward:.2f} us more in the backward pass, {view:.2f} us for a view, "
        f"{call:.3f} us for a call in a stack of modules",
    )


def _chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Operators with as many in the backward pass."""
    for _ in range(CHAIN):
        x = torch.mul(x, y)
    return x.sum()


class CallCounter:
    """Counts the function calls a thread's program makes, in Python and into C, while it is entered and not `held`; those of PyTorch's
    machinery for overriding, and of this package's pretending, are no part of the program."""

    def __init__(self) -> None:
        self.calls = 0
        self.held = 0
        self._counts: dict[Any, bool] = {}
        self._before: Any = None

    def __enter__(self) -> CallCounter:
        self._before = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(self._before)

    def _event(self, frame: Any, event: str, argument: Any) -> None:
        if self.held or not event.endswith("call"):
            return
        code = frame.f_code
        if code.co_filename == "<string>" and frame.f_back is not None:  # a constructor that was generated belongs to who calls it
            code = frame.f_back.f_code
        counts = self._counts.get(code)
        if counts is None:
            counts = self._counts[code] = not any(part in code.co_filename for part in MACHINERY)
        self.calls += counts


def _fastest(call: Callable[[], object], rounds: int, calls: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.thread_time_ns() - start) / calls / 1000)
    return best
