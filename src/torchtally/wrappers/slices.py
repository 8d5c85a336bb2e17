"""A formula for each slice of the data, and what waits to join its totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..formula import Formula
from ..intervals import Intervals
from ..ledger import Ledger
from ..statistic import Number, Slots
from ..together import Read
from ..valid import runs_of
from .by_rows import ByRow, by_row, told_formula
from .stacked import Stacked, StackedFormula

LEFT_OUT = torch.iinfo(torch.int64).min
"""The index of rows that do not count."""


class Waiting:
    """Batches of one slice, in a ledger that joins the others' when somebody reads."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.batches = ledger, 0

    def clear(self) -> None:
        self.ledger.reset()
        self.batches = 0


class Lane(dict[tuple[int, bool | None], Waiting]):
    """What waits, by slice and by whether its scores are logits. Copied empty: whatever copies totals lets all that waits join them first."""

    def __reduce__(self) -> Any:
        return Lane, ()


class SliceTotals(Stacked):
    """The slots of some statistics and inputs, once for each slice."""

    def lane(self) -> Lane:
        return Lane()

    def drain(self, host: Lane) -> dict[str, Number]:
        for waiting in host.values():
            waiting.clear()
        return {}

    def pour(self, slots: Slots) -> None:
        for (place, logits), waiting in slots.host.items():
            if waiting.batches or waiting.ledger.clock.traced:
                waiting.ledger.fold()
                self.add(slots, place, self._as_declared(waiting, logits))
                waiting.clear()

    def _as_declared(self, waiting: Waiting, logits: bool | None) -> list[Slots]:
        """The slots of each part; where the formula was told whether scores are logits, with those that would have counted it."""
        views = waiting.ledger.views()
        if logits is None:
            return views
        read, found = {"scored": waiting.batches, "logits": waiting.batches * logits}, []
        for part, slots in zip(self.parts, views):
            found.append(Slots(None, slots.clock))
            for name in part.slots():
                known = getattr(slots, name) if hasattr(slots, name) else slots.clock.ticks.new_full((), read[name])
                setattr(found[-1], name, known)
        return found


class Slices(StackedFormula):
    """A formula for each of `copies` slices, in slots with one dimension more, and for all of them together."""

    def __init__(self, base: Formula, copies: int) -> None:
        super().__init__(base, copies, SliceTotals)
        self.__dict__["by_rows"] = rows = ByRow(base) if by_row(base) else None
        self.__dict__["told"] = {r: told_formula(base, r) for r in (False, True)} if rows is not None and rows.decides else {}

    by_rows: ByRow | None
    """What adds all rows in one pass, whoever knows their slices."""

    told: dict[bool, Formula]
    """Of a metric that decides whether scores are logits, what takes the rows of a slice once the batch has decided."""

    @property
    def at_once(self) -> bool:
        return self.by_rows is not None

    def add_rows(self, index: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Add each row to its slice, in one pass of static shapes; which rows belong to no slice."""
        assert self.by_rows is not None
        batch = self._rows(args, kwargs)
        self.ledger.meet()
        inside = index.ge(0) & index.lt(self.copies)
        place = index.long().where(inside, self.copies)
        self.by_rows.add(self.stacked.every(self.ledger.views()[0]), self.copies, place, batch, self.ledger.clock)
        self.ledger.tick()
        return ~inside & index.ne(LEFT_OUT)

    def check(self, args: Any, kwargs: dict[str, Any]) -> None:
        """Refuse what is impossible, on the host."""
        if self.ledger.on_cpu:
            self._share(tuple(args), kwargs)

    def add(self, args: Sequence[Any], kwargs: dict[str, Any], places: list[int], sizes: list[int]) -> None:
        """Add a batch whose rows lie slice by slice, to the slices at `places` so many each: all or none.

        They wait in ledgers of their own until somebody reads.
        """
        if self.ledger.shared:
            self._leave()
        logits = self._read_as(args, kwargs)
        base = self.base if logits is None else self.told[logits]
        waiting, own = [self._waiting(base, place, logits) for place in places], base.ledger
        try:
            if base.only_feeds:
                taken = []
                for found, batch in zip(waiting, runs_of(base._batch_of(args, kwargs), sizes)):
                    base.__dict__["ledger"] = found.ledger
                    taken.append(base._taken(batch))
                for found, pieces in zip(waiting, taken):
                    base.__dict__["ledger"] = found.ledger
                    base._write(pieces, False)
            else:
                for found, batch in zip(waiting, runs_of([*args, *kwargs.values()], sizes)):
                    base.__dict__["ledger"] = found.ledger.scratch()
                    base.update(*batch[: len(args)], **dict(zip(kwargs, batch[len(args) :])))
                for found in waiting:
                    found.ledger.absorb(found.ledger.scratch_in_use(), 1)
        finally:
            base.__dict__["ledger"] = own
        for found in waiting:
            found.batches += 1
        self.ledger.tick()

    def _waiting(self, base: Formula, place: int, logits: bool | None) -> Waiting:
        """What waits for a slice, its updates numbered as ours."""
        lane: Lane = self.ledger.lanes[0]
        found = lane.get((place, logits))
        if found is None or found.ledger.device != self.ledger.device:
            found = lane[place, logits] = Waiting(Ledger(base.ledger.keys, self.ledger.device))
            found.ledger.strict = base.ledger.strict
        found.ledger.clock.count = self.ledger.clock.count
        return found

    def _read_as(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool | None:
        """Whether all rows together are logits; None where the metric does not ask."""
        batch = self.base._batch_of(args, kwargs) if self.told else ()
        found = self.by_rows.logits(batch) if self.by_rows is not None and batch and isinstance(batch[0], Tensor) else None
        return None if found is None else bool(found)

    def value(self, slots: Slots) -> list[Any]:
        """The values of all slices, then that of all rows."""
        return [self._value_of_slots(parts) for parts in self._every(slots)]

    def _every(self, slots: Slots) -> list[list[Slots]]:
        """The slots of each slice, and of all of them together."""
        return [*(self.stacked.copy(slots, place) for place in range(self.copies)), self.stacked.whole(slots)]

    def _bounds_later(self, read: Read | None, asked: Intervals) -> Any:
        slots = self._slots_read(read)
        each = [self._bounds_of_slots(parts, asked) for parts in self._every(slots)]
        faults = [(type(self.base).__name__, f) for f in self._faults_of_slots(self.stacked.whole(slots))]
        return lambda: (tuple(map(list, zip(*(bounds() for bounds in each)))), faults)

    def _finish(self, value: Any) -> Any:
        return [self.base._finish(x) for x in value]
