"""Metrics of inputs that are changed first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ..apart import Call
from ..options import MetricOptions, Unpack
from .abstract import WrapperMetric, checked_metric, given_to


class MetricInputTransformer(WrapperMetric):
    """Base of wrappers that change what a metric or a collection is given: override `transform_pred` and `transform_target`.

    They are applied to the first and the second argument of an update, or to those named `preds` and `target`. A transform must not wait for the
    device if updates are not to.

    >>> from torch import tensor
    >>> from torchtally import MeanSquaredError
    >>> from torchtally.wrappers import MetricInputTransformer
    >>> class Celsius(MetricInputTransformer):
    ...     def transform_pred(self, pred):
    ...         return (pred - 32) / 1.8
    >>> metric = Celsius(MeanSquaredError())
    >>> metric.update(tensor([50.0, 68.0]), tensor([10.0, 22.0]))
    >>> metric.compute()
    tensor(2.)
    """

    def __init__(self, wrapped_metric: Any, **kwargs: Unpack[MetricOptions]) -> None:
        super().__init__(**kwargs)
        self.wrapped_metric = checked_metric(type(self).__name__, "wrapped_metric", wrapped_metric)
        self._hold()

    _draws_as_inside = True

    def transform_pred(self, pred: Tensor) -> Tensor:
        """The predictions that the metric is given."""
        return pred

    def transform_target(self, target: Tensor) -> Tensor:
        """The targets that the metric is given."""
        return target

    def _calls(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Call]:
        changes = (self.transform_pred, self.transform_target)
        positional = tuple(change(x) for change, x in zip(changes, args)) + args[2:]
        named = {"preds": self.transform_pred, "target": self.transform_target}
        given = {name: named[name](x) if name in named else x for name, x in kwargs.items()}
        return [given_to(self.wrapped_metric, positional, given)]

    def _value(self, values: list[Any]) -> Any:
        return values[0]


class LambdaInputTransformer(MetricInputTransformer):
    """A metric of transformed inputs, by functions: `transform_pred(preds)` and `transform_target(target)`.

    To be pickled, the functions must be defined at the top of a module.

    >>> from torch import tensor
    >>> from torchtally.classification import BinaryAccuracy
    >>> from torchtally.wrappers import LambdaInputTransformer
    >>> metric = LambdaInputTransformer(BinaryAccuracy(), lambda preds: 1 - preds)
    >>> metric.update(tensor([0.9, 0.2]), tensor([0, 1]))
    >>> metric.compute()
    tensor(1.)
    """

    def __init__(
        self,
        wrapped_metric: Any,
        transform_pred: Callable[[Any], Any] | None = None,
        transform_target: Callable[[Any], Any] | None = None,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(wrapped_metric, **kwargs)
        for name, x in (("transform_pred", transform_pred), ("transform_target", transform_target)):
            if x is None:
                continue
            if not callable(x):
                raise TypeError(f"LambdaInputTransformer: {name} is {x!r}; expected a function or None.")
            self.__dict__[name] = x


class BinaryTargetTransformer(MetricInputTransformer):
    """A metric of targets that are 1 above `threshold` and 0 elsewhere, integers whatever they were.

    >>> from torch import tensor
    >>> from torchtally.classification import BinaryAccuracy
    >>> from torchtally.wrappers import BinaryTargetTransformer
    >>> metric = BinaryTargetTransformer(BinaryAccuracy(), threshold=2)
    >>> metric.update(tensor([0.9, 0.2]), tensor([3, 1]))
    >>> metric.compute()
    tensor(1.)
    """

    def __init__(self, wrapped_metric: Any, threshold: float = 0, **kwargs: Unpack[MetricOptions]) -> None:
        super().__init__(wrapped_metric, **kwargs)
        if not isinstance(threshold, int | float) or isinstance(threshold, bool):
            raise TypeError(f"BinaryTargetTransformer: threshold is {threshold!r}; expected a number.")
        self.threshold = threshold

    def transform_target(self, target: Tensor) -> Tensor:
        above = target.gt(self.threshold)
        return above.long() if target.is_floating_point() else above.to(target.dtype)
