"""Metrics whose totals lie in a ledger, their own or one that they share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .entries import required_of, taken_by
from .faults import Fault
from .guard import guarded
from .ledger import Key, Ledger
from .metric import Metric
from .named_slots import agree, fill, places_of, states_of
from .options import OPTIONS
from .refusal import refused
from .saving import opened, saves_all
from .statistic import Statistic, map_tensors
from .valid import rows_of

_THEIRS = {"confmat", "measure", "preds", "sum_abs_error", "sum_error", "sum_squared_error", "target", "total", "tp", "fp", "tn", "fn"}
"""States of torchmetrics that people read."""


class Holder(Metric):
    """A metric that remembers what its statistics do.

    Totals live in `ledger`: the metric's own, or that of the collection it is a member of. A member that is written to on its own
    first takes its totals into a ledger of its own.
    """

    _builtin = True
    entries: tuple[str, ...] = ("preds", "target")
    """The parameters of `update` that the statistics are fed, in order."""

    statistics: tuple[Statistic, ...]
    validate_args: bool
    ledger: Ledger
    _needed: list[Key]
    _left: Ledger | None  # the ledger that was shared before
    _emptied: int  # the generation of the shared ledger in which this member was reset
    _kept: bool  # whether states are saved with a module that holds the metric

    def __init__(self, *statistics: Statistic, validate_args: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(validate_args, bool):
            raise ValueError(f"{type(self).__name__}: validate_args is {validate_args!r}; expected True or False.")
        ledger = Ledger([(s, self.entries) for s in statistics], torch.get_default_device())
        self.__dict__.update(statistics=statistics, validate_args=validate_args, ledger=ledger, _left=None, _emptied=-1, _kept=False)
        self.__dict__["_needed"] = self._name_needs()
        if not validate_args:
            ledger.strict = [False] * len(ledger.inputs)

    # ---- adding
    def _add(self, *batch: Any, valid: Any = None) -> None:
        """Feed a batch to the statistics: everything is checked before anything is written."""
        if valid is not None:
            self._update_valid(valid, batch)
        elif torch.compiler.is_compiling():
            self._add_here(batch, True)
        else:
            guard = self._guard
            guard.acquire()  # half the price of a with statement
            try:
                self._add_here(batch, False)
            finally:
                guard.release()

    def _add_here(self, batch: tuple[Any, ...], compiling: bool) -> None:
        if self.ledger.shared:
            self._leave()
        self._write(self._taken(batch), compiling)

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

    def _write(self, taken: list[Any], compiling: bool) -> None:
        ledger = self.ledger
        now = ledger.now(compiling)
        for j, (key, piece) in enumerate(taken):
            ledger.add(j, key, piece, now)
        ledger.tick(now)

    @guarded
    def _update_valid(self, valid: Any, batch: tuple[Any, ...]) -> None:
        """Add the rows of a batch that count."""
        if self.ledger.shared:
            self._leave()
        found, ledger = rows_of(valid, batch, type(self).__name__), self.ledger
        if isinstance(found, list):
            self._write(self._taken(tuple(found)), torch.compiler.is_compiling())
            return
        self._taken(tuple(x[:0] if isinstance(x, Tensor) and x.ndim else x for x in batch))  # refuses what can be refused now
        ledger.wait_for(found, batch, [(j, tuple(range(len(batch)))) for j in range(len(ledger.inputs))])

    def _batch_of(self, positional: Sequence[Any], given: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of an `update` that only feeds, in the order of `entries`."""
        by_name = {**dict(zip(taken_by(self), positional)), **given}
        missing = sorted(required_of(type(self)) - by_name.keys())
        if missing:
            raise ValueError(
                f"{type(self).__name__}: update needs {missing} but was given {len(positional)} by position and {list(given)} by name."
            )
        return tuple([by_name[e] for e in self.entries if e in by_name])

    @property
    def only_feeds(self) -> bool:
        """Whether `update` does nothing but feed its arguments to the statistics."""
        return bool(getattr(type(self).update, "feeds", False))

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

    # ---- totals
    def _mine(self, ledger: Ledger) -> range | list[int]:
        """Places of this metric's statistics in a ledger, its own or a shared one."""
        alone = not ledger.shared and len(ledger.keys) == len(self.statistics)
        return range(len(ledger.keys)) if alone else ledger.members_of(self.needs())

    def _totals(self, ledger: Ledger) -> list[Any]:
        ledger.fold()
        views, keys = ledger.views(), ledger.keys
        return [keys[i][0].totals(views[i]) for i in self._mine(ledger)]

    def _faults(self, ledger: Ledger) -> list[Fault]:
        return ledger.faults(self._mine(ledger)) if self.validate_args else []

    def _own(self) -> Ledger:
        """The ledger that holds this rank's totals, and perhaps those of other members."""
        return self.ledger.scratch() if self.emptied else self.ledger

    @guarded
    def _alone(self) -> Ledger:
        """The totals of this metric and no other."""
        if self.emptied:
            return Ledger(self.needs(), self.ledger.device)
        return self.ledger.part(self._mine(self.ledger)) if self.ledger.shared else self.ledger

    @guarded
    def merge_state(self, other: Metric | dict[str, Any] | str | os.PathLike[str]) -> None:
        """Add what another metric of the same class and configuration has seen: itself, its `metric_state` or `state_dict`, or a saved file."""
        other = opened(other)
        if self.ledger.shared:
            self._leave()
        if isinstance(other, dict):
            theirs = Ledger(self.needs(), self.ledger.device)
            missing = [n for n in self._places(theirs) if n not in other]
            if missing:
                raise ValueError(f"{type(self).__name__}.merge_state: states {missing} are missing. Were they saved with other arguments?")
            fill(theirs, self._places(theirs), other, f"{type(self).__name__}.merge_state")
            self.ledger.absorb(theirs, int(other.get("updates", 1)))
            return
        if not isinstance(other, Holder) or other.statistics != self.statistics:
            raise ValueError(
                f"{type(self).__name__}: cannot merge the state of {other!r}; expected a metric over the same statistics, {self.statistics}."
            )
        source = other.ledger.scratch() if other.emptied else other.ledger
        part = source.part(other._mine(source))
        part.to(self.ledger.device)
        self.ledger.absorb(part)

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
        """Name in a state_dict → part of a ledger and slot."""
        return places_of(ledger, self._mine(ledger))

    @property
    def metric_state(self) -> dict[str, Any]:
        ledger = self.ledger.scratch() if self.emptied else self.ledger
        return states_of(ledger, self._places(ledger))

    def persistent(self, mode: bool = False) -> None:
        self.__dict__["_kept"] = mode

    def _saved(self) -> dict[str, Any]:
        if not (self._kept or saves_all()):
            return {}
        return {**map_tensors(self.metric_state, lambda x: x.detach().clone()), "updates": torch.tensor(self.update_count)}

    @guarded
    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, x in self._saved().items():
            destination[prefix + name] = x

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
        known = {*mine, "updates"}
        if strict and (self._kept or not prefix or found):
            missing_keys += [prefix + n for n in mine if n not in found]
        if found:
            updates = int(state_dict.get(prefix + "updates", self.update_count or 1))
            if self.ledger.shared and not (updates == self.update_count and agree(mine, found)):
                self._leave()
            ledger = self._leave() if self.emptied else self.ledger
            try:
                ledger.fold()
                fill(ledger, self._places(ledger), found, f"{type(self).__name__}.load_state_dict")
                ledger.clock.load(updates)
                ledger.reduced = None
            except ValueError as error:
                error_msgs.append(str(error))
        if strict and not prefix:
            unexpected_keys += [k for k in state_dict if k not in known and k.split(".")[0] not in self._modules]

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
        if name in _THEIRS:
            kept = ", ".join(repr(n) for n in self.metric_state if n not in ("bad", "first_bad"))
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}: torchtally remembers less than torchmetrics. It keeps {kept}; "
                "what else you want, have from a metric of it in the same collection, such as StatScores or ConfusionMatrix."
            )
        return super().__getattr__(name)

    def extra_repr(self) -> str:
        return ", ".join([*(f"{k}={v!r}" for k, v in self._options()), super().extra_repr()])

    def _options(self) -> list[tuple[str, Any]]:
        """Constructor arguments worth showing: those that differ from their defaults."""
        shown = []
        for name, p in inspect.signature(type(self)).parameters.items():
            if name in self.__dict__ and name not in OPTIONS and p.kind is not p.VAR_KEYWORD:
                value = self.__dict__[name]
                if p.default is p.empty or (value is not p.default and value != p.default):
                    shown.append((name, value))
        return shown
