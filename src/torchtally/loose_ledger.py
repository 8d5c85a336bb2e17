"""What one batch adds to a ledger where autograd follows it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import torch
from torch import Tensor

from .buffers import combine
from .ledger import Ledger
from .statistic import Piece, Slots, loose


class LooseLedger(Ledger):
    """What one batch adds to a ledger, in one tensor a slot instead of flat buffers, so that autograd may follow from batch to value."""

    def __init__(self, like: Ledger, followed: Iterable[int] | None = None) -> None:
        """`followed`: the inputs whose batches keep their graph (all, if None)."""
        super().__init__(like.keys, like.device)
        self.followed = frozenset(range(len(self.inputs)) if followed is None else followed)
        self.strict, self.clock.count = like.strict, like.clock.count
        self._slots = [loose(p, like.device, self.clock) for p in self.parts]
        self.lanes = [s.host for s in self._slots[: len(self.keys)]]

    def views(self) -> list[Slots]:
        return self._slots

    def column(self, parts: Sequence[int], name: str) -> Tensor | None:
        return None

    def add(self, j: int, key: Hashable, piece: Piece | None) -> None:
        if piece is not None:
            self._settle(j, [piece], self.clock.now)

    def fold(self) -> None:
        for rows in self.rows:
            self._settle_rows(rows)
        for i, lane in enumerate(self.lanes):
            if lane is not None:
                statistic = self.keys[i][0]
                for name, value in statistic.drain(lane).items():
                    into = getattr(self._slots[i], name)
                    combine(statistic.slots()[name].combine, into, torch.full_like(into, value))

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
