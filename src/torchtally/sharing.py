"""The members of a collection that share its ledger, and what they make of the totals in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .faults import Fault
from .formula import Formula
from .lazy import Once
from .ledger import Ledger
from .named_slots import SharedSlots
from .seen import Seen
from .together import Read


class Sharing:
    """Who shares a ledger, for as long as they share in the same way; one that has left since, or is reset, is passed over.

    `served` names the members that each input of the ledger serves.
    """

    def __init__(self, ledger: Ledger, members: Mapping[str, Formula], served: Sequence[str]) -> None:
        self.ledger, self.members, self.served = ledger, members, served
        self._read_by = [(m, ledger.members_of(m.needs())) for m in dict.fromkeys(members.values())]

    def __len__(self) -> int:
        return len(self._read_by)

    def _here(self, m: Formula) -> bool:
        return m.ledger is self.ledger and not m.emptied

    def names(self) -> list[str]:
        """The members whose totals are those of the ledger."""
        return [n for n, m in self.members.items() if self._here(m)]

    @Once
    def slots(self) -> SharedSlots:
        """The slots of the ledger, by member."""
        return SharedSlots(self.ledger, {n: m for n, m in self.members.items() if m.ledger is self.ledger})

    def values(
        self, ledger: Ledger, read: Read | None = None, skipped: frozenset[int] = frozenset(), numbers: bool = True
    ) -> dict[int, Any]:
        """Unrounded values over a ledger laid out as the shared one, by the member's id; what several formulas see is made once.

        Of members that were `read` over ranks, if any were, and not of those `skipped`. Values may be in NumPy if `numbers`.
        """
        mine, generation = self.ledger, self.ledger.generation
        here = [
            each
            for each in self._read_by
            if (m := each[0]).ledger is mine and m._emptied != generation and id(m) not in skipped and (read is None or m in read)
        ]
        return Seen(ledger).values(here, numbers) if here else {}

    def faults(self, ledger: Ledger) -> list[tuple[str, Fault]]:
        """What was wrong with values in a ledger laid out as the shared one, with the members concerned."""
        return [(self.served[j], fault) for j in range(len(ledger.inputs)) for fault in ledger.faults_of(j)]

    def followed(self) -> list[int]:
        """The inputs of differentiable members."""
        wanted = {i for m, indices in self._read_by if m.is_differentiable for i in indices}
        return [j for j, feeds in enumerate(self.ledger.feeds) if wanted & set(feeds)]

    def synced_on_step(self) -> Formula | None:
        """The first member whose `forward` is to give the value over all ranks."""
        return next((m for m, _ in self._read_by if m.dist_sync_on_step and m.ledger is self.ledger), None)

    def total(self, read: Read | None) -> Ledger | None:
        """The ledger to read: over all ranks, or this rank's own; None where ranks share differently, so that each member has its own."""
        if read is None:
            return self.ledger
        first = next((m for m, _ in self._read_by if self._here(m) and m in read), None)
        return None if first is None or read.totals.apart else read.ledger_of(first)
