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
from ..valid import Unseen, rows_at, rows_of, runs_of
from .abstract import Later, WrapperMetric, checked_metric, given_to, merged, merged_later
from .by_rows import rows_in, stackable
from .slices import LEFT_OUT, Slices

MANY = 64
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
        parts = self.slots.stacked.copy(self.slots._slots(), place)
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
        count = len(self.names)
        place = np.where((index < 0) | (index >= count), count, index)
        sizes = np.bincount(place, minlength=count + 1)
        wrong = int(sizes[count]) and int(sizes[count]) - int((index == LEFT_OUT).sum())
        if wrong and strict:
            raise FaultError(
                f"Sliced: {wrong} of {len(index)} rows have an index of no slice; expected 0 to {count - 1}. {_ADVICE}"
            )
        there = self._stacked and not self.slots.ledger.on_cpu and bool(self.slots.told)  # where only the device knows how scores are to be read
        if strict and self._stacked and self.slots.at_once and (count >= MANY or there):
            self.slots.check(*given_to(self.slots, args, kwargs)[1:])
            places = torch.from_numpy(index)
            self._add_there(places.pin_memory().to(self.device, non_blocking=True) if there else places, args, kwargs)
            return
        filled = sizes[:count].nonzero()[0]
        if len(filled):
            order = np.argsort(place.astype(np.uint16) if count < 1 << 16 else place, kind="stable")  # short integers by radix
            inside = torch.from_numpy(order[: len(index) - int(sizes[count])])
            values = rows_at(inside, len(index), [*args, *kwargs.values()], "Sliced")
            args, kwargs = tuple(values[: len(args)]), dict(zip(kwargs, values[len(args) :]))
        runs = filled.tolist(), sizes[filled].tolist()
        if self._stacked:
            self.slots.add(*given_to(self.slots, args, kwargs)[1:], *runs)
        else:
            rows = zip(runs[0], runs_of([*args, *kwargs.values()], runs[1]))
            update_all([given_to(self.each[g], x[: len(args)], dict(zip(kwargs, x[len(args) :]))) for g, x in rows])
        if wrong:
            self.outside.note(wrong, self.update_count)

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
