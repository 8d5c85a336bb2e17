"""torchmetrics' metrics around metrics, with what they and the metrics in them have seen."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .. import wrappers as ours
from ..collection import MetricCollection
from ..wrappers.abstract import WrapperMetric

Convert = Callable[[Any, str], Any]
"""torchtally's equivalent of a metric inside, by its place, or NoEquivalent."""


def is_wrapper(thing: object) -> bool:
    """Whether it is a wrapper of torchmetrics itself; what is derived from one is a class of somebody's own."""
    return type(thing).__module__.partition(".")[0] == "torchmetrics" and type(thing).__name__ in WRAPPERS


def wrapper_for(theirs: Any, convert: Convert) -> Any:
    """torchtally's wrapper, around the equivalents of what it is around."""
    new = WRAPPERS[type(theirs).__name__](theirs, convert)
    new.train(theirs.training)
    return new


def _minmax(theirs: Any, convert: Convert) -> Any:
    new = ours.MinMaxMetric(convert(theirs._base_metric, "_base_metric"))
    for extreme, seen, nothing in ((new.lowest[0], theirs.min_val, torch.inf), (new.highest[0], theirs.max_val, -torch.inf)):
        if seen != nothing:
            extreme.update(torch.as_tensor(seen).to(new.device))
    return new


def _classwise(theirs: Any, convert: Convert) -> Any:
    return ours.ClasswiseWrapper(convert(theirs.metric, "metric"), theirs.labels, theirs._prefix, theirs._postfix)


def _multioutput(theirs: Any, convert: Convert) -> Any:
    each = _each(theirs.metrics, convert)
    new = ours.MultioutputWrapper(each[0], len(each), theirs.output_dim, theirs.remove_nans, theirs.squeeze_outputs)
    return _holding(new, each)


def _multitask(theirs: Any, convert: Convert) -> Any:
    tasks = {name: convert(m, f"task_metrics.{name}") for name, m in theirs.task_metrics.items()}
    return ours.MultitaskWrapper(tasks, theirs._prefix or None, theirs._postfix or None)


def _bootstrap(theirs: Any, convert: Convert) -> Any:
    each = _each(theirs.metrics, convert)
    options = {name: getattr(theirs, name) for name in ("num_bootstraps", "mean", "std", "quantile", "raw", "sampling_strategy")}
    new = ours.BootStrapper(each[0], **options)
    updates = [m.update_count for m in each]  # of each the batches that it took a row of
    if new._together_at_once:
        _stacked(new.replicates, each)
        new.replicates.ledger.clock.load(max(updates))
    else:
        _holding(new, each)
    drawn: Any = new.drawn.ledger.views()[0]
    drawn.rows.copy_(torch.tensor(updates))  # all that is asked of them is who has taken any row
    new.drawn.ledger.clock.load(max(updates))
    return new


def _running(theirs: Any, convert: Convert) -> Any:
    """Of each of the last updates the totals, in the place that its number has in a ring."""
    seen, window, base = theirs._num_vals_seen, theirs.window, theirs.base_metric
    places = []
    for place in range(window):
        one = copy.deepcopy(base)
        for key in base._defaults if place < seen else ():
            setattr(one, key, getattr(theirs, f"{key}_{place}"))
        one._update_count = int(place < seen)
        places.append(convert(one, "base_metric"))
    new = ours.Running(places[0], window)
    kind = type(theirs).__name__
    if kind != "Running":  # one class more, of the same metric
        new.__class__ = getattr(ours, kind)
    if "ring" in new._modules:
        _stacked(new.ring, places)
        ring: Any = new.ring.ledger.views()[0]
        ring.written.fill_(seen)
        new.ring.ledger.clock.load(seen)
    else:
        oldest_first = [places[number % window] for number in range(max(seen - window, 0), seen)]
        empty = [m for m in new.places if not m.update_count]
        new.places = nn.ModuleList([*empty[: window + 1 - len(oldest_first)], *oldest_first])
        new.__dict__["_update_count"] = seen
        new._hold()
    return new


def _tracker(theirs: Any, convert: Convert) -> Any:
    base = convert(theirs._base_metric, "_base_metric")
    flags = theirs.maximize
    if isinstance(flags, list) and not (isinstance(base, MetricCollection) and len(base) == len(flags)):
        flags = None  # one for each class, which each metric says itself
    new = ours.MetricTracker(base, flags)
    for name, step in theirs._modules.items():
        if name.isdigit():
            new.append(convert(step, name))
    return new


def _lambda(theirs: Any, convert: Convert) -> Any:
    changes = (vars(theirs).get(name) for name in ("transform_pred", "transform_target"))
    return ours.LambdaInputTransformer(convert(theirs.wrapped_metric, "wrapped_metric"), *changes)


def _binary_target(theirs: Any, convert: Convert) -> Any:
    return ours.BinaryTargetTransformer(convert(theirs.wrapped_metric, "wrapped_metric"), theirs.threshold)


def _unchanged(theirs: Any, convert: Convert) -> Any:
    return ours.MetricInputTransformer(convert(theirs.wrapped_metric, "wrapped_metric"))


WRAPPERS: dict[str, Callable[[Any, Convert], Any]] = {
    "MinMaxMetric": _minmax,
    "ClasswiseWrapper": _classwise,
    "MultioutputWrapper": _multioutput,
    "MultitaskWrapper": _multitask,
    "BootStrapper": _bootstrap,
    "Running": _running,
    "RunningMean": _running,
    "RunningSum": _running,
    "MetricTracker": _tracker,
    "LambdaInputTransformer": _lambda,
    "BinaryTargetTransformer": _binary_target,
    "MetricInputTransformer": _unchanged,
}


def _each(metrics: Any, convert: Convert) -> list[Any]:
    return [convert(m, f"metrics.{place}") for place, m in enumerate(metrics)]


def _holding(new: WrapperMetric, each: list[Any]) -> WrapperMetric:
    """The wrapper of `metrics` around these."""
    new.metrics = nn.ModuleList(each)
    new._hold()
    return new


def _stacked(into: Any, each: list[Any]) -> None:
    """Put the totals of each metric into its copy of the slots."""
    slots = into.ledger.views()[0]
    for place, m in enumerate(each):
        m.ledger.fold()
        into.stacked.add(slots, place, m.ledger.views())
