"""Averages in which the past fades."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .aggregation import BaseAggregator, Value
from .formula import feeds
from .ledger import Ledger, combine
from .options import FormulaOptions, Unpack
from .statistic import Number, Piece, Slot, Slots, Statistic
from .statistics.averages import Weighed, nan_strategy_of
from .valid import Valid


@dataclass(frozen=True)
class OneByOne(Weighed):
    """Values with weights, of which no two updates are taken together."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        return None, super().take(strict, *batch)[1]


class Steps:
    """Updates with Python numbers that wait: what they add up to, faded, and how many they are."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.total = self.weight = 0.0
        self.count = 0


@dataclass(frozen=True)
class FadingAverage(Statistic):
    """Weighted sum of the elements, and the sum of the weights, both multiplied by `decay` at every update."""

    decay: float
    nan: str | float = "warn"

    @property
    def input(self) -> OneByOne:  # type: ignore[override]  # a class attribute elsewhere; here it follows from `nan`
        return OneByOne(self.nan)

    def slots(self) -> dict[str, Slot]:
        return {"total": Slot(dtype=torch.float64), "weight": Slot(dtype=torch.float64)}

    def lane(self) -> Steps:
        return Steps()

    def drain(self, host: Steps) -> dict[str, Number]:
        found: dict[str, Number] = {"total": host.total, "weight": host.weight} if host.count else {}
        host.clear()
        return found

    def pour(self, slots: Slots) -> None:
        steps: Steps = slots.host
        if steps.count:
            self.fade(slots, steps.total, steps.weight, steps.count)
            steps.clear()

    def update(self, slots: Slots, *normal: Any) -> None:
        value, weight = normal[:2]
        if not isinstance(value, Tensor):
            steps: Steps = slots.host
            steps.total = steps.total * self.decay + value
            steps.weight = steps.weight * self.decay + weight
            steps.count += 1
            return
        self.pour(slots)
        if isinstance(weight, Tensor):
            self.fade(slots, (value.double() * weight).sum(), weight.sum(dtype=torch.float64))
            return
        count = value.numel() - (normal[2].sum() if normal[2] is not None else 0)
        self.fade(slots, value.sum(dtype=torch.float64) * weight, count * weight)

    def fade(self, slots: Slots, total: Any, weight: Any, updates: int = 1) -> None:
        """Add what so many updates add up to."""
        slots.total.mul_(self.decay**updates).add_(total)
        slots.weight.mul_(self.decay**updates).add_(weight)


class ExponentialMovingAverage(BaseAggregator):
    """Average in which every update makes all earlier ones count `decay` times as much; NaN before the first.

    One of `decay` (between 0 and 1), `halflife` (the number of updates after which a value counts half) and `span` (decay = 1 - 2 / (span + 1), as
    pandas has it) is to be given. `value` is a number or a tensor of any shape, `weight` a number or a tensor that broadcasts with it; NaN is
    treated as in `MeanMetric`, and an update without a number is a step all the same. The average is over the weights that there are
    (pandas' `adjust=True`); with `bias_correction=False` it starts at 0 and creeps up. Over ranks, and when merged, the averages count by their weights.

    >>> from torchtally import ExponentialMovingAverage
    >>> smooth = ExponentialMovingAverage(decay=0.5)
    >>> for loss in (4.0, 1.0, 1.0):
    ...     smooth.update(loss)
    >>> smooth.compute()
    tensor(1.4286)
    """

    entries = ("value", "weight")
    declined = {"weighted": "update takes a weight as it is"}
    shares = False

    def __init__(
        self,
        decay: float | None = None,
        halflife: float | None = None,
        span: float | None = None,
        bias_correction: bool = True,
        nan_strategy: str | float = "warn",
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        name = type(self).__name__
        given = {n: x for n, x in (("decay", decay), ("halflife", halflife), ("span", span)) if x is not None}
        if len(given) != 1:
            raise ValueError(f"{name}: {list(given) or 'nothing'} given; expected one of decay, halflife and span.")
        ((how, x),) = given.items()
        least = {"decay": 0.0, "halflife": 0.0, "span": 1.0}[how]
        if not isinstance(x, int | float) or not least <= x or (how == "decay" and x >= 1) or (how == "halflife" and x == 0):
            raise ValueError(
                f"{name}: {how} is {x!r}; expected a number " + ("from 0 to below 1." if how == "decay" else f"above {least:g}.")
            )
        factor = x if how == "decay" else 0.5 ** (1 / x) if how == "halflife" else 1 - 2 / (x + 1)
        super().__init__(FadingAverage(float(factor), nan_strategy_of(nan_strategy, name)), nan_strategy, **kwargs)
        self.decay, self.halflife, self.span, self.bias_correction = decay, halflife, span, bias_correction

    @feeds
    def update(self, value: Value, weight: Value | None = None, *, valid: Valid = None) -> None:
        if self.ledger.unseen:  # whose turn is before
            self.ledger.fold()
        self._add(value, 1.0 if weight is None else weight, valid=valid)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The average of this batch alone, which is also accumulated."""
        with self._held(waits=self.dist_sync_on_step):
            share = self._share_of(*args, **kwargs)
            self._absorb(share)
            return self._value_of(share)

    def _absorb(self, share: Ledger) -> None:
        """Add what one update adds."""
        share.fold()
        self.ledger.fold()
        statistic, slots, other = self.statistics[0], self.ledger.views(), share.views()
        assert isinstance(statistic, FadingAverage)
        with torch.no_grad():
            statistic.fade(slots[0], other[0].total, other[0].weight)
            for name, slot in statistic.input.slots().items():
                combine(slot.combine, getattr(slots[1], name), getattr(other[1], name))
        self.ledger.tick()

    def value(self, totals: Any) -> Tensor:
        if self.bias_correction:
            return totals.total / totals.weight
        factor: float = self.statistics[0].decay  # type: ignore[attr-defined]  # of a FadingAverage
        return totals.total * (1 - factor)
