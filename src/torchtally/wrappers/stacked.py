"""The totals of a formula several times over, in slots with one dimension more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..buffers import combine
from ..classification.intervals import Proportion
from ..faults import Fault
from ..formula import Formula
from ..intervals import Intervals, NoInterval
from ..lazy import Once
from ..ledger import Ledger
from ..loose_ledger import feed_loose
from ..metric import Metric
from ..options import OPTIONS
from ..statistic import Input, Slot, Slots, Statistic, loose
from ..together import Read


@dataclass(frozen=True)
class Stacked(Statistic):
    """The slots of some statistics and inputs, `copies` times over. With `ring`, also how many were ever written."""

    parts: tuple[Statistic | Input, ...]
    copies: int
    ring: bool = False

    @Once
    def names(self) -> list[tuple[int, str, str, Slot]]:
        """Part, its slot, the name of the slot here, and the slot."""
        every = [(i, name, slot) for i, part in enumerate(self.parts) for name, slot in part.slots().items()]
        times = [name for _, name, _ in every]
        return [(i, name, name if times.count(name) == 1 else f"{name}_{i}", slot) for i, name, slot in every]

    def slots(self) -> dict[str, Slot]:
        found = {here: Slot((self.copies, *slot.shape), slot.dtype, slot.combine) for _, _, here, slot in self.names}
        return {**found, "written": Slot(combine="max")} if self.ring else found

    def update(self, slots: Slots, *normal: Any) -> None:
        raise NotImplementedError("written to by the metric that owns it")

    @property
    def merges(self) -> bool:
        return any(isinstance(part, Statistic) and part.merges for part in self.parts)

    def merge(self, slots: Slots, other: Slots) -> None:
        for place in range(self.copies):
            self.add(slots, place, self.copy(other, place))
        if self.ring:
            torch.maximum(slots.written, other.written, out=slots.written)

    # ---- one copy
    def copy(self, slots: Slots, place: int) -> list[Slots]:
        """Views of copy `place`: the slots of each part."""
        views = [Slots(None, slots.clock) for _ in self.parts]
        for i, name, here, _ in self.names:
            setattr(views[i], name, getattr(slots, here)[place])
        return views

    def add(self, slots: Slots, place: int, share: Sequence[Slots]) -> None:
        """Combine the slots of a batch with copy `place`."""
        mine = self.copy(slots, place)
        for part, into, other in zip(self.parts, mine, share):
            join(part, into, other)

    def put(self, slots: Slots, place: Tensor, share: Sequence[Slots]) -> None:
        """Overwrite the copy that `place`, a tensor of one index, names."""
        for i, name, here, _ in self.names:
            getattr(slots, here).index_copy_(0, place, getattr(share[i], name).detach()[None])

    def every(self, slots: Slots) -> list[Slots]:
        """All copies side by side: the slots of each part, with one dimension more."""
        views = [Slots(None, slots.clock) for _ in self.parts]
        for i, name, here, _ in self.names:
            setattr(views[i], name, getattr(slots, here))
        return views

    def whole(self, slots: Slots) -> list[Slots]:
        """All copies combined: the slots of each part."""
        found = [Slots(None, slots.clock) for _ in self.parts]
        device = slots.clock.ticks.device
        for i, name, here, slot in self.names:
            stacked = getattr(slots, here)
            setattr(
                found[i], name, stacked.sum(0) if slot.combine == "sum" else stacked.amax(0) if slot.combine == "max" else stacked.amin(0)
            )
        for i, part in enumerate(self.parts):
            if isinstance(part, Statistic) and part.merges:
                found[i] = loose(part, device, slots.clock)
                for place in range(self.copies):
                    part.merge(found[i], self.copy(slots, place)[i])
        return found


def join(part: Statistic | Input, into: Slots, other: Slots) -> None:
    """Combine the slots of one part in place."""
    if isinstance(part, Statistic) and part.merges:
        part.merge(into, other)
        return
    for name, slot in part.slots().items():
        combine(slot.combine, getattr(into, name), getattr(other, name).detach())


class StackedFormula(Formula):
    """A formula several times over. `base` computes, and takes batches into a ledger of its own that never keeps them."""

    shares = False
    base: Formula

    def __init__(self, base: Formula, copies: int, statistic: type[Stacked] = Stacked, ring: bool = False) -> None:
        options = {name: base.__dict__[name] for name in OPTIONS}
        super().__init__(statistic(tuple(base.ledger.parts), copies, ring), **options)
        self.ledger.to(base.device)
        base = base.clone()
        base.reset()
        self.__dict__.update(base=base, copies=copies, validate_args=base.validate_args)

    copies: int

    @property
    def stacked(self) -> Stacked:
        found = self.statistics[0]
        assert isinstance(found, Stacked)
        return found

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # of the formula inside
        return self.base.higher_is_better

    @property
    def is_differentiable(self) -> bool | None:  # type: ignore[override]
        return self.base.is_differentiable

    # ---- adding
    def _slots(self) -> Slots:
        """Of the ledger, with nothing waiting."""
        self.ledger.meet()
        slots = self.ledger.views()[0]
        if self.stacked.pours:
            self.stacked.pour(slots)
        return slots

    def _share(self, args: tuple[Any, ...], kwargs: dict[str, Any], base: Formula | None = None) -> Ledger:
        """What a batch adds, checked, in a ledger that the next call overwrites; taken by `base`, or another formula like it."""
        if self.ledger.shared:
            self._leave()
        base = base or self.base
        base.ledger.clock.count = self.ledger.clock.count  # faults are numbered by our updates
        try:
            return base._share_of(*args, **kwargs)
        finally:
            base.ledger.clock.count = 0

    def _traced_share(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Slots]:
        """The same in loose slots, for `torch.compile`: there is no Python state in them."""
        base, ledger = self.base, self.base.ledger
        batch = [x.detach() if isinstance(x, Tensor) else x for x in base._batch_of(args, kwargs)]
        slots = [loose(part, ledger.device, self.ledger.clock) for part in ledger.parts]
        feed_loose(ledger, slots, batch, self.ledger.clock.now)
        return slots

    def _rows(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """A batch whose rows can be added each to its own copy, on the right device."""
        batch = [x.detach() if isinstance(x, Tensor) else x for x in self.base._batch_of(args, kwargs)]
        self.ledger.accept(0, batch, type(self.base).__name__)
        return batch

    # ---- reading
    def _value_of_slots(self, parts: Sequence[Slots]) -> Any:
        return self.base.value(*self._totals_of_slots(parts))

    def _totals_of_slots(self, parts: Sequence[Slots]) -> list[Any]:
        return [statistic.totals(part) for (statistic, _), part in zip(self.base.ledger.keys, parts)]

    def _slots_read(self, read: Read | None) -> Slots:
        """The slots of all ranks, or of this one."""
        ledger = read.ledger_of(self) if read is not None and self in read else self._whole()
        ledger.fold()
        return ledger.views()[self._mine(ledger)[0]]

    def _bounds_of_slots(self, parts: Sequence[Slots], asked: Intervals) -> Callable[[], tuple[Any, Any]]:
        """As `Proportion._bounds`, over the totals in some slots."""
        if not isinstance(self.base, Proportion):
            raise NoInterval.of(self.base)
        return self.base._bounds(asked, *self._totals_of_slots(parts))

    def _faults_of_slots(self, parts: Sequence[Slots]) -> list[Fault]:
        ledger = self.base.ledger
        if not self.validate_args:
            return []
        return [fault for j, (input_, _) in enumerate(ledger.inputs) for fault in input_.faults(parts[len(ledger.keys) + j])]

    def _faults(self, ledger: Ledger) -> list[Fault]:
        ledger.fold()
        return self._faults_of_slots(self.stacked.whole(ledger.views()[self._mine(ledger)[0]]))

    def _round(self, x: Tensor) -> Tensor:
        return x.to(self._dtype or torch.get_default_dtype()) if x.is_floating_point() else x

    def _finish(self, value: Any) -> Any:
        return self.base._finish(value)

    def _unfinished(self, value: Any) -> Any:
        return [self.base._unfinished(x) for x in value] if isinstance(value, list) else self.base._unfinished(value)

    def set_dtype(self, dst_type: str | torch.dtype) -> Metric:
        self.base.set_dtype(dst_type)
        return super().set_dtype(dst_type)

    def _move(self, device: torch.device) -> None:
        super()._move(device)
        self.base._move(device)

    def bind(self, **entries: str) -> Any:
        self.base.bind(**entries)
        self.__dict__["_entries"] = self.base._entries
        return self

    def _filter_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        return self.base._filter_kwargs(**kwargs)

    def _options(self) -> list[tuple[str, Any]]:
        options = ", ".join(f"{k}={v!r}" for k, v in self.base._options())
        return [("base", f"{type(self.base).__name__}({options})"), ("copies", self.copies)]
