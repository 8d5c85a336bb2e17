"""What travels in which collective of a read: the same on all ranks, since it follows from the layout of the ledgers and their number alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

from .buffers import Group
from .head import HEAD, Head
from .ledger import Ledger

FIXED = 13
"""Of these the first: a count of ranks, and pieces of two digests with their squares."""

TABLE = 512
"""At most so many numbers of a head say when something was kept out first, and as many how large what each rank has to say is."""

SMALL = 1 << 16
"""Bytes of maxima and minima that are gathered with the rest instead of reduced in a collective of their own."""


def digest_of(text: str) -> list[int]:
    """Three numbers of 16 bits: few enough bits that sums of squares over thousands of ranks are exact."""
    found = hashlib.blake2b(text.encode(), digest_size=6).digest()
    return [int.from_bytes(found[i : i + 2], "big") for i in (0, 2, 4)]


class Layout:
    """What the ranks must agree on. `lines` name each metric and what it is; `arrangement` says which of them share totals now."""

    def __init__(self, title: str, lines: Iterable[tuple[str, str]], arrangement: str) -> None:
        self.title, self.lines = title, list(lines)
        self.text = "\n".join(f"{name}: {what}" for name, what in self.lines)
        self._metrics, self._arrangement = (_with_squares(digest_of(text)) for text in (self.text, arrangement))
        self._empty = np.zeros(HEAD)
        self._empty[:FIXED] = 1.0, *self._metrics, *self._arrangement
        self._on: dict[torch.device, Tensor] = {}

    def head(self, device: torch.device) -> Head:
        """A head with the digests and nothing else."""
        if device.type == "cpu":
            return Head(self._empty.copy())
        if device not in self._on:
            self._on[device] = torch.from_numpy(self._empty).to(device)
        return Head(self._on[device].clone())

    def agreed(self, known: list[float]) -> tuple[bool, bool]:
        """Whether all ranks hold these metrics, and whether they share totals alike.

        Only of equal numbers is the mean of the squares the square of the mean: then all are this rank's, and it sees that in the sums.
        """
        given = known[0]  # by so many ranks; by one where PyTorch only pretends that there are many
        metrics, arrangement = ([given * d for d in digest] for digest in (self._metrics, self._arrangement))
        return known[1:7] == metrics, known[7:FIXED] == arrangement


def _with_squares(digest: list[int]) -> list[float]:
    return [*map(float, digest), *(float(d * d) for d in digest)]


class Plan:
    """Which slot travels how: follows from the layout of the ledgers and the number of ranks alone, so it is the same on all of them."""

    def __init__(self, ledgers: Sequence[Ledger], world: int, states: bool) -> None:
        self.world = world
        self.payload = states or any(ledger.sampled for ledger in ledgers)
        place = FIXED
        self.sizes = place if self.payload and world <= TABLE else None
        place += world if self.sizes is not None else 0
        self.updates, place = place, place + len(ledgers)
        # ---- what was kept out
        self.faults = [
            (k, (j, n), *at)
            for k, ledger in enumerate(ledgers)
            for j in range(len(ledger.inputs))
            for n, at in enumerate(_fault_places(ledger, j))
            if at is not None
        ]
        inputs = [(k, j) for k, ledger in enumerate(ledgers) for j in range(len(ledger.inputs))]
        rows = {kj: [n for n, (k, (j, _), *_) in enumerate(self.faults) if (k, j) == kj] for kj in inputs}
        self.told = {kj: found for kj in inputs if len(found := rows[kj]) == len(_fault_places(ledgers[kj[0]], kj[1]))}
        """The inputs of which the table tells all that was kept out, and their rows there."""
        self.table, self.buckets = place, min(world, max(1, TABLE // max(len(self.faults), 1)))
        if place + len(self.faults) * (1 + self.buckets) > HEAD:
            self.buckets = 0
        place += len(self.faults) * (1 + self.buckets)
        self.known = place
        """How many of the first numbers of a head the host wants to know."""
        told = {(k, first) for k, _, _, first in self.faults}
        # ---- sums in the head, the smallest first
        self.packed: list[tuple[int, Group, int, int]] = []
        self.alone: dict[Group, list[int]] = {}
        self.gathered: list[tuple[int, Group]] = []
        sums = [(k, group, size) for k, ledger in enumerate(ledgers) for group, size in ledger.sizes.items() if group[1] == "sum"]
        for k, group, size in sorted(sums, key=lambda s: s[2]):
            room = 0 if group[0].is_complex else size if group[0].is_floating_point else 2 * size
            if size and room and place + room <= HEAD:
                self.packed.append((k, group, place, size))
                place += room
            elif size:
                self.alone.setdefault(group, []).append(k)
        # ---- maxima and minima
        for k, ledger in enumerate(ledgers):
            for group, size in ledger.sizes.items():
                inside = {(k, (g, start)) for g, start, _ in ledger.place.values() if g == group}
                if group[1] == "sum" or (self.buckets and inside <= told):
                    continue
                if size * group[0].itemsize <= SMALL:
                    self.gathered.append((k, group))
                else:
                    self.alone.setdefault(group, []).append(k)
        # ---- what combines as a group
        self.merged = [(k, i) for k, ledger in enumerate(ledgers) for i, (statistic, _) in enumerate(ledger.keys) if statistic.merges]
        # ---- what is gathered: in the head, where every rank's has room there
        kinds = [(group[0], ledgers[k].sizes[group]) for k, group in self.gathered]
        kinds += [
            (slot.dtype, prod(slot.shape)) for k, i, name in self.merged_slots(ledgers) for slot in [ledgers[k].keys[i][0].slots()[name]]
        ]
        self.width = sum(size if dtype.is_floating_point else 2 * size for dtype, size in kinds)
        fits = not self.payload and place + world * self.width <= HEAD and not any(dtype.is_complex for dtype, _ in kinds)
        self.columns = place if kinds and fits else None

    def merged_slots(self, ledgers: Sequence[Ledger]) -> list[tuple[int, int, str]]:
        """The slots of what combines as a group: ledger, statistic and name."""
        return [(k, i, name) for k, i in self.merged for name, slot in ledgers[k].keys[i][0].slots().items() if slot.combine != "cat"]


def _fault_places(ledger: Ledger, j: int) -> list[tuple[tuple[Group, int], tuple[Group, int]] | None]:
    """Where input `j` counts what it keeps out, and where it notes the first update that had some: buffer and place in it.

    None for a fault that follows from sums, as these are reduced like all others.
    """
    i = len(ledger.keys) + j
    input_, slots = ledger.inputs[j][0], ledger.views()[i]
    places = {id(getattr(slots, name)): ledger.place[i, name][:2] for name in input_.slots()}
    found = [(places.get(id(fault.count)), places.get(id(fault.first))) for fault in input_.faults(slots)]
    return [(count, first) if count and first else None for count, first in found]
