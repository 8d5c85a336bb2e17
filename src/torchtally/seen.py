"""What formulas see of the totals of a ledger, and what they make of it: in NumPy where totals are on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .ledger import Ledger
from .statistic import Slots, in_functorch

if TYPE_CHECKING:
    from .formula import Formula


class Seen:
    """The totals of a ledger, made once for all formulas over them."""

    def __init__(self, ledger: Ledger) -> None:
        ledger.fold()
        self._ledger, self._keys = ledger, ledger.keys
        self._tensors: dict[int, Any] = {}
        self._numbers: dict[int, Any] = {}

    def values(self, formulas: Sequence[tuple[Formula, Sequence[int]]], numbers: bool) -> dict[int, Any]:
        """The unrounded value of each by id, from the statistics at the places beside it; in NumPy where they can be, if `numbers`."""
        out, in_tensors = {}, formulas
        slots = self._ledger.views_in_numpy() if numbers and not torch.compiler.is_compiling() and not in_functorch() else None
        if slots is not None:
            in_tensors = []
            with np.errstate(divide="ignore", invalid="ignore"):
                for each in formulas:
                    m, places = each
                    found = [self._number(i, slots[i]) for i in places] if m.in_numbers else ()
                    if found and not any([x is None for x in found]):
                        out[id(m)] = m.value(*found)
                    else:
                        in_tensors.append(each)
        for m, places in in_tensors:
            out[id(m)] = m.value(*[self._tensor(i) for i in places])
        return out

    def _number(self, i: int, slots: Slots) -> Any:
        if i not in self._numbers:
            self._numbers[i] = self._keys[i][0].numbers(slots)
        return self._numbers[i]

    def _tensor(self, i: int) -> Any:
        if i not in self._tensors:
            self._tensors[i] = self._keys[i][0].totals(self._ledger.views()[i])
        return self._tensors[i]
