"""How many updates there were."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .statistic import recorded

STILL = torch.zeros((), dtype=torch.int64, device="cpu")
"""The ticks of totals on the host that nobody adds to."""


class Clock:
    """Counts updates. Compiled and captured ones are counted on the device (`ticks`): a changing Python number would recompile."""

    def __init__(self, device: torch.device, ticks: Tensor | None = None) -> None:
        self.count = 0
        self.traced = False
        self.ticks = torch.zeros((), dtype=torch.int64, device=device) if ticks is None else ticks

    @property
    def now(self) -> Any:
        """The number of the update under way, from 1."""
        return self.ticks + 1 if recorded(self.ticks) else self.count + 1

    @property
    def updates(self) -> int:
        return self.count + (int(self.ticks) if self.traced else 0)

    def tick(self, now: Any = None) -> None:
        """The update under way, number `now`, is done."""
        if now is None:
            now = self.now
        if isinstance(now, int):
            self.count = now
        else:
            self.traced = True
            self.ticks.add_(1)

    def add(self, other: Clock, updates: int | None) -> None:
        """So many more updates; those of another clock if None."""
        if updates is None:
            self.count += other.count
            if other.traced:
                self.traced = True
                self.ticks.add_(other.ticks)
        elif recorded(self.ticks):
            self.traced = True
            self.ticks.add_(updates)
        else:
            self.count += updates

    def load(self, updates: int) -> None:
        self.reset()
        self.count = updates

    def reset(self) -> None:
        self.count = 0
        if self.traced:
            self.ticks.zero_()
