"""How often each class was predicted for each true class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ..kernels import count_on_device, count_on_host
from ..statistic import Slot, Slots, Statistic
from .class_counts import Labels


@dataclass(frozen=True)
class Confusion(Statistic):
    """The confusion matrix: rows are true classes, columns predictions."""

    input: Labels

    def slots(self) -> dict[str, Slot]:
        return {"matrix": Slot((self._size, self._size))}

    @property
    def _size(self) -> int:
        return (self.input.classes or 0) + 2  # two spare bins, for what does not count

    def update(self, slots: Slots, *normal: Any) -> None:
        p, y = normal
        if isinstance(p, np.ndarray):
            key = np.multiply(y, self._size, dtype=np.intp)
            key += p
            count_on_host(slots.matrix.view(-1).numpy(), key)
        else:
            count_on_device(slots.matrix.view(-1), p.add(y, alpha=self._size))

    def totals(self, slots: Slots) -> Tensor:
        classes = self.input.classes or 0
        return slots.matrix[:classes, :classes].clone()

    def numbers(self, slots: Slots) -> np.ndarray:
        classes = self.input.classes or 0
        matrix: np.ndarray = slots.matrix[:classes, :classes].copy()
        return matrix
