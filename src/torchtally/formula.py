"""Built-in metrics: a formula over the totals of statistics, which live in a ledger."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import distributed
from .faults import Fault, report
from .fetching import fetch_alone
from .guard import guarded
from .ledger import Clock, Key, Ledger, LooseLedger
from .metric import Metric, _opened, _saving, _seen, required_of, taken_by
from .pending import Pending
from .refusal import refused
from .statistic import Slots, Statistic, loose, map_tensors
from .together import Read, described, gathered_by, part_of_all
from .valid import rows_of


def feeds(update: Callable[..., None]) -> Callable[..., None]:
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


class Formula(Metric):
    """A metric that is a formula, `value`, over the totals of its statistics.

    Totals live in `ledger`: the metric's own, or that of the collection it is a member of. A member that is written to on its own
    first takes its totals into a ledger of its own.
    """

    _builtin = True
    entries: tuple[str, ...] = ("preds", "target")
    """The parameters of `update` that the statistics are fed, in order."""

    def __init__(self, *statistics: Statistic, validate_args: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(validate_args, bool):
            raise ValueError(f"{type(self).__name__}: validate_args is {validate_args!r}; expected True or False.")
        ledger = Ledger([(s, self.entries) for s in statistics], torch.get_default_device())
        self.__dict__.update(statistics=statistics, validate_args=validate_args, ledger=ledger, _left=None, _emptied=-1, _kept=False)
        self.__dict__["_needed"] = self._name_needs()
        if not validate_args:
            ledger.strict = [False] * len(ledger.inputs)

    statistics: tuple[Statistic, ...]
    validate_args: bool
    ledger: Ledger
    _needed: list[Key]
    _left: Ledger | None
    _emptied: int
    _kept: bool

    def value(self, *totals: Any) -> Any:
        """The result, from what each statistic's `totals` gives; in float64 wherever it is not a count."""
        raise NotImplementedError

    # ---- adding
    def _add(self, *batch: Any, valid: Any = None) -> None:
        """Feed a batch to the statistics: everything is checked before anything is written."""
        if valid is not None:
            self._update_valid(valid, batch)
        elif torch.compiler.is_compiling():
            self._add_here(batch)
        else:
            guard = self._guard
            guard.acquire()  # half the price of a with statement
            try:
                self._add_here(batch)
            finally:
                guard.release()

    def _add_here(self, batch: tuple[Any, ...]) -> None:
        if self.ledger.shared:
            self._leave()
        self._write(self._taken(batch))

    def _taken(self, batch: tuple[Any, ...]) -> list[Any]:
        """A batch checked and reduced to pieces; nothing is written."""
        ledger = self.ledger
        if not ledger.on_cpu:
            ledger.meet()
        if not ledger.followed:
            batch = tuple([x.detach() if isinstance(x, Tensor) and x.requires_grad else x for x in batch])
        try:
            taken = []
            for j, ((input_, _), strict) in enumerate(zip(ledger.inputs, ledger.strict)):
                ledger.accept(j, batch, "the metric")
                taken.append(input_.take(strict, *batch))
        except Exception as error:
            raise refused(error, type(self).__name__, self.entries, batch) from error.__cause__
        return taken

    def _write(self, taken: list[Any]) -> None:
        ledger = self.ledger
        for j, (key, piece) in enumerate(taken):
            ledger.add(j, key, piece)
        ledger.tick()

    @guarded
    def _update_valid(self, valid: Any, batch: tuple[Any, ...]) -> None:
        """Add the rows of a batch that count."""
        if self.ledger.shared:
            self._leave()
        found, ledger = rows_of(valid, batch, type(self).__name__), self.ledger
        if isinstance(found, list):
            self._write(self._taken(tuple(found)))
            return
        self._taken(tuple(x[:0] if isinstance(x, Tensor) and x.ndim else x for x in batch))  # refuses what can be refused now
        ledger.wait_for(found, batch, [(j, tuple(range(len(batch)))) for j in range(len(ledger.inputs))])

    def _batch_of(self, positional: Sequence[Any], given: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of an `update` that only feeds, in the order of `entries`."""
        by_name = {**dict(zip(taken_by(self), positional)), **given}
        missing = sorted(required_of(type(self)) - set(by_name))  # a set: Dynamo of torch 2.11 takes no keys from another
        if missing:
            raise ValueError(
                f"{type(self).__name__}: update needs {missing} but was given {len(positional)} by position and {list(given)} by name."
            )
        return tuple([by_name[e] for e in self.entries if e in by_name])

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
    def only_feeds(self) -> bool:
        """Whether `update` does nothing but feed its arguments to the statistics."""
        return bool(getattr(type(self).update, "feeds", False))

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
            value = self._of_batch(self._read(batch))
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

    # ---- sharing
    def needs(self) -> list[Key]:
        """The statistics and the batch entries they are fed."""
        return self._needed

    def _name_needs(self) -> list[Key]:
        names = tuple(self._entries.get(e, e) for e in self.entries)
        return [(s, names) for s in self.statistics]

    @guarded
    def bind(self, **entries: str) -> Any:
        ledger = self._leave() if self.ledger.shared else self.ledger
        super().bind(**entries)
        self.__dict__["_needed"] = self._name_needs()
        renamed = Ledger(self.needs(), ledger.device)
        renamed.strict = ledger.strict
        ledger.fold()
        renamed.flats, renamed.samples, renamed.clock = ledger.flats, ledger.samples, ledger.clock
        self.__dict__["ledger"] = renamed
        return self

    @property
    def emptied(self) -> bool:
        """Whether this member was reset while others still need the ledger they share."""
        return self.ledger.shared and self._emptied == self.ledger.generation

    def _leave(self) -> Ledger:
        """Stop sharing: take the totals along into a ledger of its own."""
        shared, keys, empty = self.ledger, self.needs(), self.emptied
        ledger = Ledger(keys, shared.device) if empty else shared.part(shared.members_of(keys))
        ledger.strict = [self.validate_args] * len(ledger.inputs)
        self.__dict__.update(ledger=ledger, _left=shared)
        shared.left += 1
        shared.members -= 1
        shared.emptied -= empty
        return ledger

    @guarded
    def reset(self) -> None:
        """Forget everything. A shared ledger is cleared when the last of its members is reset; until then this one reads as empty."""
        ledger = self.ledger
        read = ledger.reduced  # what was read stays for members that have not asked yet: ranks must not differ in when they read anew
        if not ledger.shared:
            ledger.reset()
            if self._left is not None:
                self._left.left += 1  # perhaps all are empty now: the next update of the collection looks, and shares again
        elif not self.emptied:
            self.__dict__["_emptied"] = ledger.generation
            ledger.emptied += 1
            if ledger.emptied == ledger.members:
                ledger.reset()
        ledger.reduced = read
        self._read_again()
        self.__dict__.update(_forward_cache=None, _is_synced=False, _cache=None)

    # ---- reading
    def _mine(self, ledger: Ledger) -> range | list[int]:
        return (
            range(len(ledger.keys)) if not ledger.shared and len(ledger.keys) == len(self.statistics) else ledger.members_of(self.needs())
        )

    def _read(self, ledger: Ledger) -> Any:
        """The formula on the totals of a ledger, in full precision."""
        return self.value(*self._totals(ledger))

    def _totals(self, ledger: Ledger) -> list[Any]:
        ledger.fold()
        views, keys = ledger.views(), ledger.keys
        return [keys[i][0].totals(views[i]) for i in self._mine(ledger)]

    def _finish(self, value: Any) -> Any:
        """Rounded once to the dtype of results, in memory of its own."""
        return self._round(value) if isinstance(value, Tensor) else map_tensors(value, self._round)

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

    def _faults(self, ledger: Ledger) -> list[Fault]:
        return ledger.faults(self._mine(ledger)) if self.validate_args else []

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

    def _own(self) -> Ledger:
        return self.ledger.scratch() if self.emptied else self.ledger

    @guarded
    def _alone(self) -> Ledger:
        """The totals of this metric and no other."""
        if self.emptied:
            return Ledger(self.needs(), self.ledger.device)
        return self.ledger.part(self._mine(self.ledger)) if self.ledger.shared else self.ledger

    def _over_ranks(self, ledger: Ledger, group: Any) -> Ledger:
        """A ledger's totals over all ranks, not kept."""
        name = type(self).__name__
        return part_of_all(ledger.settled(), name, described(self), group, self.timeout) or ledger

    def compute(self) -> Any:
        """The value over everything seen since the last reset, on all ranks."""
        ledger = self._of_ranks()
        with self._held():
            ledger = ledger or self._own()
            value = self._finish(self._read(ledger))
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

    @guarded
    def merge_state(self, other: Metric | dict[str, Any] | str | os.PathLike[str]) -> None:
        """Add what another metric of the same class and configuration has seen: itself, its `metric_state` or `state_dict`, or a saved file."""
        other = _opened(other)
        if self.ledger.shared:
            self._leave()
        if isinstance(other, dict):
            theirs = Ledger(self.needs(), self.ledger.device)
            missing = [n for n in self._places(theirs) if n not in other]
            if missing:
                raise ValueError(f"{type(self).__name__}.merge_state: states {missing} are missing. Were they saved with other arguments?")
            self._fill(theirs, other, f"{type(self).__name__}.merge_state")
            self.ledger.absorb(theirs, int(other.get("updates", 1)))
            return
        if not isinstance(other, Formula) or other.statistics != self.statistics:
            raise ValueError(
                f"{type(self).__name__}: cannot merge the state of {other!r}; expected a metric over the same statistics, {self.statistics}."
            )
        source = other.ledger.scratch() if other.emptied else other.ledger
        part = source.part(other._mine(source))
        part.to(self.ledger.device)
        self.ledger.absorb(part)

    # ---- across ranks
    def sync(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> None:
        if self._is_synced and should_sync:
            raise RuntimeError(f"{type(self).__name__} is already synced; call unsync first.")
        available = distributed_available or self.distributed_available_fn or distributed.available
        if not should_sync or not available():
            return
        gather, group = dist_sync_fn or self.dist_sync_fn, process_group if process_group is not None else self.process_group
        total = gathered_by(gather, self._alone(), group) if gather is not None else self._over_ranks(self._alone(), group)
        total.shared = False
        with self._held():
            self.__dict__.update(_cache=self.ledger, ledger=total, _is_synced=True)

    @guarded
    def unsync(self, should_unsync: bool = True) -> None:
        if not should_unsync:
            return
        if not self._is_synced:
            raise RuntimeError(f"{type(self).__name__} is not synced.")
        self.__dict__.update(ledger=self._cache, _cache=None, _is_synced=False)

    def _to_sync(self) -> bool:
        return not self._is_synced and super()._to_sync()

    # ---- state
    @property
    def update_count(self) -> int:
        return 0 if self.emptied else self.ledger.updates

    @property
    def device(self) -> torch.device:
        return self.ledger.device

    def set_dtype(self, dst_type: str | torch.dtype) -> Metric:
        self.__dict__["_dtype"] = getattr(torch, dst_type) if isinstance(dst_type, str) else dst_type
        return self

    @guarded
    def _move(self, device: torch.device) -> None:
        ledger = self._leave() if self.ledger.shared else self.ledger
        ledger.to(device)

    def _places(self, ledger: Ledger) -> dict[str, tuple[int, str]]:
        """Name in a state_dict → part of a ledger and slot: slot names, with the statistic's before them where a metric has several."""
        many = len(self.statistics) > 1
        places = {}
        for i in self._mine(ledger):
            statistic, entries = ledger.keys[i]
            for name in statistic.slots():
                places[f"{statistic.label}.{name}" if many else name] = i, name
            j = len(ledger.keys) + ledger.inputs.index((statistic.input, entries))
            for name in statistic.input.slots():
                places[name] = j, name
        return places

    def _named_slots(self, ledger: Ledger) -> dict[str, tuple[Slots, str]]:
        views = ledger.views()
        return {name: (views[part], slot) for name, (part, slot) in self._places(ledger).items()}

    @property
    def metric_state(self) -> dict[str, Any]:
        ledger = self.ledger.scratch() if self.emptied else self.ledger
        ledger.fold()
        return {name: getattr(slots, slot) for name, (slots, slot) in self._named_slots(ledger).items()}

    def persistent(self, mode: bool = False) -> None:
        self.__dict__["_kept"] = mode

    def _saved(self) -> dict[str, Any]:
        if not (self._kept or getattr(_saving, "complete", False)):
            return {}
        return {**map_tensors(self.metric_state, _own), "updates": torch.tensor(self.update_count)}

    @guarded
    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, x in self._saved().items():
            destination[prefix + name] = x

    def _fill(self, ledger: Ledger, states: dict[str, Any], name: str) -> None:
        """Overwrite slots of a ledger, all or none."""
        named = self._named_slots(ledger)
        slots_of = {n: ledger.parts[part].slots()[slot] for n, (part, slot) in self._places(ledger).items()}
        for n, (slots, slot) in named.items():
            mine, theirs = getattr(slots, slot), states.get(n)
            if theirs is not None and isinstance(mine, Tensor) and (not isinstance(theirs, Tensor) or theirs.shape != mine.shape):
                found = tuple(theirs.shape) if isinstance(theirs, Tensor) else type(theirs).__name__
                raise ValueError(f"{name}: state {n!r} has shape {found}; expected {tuple(mine.shape)}. Was it saved with other arguments?")
            kind = slots_of[n].dtype.is_floating_point
            for x in [theirs] if isinstance(theirs, Tensor) else theirs or ():
                if x.is_floating_point() != kind:
                    raise ValueError(
                        f"{name}: state {n!r} has dtype {x.dtype}; expected {slots_of[n].dtype}. Was it saved with another `weighted`?"
                    )
        for n, (slots, slot) in named.items():
            mine, theirs = getattr(slots, slot), states.get(n)
            if theirs is None:
                continue
            if isinstance(mine, Tensor):
                mine.copy_(theirs)
            else:
                mine[:] = [x.detach().clone().to(ledger.device) for x in theirs]

    @guarded
    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        mine = self.metric_state
        found = {n: state_dict[prefix + n] for n in mine if prefix + n in state_dict}
        known = {prefix + n for n in (*mine, "updates")}
        if strict and (self._kept or not prefix or found):
            missing_keys += [prefix + n for n in mine if n not in found]
        if found:
            updates = int(state_dict.get(prefix + "updates", self.update_count or 1))
            if self.ledger.shared and not (updates == self.update_count and self._agrees(mine, found)):
                self._leave()
            ledger = self._leave() if self.emptied else self.ledger
            try:
                ledger.fold()
                self._fill(ledger, found, f"{type(self).__name__}.load_state_dict")
                ledger.clock.load(updates)
                ledger.reduced = None
            except ValueError as error:
                error_msgs.append(str(error))
        if strict:
            inside = (*self._modules,)
            unexpected_keys += [
                k
                for k in state_dict
                if k.startswith(prefix) and k not in known and k[len(prefix) :].split(".")[0] not in inside and prefix == ""
            ]

    def _agrees(self, mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
        """Whether loading would change nothing: what is shared was already filled with the same totals."""
        return all(
            isinstance(x, Tensor) and isinstance(mine[n], Tensor) and x.shape == mine[n].shape and torch.equal(mine[n].cpu(), x.cpu())
            for n, x in theirs.items()
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "ledger" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "updates":  # as in a state_dict; what saves sharded models looks every entry up as an attribute
            return torch.tensor(self.update_count)
        if len(self.statistics) > 1 and (i := next((i for i, s in enumerate(self.statistics) if s.label == name), None)) is not None:
            return self.ledger.views()[self._mine(self.ledger)[i]]
        state = self.__dict__["ledger"].place
        if any(n == name for _, n in state) or any(n == name for _, n in self.__dict__["ledger"].sampled):
            return self.metric_state[name]
        return super().__getattr__(name)

    def extra_repr(self) -> str:
        return ", ".join([*(f"{k}={v!r}" for k, v in self._options()), _seen(self.update_count)])

    def _options(self) -> list[tuple[str, Any]]:
        """Constructor arguments worth showing: those that differ from their defaults."""
        shown = []
        for name, p in inspect.signature(type(self).__init__).parameters.items():
            if name in self.__dict__ and p.kind is not p.VAR_KEYWORD:
                value = self.__dict__[name]
                if p.default is p.empty or (value is not p.default and value != p.default):
                    shown.append((name, value))
        return shown

    def one_shot(self, *batch: Any) -> Any:
        """The value on one batch that is not accumulated; gradients flow where the metric is differentiable."""
        ledger = self.ledger
        clock = Clock(ledger.device)
        if not self.is_differentiable:
            batch = tuple(x.detach() if isinstance(x, Tensor) else x for x in batch)
        device = next((x.device for x in batch if isinstance(x, Tensor)), ledger.device)
        slots = [loose(p, device, clock) for p in ledger.parts]
        try:
            for j, (pair, feeds) in enumerate(zip(ledger.inputs, ledger.feeds)):
                _, piece = pair[0].take(self.validate_args, *batch)
                if piece is None:
                    continue
                ledger.settle_into(slots, j, [piece], 1)
                for i in feeds:
                    statistic = ledger.keys[i][0]
                    for name, number in statistic.drain(slots[i].host).items() if slots[i].host is not None else ():
                        setattr(slots[i], name, getattr(slots[i], name) + number)
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


def _own(x: Tensor) -> Tensor:
    return x.detach().clone()


def check_all(faults: list[tuple[str, Fault]], values: Any) -> None:
    """Report what was wrong with values, by name. Waits for the device once, and only where there can be faults."""
    if not faults:
        return
    here = [(name, f) for name, f in faults if f.count.is_cpu and int(f.count)]
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
