"""How often each class was predicted for each true class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ..kernels import count_on_device, count_on_host
from ..statistic import Number, Slot, Slots, Statistic
from .class_counts import Labels

LARGE = 1 << 15
"""A table of more cells than this fills the second cache: whoever counts in it finds all else cold afterwards, so it is done seldom."""

TOGETHER = 1 << 17
"""How many pairs of labels are then counted at a time: one megabyte of places in the table."""


class Places:
    """Places in the table that wait to be counted."""

    def __init__(self) -> None:
        self.ring: np.ndarray | None = None  # made when first used
        self.filled = 0

    def __reduce__(self) -> Any:
        return Places, ()  # a ledger is copied with nothing waiting

    def room(self, n: int) -> np.ndarray:
        """Where to write the next `n`."""
        if self.ring is None:
            self.ring = np.empty(TOGETHER, np.intp)
        self.filled += n
        return self.ring[self.filled - n : self.filled]


@dataclass(frozen=True)
class Confusion(Statistic):
    """The confusion matrix: rows are true classes, columns predictions."""

    input: Labels

    def slots(self) -> dict[str, Slot]:
        return {"matrix": Slot((self._size, self._size))}

    @property
    def _size(self) -> int:
        return (self.input.classes or 0) + 2  # two spare bins, for what does not count

    def lane(self) -> Places | None:
        return Places() if self._size**2 > LARGE else None

    def drain(self, host: Places) -> dict[str, Number]:
        host.filled = 0
        return {}

    def pour(self, slots: Slots) -> None:
        waiting: Places | None = slots.host
        if waiting is not None and waiting.ring is not None and waiting.filled:
            count_on_host(slots.matrix.view(-1).numpy(), waiting.ring[: waiting.filled])
            waiting.filled = 0

    def update(self, slots: Slots, *normal: Any) -> None:
        p, y = normal
        if not isinstance(p, np.ndarray):
            count_on_device(slots.matrix.view(-1), p.add(y, alpha=self._size))
            return
        waiting: Places | None = slots.host
        if waiting is not None and waiting.filled + len(y) > TOGETHER:
            self.pour(slots)
        waits = waiting is not None and len(y) <= TOGETHER
        place = np.multiply(y, self._size, dtype=np.intp, out=waiting.room(len(y)) if waiting is not None and waits else None)
        place += p
        if not waits:
            count_on_host(slots.matrix.view(-1).numpy(), place)

    def totals(self, slots: Slots) -> Tensor:
        classes = self.input.classes or 0
        return slots.matrix[:classes, :classes].clone()

    def numbers(self, slots: Slots) -> np.ndarray:
        classes = self.input.classes or 0
        matrix: np.ndarray = slots.matrix[:classes, :classes].copy()
        return matrix
