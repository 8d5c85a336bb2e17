"""What a batch adds to loose slots, one tensor each, in place of the flat buffers of a ledger."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from .buffers import combine
from .ledger import Ledger
from .statistic import Piece, Slots, Statistic, loose


def pour_lane(statistic: Statistic, slots: Slots) -> None:
    """Let what waits in the lane of loose slots join them."""
    if slots.host is None:
        return
    if statistic.pours:
        statistic.pour(slots)
        return
    for name, value in statistic.drain(slots.host).items():
        into = getattr(slots, name)
        combine(statistic.slots()[name].combine, into, torch.full_like(into, value))


def feed_loose(ledger: Ledger, slots: list[Slots], batch: Sequence[Any], first: Any, strict: bool = False) -> None:
    """Add a batch to loose slots of the parts of a ledger, lanes and all."""
    for j, (input_, _) in enumerate(ledger.inputs):
        _, piece = input_.take(strict, *batch)
        if piece is not None:
            ledger.settle_into(slots, j, [piece], first)
    for (statistic, _), own in zip(ledger.keys, slots):
        pour_lane(statistic, own)


class LooseLedger(Ledger):
    """What one batch adds to a ledger, in one tensor a slot instead of flat buffers, so that autograd may follow from batch to value."""

    def __init__(self, like: Ledger, followed: Iterable[int] | None = None) -> None:
        """`followed`: the inputs whose batches keep their graph (all, if None)."""
        super().__init__(like.keys, like.device)
        self.followed = frozenset(range(len(self.inputs)) if followed is None else followed)
        self.strict, self.clock.count = like.strict, like.clock.count
        self._slots = [loose(p, like.device, self.clock) for p in self.parts]
        self.lanes = [s.host for s in self._slots[: len(self.keys)]]

    def views(self, without_samples: bool = False) -> list[Slots]:
        return self._slots

    def flats_in_numpy(self) -> None:
        return None

    def column(self, parts: Sequence[int], name: str) -> Tensor | None:
        return None

    def add(self, j: int, key: Hashable, piece: Piece | None, now: Any = None) -> None:
        if piece is not None:
            self._settle(j, [piece], self.clock.now)

    def fold(self) -> None:
        for rows in self.rows:
            self._settle_rows(rows)
        for (statistic, _), slots in zip(self.keys, self._slots):
            pour_lane(statistic, slots)

    def settled(self) -> Ledger:
        self.fold()
        plain = Ledger(self.keys, self.device)
        for into, slots, part in zip(plain.views(), self._slots, self.parts):
            for name, slot in part.slots().items():
                if slot.combine == "cat":
                    getattr(into, name).extend(x.detach() for x in getattr(slots, name))
                else:
                    getattr(into, name).copy_(getattr(slots, name).detach())
        return plain
