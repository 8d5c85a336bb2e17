"""The published cure for torchmetrics' aggregation metrics: subclasses that do not read the device to look for NaN."""

from __future__ import annotations

import functools
import sys
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import TallyError

Aggregator = TypeVar("Aggregator", bound=type)

_CHECK = "_cast_and_nan_check_input"


def suppress_nan_check(metric_class: Aggregator) -> Aggregator:
    """A subclass of an aggregation metric of torchmetrics that takes its input as it is: NaN stays in, and nothing waits to find out.

    `metric_class` is any descendant of torchmetrics' `BaseAggregator`. Values, and weights where they are given, are only made tensors of the
    metric's dtype; numbers also of its device, while a tensor stays where it is, so that a 0-dimensional CPU tensor can join a state on a GPU without
    a copy that waits. `nan_strategy` is still accepted and has no effect. The same class is returned for the same argument; objects can be pickled.

    >>> from torchmetrics import MeanMetric
    >>> NoNanMeanMetric = suppress_nan_check(MeanMetric)
    >>> mean = NoNanMeanMetric()
    >>> mean.update(torch.tensor([1.0, 3.0]), weight=torch.tensor([3.0, 1.0]))
    >>> mean.compute()
    tensor(1.5000)
    """
    _require_aggregator(metric_class)
    return metric_class if getattr(metric_class, "_nan_check_suppressed", False) else _suppressed(metric_class)


@functools.cache
def _suppressed(metric_class: Any) -> Any:
    def cast(self: Any, x: float | Tensor, weight: float | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Both as tensors of the metric's dtype, weights 1 where there are none."""
        x = x if isinstance(x, Tensor) else torch.as_tensor(x, dtype=self.dtype, device=self.device)
        if weight is None:
            weight = torch.ones_like(x)
        elif not isinstance(weight, Tensor):
            weight = torch.as_tensor(weight, dtype=self.dtype, device=self.device)
        return x.to(self.dtype), weight.to(self.dtype)

    def reduce(self: Any) -> Any:
        return _restored, (metric_class,), self.__getstate__()

    name = f"NoNan{metric_class.__name__}"
    members = {
        _CHECK: cast,
        "__reduce__": reduce,  # the class has no place to be found in by name
        "__module__": metric_class.__module__,
        "__qualname__": name,
        "__doc__": f"`{metric_class.__name__}` that does not look for NaN.",
        "_nan_check_suppressed": True,
    }
    return type(metric_class)(name, (metric_class,), members)


def _restored(metric_class: Any) -> Any:
    cls = suppress_nan_check(metric_class)
    return cls.__new__(cls)


def _require_aggregator(metric_class: object) -> None:
    base = getattr(sys.modules.get("torchmetrics.aggregation"), "BaseAggregator", None)
    if isinstance(base, type) and not hasattr(base, _CHECK):
        raise TallyError(
            f"suppress_nan_check: BaseAggregator of this version of torchmetrics has no {_CHECK}. Use torchtally's MeanMetric, SumMetric, … instead."
        )
    if isinstance(metric_class, type) and isinstance(base, type) and issubclass(metric_class, base):
        return
    expected = "expected MeanMetric, SumMetric, MaxMetric, MinMetric, CatMetric of torchmetrics or a class derived from them"
    if not isinstance(metric_class, type):
        raise TallyError(
            f"suppress_nan_check: got {metric_class!r}, an object; {expected}. Write suppress_nan_check({type(metric_class).__name__})(…)."
        )
    if metric_class.__module__.partition(".")[0] == "torchtally":
        raise TallyError(
            f"suppress_nan_check: got torchtally's {metric_class.__name__}, which never waits to look for NaN. Use it as it is."
        )
    if metric_class.__name__ in ("RunningMean", "RunningSum"):
        hint = f"Write Running(suppress_nan_check({metric_class.__name__.removeprefix('Running')}Metric)(), window)."
    else:
        hint = "Other metrics have no such check: see torchtally.adopt.adopt and Deferred."
    raise TallyError(f"suppress_nan_check: got {metric_class.__name__}, which is not derived from BaseAggregator; {expected}. {hint}")
