"""The contract every metric keeps, and the base of users' own metrics."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from . import distributed
from .faults import Fault
from .fetching import fetch_alone, leaves_named, over_ranks
from .guard import Guard, follow, guarded, stream_of
from .intervals import Intervals, NoInterval
from .pending import Pending
from .statistic import map_tensors
from .together import Copy, Read, Together, leaves_of
from .valid import rows_of

Found = TypeVar("Found")
Reduction = str | Callable[[Any], Any] | None

_KNOWN = ("sum", "mean", "max", "min", "cat")
_saving = threading.local()  # .complete: a metric's own state_dict() is under way, so that all it holds is saved

OPTIONS = {
    "sync_on_compute": True,
    "dist_sync_on_step": False,
    "process_group": None,
    "dist_sync_fn": None,
    "distributed_available_fn": None,
    "compute_with_cache": True,
    "compute_on_cpu": False,
    "timeout": None,
}


def _cached_by_class(look: Callable[[Any], Found]) -> Callable[[Any], Found]:
    known: dict[int, tuple[Any, Found]] = {}

    @functools.wraps(look)
    def cached(cls: Any) -> Found:
        found = known.get(id(cls))
        if found is None:
            found = known[id(cls)] = cls, look(cls)
        return found[1]

    return cached


@_cached_by_class
def parameters_of(cls: Any) -> tuple[str, ...]:
    """Names of the batch entries that a class's `update` takes; `("*",)` when it takes any."""
    parameters = list(inspect.signature(cls.update).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return ("*",)
    ours = ("valid",) if getattr(cls.update, "feeds", False) else ()
    return tuple(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL and p.name not in ours)


@_cached_by_class
def required_of(cls: Any) -> frozenset[str]:
    """Those of them that have no default."""
    parameters = list(inspect.signature(cls.update).parameters.values())[1:]
    return frozenset(p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def taken_by(metric: Any) -> tuple[str, ...]:
    """Names of the batch entries that a metric takes, made as it is."""
    names, left = parameters_of(type(metric)), getattr(metric, "_untaken", ())
    return tuple(n for n in names if n not in left) if left else names


class Metric(nn.Module):
    """A number, or several, over all batches seen since the last reset.

    Users' own metrics call `add_state` in `__init__` and define `update` and `compute`, as in torchmetrics. States keep the dtype they
    are given: `.half()` or `.double()` of a module that holds the metric does not touch them; `.to(device)` moves them.

    Keyword options: `sync_on_compute` (reduce over ranks when computing), `process_group`, `dist_sync_on_step` (also in `forward`),
    `dist_sync_fn(tensor, group) -> list` and `distributed_available_fn` (in place of torch.distributed), `compute_with_cache`, and
    `timeout`: for how many seconds `compute` waits for the other ranks before it raises `RankTimeout` (None: as long as the group does).
    """

    higher_is_better: bool | None = None
    is_differentiable: bool | None = None
    full_state_update: bool | None = None
    plot_lower_bound: float | None = None
    plot_upper_bound: float | None = None
    sync_on_compute: bool
    dist_sync_on_step: bool
    process_group: Any
    dist_sync_fn: Callable[..., Any] | None
    distributed_available_fn: Callable[[], bool] | None
    compute_with_cache: bool
    timeout: float | None
    _defaults: dict[str, Any]
    _reductions: dict[str, Reduction]
    _persistent: dict[str, bool]
    _update_count: int
    _computed: Any
    _forward_cache: Any
    spread: bool = False
    """Whether a collection puts this metric's name before the names inside its value, whatever the others are called."""
    _untaken: tuple[str, ...] = ()
    """Parameters of `update` that the metric, made as it is, has no use for."""
    _is_synced: bool
    _cache: Any
    _depth: int
    _grad: bool
    _device: torch.device
    _dtype: torch.dtype | None
    _entries: dict[str, str]
    _together: Together | None
    _collection: Callable[[], Any] | None  # weak: of which this is a member
    _guard: Guard  # shared with the collection and its members
    _stream: Any  # that used the states last

    _builtin = False  # update and compute of built-in metrics take care of themselves

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls._builtin:
            # Wrapped on the class: a bound wrapper on the instance would be a reference cycle.
            for name, wrap in (("update", _counted), ("compute", _cached)):
                if name in cls.__dict__:
                    setattr(cls, name, wrap(cls.__dict__[name]))

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        parameters_of(type(self)), required_of(type(self))  # looked up once before an update is traced, which would be traced again after the first
        unknown = sorted(set(kwargs) - set(OPTIONS))
        if unknown:
            raise ValueError(f"{type(self).__name__}: unexpected keyword arguments {unknown}; expected any of {sorted(OPTIONS)}.")
        for name in ("sync_on_compute", "dist_sync_on_step", "compute_with_cache", "compute_on_cpu"):
            if not isinstance(kwargs.get(name, False), bool):
                raise ValueError(f"{type(self).__name__}: {name} is {kwargs[name]!r}; expected True or False.")
        for name in ("dist_sync_fn", "distributed_available_fn"):
            if kwargs.get(name) is not None and not callable(kwargs[name]):
                raise ValueError(f"{type(self).__name__}: {name} is {kwargs[name]!r}; expected a function.")
        if (limit := kwargs.get("timeout")) is not None and not (isinstance(limit, int | float) and limit > 0):
            raise ValueError(f"{type(self).__name__}: timeout is {limit!r}; expected a number of seconds, or None.")
        self.__dict__.update(  # nn.Module.__setattr__ costs a microsecond and has nothing to do here
            {
                **OPTIONS,
                **kwargs,
                "_defaults": {},
                "_reductions": {},
                "_persistent": {},
                "_update_count": 0,
                "_computed": None,
                "_forward_cache": None,
                "_is_synced": False,
                "_cache": None,
                "_depth": 0,
                "_grad": False,
                "_device": torch.get_default_device(),
                "_dtype": None,
                "_entries": {},
                "_together": None,
                "_collection": None,
                "_guard": Guard(),
                "_stream": None,
            }
        )

    # ---- what a metric does
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define update")

    def compute(self) -> Any:
        """The value over everything seen since the last reset, on all ranks."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The value on this batch, which is also accumulated. One pass where all states combine in a known way, else two updates.

        A batch that `update` refuses is not accumulated; one of which only the value cannot be computed is, and nothing before it is lost.
        """
        with self._held(waits=self.dist_sync_on_step):
            return self._accumulated(*args, **kwargs)

    def _held(self, waits: bool = False) -> Any:
        """A context that no other thread is in at the same time, unless `waits`: who waits for other ranks must hold nothing."""
        return nullcontext() if waits or torch.compiler.is_compiling() else self._guard

    def _accumulated(self, *args: Any, **kwargs: Any) -> Any:
        before, count = self._snapshot(), self._update_count
        merge = not self.full_state_update and all(
            how in _KNOWN or isinstance(self._defaults[n], list) for n, how in self._reductions.items()
        )
        if not merge:
            self.update(*args, **kwargs)
            before, count = self._snapshot(), self._update_count
        self._blank()
        added = False
        try:
            self._grad = True
            self.update(*args, **kwargs)
            added = merge
            value = self._batch_value()
        except Exception as error:
            error.accumulated = added or not merge  # type: ignore[attr-defined]  # what a collection asks
            raise
        finally:
            self._grad = False
            if added:
                with torch.no_grad():
                    self._combine(before, count)
            else:
                self._restore(before, count)
            self.__dict__["_computed"] = None
        self.__dict__["_forward_cache"] = map_tensors(value, lambda x: x.detach() if x.requires_grad else x)
        return value

    @guarded
    def reset(self) -> None:
        """Forget everything."""
        token = self.__dict__.get("_token")
        self._blank()
        self.__dict__.update(_computed=None, _forward_cache=None, _is_synced=False, _cache=None, _token=token)
        self._read_again()

    def _read_again(self) -> None:
        collection = self._collection() if self._collection is not None else None
        for together in (self._together, collection.together if collection is not None else None):
            if together is not None:
                together.again(self)

    @guarded
    def fetch(self, reset: bool = False) -> Pending:
        """The value as Python numbers, later: starts one copy to the host and returns at once. `reset=True` also starts afresh."""
        pending = fetch_alone(self)
        if reset:
            self.reset()
        return pending

    def _settle(self) -> None:
        """Add what waits for the host to know something of it. To be called before totals are taken from outside."""

    def _later(self, read: Read | None) -> Callable[[], tuple[Any, list[tuple[str, Fault]]]]:
        """What gives the value, not yet on the host, and what was kept out, once the totals of all ranks have come. What is this rank's is taken now."""
        if read is not None and any(m in read for m in leaves_of(self).values()):
            if self._modules:
                copied = Copy(self)
                return lambda: (copied.filled(read).compute(), [])
            stand_in = self._stand_in()
            return lambda: (stand_in._value_over(read.states_of(self)), [])
        value = self.compute()
        return lambda: (value, [])

    def _bounds_later(self, read: Read | None, asked: Intervals) -> Callable[[], tuple[tuple[Any, Any], list[tuple[str, Fault]]]]:
        """As `_later`, of the confidence interval, `(low, high)` in the form of the value. Raises NoInterval where there is none."""
        raise NoInterval.of(self)

    def _stand_in(self) -> Any:
        """A metric to compute with other states, while this one goes on."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.__dict__.update(_computed=None, _is_synced=False, _depth=0, sync_on_compute=False, compute_with_cache=False)
        return new

    def _value_over(self, ranks: list[dict[str, Any]]) -> Any:
        """The value over the states of all ranks. For a stand-in, whose own states it overwrites."""
        self.__dict__.update(self._combined_over(ranks))
        return self.compute()

    def interval(self, level: float = 0.95, method: str = "wilson") -> tuple[Any, Any]:
        """The confidence interval of the value, `(low, high)`, for metrics that have one; NoInterval, a ValueError, for others."""
        raise NoInterval.of(self)

    def plot(self, val: Any = None, ax: Any = None, *, labels: Sequence[str] | None = None) -> tuple[Any, Any]:
        """Draw the value, or `val`: a value that was computed before, or a list of them, one for each step. Needs matplotlib.

        `labels` names the classes of a value that has one number for each. Returns the figure and the axes; `ax` draws into axes of yours.
        """
        from .plotting.values import values_of

        return values_of(self, val, ax, labels)

    # ---- states of users' metrics
    def add_state(self, name: str, default: Tensor | list[Any], dist_reduce_fx: Reduction = None, persistent: bool = False) -> None:
        """Declare an accumulator: a tensor, or an empty list that update appends to.

        `dist_reduce_fx` says how two of them combine: "sum", "mean", "max", "min", "cat", a function of the stacked (tensor) or listed
        (list) states of all ranks, or None to leave them stacked or listed.
        """
        if not name.isidentifier():
            raise ValueError(f"{type(self).__name__}: state name {name!r} is not a Python identifier.")
        if not isinstance(default, Tensor) and not (isinstance(default, list) and not default):
            raise ValueError(f"{type(self).__name__}: default of state {name!r} is {default!r}; expected a tensor or an empty list.")
        if not (dist_reduce_fx is None or dist_reduce_fx in _KNOWN or callable(dist_reduce_fx)):
            raise ValueError(
                f"{type(self).__name__}: dist_reduce_fx of state {name!r} is {dist_reduce_fx!r}; expected one of {_KNOWN}, a function or None."
            )
        self._defaults[name] = default.detach().clone().to(self._device) if isinstance(default, Tensor) else []
        self._reductions[name] = dist_reduce_fx
        self._persistent[name] = persistent
        self.__dict__[name] = self._defaults[name].clone() if isinstance(default, Tensor) else []

    def _blank(self) -> None:
        with torch.inference_mode(False):
            for name, default in self._defaults.items():
                self.__dict__[name] = default.clone() if isinstance(default, Tensor) else []
        self.__dict__.update(_update_count=0, _token=None)

    def _meet(self) -> None:
        """Order what the device is asked next after what other streams were asked to do with the states."""
        if self._device.type == "cuda" and not torch.compiler.is_compiling():
            self.__dict__["_stream"] = follow(
                self._stream, self._device, lambda: pytree.tree_leaves([self.__dict__[n] for n in self._defaults])
            )

    def _snapshot(self) -> dict[str, Any]:
        self._meet()
        return {n: list(x) if isinstance(x := self.__dict__[n], list) else x for n in self._defaults}

    def _detach(self, lengths: dict[str, int]) -> None:
        """Let go of the graphs that an update put into the states; lists had these lengths before."""
        for name in self._defaults:
            x = self.__dict__[name]
            if isinstance(x, Tensor):
                if x.requires_grad:
                    self.__dict__[name] = x.detach()
            else:
                x[lengths.get(name, 0) :] = map_tensors(x[lengths.get(name, 0) :], lambda t: t.detach() if t.requires_grad else t)

    def _states_kept(self) -> tuple[dict[str, Any], int]:
        """The states as they are, for `_restore`, whatever an update does in place."""
        return {n: list(x) if isinstance(x := self.__dict__[n], list) else x.clone() for n in self._defaults}, self._update_count

    def _restore(self, states: dict[str, Any], count: int) -> None:
        self.__dict__.update(states, _update_count=count, _token=None)

    def _combine(self, old: dict[str, Any], count: int) -> None:
        """Add states accumulated earlier, over `count` updates, to those held now."""
        for name, how in self._reductions.items():
            self.__dict__[name] = _combined(how, old[name], self.__dict__[name], count, self._update_count, f"{type(self).__name__}.{name}")
        self.__dict__.update(_update_count=self._update_count + count, _token=None)

    def _batch_value(self) -> Any:
        sync, self.__dict__["sync_on_compute"] = self.sync_on_compute, self.dist_sync_on_step
        try:
            return self.compute()
        finally:
            self.__dict__["sync_on_compute"] = sync

    @guarded
    def merge_state(self, other: Metric | dict[str, Any] | str | os.PathLike[str]) -> None:
        """Add what another metric of the same class has seen: the metric, its `metric_state` or `state_dict`, or a file of `torchtally.save`."""
        other = _opened(other)
        if isinstance(other, Metric):
            if type(other) is not type(self):
                raise ValueError(f"{type(self).__name__} cannot take the state of {type(other).__name__}; merge metrics of one class.")
            states, count = other._snapshot(), other._update_count
        elif isinstance(other, dict):
            states, count = other, int(getattr(other, "_metadata", {}).get("", {}).get("updates", 1))
        else:
            raise ValueError(f"{type(self).__name__}.merge_state expects a metric or a dict of its states, not {type(other).__name__}.")
        missing = sorted(set(self._defaults) - set(states))
        if missing:
            raise ValueError(f"{type(self).__name__}.merge_state: states {missing} are missing.")
        mine, mine_count = self._snapshot(), self._update_count
        self._restore({n: _moved(states[n], self._device) for n in self._defaults}, count)
        try:
            with torch.no_grad():
                self._combine(mine, mine_count)  # ours first
        except Exception:
            self._restore(mine, mine_count)
            raise
        self.__dict__["_computed"] = None

    # ---- across ranks
    def _to_sync(self) -> bool:
        available = self.distributed_available_fn or distributed.available
        return bool(self.sync_on_compute and available())

    def sync(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> None:
        """Replace the states by those reduced over all ranks, until `unsync`."""
        if self._is_synced and should_sync:
            raise RuntimeError(f"{type(self).__name__} is already synced; call unsync first.")
        available = distributed_available or self.distributed_available_fn or distributed.available
        if not should_sync or not available():
            return
        group = process_group if process_group is not None else self.process_group
        reduced = self._reduced(dist_sync_fn or self.dist_sync_fn, group)
        if reduced is not None:
            self._switch(reduced)

    @guarded
    def _switch(self, states: dict[str, Any]) -> None:
        self.__dict__.update(states, _cache=self._snapshot(), _is_synced=True, _computed=None)

    @guarded
    def unsync(self, should_unsync: bool = True) -> None:
        """Back to this rank's own states."""
        if not should_unsync:
            return
        if not self._is_synced:
            raise RuntimeError(f"{type(self).__name__} is not synced.")
        self.__dict__.update(self._cache, _cache=None, _is_synced=False, _computed=None)

    @contextmanager
    def sync_context(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        should_unsync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> Iterator[None]:
        """Synced within; this rank's own states afterwards, whatever is raised inside."""
        self.sync(dist_sync_fn, process_group, should_sync, distributed_available)
        try:
            yield
        finally:
            self.unsync(should_unsync and self._is_synced)

    def _reduced(self, gather: Callable[..., Any] | None, group: Any) -> dict[str, Any] | None:
        """The states of all ranks, combined; None where this rank is alone or has no states of its own."""
        if not self._defaults:
            return None
        if gather is None:
            read = self._read_ranks(group)
            if read is None:
                return None
            ranks = read.states_of(self)
        else:
            ranks = _gathered_by(gather, self._snapshot(), group)
        return self._combined_over(ranks)

    def _combined_over(self, ranks: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            name: _moved(_reduce(how, [r[name] for r in ranks], isinstance(self._defaults[name], list)), self._device)
            for name, how in self._reductions.items()
        }

    def _read_ranks(self, group: Any) -> Read | None:
        """The totals of all ranks, of this metric and of those it is in a collection with."""
        collection = self._collection() if self._collection is not None and group is self.process_group else None
        if collection is not None and not self._is_synced:
            read: Read | None = collection.together.read(self, functools.partial(collection.peers, self), group, self.timeout)
            return read
        if self._together is None:
            self.__dict__["_together"] = Together(type(self).__name__)
        return self._together.read(self, lambda: [(type(self).__name__, self)], group, self.timeout)  # type: ignore[union-attr]  # just set

    # ---- being a module
    @property
    def device(self) -> torch.device:
        """Where the totals are."""
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        """Of results: the default dtype, or what `set_dtype` asked for."""
        return self._dtype or torch.get_default_dtype()

    def set_dtype(self, dst_type: str | torch.dtype) -> Metric:
        """Give results in this dtype. Totals of built-in metrics keep full precision; floating states of users' metrics are cast."""
        dtype = getattr(torch, dst_type) if isinstance(dst_type, str) else dst_type
        self.__dict__["_dtype"] = dtype
        for name in self._defaults:
            for store in (self.__dict__, self._defaults):
                store[name] = map_tensors(store[name], lambda x: x.to(dtype) if x.is_floating_point() else x)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Follow a move to another device, and that only: a cast of the module that holds us is none of ours."""
        with torch.inference_mode(False):
            device = fn(torch.empty(0, device=self.device)).device
        if device != self.device:
            self._move(device)
        return super()._apply(fn, recurse)

    @guarded
    def _move(self, device: torch.device) -> None:
        self._meet()
        for name in self._defaults:
            self.__dict__[name] = _moved(self.__dict__[name], device)
            self._defaults[name] = _moved(self._defaults[name], device)
        self.__dict__.update(_device=device, _stream=stream_of(device), _computed=None, _cache=_moved(self._cache, device))

    def persistent(self, mode: bool = False) -> None:
        """Whether the states appear in the `state_dict` of a module that holds the metric (its own `state_dict()` is always complete)."""
        for name in self._persistent:
            self._persistent[name] = mode

    def state_dict(self, *args: Any, reduce: bool = False, **kwargs: Any) -> Any:
        """All states, when called on the metric itself; what was made `persistent`, when called on a module that holds it.

        It is of this rank and nothing is communicated. With `reduce=True`, which all ranks must call, it is of all of them.
        """
        if reduce:
            return self.over_ranks().state_dict(*args, **kwargs)
        if args or kwargs.get("destination") is not None or getattr(_saving, "complete", False):
            return super().state_dict(*args, **kwargs)
        with saving_all():
            return super().state_dict(*args, **kwargs)

    def over_ranks(self) -> Any:
        """A copy with the totals of all ranks, which must all call. It is local from then on."""
        return over_ranks(self, Together(type(self).__name__), leaves_named(self))

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False, spread: bool = False) -> Any:
        """Go on from saved states. `spread=True` is for the states of a whole job: the first rank takes them and the others start empty."""
        found = super().load_state_dict(state_dict, strict, assign)
        if spread and not distributed.is_first(self.process_group):
            self.reset()
        return found

    def _saved(self) -> dict[str, Any]:
        """What to save, by name."""
        every = getattr(_saving, "complete", False)
        return {n: self.__dict__[n] for n, keep in self._persistent.items() if keep or every}

    @guarded
    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, x in self._saved().items():
            destination[prefix + name] = map_tensors(x, lambda t: t.detach().clone())
        metadata = getattr(destination, "_metadata", {}).get(prefix[:-1])
        if metadata is not None:  # beside the states, whose names are the user's: a mean is weighed by it
            metadata["updates"] = self._update_count

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
        for name, keep in self._persistent.items():
            if prefix + name in state_dict:
                self.__dict__[name] = _moved(map_tensors(state_dict[prefix + name], lambda t: t.detach().clone()), self._device)
                self.__dict__.update(_computed=None, _update_count=int((local_metadata or {}).get("updates", max(self._update_count, 1))))
            elif strict and (keep or not prefix):
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)
        if strict and not prefix:
            known = set(self._defaults)
            unexpected_keys += [k for k in state_dict if "." not in k and k not in known and k not in unexpected_keys]

    # ---- small things
    @property
    def update_count(self) -> int:
        """How many updates since the last reset."""
        return int(self._update_count)

    @property
    def update_called(self) -> bool:
        return self.update_count > 0

    @property
    def metric_state(self) -> dict[str, Any]:
        """The accumulators by name."""
        return self._snapshot()

    def bind(self, **entries: str) -> Any:
        """Name the batch entries that update's parameters take in a collection: `MeanMetric().bind(value="loss")`. Returns the metric."""
        takes = taken_by(self)
        unknown = [p for p in entries if p not in takes and takes != ("*",)]
        if unknown:
            raise ValueError(f"{type(self).__name__}.update takes {list(takes)}, not {unknown}.")
        self.__dict__["_entries"] = {**self._entries, **entries}
        return self

    def clone(self) -> Any:
        """A copy with the same totals and nothing shared."""
        return copy.deepcopy(self)

    def reset_parameters(self) -> None:
        """What FSDP calls after materialising a module on a device: start empty."""
        self.reset()

    def _filter_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        takes = taken_by(self)
        if takes == ("*",) or not kwargs:
            return kwargs
        entries = [(p, self._entries.get(p, p)) for p in takes]
        return {p: kwargs[e] for p, e in entries if e in kwargs}

    def extra_repr(self) -> str:
        return _seen(self.update_count)

    def __repr__(self) -> str:
        inside = self.extra_repr()
        children = "".join(f"\n  ({n}): {str(m)!s}".replace("\n", "\n  ") for n, m in self._modules.items() if m is not None)
        return f"{type(self).__name__}({inside}{children}{chr(10) if children else ''})"

    def __getstate__(self) -> dict[str, Any]:
        gone = ("_computed", "_forward_cache", "_together", "_collection", "_token", "_stream")
        return {**self.__dict__, **dict.fromkeys(gone)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        with torch.inference_mode(False):
            state = {k: copy.deepcopy(_detached(v), memo) for k, v in self.__getstate__().items() if k != "process_group"}
        new.__setstate__({**state, "process_group": self.process_group})  # a process group cannot be copied and need not be
        return new

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__} cannot be iterated; call compute() and iterate its value.")


def _opened(other: Any) -> Any:
    """What a file holds, where a path is given."""
    if not isinstance(other, str | os.PathLike):
        return other
    from .checkpoint import load

    return load(other)


def _seen(updates: int) -> str:
    return "no updates yet" if not updates else f"{updates} update{'s' if updates != 1 else ''}"


@contextmanager
def saving_all() -> Iterator[None]:
    """Within, `state_dict` of every metric is complete."""
    before = getattr(_saving, "complete", False)
    _saving.complete = True
    try:
        yield
    finally:
        _saving.complete = before


def _counted(update: Callable[..., None]) -> Callable[..., None]:
    """A user's update: counted, without gradients unless `forward` asks, and the cached value dropped."""

    def counted(self: Metric, *args: Any, **kwargs: Any) -> None:
        if self._depth:  # called by the update of a subclass
            return update(self, *args, **kwargs)
        if "valid" in kwargs and "valid" not in parameters_of(type(self)) and parameters_of(type(self)) != ("*",):
            args, kwargs = _valid_part(type(self).__name__, kwargs.pop("valid"), args, kwargs)
        if self._is_synced:
            raise RuntimeError(f"{type(self).__name__} is synced; call unsync before update.")
        if not torch.compiler.is_compiling():
            self.__dict__["_update_count"] += 1
        self._meet()
        self.__dict__.update(_computed=None, _token=None, _depth=1)
        lengths = {n: len(x) for n in self._defaults if isinstance(x := self.__dict__[n], list)}
        try:
            with torch.set_grad_enabled(self._grad and torch.is_grad_enabled()):
                update(self, *args, **kwargs)
            if not self._grad:
                self._detach(lengths)
        except BaseException:
            self.__dict__["_update_count"] -= 1
            raise
        finally:
            self.__dict__["_depth"] = 0
        return None

    return functools.wraps(update)(guarded(counted))


def _valid_part(name: str, valid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an update with the rows that count. A mask on a device is waited for: only built-in metrics can add a batch later."""
    if isinstance(valid, Tensor):
        valid = valid.cpu()
    found = rows_of(valid, [*args, *kwargs.values()], name)
    return tuple(found[: len(args)]), dict(zip(kwargs, found[len(args) :]))


def _cached(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A user's compute: over all ranks, and kept until the next update. What arguments of it give is computed each time."""

    @functools.wraps(compute)
    def wrapper(self: Metric, *args: Any, **kwargs: Any) -> Any:
        with self._held():
            if self._depth:
                return compute(self, *args, **kwargs)
        synced = self._to_sync() and not self._is_synced
        keep = self.compute_with_cache and not (args or kwargs)
        if self._computed is not None and keep and not synced:  # other ranks may have seen more
            return self._computed
        reduced = self._reduced(self.dist_sync_fn, self.process_group) if synced else None
        with self._held():
            self._meet()
            if reduced is not None:
                self._switch(reduced)
            self.__dict__["_depth"] = 1
            try:
                value = compute(self, *args, **kwargs)
            finally:
                self.__dict__["_depth"] = 0
                if reduced is not None:
                    self.unsync()
        if not self._grad:
            self.__dict__["_computed"] = value if keep else None
        return value

    return wrapper


def _combined(how: Reduction, old: Any, new: Any, old_count: int, new_count: int, name: str) -> Any:
    """Two states of one metric, the older first."""
    if isinstance(old, list) or isinstance(new, list):
        return [*_as_list(old), *(x.detach() if isinstance(x, Tensor) else x for x in _as_list(new))]
    if how == "sum":
        return old + new
    if how == "mean":
        return (old * old_count + new * new_count) / max(old_count + new_count, 1)
    if how in ("max", "min"):
        return torch.maximum(old, new) if how == "max" else torch.minimum(old, new)
    if how == "cat":
        return torch.cat([torch.atleast_1d(old), torch.atleast_1d(new)])
    if how is None:
        return torch.stack([old, new])
    if callable(how):
        return how(torch.stack([old, new]))
    raise RuntimeError(f"{name}: states do not combine by {how!r}.")


def _as_list(x: Any) -> list[Any]:
    return x if isinstance(x, list) else [x]


def _reduce(how: Reduction, parts: list[Any], listed: bool) -> Any:
    """The states of all ranks as one."""
    if listed:
        flat = [x for part in parts for x in _as_list(part)]
        if how == "cat":
            return [torch.cat([torch.atleast_1d(x) for x in flat])] if flat else []
        return how(flat) if callable(how) else flat
    if how == "cat":
        return torch.cat([torch.atleast_1d(x) for x in parts])
    stacked = torch.stack(list(parts))
    if how in ("sum", "mean"):
        return stacked.sum(0) if how == "sum" else stacked.mean(0)
    if how in ("max", "min"):
        return stacked.amax(0) if how == "max" else stacked.amin(0)
    return how(stacked) if callable(how) else stacked


def _gathered_by(gather: Callable[..., Any], states: dict[str, Any], group: Any) -> list[dict[str, Any]]:
    """States of all ranks through a user's `dist_sync_fn(tensor, group) -> list of tensors`."""
    columns: dict[str, list[Any]] = {}
    for name, x in states.items():
        if isinstance(x, list):
            joined = torch.cat([torch.atleast_1d(e) for e in x]) if x else torch.zeros(0)
            columns[name] = [[part] if part.numel() else [] for part in gather(joined, group)]
        else:
            columns[name] = list(gather(x, group))
    world = len(next(iter(columns.values()), [None]))
    return [{n: column[r] for n, column in columns.items()} for r in range(world)]


def _moved(x: Any, device: torch.device) -> Any:
    return map_tensors(x, lambda t: t.to(device))


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else [_detached(e) for e in x] if type(x) is list else x
