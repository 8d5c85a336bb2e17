"""The contract every metric keeps, and the base of users' own metrics."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from . import distributed
from .entries import parameters_of, required_of, taken_by
from .faults import Fault
from .fetching import fetch_alone, leaves_named, over_ranks
from .guard import guarded
from .intervals import Intervals, NoInterval
from .options import Constructor, MetricOptions, Unpack, check_names, options_of
from .pending import Pending
from .saving import asked_alone, opened, saving_all
from .scripting import Unscripted
from .states import KNOWN, States, gathered_by, moved
from .statistic import map_tensors
from .together import MEMBERS, Copy, Read, Together, leaves_of, reads_of
from .wrapping import cached, counted


class Metric(Unscripted, States):
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
    _forward_cache: Any
    # Dynamo looks for these in a metric that a compiled function is making, before there are any.
    _parameters: dict[str, Any] = {}
    _buffers: dict[str, Any] = {}
    _modules: dict[str, Any] = {}
    _names_values: bool = False
    """Whether a collection puts this metric's name before the names inside its value, whatever the others are called."""
    declined: ClassVar[dict[str, str]] = {}
    """Options that people may expect, and why they are none of this metric's."""
    __signature__ = Constructor()
    _untaken: tuple[str, ...] = ()
    """Parameters of `update` that the metric, made as it is, has no use for."""
    _depth: int  # 1 while an update or compute runs, which may call that of a parent class
    _grad: bool  # whether states may be followed by autograd: `forward` is under way
    _dtype: torch.dtype | None
    _entries: dict[str, str]
    _reads: dict[str, Together] | None  # by purpose
    _collection: Callable[[], Any] | None  # weak: of which this is a member
    _builtin = False  # update and compute of built-in metrics take care of themselves

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls._builtin:
            # Wrapped on the class: a bound wrapper on the instance would be a reference cycle.
            for name, wrap in (("update", counted), ("compute", cached)):
                if name in cls.__dict__:
                    setattr(cls, name, wrap(cls.__dict__[name]))

    if not TYPE_CHECKING:  # whom constructors tell what they take

        def __new__(cls, *args: Any, **options: Any) -> Any:
            if options and not torch.compiler.is_compiling():  # Dynamo warns of what is remembered there
                check_names(cls, options)
            return super().__new__(cls)

    def __init__(self, **kwargs: Unpack[MetricOptions]) -> None:
        super().__init__()
        parameters_of(type(self)), required_of(type(self))  # looked up once before an update is traced, which would be traced again after the first
        self.__dict__.update(  # nn.Module.__setattr__ costs a microsecond and has nothing to do here
            options_of(type(self), kwargs),
            _forward_cache=None,
            _depth=0,
            _grad=False,
            _dtype=None,
            _entries={},
            _reads=None,
            _collection=None,
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
            how in KNOWN or isinstance(self._defaults[n], list) for n, how in self._reductions.items()
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
        if collection is not None:
            reads_of(collection, MEMBERS).again(self)

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

    def _batch_value(self) -> Any:
        sync, self.__dict__["sync_on_compute"] = self.sync_on_compute, self.dist_sync_on_step
        try:
            return self.compute()
        finally:
            self.__dict__["sync_on_compute"] = sync

    @guarded
    def merge_state(self, other: Metric | dict[str, Any] | str | os.PathLike[str]) -> None:
        """Add what another metric of the same class has seen: the metric, its `metric_state` or `state_dict`, or a file of `torchtally.save`."""
        other = opened(other)
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
        self._restore({n: moved(states[n], self._device) for n in self._defaults}, count)
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
        reduced = self._reduced(dist_sync_fn or self.dist_sync_fn, group, "sync")
        if reduced is not None:
            self._switch(reduced)

    @guarded
    def _switch(self, states: dict[str, Any]) -> None:
        self.__dict__.update(states, _cache=self._own_states(), _is_synced=True, _computed=None)

    def _own_states(self) -> dict[str, Any]:
        """What `unsync` puts back."""
        return self._snapshot()

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

    def _reduced(self, gather: Callable[..., Any] | None, group: Any, purpose: str = "compute") -> dict[str, Any] | None:
        """The states of all ranks, combined; None where this rank is alone or has no states of its own."""
        if not self._defaults:
            return None
        if gather is None:
            read = self._read_ranks(group) if purpose == "compute" else self._read_alone(group, purpose)
            if read is None:
                return None
            ranks = read.states_of(self)
        else:
            ranks = gathered_by(gather, self._snapshot(), group)
        return self._combined_over(ranks)

    def _read_ranks(self, group: Any) -> Read | None:
        """The totals of all ranks, of this metric and of those it is in a collection with."""
        collection = self._collection() if self._collection is not None and group is self.process_group else None
        if collection is not None and not self._is_synced:
            read: Read | None = collection._read_with(self, self, reads_of(collection, MEMBERS))
            return read
        return self._read_alone(group, "compute")

    def _read_alone(self, group: Any, purpose: str) -> Read | None:
        """The totals of all ranks, of this metric only."""
        return reads_of(self, purpose).read(self, lambda: [(type(self).__name__, self)], group, self.timeout)

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

    def state_dict(self, *args: Any, reduce: bool = False, **kwargs: Any) -> Any:
        """All states, when called on the metric itself; what was made `persistent`, when called on a module that holds it.

        It is of this rank and nothing is communicated. With `reduce=True`, which all ranks must call, it is of all of them.
        """
        if reduce:
            return self.over_ranks().state_dict(*args, **kwargs)
        with saving_all() if asked_alone(args, kwargs) else nullcontext():
            return super().state_dict(*args, **kwargs)

    def over_ranks(self) -> Any:
        """A copy with the totals of all ranks, which must all call. It is local from then on."""
        return over_ranks(self, leaves_named(self))

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False, spread: bool = False) -> Any:
        """Go on from saved states. `spread=True` is for the states of a whole job: the first rank takes them and the others start empty."""
        found = super().load_state_dict(state_dict, strict, assign)
        if spread and not distributed.is_first(self.process_group):
            self.reset()
        return found

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
        for entry, name in entries.items():
            if not isinstance(name, str):
                raise ValueError(f"{type(self).__name__}.bind: {entry} is {name!r}; expected the name of an entry of the batch.")
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
        updates = self.update_count
        return "no updates yet" if not updates else f"{updates} update{'s' if updates != 1 else ''}"

    def __repr__(self) -> str:
        if "_guard" not in self.__dict__:  # as in a traceback of `__init__`
            return f"{type(self).__name__}(not initialized)"
        inside = self.extra_repr()
        children = "".join(f"\n  ({n}): {str(m)!s}".replace("\n", "\n  ") for n, m in self._modules.items() if m is not None)
        return f"{type(self).__name__}({inside}{children}{chr(10) if children else ''})"

    def __getstate__(self) -> dict[str, Any]:
        gone = ("_computed", "_forward_cache", "_reads", "_collection", "_token", "_stream")
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


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else [_detached(e) for e in x] if type(x) is list else x
