"""Values that are wrong: counted and kept out on a device, reported when results are read."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

NEVER = torch.iinfo(torch.int64).max


class FaultError(ValueError, RuntimeError):
    """Impossible values in a batch. `values` holds the results without them, where they were found only when results were read."""

    values: Any = None


class FaultWarning(UserWarning):
    """Values were left out, as `nan_strategy="warn"` asks."""


@dataclass(frozen=True)
class Fault:
    """How many values of one sort were kept out, and the number of the first update that had one: two device scalars.

    `problem` completes "… values were …"; `advice` says what to do. `fatal` faults raise when results are read, others warn.
    """

    count: Tensor
    first: Tensor
    problem: str
    advice: str
    fatal: bool = True

    def message(self, name: str, count: int, first: int) -> str:
        return (
            f"{name}: {count} value{'s were' if count != 1 else ' was'} {self.problem} and kept out, first in update {first}. {self.advice}"
        )


def note(slots: Any, bad: Tensor, first: Any, name: str = "bad") -> None:
    """Count the true elements of `bad` in a slot and their update in its `first_…`; row i of `bad` came with update `first + i`."""
    rows = bad.reshape(bad.shape[0], -1).sum(1)
    getattr(slots, name).add_(rows.sum())
    updates = torch.arange(len(rows), device=rows.device).add_(first)
    earliest = updates.masked_fill(rows.eq(0), NEVER).min() if len(rows) else rows.new_full((), NEVER)
    getattr(slots, f"first_{name}").clamp_max_(earliest)


def report(name: str, faults: list[tuple[Fault, int, int]], values: Any) -> None:
    """Warn of what is not fatal, then raise for what is. Takes faults with their count and first update read to the host."""
    fatal = None
    for fault, count, first in faults:
        if count and fault.fatal:
            fatal = fatal or fault.message(name, count, first)
        elif count:
            warnings.warn(fault.message(name, count, first), FaultWarning, stacklevel=4)
    if fatal:
        error = FaultError(fatal)
        error.values = values
        raise error


def check_all(faults: list[tuple[str, Fault]], values: Any) -> None:
    """Report what was wrong with values, by name. Waits for the device once, and only where there can be faults."""
    if not faults:
        return
    here = [(name, f) for name, f in faults if f.count.is_cpu and f.count.numpy()]
    there = [(name, f) for name, f in faults if not f.count.is_cpu]
    found = here + there
    read = [int(x) for _, f in here for x in (f.count, f.first)]
    if there:
        read += torch.stack([x for _, f in there for x in (f.count, f.first)]).tolist()
    by_name: dict[str, list[tuple[Fault, int, int]]] = {}
    for (name, fault), count, first in zip(found, read[::2], read[1::2]):
        if count:
            by_name.setdefault(name, []).append((fault, count, first))
    for name, several in by_name.items():
        report(name, several, values)


def check(name: str, faults: list[Fault], values: Any) -> None:
    """The same for one metric."""
    check_all([(name, f) for f in faults], values)
