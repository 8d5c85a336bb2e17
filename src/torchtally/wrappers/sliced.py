"""One metric for each group of the data: data set, domain, language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..apart import update_all
from ..collection import MetricCollection
from ..faults import NEVER, Fault, FaultError
from ..formula import Formula
from ..intervals import Intervals
from ..ledger import ROOM, Ledger
from ..pending import finished
from ..statistic import Slot, Slots, Statistic, host_visible
from ..together import Read
from ..valid import Unseen, rows_at, rows_of
from .abstract import Later, WrapperMetric, checked_metric, given_to, merged, merged_later
from .by_rows import ByRow, by_row, rows_in, stackable, told_formula
from .stacked import StackedFormula

LEFT_OUT = torch.iinfo(torch.int64).min
"""The index of rows that do not count."""

MANY = 24
"""From so many slices on it pays to add all rows in one pass, on the host too."""

_ADVICE = "Pass an index from 0 to the number of slices less one for every row."


@dataclass(frozen=True)
class Outside(Statistic):
    """How many rows belonged to no slice, and the first update that had one."""

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min")}

    def update(self, slots: Slots, *normal: Any) -> None:
        raise NotImplementedError("written to by the metric that owns it")


class OutsideRows(Formula):
    """What a slice index outside of the slices kept out."""

    def __init__(self) -> None:
        super().__init__(Outside())

    def note(self, count: Any, update: Any) -> None:
        self.ledger.meet()
        slots: Any = self.ledger.views()[0]
        slots.bad.add_(count)
        slots.first_bad.clamp_(max=update)
        self.ledger.reduced = None

    def value(self, slots: Slots) -> Any:
        return slots.bad.clone()

    def found_in(self, ledger: Ledger) -> Fault:
        slots: Any = ledger.views()[self._mine(ledger)[0]]
        return Fault(slots.bad, slots.first_bad, "in rows that belong to no slice", _ADVICE)

    def _faults(self, ledger: Ledger) -> list[Fault]:
        return [self.found_in(ledger)]


class Slices(StackedFormula):
    """A formula for each of `copies` slices, in slots with one dimension more, and for all of them together."""

    def __init__(self, base: Formula, copies: int) -> None:
        super().__init__(base, copies)
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

    def add(self, parts: list[tuple[int, tuple[Any, ...], dict[str, Any]]]) -> None:
        """Add the rows of each slice: all or none. On a device all that can refuse a slice refuses the first."""
        kept = self.ledger.frozen() if self.ledger.on_cpu and len(parts) > 1 else None
        logits = self._read_as(parts)
        try:
            for place, args, kwargs in parts:
                share = self._share_read(args, kwargs, logits)
                self.ledger.meet()
                with torch.no_grad():
                    self.stacked.add(self.ledger.views()[0], place, share)
        except BaseException:
            if kept is not None:
                self.ledger.restore(kept)
            raise
        self.ledger.tick()

    def _read_as(self, parts: list[tuple[int, tuple[Any, ...], dict[str, Any]]]) -> bool | None:
        """Whether all rows together are logits; None where the metric does not ask."""
        assert self.by_rows is not None or not self.told
        batches = [self.base._batch_of(args, kwargs) for _, args, kwargs in parts] if self.told else []
        found = [self.by_rows.logits(batch) for batch in batches if isinstance(batch[0], Tensor)] if self.by_rows is not None else []
        return None if not found or found[0] is None else any(map(bool, found))

    def _share_read(self, args: tuple[Any, ...], kwargs: dict[str, Any], logits: bool | None) -> list[Slots]:
        """What the rows of one slice add, read as all rows of the batch are."""
        share = self._share(args, kwargs, None if logits is None else self.told[logits])
        share.fold()
        if logits is None:
            return share.views()
        views = []
        for part, slots in zip(self.base.ledger.parts, share.views()):
            views.append(Slots(None, slots.clock))
            for name in part.slots():
                read = {"scored": 1, "logits": int(logits)}.get(name, 0)
                setattr(views[-1], name, getattr(slots, name) if hasattr(slots, name) else torch.full((), read, device=self.device))
        return views

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


class Sliced(WrapperMetric):
    """A metric for each of several slices of the data (data set, domain, language) and for all of it, in one update.

    `slices` is a number, or the names of the slices; `update(preds, target, index=…)` takes, besides what the metric takes, the slice of every row:
    `(N,)` integers from 0, on the host or the device. `by` is another name for that entry. The value is a dict of names and values, with
    `"total"` over all rows (`total=False`: without); of a collection, of `"name_metric"`. An index of no slice raises at once on the host; from
    a device it is counted, kept out and reported when results are read.

    Metrics of constant size keep one set of slots with one dimension more, to which a batch and its index on a device are added in one pass, and
    nothing waits. Of metrics that keep samples (ranks, exact curves), of users' own, of collections, and of tables of over 32,768 numbers, such an
    index is copied to the host in the background and the batch is added when it has come: `update` does not wait, but `forward` does, and what
    reads waits for indices on their way. Whether scores are logits is decided for the whole batch, unless `from_logits` tells.

    >>> from torch import tensor
    >>> from torchtally.classification import BinaryAccuracy
    >>> from torchtally.wrappers import Sliced
    >>> metric = Sliced(BinaryAccuracy(), slices=["de", "en"])
    >>> metric.update(tensor([1, 0, 1, 1]), tensor([1, 1, 1, 0]), index=tensor([0, 0, 0, 1]))
    >>> metric.compute()
    {'de': tensor(0.6667), 'en': tensor(0.), 'total': tensor(0.5000)}
    """

    def __init__(self, metric: Any, slices: int | Sequence[str], by: str = "index", total: bool = True) -> None:
        super().__init__()
        checked_metric("Sliced", "metric", metric)
        names = [str(i) for i in range(slices)] if isinstance(slices, int) else list(slices) if isinstance(slices, list | tuple) else []
        if not names or not all(isinstance(n, str) for n in names) or len({*names, "total"}) <= len(names):
            raise ValueError(f"Sliced: slices is {slices!r}; expected a positive number, or different names, none of them 'total'.")
        self.names, self.by, self.total = names, by, total
        self.outside = OutsideRows().to(metric.device)
        if stackable(metric):
            self.slots = Slices(metric, len(names))
        else:
            empty = metric.clone()
            empty.reset()
            self.each = nn.ModuleList([empty.clone() for _ in names])
        self.__dict__["_waiting"] = []
        self._hold()

    each: Any
    _waiting: list[tuple[Unseen, int, list[str]]]

    @property
    def _stacked(self) -> bool:
        return "slots" in self._modules

    def _parts(self) -> list[Any]:
        return [self.slots] if self._stacked else list(self.each)

    def __getitem__(self, name: str | int) -> Any:  # type: ignore[override]  # a slice, where other metrics pick from the value
        """The metric of one slice, a copy."""
        place = self.names.index(name) if isinstance(name, str) else name
        self._settle()
        return self._one(place)

    def _one(self, place: int) -> Any:
        if not self._stacked:
            return self.each[place].clone()
        one = self.slots.base.clone()
        stacked = self.slots.stacked
        parts = stacked.copy(self.slots.ledger.views()[0], place)
        for into, part, own in zip(one.ledger.views(), one.ledger.parts, parts):
            for name in part.slots():
                getattr(into, name).copy_(getattr(own, name))
        one.ledger.clock.load(self.slots.update_count)
        return one

    # ---- adding
    def _update_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        index, kwargs = self._index_of(kwargs)
        if "valid" in kwargs:
            valid = kwargs.pop("valid")
            found = rows_of(valid, [index, *args, *kwargs.values()], "Sliced")
            if isinstance(found, list):
                index, args, kwargs = found[0], tuple(found[1 : 1 + len(args)]), dict(zip(kwargs, found[1 + len(args) :]))
            else:
                index = index.to(found.device, non_blocking=True).masked_fill(~found, LEFT_OUT)
        if isinstance(index, Tensor) and not (index.is_cpu and host_visible(index)):
            self._add_there(index, args, kwargs)
            return
        self._settle()
        self._add(_on_host(index), args, kwargs, strict=True)

    def _index_of(self, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if self.by not in kwargs:
            raise ValueError(f"Sliced: update was given no {self.by!r}; expected the slice of every row, as in update(…, {self.by}=index).")
        index = kwargs[self.by]
        if isinstance(index, Tensor) and (index.is_floating_point() or index.dtype == torch.bool or index.ndim != 1):
            raise ValueError(f"Sliced: {self.by} has dtype {index.dtype} and shape {tuple(index.shape)}; expected integers of shape (N,).")
        if torch.compiler.is_compiling() and not (self._stacked and self.slots.at_once):
            raise ValueError("Sliced: rows of this metric must be sorted into slices by the host; update it outside of torch.compile.")
        return index, {n: x for n, x in kwargs.items() if n != self.by}

    def _add_there(self, index: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Add a batch whose index the host cannot look at: at once where rows can be added each alone, else when the index has come."""
        if not (self._stacked and self.slots.at_once):
            self._wait_for(index, args, kwargs)
            return
        _, positional, given = given_to(self.slots, args, kwargs)
        batch = self.slots.base._batch_of(positional, given)
        if rows_in([index, *batch]) is None:
            raise ValueError(f"Sliced: the index has {len(index)} rows; expected as many as the batch, all of it tensors of so many rows.")
        now = self.slots.ledger.clock.now
        wrong = self.slots.add_rows(index, tuple(positional), given).sum()
        self.outside.note(wrong, torch.where(wrong > 0, now, NEVER))

    def _wait_for(self, index: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._waiting.append((Unseen(index, [*args, *kwargs.values()], self.update_count + 1), len(args), list(kwargs)))
        while self._waiting and (self._waiting[0][0].here or len(self._waiting) > ROOM):
            self._see()

    def _see(self) -> None:
        """Add the oldest batch of which the index was on its way."""
        unseen, positional, names = self._waiting.pop(0)
        values = unseen.whole()
        self._add(unseen.mask.numpy(), tuple(values[:positional]), dict(zip(names, values[positional:])), strict=False)

    def _settle(self) -> None:
        while self._waiting:
            self._see()

    def _add(self, index: np.ndarray, args: tuple[Any, ...], kwargs: dict[str, Any], strict: bool) -> None:
        wrong = int(((index < 0) | (index >= len(self.names))).sum()) - int((index == LEFT_OUT).sum())
        if wrong and strict:
            raise FaultError(
                f"Sliced: {wrong} of {len(index)} rows have an index of no slice; expected 0 to {len(self.names) - 1}. {_ADVICE}"
            )
        there = self._stacked and not self.slots.ledger.on_cpu and bool(self.slots.told)  # where only the device knows how scores are to be read
        if strict and self._stacked and self.slots.at_once and (len(self.names) >= MANY or there):
            self.slots.check(*given_to(self.slots, args, kwargs)[1:])
            places = torch.from_numpy(index)
            self._add_there(places.pin_memory().to(self.device, non_blocking=True) if there else places, args, kwargs)
            return
        parts = self._split(index, args, kwargs)
        if self._stacked:
            calls = [(g, *given_to(self.slots, a, k)[1:]) for g, a, k in parts]
            self.slots.add([(g, tuple(a), k) for g, a, k in calls])
        else:
            update_all([given_to(self.each[g], a, k) for g, a, k in parts])
        if wrong:
            self.outside.note(wrong, self.update_count)

    def _split(self, index: np.ndarray, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[int, tuple[Any, ...], dict[str, Any]]]:
        """The rows of each slice that has some."""
        values = [*args, *kwargs.values()]
        order = np.argsort(index, kind="stable")
        groups, starts = np.unique(index[order], return_index=True)
        ends = [*starts[1:].tolist(), len(index)]
        out = []
        for g, start, end in zip(groups.tolist(), starts.tolist(), ends):
            if 0 <= g < len(self.names):
                rows = rows_at(torch.from_numpy(order[start:end]), len(index), values, "Sliced")
                out.append((g, tuple(rows[: len(args)]), dict(zip(kwargs, rows[len(args) :]))))
        return out

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The values on this batch, which is also accumulated. NaN, or what the metric gives without data, for slices that have no row in it.

        Waits for the device where the index is there and rows cannot be added each alone.
        """
        index, given = self._index_of(kwargs)
        with self._held():
            self._settle()
            batch = self._scratch()
            if isinstance(index, Tensor) and not index.is_cpu and self._stacked and self.slots.at_once:
                batch._add_there(index, args, given)
            else:
                batch._add(_on_host(index.cpu() if isinstance(index, Tensor) else index), args, given, strict=True)
            self._absorb(batch)
            found = batch._later(None)
        value = self._finish(finished(found()[0]))
        self.__dict__["_forward_cache"] = value
        return value

    def _absorb(self, other: Any) -> None:
        for mine, theirs in zip((*self._parts(), self.outside), (*other._parts(), other.outside)):
            mine.merge_state(theirs)

    # ---- reading
    def _bounds_later(self, read: Read | None, asked: Intervals) -> Any:
        self._settle()
        parts = [m._bounds_later(read, asked) for m in self._parts()]
        if not self._stacked and self.total:
            parts.append(merged(list(self.each), read)._bounds_later(None, asked))
        outside = self.outside._later(read)

        def arrived() -> Any:
            found = [later() for later in parts]
            faults = [fault for _, more in found for fault in more] + [("Sliced", fault) for _, fault in outside()[1]]
            low, high = found[0][0] if self._stacked else zip(*(bounds for bounds, _ in found))
            return (self._value(list(low)), self._value(list(high))), faults

        return arrived

    def _later(self, read: Read | None) -> Later:
        self._settle()
        parts = [m._later(read) for m in self._parts()]
        if not self._stacked and self.total:
            parts.append(merged_later(list(self.each), read))
        outside = self.outside._later(read)

        def arrived() -> Any:
            found = [later() for later in parts]
            faults = [fault for _, more in found for fault in more] + [("Sliced", fault) for _, fault in outside()[1]]
            values = found[0][0] if self._stacked else [value for value, _ in found]
            return self._value(finished(list(values))), faults

        return arrived

    def _value(self, values: list[Any]) -> dict[str, Any]:
        names = [*self.names, "total"] if self.total else self.names
        found = dict(zip(names, values))
        return {
            f"{n}_{k}" if isinstance(x, dict) else n: y
            for n, x in found.items()
            for k, y in (x.items() if isinstance(x, dict) else [("", x)])
        }

    @property
    def higher_is_better(self) -> Any:  # type: ignore[override]  # of the metric inside
        metric = self.slots.base if self._stacked else self.each[0]
        return metric.higher_is_better if not isinstance(metric, MetricCollection) else None

    # ---- what waits must not be lost
    def reset(self) -> None:
        self._waiting.clear()
        super().reset()
        self.outside.reset()

    def merge_state(self, other: Any) -> None:
        theirs = self._like(other)
        self._settle()
        if theirs.names != self.names:
            raise ValueError(f"Sliced.merge_state: the other has the slices {theirs.names}; expected {self.names}.")
        theirs._settle()
        self._absorb(theirs)

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return super().__getstate__()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._settle()
        return super()._apply(fn, recurse)

    def _save_to_state_dict(self, *args: Any) -> None:
        self._settle()
        super()._save_to_state_dict(*args)

    @property
    def metric_state(self) -> dict[str, Any]:
        self._settle()
        return super().metric_state

    @property
    def update_count(self) -> int:
        return super().update_count + len(self._waiting)


def _on_host(index: Any) -> np.ndarray:
    found = index.numpy() if isinstance(index, Tensor) else np.asarray(index)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ValueError(f"Sliced: the index has dtype {found.dtype} and shape {found.shape}; expected integers of shape (N,).")
    return found.astype(np.int64, copy=False)
