"""torchmetrics' averages, sums and extremes without the look at every value that makes the host wait."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import TallyError

T = TypeVar("T", bound=type)


def suppress_nan_check(metric_class: T) -> T:
    """A subclass of a torchmetrics aggregator that does not look for NaN: what is given counts as it is, and a NaN makes the result NaN.

    Takes any descendant of torchmetrics' `BaseAggregator` (`MeanMetric`, `SumMetric`, `MaxMetric`, ... or one's own). Values and weights are
    brought to the metric's dtype, numbers also to its device; a tensor stays where it is, so that one element on the CPU goes into a total on a
    GPU as a kernel's argument, without a copy. Weights that are given are kept, unlike with torchmetrics' `nan_strategy="disable"`. The same class
    gives the same subclass.

    >>> from torchmetrics import MeanMetric
    >>> NoNanMeanMetric = suppress_nan_check(MeanMetric)
    >>> average = NoNanMeanMetric()
    >>> average.update(torch.tensor([1.0, 3.0]), torch.tensor([3.0, 1.0]))
    >>> average.compute()
    tensor(1.5000)
    """
    try:
        from torchmetrics.aggregation import BaseAggregator
    except ImportError:
        raise TallyError("suppress_nan_check is for classes of torchmetrics, which is not installed: pip install torchmetrics") from None
    if not (isinstance(metric_class, type) and issubclass(metric_class, BaseAggregator)):
        got = metric_class.__name__ if isinstance(metric_class, type) else f"an object, {type(metric_class).__name__}"
        raise TallyError(
            f"suppress_nan_check: expected a class that descends from torchmetrics' BaseAggregator (MeanMetric, SumMetric, ...), got {got}. "
            "Only those look for NaN. Give the class, and make the metric from what is returned."
        )
    return _without_nan_check(metric_class)


@cache
def _without_nan_check(metric_class: Any) -> Any:
    def _cast_and_nan_check_input(self: Any, x: Any, weight: Any = None) -> tuple[Tensor, Tensor]:
        if not isinstance(x, Tensor):
            x = torch.as_tensor(x, dtype=self.dtype, device=self.device)
        if weight is None:
            weight = torch.ones_like(x)
        elif not isinstance(weight, Tensor):
            weight = torch.as_tensor(weight, dtype=self.dtype, device=self.device)
        return x.to(self.dtype), weight.to(self.dtype)

    def __reduce__(self: Any) -> tuple[Any, ...]:  # the class is nowhere to be imported from
        return _empty, (metric_class,), self.__getstate__()

    name = f"NoNan{metric_class.__name__}"
    body = {
        "__doc__": f"{metric_class.__name__} that does not look for NaN.",
        "__module__": metric_class.__module__,
        "_cast_and_nan_check_input": _cast_and_nan_check_input,
        "__reduce__": __reduce__,
    }
    return type(metric_class)(name, (metric_class,), body)


def _empty(metric_class: Any) -> Any:
    """An instance to unpickle into."""
    made = _without_nan_check(metric_class)
    return made.__new__(made)
