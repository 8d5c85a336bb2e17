"""What all metrics around metrics have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..apart import Call, Forwarded, update_all
from ..collection import MetricCollection
from ..faults import Fault, check_all
from ..fetching import UnderWay, leaves_named, read_all
from ..formula import Formula
from ..guard import guarded
from ..interval_reading import read_bounds
from ..intervals import Intervals
from ..metric import Metric
from ..options import OPTIONS
from ..pending import Pending, finished
from ..saving import opened
from ..statistic import map_tensors
from ..together import MEMBERS, Read, Together, copy_over_ranks, leaves_of, reads_of
from ..valid import rows_of

Later = Callable[[], tuple[Any, list[tuple[str, Fault]]]]


def checked_metric(owner: str, argument: str, metric: Any) -> Any:
    """Raise where this is neither a metric nor a collection of ours."""
    if not isinstance(metric, Metric | MetricCollection) or not hasattr(metric, "_later"):
        raise ValueError(
            f"{owner}: {argument} is {metric!r}; expected a metric or a MetricCollection of torchtally. "
            "torchtally.adopt.adopt makes one of a metric of torchmetrics."
        )
    return metric


def given_to(metric: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The call of a metric inside: of the named entries those it takes, and no positions where its entries are given by the names it is bound to."""
    if not isinstance(metric, Metric):
        return metric, args, kwargs
    named = metric._filter_kwargs(**kwargs)
    bound = [p for p in metric._entries if p in named]
    return metric, () if bound else args, named


def merged(metrics: list[Any], read: Read | None) -> Any:
    """A metric of what several of one kind have seen, here or on all ranks."""
    if read is not None:
        whole, *others = [copy_over_ranks(m, read) for m in metrics]
    else:
        first = next((m for m in metrics if m.update_count), metrics[0])
        whole, others = first.clone(), [m for m in metrics if m is not first and m.update_count]
    for m in others:
        whole.merge_state(m)
    return whole


def merged_later(metrics: list[Any], read: Read | None) -> Later:
    """The value over what several metrics of one kind have seen, as `_later` gives it."""
    if read is not None:
        return lambda: merged(metrics, read)._later(None)()
    later: Later = merged(metrics, None)._later(None)
    return later


class WrapperMetric(Metric):
    """Base of metrics that are made of other metrics; `isinstance(metric, WrapperMetric)` tells them.

    A subclass holds metrics or collections as submodules, says in `_calls` how a batch is given to them, and in `_value` what to make of their
    values. All that is read, merged, saved and moved is theirs: a wrapper is read over ranks in one go, `fetch` never waits, and a batch that one
    of them refuses changes none.
    """

    _builtin = True
    declined = dict.fromkeys(("weighted", "labels", "absent", "from_logits", "validate_args"), "it is one of the metric inside")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.__dict__.update(_given={name: x for name, x in kwargs.items() if name in OPTIONS}, _batch=None)

    _given: dict[str, Any]
    _batch: Any

    def _hold(self) -> None:
        """Let the metrics inside have the options that the wrapper was given, and its guard. The last thing that a constructor does."""
        for m in leaves_of(self).values():
            m.__dict__.update(self._given)
        for m in self.modules():
            if isinstance(m, Metric | MetricCollection):
                m.__dict__["_guard"] = self._guard

    # ---- what a subclass defines
    def _parts(self) -> list[Any]:
        """The metrics and collections inside, in the order of their values."""
        return list(self._modules.values())

    def _calls(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Call]:
        """How a batch is given to each of them."""
        return [given_to(m, args, kwargs) for m in self._parts()]

    def _value(self, values: list[Any]) -> Any:
        """The value, from theirs."""
        return finished(values[0])

    # ---- the contract
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch to every metric inside."""
        with self._held():
            self._update_here(args, kwargs)

    def _update_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if "valid" not in kwargs:
            return update_all(self._calls(args, kwargs))
        valid = kwargs.pop("valid")
        found = rows_of(valid, [*args, *kwargs.values()], type(self).__name__)
        if isinstance(found, list):
            return update_all(self._calls(tuple(found[: len(args)]), dict(zip(kwargs, found[len(args) :]))))
        for m, positional, given in self._calls(args, kwargs):
            m.update(*positional, **given, valid=found)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The value on this batch, which is also accumulated."""
        with self._held(waits=any(m.dist_sync_on_step for m in leaves_of(self).values())):
            value = self._forward_here(self._calls(args, kwargs))
        return value

    def _forward_here(self, calls: list[Call]) -> Any:
        values = Forwarded(calls).values()
        value = self._value([values[id(m)] for m in self._parts()])
        self.__dict__["_forward_cache"] = map_tensors(value, Tensor.detach)
        return value

    def compute(self) -> Any:
        """The value over everything seen since the last reset, on all ranks."""
        read = self._read()
        with self._held():
            value, faults = self._later(read)()
            value = self._finish(finished(value))
        check_all(faults, value)
        return value

    def interval(self, level: float = 0.95, method: str = "wilson") -> tuple[Any, Any]:
        """The confidence intervals of the metrics inside, `(low, high)`, each in the form of the value; see `Accuracy.interval`."""
        read = read_all(self, reads_of(self, "interval"), leaves_named(self))
        return read_bounds(self, read, Intervals(type(self).__name__, level, method))

    def _bounds_later(self, read: Read | None, asked: Intervals) -> Callable[[], tuple[tuple[Any, Any], list[tuple[str, Fault]]]]:
        parts = [m._bounds_later(read, asked) for m in self._parts()]

        def arrived() -> tuple[tuple[Any, Any], list[tuple[str, Fault]]]:
            found = [later() for later in parts]
            low, high = (self._value([bounds[side] for bounds, _ in found]) for side in (0, 1))
            return (low, high), [fault for _, faults in found for fault in faults]

        return arrived

    @guarded
    def fetch(self, reset: bool = False) -> Pending:
        """The value as Python numbers in full precision, later: starts what must be sent and copied, and returns at once.

        With `reset=True` also starts afresh: what is fetched and what is counted from now on are one consistent cut.
        """
        under_way = UnderWay(Together(type(self).__name__), leaves_named(self))
        pending = under_way.pending(self._later(under_way.read or self._read()))
        if reset:
            self.reset()
        return pending

    def plot(self, val: Any = None, ax: Any = None, **options: Any) -> Any:
        """Draw the value, or `val`: as the metric inside draws its own, where it is of the same form."""
        if not self._draws_as_inside:
            return super().plot(val, ax, **options)
        return self._measured().plot(self.compute() if val is None else val, ax=ax, **options)

    _draws_as_inside = False

    def _measured(self) -> Any:
        """The metric that says between which bounds values lie and which end is better."""
        part = self._parts()[0]
        return getattr(part, "base", part)  # a stack of copies holds the metric itself

    def _later(self, read: Read | None) -> Later:
        parts = [m._later(read) for m in self._parts()]

        def arrived() -> tuple[Any, list[tuple[str, Fault]]]:
            found = [later() for later in parts]
            return self._value([value for value, _ in found]), [fault for _, faults in found for fault in faults]

        return arrived

    def _finish(self, value: Any) -> Any:
        """Rounded once to the dtype of results; what wrappers of nothing but users' metrics give stays as it is."""
        if not any(isinstance(m, Formula) for m in leaves_of(self).values()):
            return value
        return map_tensors(value, lambda x: x.to(self.dtype) if x.is_floating_point() else x)

    @guarded
    def reset(self) -> None:
        """Forget everything."""
        for m in self._parts():
            m.reset()
        self.__dict__.update(_computed=None, _forward_cache=None, _is_synced=False)
        self._read_again()

    @guarded
    def merge_state(self, other: Metric | dict[str, Any] | str | os.PathLike[str]) -> None:
        """Add what another wrapper of the same metrics has seen: the wrapper, its `state_dict`, or a file of `torchtally.save`."""
        for mine, theirs in zip(self._parts(), self._like(other)._parts()):
            mine.merge_state(theirs)

    def _like(self, other: Any) -> Any:
        """A wrapper to merge with, also from its states or a file."""
        other = opened(other)
        if isinstance(other, Mapping):
            states, other = other, self.clone()
            other._forget()
            other.load_state_dict(states)
        if type(other) is not type(self) or len(other._parts()) != len(self._parts()):
            raise ValueError(f"{type(self).__name__}.merge_state: expected a {type(self).__name__} of the same metrics, not {other!r}.")
        return other

    def _forget(self) -> None:
        """Forget even what `reset` keeps."""
        self.reset()

    def _scratch(self) -> Any:
        """An empty copy: what one batch adds."""
        if self._batch is None:
            empty = self.clone()
            for m in empty.modules():
                if isinstance(m, Metric):
                    m.sync_on_compute = m.dist_sync_on_step
            self.__dict__["_batch"] = empty
        self._batch.reset()
        return self._batch

    # ---- across ranks
    def _read(self) -> Read | None:
        """The totals of all ranks, in one go for all metrics inside, and for the collection around."""
        collection = self._collection() if self._collection is not None else None
        if collection is not None:
            together = reads_of(collection, MEMBERS)
            return read_all(self, together, leaves_named(self), lambda m: collection.peers(m, together))
        return read_all(self, reads_of(self, "compute"), leaves_named(self))

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Replace the totals of every metric inside by those of all ranks, until `unsync`."""
        for m in leaves_of(self).values():
            m.sync(*args, **kwargs)
        self.__dict__["_is_synced"] = any(m._is_synced for m in leaves_of(self).values())

    def unsync(self, should_unsync: bool = True) -> None:
        """Back to the totals of this rank."""
        for m in leaves_of(self).values():
            if should_unsync and m._is_synced:
                m.unsync()
        self.__dict__["_is_synced"] = self._is_synced and not should_unsync

    # ---- being a metric
    @property
    def higher_is_better(self) -> Any:  # type: ignore[override]  # of the metric inside
        return getattr(self._parts()[0], "higher_is_better", None)

    @property
    def update_count(self) -> int:
        return max((m.update_count for m in self._parts()), default=0)

    @property
    def device(self) -> torch.device:
        return next((m.device for m in self._parts()), torch.device("cpu"))

    @property
    def metric_state(self) -> dict[str, Any]:
        return {f"{name}.{n}": x for name, m in leaves_of(self).items() for n, x in m.metric_state.items()}

    def set_dtype(self, dst_type: str | torch.dtype) -> Metric:
        self.__dict__["_dtype"] = getattr(torch, dst_type) if isinstance(dst_type, str) else dst_type
        for m in self._parts():
            m.set_dtype(dst_type)
        return self

    def persistent(self, mode: bool = False) -> None:
        for m in self._parts():
            m.persistent(mode)

    def _expects(self, path: str) -> bool:
        """Whether the states of the metric inside at `path` must be in a `state_dict` that is loaded."""
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_batch": None}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self.__dict__["_batch"] = None
        return super()._apply(fn, recurse)

    def _move(self, device: torch.device) -> None:
        """Metrics inside move by themselves."""

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
        if strict and not prefix:  # what the wrapper itself saved is complete
            for path, m in leaves_of(self).items():
                names = [f"{path}.{n}" for n in m.metric_state] if self._expects(path) else []
                missing_keys += names if names and not any(n in state_dict for n in names) else []
            unexpected_keys += [k for k in state_dict if k.partition(".")[0] not in self._modules]
        nn.Module._load_from_state_dict(self, state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)
