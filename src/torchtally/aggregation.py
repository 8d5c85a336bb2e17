"""Means, sums, extremes and concatenation of numbers."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from .formula import Formula, feeds
from .options import FormulaOptions, Unpack
from .pending import Unfinished
from .statistics.averages import COMPACT, Average, compact, nan_strategy_of
from .statistics.extremes import Extreme
from .statistics.samples import NumberSamples
from .valid import Valid

Value = float | int | Tensor


class BaseAggregator(Formula):
    """A metric of plain numbers. Python numbers and CPU tensors stay on the host, wherever the metric is."""

    entries: tuple[str, ...] = ("value",)
    higher_is_better = None
    declined = {"weighted": "it has no use for weights"}

    def __init__(self, statistic: Any, nan_strategy: str | float, **kwargs: Any) -> None:
        super().__init__(statistic, **kwargs)
        self.nan_strategy = nan_strategy


class MeanMetric(BaseAggregator):
    """Weighted mean of the elements; NaN before the first.

    `value` is a number or a tensor of any shape, `weight` a number or a tensor that broadcasts with it. NaN among them is an "error", left
    out with a warning ("warn"), left out ("ignore"), let through ("disable"), or counted as the number given as `nan_strategy`, with the
    weight of the element. On a device an error or warning waits for `compute` or `fetch`.

    >>> from torch import tensor
    >>> mean = MeanMetric()
    >>> mean.update(1.0)
    >>> mean.update(tensor([2.0, 6.0]), weight=0.5)
    >>> mean.compute()
    tensor(2.5000)
    """

    entries = ("value", "weight")
    declined = {"weighted": "update takes a weight as it is"}

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Unpack[FormulaOptions]) -> None:
        super().__init__(Average(nan_strategy_of(nan_strategy, type(self).__name__)), nan_strategy, **kwargs)

    @feeds
    def update(self, value: Value, weight: Value | None = None, *, valid: Valid = None) -> None:
        if valid is not None:
            return self._update_valid(valid, (value, 1.0 if weight is None else weight))
        if weight is None and not torch.compiler.is_compiling():
            number: Any = value
            if type(value) is Tensor and value.is_cpu and value.numel() == 1 and not value.requires_grad:
                number = value.item()
            if type(number) is float and number == number:  # the host lane: no tensor is touched
                guard = self._guard
                guard.acquire()  # half the price of a with statement
                try:
                    ledger = self._leave() if self.ledger.shared else self.ledger
                    values = ledger.lanes[0][0]
                    values.append(number)
                    if len(values) >= COMPACT:
                        compact(ledger.lanes[0])
                    ledger.clock.count += 1
                    ledger.reduced = None
                finally:
                    guard.release()
                return
        self._add(value, 1.0 if weight is None else weight)

    def value(self, totals: Any) -> Tensor:
        return totals.total / totals.weight


class SumMetric(BaseAggregator):
    """Sum of the elements; 0 before the first.

    `value` is a number or a tensor of any shape; NaN is treated as in `MeanMetric`.

    >>> from torch import tensor
    >>> total = SumMetric()
    >>> total.update(1)
    >>> total.update(tensor([2.0, 3.0]))
    >>> total.compute()
    tensor(6.)
    """

    declined = {"weighted": "multiply the values by their weights"}

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Unpack[FormulaOptions]) -> None:
        super().__init__(Average(nan_strategy_of(nan_strategy, type(self).__name__)), nan_strategy, **kwargs)

    @feeds
    def update(self, value: Value, *, valid: Valid = None) -> None:
        self._add(value, valid=valid)

    def value(self, totals: Any) -> Tensor:
        return totals.total.clone()


class MaxMetric(BaseAggregator):
    """The largest element; -inf before the first.

    `value` is a number or a tensor of any shape; NaN is treated as in `MeanMetric`.

    >>> from torch import tensor
    >>> largest = MaxMetric()
    >>> largest.update(tensor([2.0, 3.0]))
    >>> largest.update(1)
    >>> largest.compute()
    tensor(3.)
    """

    full_state_update = True

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Unpack[FormulaOptions]) -> None:
        super().__init__(Extreme(True, nan_strategy_of(nan_strategy, type(self).__name__)), nan_strategy, **kwargs)

    @feeds
    def update(self, value: Value, *, valid: Valid = None) -> None:
        self._add(value, valid=valid)

    def value(self, totals: Any) -> Tensor:
        return totals.best.clone()


class MinMetric(BaseAggregator):
    """The smallest element; inf before the first.

    `value` is a number or a tensor of any shape; NaN is treated as in `MeanMetric`.

    >>> from torch import tensor
    >>> smallest = MinMetric()
    >>> smallest.update(tensor([2.0, 3.0]))
    >>> smallest.update(1)
    >>> smallest.compute()
    tensor(1.)
    """

    full_state_update = True

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Unpack[FormulaOptions]) -> None:
        super().__init__(Extreme(False, nan_strategy_of(nan_strategy, type(self).__name__)), nan_strategy, **kwargs)

    @feeds
    def update(self, value: Value, *, valid: Valid = None) -> None:
        self._add(value, valid=valid)

    def value(self, totals: Any) -> Tensor:
        return totals.best.clone()


class CatMetric(BaseAggregator):
    """All elements in the order seen, in one vector or along the first dimension; memory grows with the data.

    `value` is a number or a tensor. NaN is treated as in `MeanMetric`; elements left out change the length, so tensors with NaN left out
    are flattened, and all are where their shapes differ. On a device NaN is left out when results are read; what `forward` returns keeps it.

    >>> from torch import tensor
    >>> everything = CatMetric()
    >>> everything.update(1)
    >>> everything.update(tensor([2.0, 3.0]))
    >>> everything.compute()
    tensor([1., 2., 3.])
    """

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Unpack[FormulaOptions]) -> None:
        super().__init__(NumberSamples(nan_strategy_of(nan_strategy, type(self).__name__)), nan_strategy, **kwargs)

    @feeds
    def update(self, value: Value, *, valid: Valid = None) -> None:
        self._add(value, valid=valid)

    def value(self, pieces: list[Tensor]) -> Tensor:
        if not pieces:
            return torch.zeros(0, device=self.device)
        pieces = [torch.atleast_1d(x) for x in pieces]
        if len({x.shape[1:] for x in pieces if x.shape != (0,)}) > 1:  # as when NaN left out flattened some of them
            pieces = [x.flatten() for x in pieces]
        runs = [list(run) for _, run in groupby(pieces, key=lambda x: x.device)]
        return torch.cat([torch.cat(run).to(self.device) for run in runs])  # host numbers move to the device only now, many at a time

    def _finish(self, value: Tensor) -> Tensor:
        return super()._finish(self._without_nan(value))

    def _of_batch(self, value: Tensor) -> Tensor:
        return super()._finish(value)  # NaN that a device found stays in its place: leaving it out would wait for the length

    def _unfinished(self, value: Tensor) -> Unfinished:
        return Unfinished(value, self._without_nan)

    def _without_nan(self, joined: Tensor) -> Tensor:
        """What a device was given is rid of NaN only when it is read, when the length may depend on data."""
        if not (self.statistics[0].nan in ("error", "warn", "ignore") and joined.is_floating_point()):  # type: ignore[attr-defined]
            return joined
        bad = joined.isnan()
        return joined[~bad] if joined.ndim == 1 or bool(bad.any()) else joined


def __getattr__(name: str) -> Any:
    """Windows are wrappers, but people import them from here."""
    if name in ("RunningMean", "RunningSum"):
        from . import wrappers

        return getattr(wrappers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
