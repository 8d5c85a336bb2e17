"""Replace metrics of torchmetrics by torchtally's, with their configuration, their totals and their names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from ..collection import MetricCollection
from ..composition import CompositionalMetric
from ..errors import TallyError
from ..formula import Formula
from ..metric import Metric
from .equivalents import NoEquivalent, arguments_for, class_for, is_theirs, states_for
from .wrappers import is_wrapper, wrapper_for

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Left:
    """A metric that was not replaced: where it is in what was given, its class, and why."""

    name: str
    metric: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.metric} is left, {self.reason}" if self.name else f"{self.metric} is left: {self.reason}"


def adopt(thing: T, left: list[Left] | None = None) -> Any:
    """torchtally's equivalent of metrics of torchmetrics, to be used in their place.

    `thing` is a metric, a collection, or a dict, list, tuple or `nn.Module` (a LightningModule too) that holds some, at any depth. A metric is
    returned anew; a dict, list or module keeps its identity and has its metrics replaced. Arguments, totals, update counts, devices and names are taken
    over: values are the same before and after further updates. One object in two places stays one object.

    What has no equivalent stays as it is, and works on beside the others. It is appended to `left`, with the reason, or, without that list, named in a
    warning.

    >>> import torchmetrics
    >>> accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3)
    >>> accuracy.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    >>> adopt(accuracy)
    MulticlassAccuracy(num_classes=3, average='micro', 1 update)
    >>> adopt(accuracy).compute()
    tensor(0.6667)
    """
    walk = _Walk()
    new = walk.convert(thing, "")
    if not walk.looked:
        raise TallyError(
            f"adopt: {type(thing).__name__} is neither a metric of torchmetrics nor a dict, list, tuple or nn.Module. Give what holds the metrics."
        )
    if left is not None:
        left += walk.left
    elif walk.left:
        warnings.warn("adopt: " + "; ".join(map(str, walk.left)), stacklevel=2)
    return new


class _Walk:
    """One call of `adopt`: what was replaced by what, and what was left."""

    def __init__(self) -> None:
        self.left: list[Left] = []
        self.looked = False
        self._known: dict[int, tuple[object, object]] = {}  # by identity: torchmetrics' metrics define == as arithmetic

    def convert(self, thing: Any, name: str) -> Any:
        if id(thing) in self._known:
            return self._known[id(thing)][1]
        self._known[id(thing)] = (thing, thing)  # while under way: holders may hold each other
        new = self._converted(thing, name)
        self._known[id(thing)] = (thing, new)
        return new

    def _converted(self, thing: Any, name: str) -> Any:
        if isinstance(thing, (Metric, MetricCollection)):
            self.looked = True
            return thing
        if is_theirs(thing) or is_wrapper(thing):
            self.looked = True
            return self._metric(thing, name)
        if isinstance(thing, nn.Module):
            self.looked = True
            self._replace_in(thing._modules, name)
            self._replace_in(vars(thing), name, containers_only=True)
            return thing
        if isinstance(thing, (dict, list)):
            self.looked = True
            self._replace_in(thing, name)
            return thing
        if isinstance(thing, tuple):
            self.looked = True
            items = [self.convert(x, _inside(name, i)) for i, x in enumerate(thing)]
            changed = any(a is not b for a, b in zip(items, thing))
            return thing if not changed else type(thing)(*items) if hasattr(thing, "_fields") else tuple(items)
        return thing

    def _replace_in(self, holder: Any, name: str, containers_only: bool = False) -> None:
        """Attributes of a module are searched for metrics in dicts, lists and tuples; its own tables and everything else is left alone."""
        for key, value in _items(holder):
            if containers_only and (
                key in _TABLES or not isinstance(value, (dict, list, tuple)) or not any(map(_may_hold, _members(value)))
            ):
                continue
            if _may_hold(value):
                new = self.convert(value, _inside(name, key))
                if new is not value:
                    holder[key] = new

    def _metric(self, metric: Any, name: str) -> Any:
        try:
            if any(c.__name__ == "MetricCollection" for c in type(metric).__mro__):
                return self._collection(metric, name)
            if (made := self._around(metric, name)) is not None:
                return made
            new, states = self._single(metric)
            return _loaded(new, states)
        except NoEquivalent as problem:
            self.left.append(Left(name, type(metric).__name__, str(problem)))
            return metric

    def _around(self, metric: Any, name: str) -> Any:
        """The equivalent of a metric around others, or None of another."""
        if type(metric).__name__ == "CompositionalMetric":
            return self._composition(metric, name)
        if not is_wrapper(metric):
            return None

        def inside(thing: Any, place: str) -> Any:
            new = self.convert(thing, _inside(name, place))
            if not isinstance(new, Metric | MetricCollection):
                raise NoEquivalent("a metric in it has no equivalent")
            return new

        try:
            return wrapper_for(metric, inside)
        except (TypeError, ValueError) as problem:
            raise NoEquivalent(f"torchtally's {type(metric).__name__} refuses its arguments: {problem}") from None

    def _single(self, metric: Any) -> tuple[Any, dict[str, Any]]:
        """An empty metric with the same arguments, and what it is to be loaded with."""
        ours = class_for(metric)
        arguments = arguments_for(metric, ours)
        try:
            new = ours(**arguments)
        except (TypeError, ValueError) as problem:
            raise NoEquivalent(f"torchtally's {ours.__name__} refuses its arguments: {problem}") from None
        if not isinstance(new, Formula):
            raise NoEquivalent(f"torchtally's {ours.__name__} keeps its totals in another form")
        return _settled(new, metric), states_for(metric, new)

    def _collection(self, collection: Any, name: str) -> Any:
        """Equal members share totals again. Members that are left work in a collection of torchtally too, each on its own."""
        if type(collection).__module__.partition(".")[0] != "torchmetrics":
            raise NoEquivalent("it is a class of your own: derive it from torchtally.MetricCollection")
        members: dict[str, Any] = {}
        loaded: dict[str, Any] = {}
        left: list[Left] = []
        for key, metric in collection.items(keep_base=True, copy_state=True):
            try:
                if (made := self._around(metric, _inside(name, key))) is not None:
                    members[key] = made
                    continue
                members[key], states = self._single(metric)
                loaded |= {f"{key}.{slot}": value for slot, value in states.items()}
            except NoEquivalent as problem:
                members[key] = metric
                left.append(Left(_inside(name, key), type(metric).__name__, str(problem)))
        self.left += left
        if len(left) == len(members):
            raise NoEquivalent("none of its members has an equivalent")
        new = MetricCollection(members, prefix=collection.prefix, postfix=collection.postfix)
        return _loaded(new, loaded)

    def _composition(self, metric: Any, name: str) -> Any:
        before = len(self.left)
        parts = [
            self.convert(x, _inside(name, key)) if isinstance(x, nn.Module) else x
            for key in ("metric_a", "metric_b")
            for x in [getattr(metric, key)]
        ]
        if len(self.left) > before:
            raise NoEquivalent("a part of it has no equivalent")
        return CompositionalMetric(metric.op, *parts)


_TABLES = ("_modules", "_parameters", "_buffers", "_non_persistent_buffers_set")


def _items(holder: Any) -> list[tuple[Any, Any]]:
    return list(holder.items()) if isinstance(holder, Mapping) else list(enumerate(holder))


def _members(container: Any) -> Iterator[Any]:
    yield from container.values() if isinstance(container, Mapping) else container


def _may_hold(value: Any) -> bool:
    return isinstance(value, (nn.Module, dict, list, tuple))


def _inside(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


def _settled(new: Any, old: Any) -> Any:
    """On the old one's device, with its dtype of results and what it said about being saved."""
    if getattr(old, "_dtype", torch.get_default_dtype()) != torch.get_default_dtype():
        new.set_dtype(old._dtype)
    if any(old._persistent.values()):
        new.persistent(True)
    new.train(old.training)
    return new.to(old.device)


def _loaded(new: Any, states: dict[str, Any]) -> Any:
    try:
        if states:
            new.load_state_dict(states, strict=False)
    except RuntimeError as problem:
        raise NoEquivalent(f"what it has seen does not fit ({problem}); adopt it before its first update or after reset()") from None
    return new
