"""Built-in metrics: a formula over the totals of statistics, which live in a ledger."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from . import distributed
from .clock import Clock
from .faults import Fault, check
from .fetching import fetch_alone
from .guard import guarded
from .holder import Holder
from .ledger import Ledger
from .loose_ledger import LooseLedger, feed_loose
from .pending import Pending
from .refusal import refused
from .seen import Seen
from .statistic import loose, map_tensors
from .together import Read, described, gathered_by, part_of_all

Update = TypeVar("Update", bound=Callable[..., None])


def feeds(update: Update) -> Update:
    """Marks an `update` that only feeds its arguments to the statistics, so that a collection may do that in its place.

    It takes `valid=`, too: how many rows of the batch count, or a mask of them; the rest is padding.
    """
    feeding: Any = update
    if "valid" not in inspect.signature(update).parameters:

        @functools.wraps(update)
        def feeding(self: Formula, *args: Any, valid: Any = None, **kwargs: Any) -> None:
            if valid is None:
                return update(self, *args, **kwargs)
            return self._update_valid(valid, self._batch_of(args, kwargs))

    feeding.feeds = True
    return feeding  # type: ignore[no-any-return]


class Formula(Holder):
    """A metric that is a formula, `value`, over the totals of its statistics."""

    _builtin = True

    in_numbers: ClassVar[bool] = False
    """Whether `value` takes what `Statistic.numbers` gives in place of tensors, too."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("torchtally."):
            cls.in_numbers = False  # who wrote it was told of tensors

    def value(self, *totals: Any) -> Any:
        """The result, from what each statistic's `totals` gives; in float64 wherever it is not a count."""
        raise NotImplementedError

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The value on this batch, which is also accumulated, in one pass.

        Gradients flow to it where the metric is differentiable; what is accumulated is detached.
        """
        with self._held(waits=self.dist_sync_on_step):
            batch = self._share_of(*args, **kwargs)
            self.ledger.absorb(batch, 1)  # before the value: a failed value loses nothing
            return self._value_of(batch)

    shares = True
    """Whether what a batch adds can be taken apart first and then absorbed."""

    @property
    def plain(self) -> bool:
        """Whether this is nothing but a formula over what it is fed, so that a collection may feed, forward and compute it in its place."""
        cls = type(self)
        return self.only_feeds and cls.compute is Formula.compute and cls.forward is Formula.forward

    def _share_of(self, *args: Any, **kwargs: Any) -> Ledger:
        """What a batch adds, in a ledger of its own. A refused batch leaves what was accumulated alone."""
        ledger = self._leave() if self.ledger.shared else self.ledger
        follows = bool(self.is_differentiable) and not self.dist_sync_on_step and wants_grad(args, kwargs)
        batch: Ledger = LooseLedger(ledger) if follows else ledger.scratch()
        try:
            self.__dict__["ledger"] = batch
            self.update(*args, **kwargs)
        finally:
            self.__dict__["ledger"] = ledger
        return batch

    def _value_of(self, batch: Ledger) -> Any:
        if type(self).compute is Formula.compute:
            if self.dist_sync_on_step and distributed.available():
                batch = self._over_ranks(batch, self.process_group)
            value = self._of_batch(self._read(batch, numbers=True))
        else:
            value = self._computed_over(batch)
        self.__dict__["_forward_cache"] = map_tensors(value, torch.Tensor.detach) if batch.followed else value
        return value

    def _computed_over(self, batch: Ledger) -> Any:
        """What a user's own `compute` makes of a batch; faults wait until all is read."""
        kept = {n: self.__dict__[n] for n in ("ledger", "validate_args", "sync_on_compute")}
        self.__dict__.update(ledger=batch, validate_args=False, sync_on_compute=self.dist_sync_on_step)
        try:
            return self.compute()
        finally:
            self.__dict__.update(kept)

    def _value_in(self, ledger: Ledger) -> Any:
        """The value over the totals of a ledger, whoever wrote `compute`."""
        if type(self).compute is Formula.compute:
            return self._read(ledger)
        sync = self.dist_sync_on_step
        self.__dict__["dist_sync_on_step"] = False
        try:
            return self._computed_over(ledger)
        finally:
            self.__dict__["dist_sync_on_step"] = sync

    # ---- reading
    def _read(self, ledger: Ledger, numbers: bool = False) -> Any:
        """The formula on the totals of a ledger, in full precision. It may be in NumPy if `numbers`."""
        return Seen(ledger).values([(self, self._mine(ledger))], numbers)[id(self)]

    def _finish(self, value: Any) -> Any:
        """Rounded once to the dtype of results, in memory of its own."""
        if isinstance(value, float):  # a number of NumPy
            return torch.scalar_tensor(value, dtype=self._dtype or torch.get_default_dtype(), device="cpu")
        if isinstance(value, np.ndarray):
            return self._round(torch.from_numpy(value.copy()))
        return self._round(value) if type(value) is Tensor else map_tensors(value, self._round)

    def _of_batch(self, value: Any) -> Any:
        """The value `forward` gives, of static shape: `forward` never waits."""
        return self._finish(value)

    def _unfinished(self, value: Any) -> Any:
        """What `fetch` copies to the host: the value, or an `Unfinished` where a part of the work would wait for the device."""
        return value

    def _round(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        dtype = self._dtype or torch.get_default_dtype()
        return x.float() if dtype is torch.float32 else x.to(dtype)  # .float() takes half the time of .to()

    def _whole(self) -> Ledger:
        """The ledger to read: of all ranks, reduced once for all its readers until the next update, or this rank's own."""
        return self._of_ranks() or self._own()

    def _of_ranks(self) -> Ledger | None:
        if not self._to_sync():
            return None
        if self.dist_sync_fn is not None:
            return gathered_by(self.dist_sync_fn, self._alone(), self.process_group)
        read = self._read_ranks(self.process_group)
        return None if read is None else read.ledger_of(self)

    def _over_ranks(self, ledger: Ledger, group: Any) -> Ledger:
        """A ledger's totals over all ranks, not kept."""
        name = type(self).__name__
        return part_of_all(ledger.settled(), name, f"{described(self)} of one batch", group, self.timeout) or ledger

    def compute(self) -> Any:
        """The value over everything seen since the last reset, on all ranks."""
        ledger = self._of_ranks()
        with self._held():
            ledger = ledger or self._own()
            value = self._finish(self._read(ledger, numbers=True))
        check(type(self).__name__, self._faults(ledger), value)
        return value

    @guarded
    def fetch(self, reset: bool = False) -> Pending:
        """The value as Python numbers in full precision, later: starts what must be sent and copied, and returns at once.

        Ranks are read in the background. With `reset=True` also starts afresh: what is fetched and what is counted from now on are one
        consistent cut.
        """
        pending = fetch_alone(self)
        if reset:
            self.reset()
        return pending

    def _evaluated(self, ledger: Ledger) -> tuple[Any, list[tuple[str, Fault]]]:
        return self._unfinished(self._value_in(ledger)), [(type(self).__name__, f) for f in self._faults(ledger)]

    def _later(self, read: Read | None) -> Callable[[], tuple[Any, list[tuple[str, Fault]]]]:
        if read is not None and self in read:
            return lambda: self._evaluated(read.ledger_of(self))
        now = self._evaluated(self._whole())
        return lambda: now

    # ---- across ranks
    def _reduced(self, gather: Callable[..., Any] | None, group: Any, purpose: str = "compute") -> dict[str, Any]:
        if gather is not None:
            total = gathered_by(gather, self._alone(), group)
        else:
            read = self._read_alone(group, purpose)
            whole = None if read is None else read.ledger_of(self)
            total = self._alone() if whole is None else whole.part(self._mine(whole))
        total.shared = False
        return {"ledger": total}

    def _own_states(self) -> dict[str, Any]:
        return {"ledger": self.ledger}

    def _to_sync(self) -> bool:
        return not self._is_synced and super()._to_sync()

    # ---- without remembering
    def one_shot(self, *batch: Any) -> Any:
        """The value on one batch that is not accumulated; gradients flow where the metric is differentiable."""
        ledger = self.ledger
        clock = Clock(ledger.device)
        if not self.is_differentiable:
            batch = tuple(x.detach() if isinstance(x, Tensor) else x for x in batch)
        device = next((x.device for x in batch if isinstance(x, Tensor)), ledger.device)
        slots = [loose(p, device, clock) for p in ledger.parts]
        try:
            feed_loose(ledger, slots, batch, 1, self.validate_args)
        except Exception as error:
            raise refused(error, type(self).__name__, self.entries, batch) from error.__cause__
        value = self._finish(self.value(*(s.totals(slots[i]) for i, s in enumerate(self.statistics))))
        if self.validate_args:
            faults = [f for j, (i, _) in enumerate(ledger.inputs) for f in i.faults(slots[len(ledger.keys) + j])]
            check(type(self).__name__, faults, value)
        return value


def wants_grad(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether autograd follows any of a batch's entries."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return any(isinstance(x, Tensor) and x.requires_grad for x in (*args, *kwargs.values()))
