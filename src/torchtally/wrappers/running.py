"""Metrics over the last batches."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..aggregation import MeanMetric, SumMetric
from ..apart import Call
from ..faults import NEVER, Fault
from ..formula import Formula
from ..guard import guarded
from ..intervals import Intervals
from ..ledger import ROOM, Ledger
from ..options import MetricOptions, Unpack
from ..statistic import Number, Slots, in_functorch, may_wait, recorded
from ..together import Read
from .abstract import Later, WrapperMetric, checked_metric, given_to, merged, merged_later
from .stacked import Stacked, StackedFormula, stackable


class Recent:
    """Numbers of the last updates, which wait to join a ring: `count` of them since they last did, and the number of the last update."""

    def __init__(self, most: int) -> None:
        self.values: deque[Any] = deque(maxlen=most)
        self.count = self.last = 0

    def clear(self) -> None:
        self.values.clear()
        self.count = 0


@dataclass(frozen=True)
class NumberRing(Stacked):
    """The ring of a mean or a sum: single numbers wait until somebody reads, and then join it together."""

    def lane(self) -> Recent:
        return Recent(min(self.copies, ROOM))

    def drain(self, host: Recent) -> dict[str, Number]:
        host.clear()
        return {}

    def pour(self, slots: Slots) -> None:
        recent: Recent = slots.host
        if not recent.count:
            return
        ring: Any = slots
        device, values = ring.total.device, list(recent.values)
        if any(isinstance(x, Tensor) for x in values):
            x = torch.stack(
                [x.double() if isinstance(x, Tensor) else torch.full((), x, dtype=torch.float64, device=device) for x in values]
            )
        else:
            x = torch.tensor(values, dtype=torch.float64, pin_memory=device.type == "cuda").to(device, non_blocking=True)
        steps = torch.arange(len(values), device=device)
        places = (ring.written + steps + (recent.count - len(values))).remainder(self.copies)
        strategy = self.parts[0].nan  # type: ignore[union-attr]  # of an Average
        bad = x.isnan() if strategy != "disable" else torch.zeros_like(x, dtype=torch.bool)
        ring.total.index_copy_(0, places, x.masked_fill(bad, strategy if isinstance(strategy, float) else 0.0))
        ring.weight.index_copy_(0, places, torch.ones_like(x) if isinstance(strategy, float) else bad.logical_not().double())
        if strategy in ("error", "warn"):
            ring.bad.index_copy_(0, places, bad.long())
            ring.first_bad.index_copy_(0, places, (steps + (recent.last - len(values) + 1)).masked_fill(~bad, NEVER))
        ring.written.add_(recent.count)
        recent.clear()


class Window(StackedFormula):
    """A formula over its last `copies` batches: a ring of their totals."""

    def __init__(self, base: Formula, copies: int) -> None:
        numbers = type(base) in (MeanMetric, SumMetric)
        super().__init__(base, copies, NumberRing if numbers else Stacked, ring=True)
        self.__dict__["numbers"] = numbers

    numbers: bool

    def update(self, *args: Any, **kwargs: Any) -> None:
        number = self._number(args, kwargs) if self.numbers else None
        if number is None:
            self._push(self._traced_share(args, kwargs) if recorded(self.ledger.clock.ticks) else self._settled(args, kwargs))
            return
        ledger = self.ledger
        recent: Recent = ledger.lanes[0]
        recent.values.append(number)
        recent.count += 1
        ledger.tick()
        recent.last = ledger.clock.count
        if self.copies > ROOM and recent.count == ROOM:
            self._slots()

    def _number(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The number of an update that gives one, without NaN that the host can see."""
        value = args[0] if len(args) == 1 and not kwargs else kwargs.get("value") if len(kwargs) == 1 and not args else None
        if self.ledger.shared or recorded(self.ledger.clock.ticks):
            return None
        if type(value) is Tensor and value.numel() == 1 and not in_functorch():
            if not value.is_cpu:
                return value.detach().reshape(()).clone() if value.device == self.ledger.device and may_wait(value) else None
            value = value.item()
        return float(value) if isinstance(value, float | int) and value == value else None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        number = self._number(args, kwargs) if self.numbers else None
        if isinstance(number, float):
            self.update(number)
            value = self.__dict__["_forward_cache"] = torch.full((), number, dtype=self.dtype, device=self.device)
            return value
        share = self._share(args, kwargs)
        share.fold()
        self._push(share.views())
        value = self.base._value_of(share)
        self.__dict__["_forward_cache"] = self.base._forward_cache
        return value

    def _settled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Slots]:
        share = self._share(args, kwargs)
        share.fold()
        return share.views()

    def _push(self, share: list[Slots]) -> None:
        """Put what a batch adds in place of the oldest."""
        slots: Any = self._slots()
        with torch.no_grad():
            self.stacked.put(slots, slots.written.remainder(self.copies)[None], share)
            slots.written.add_(1)
        self.ledger.tick()

    def _evaluated(self, ledger: Ledger) -> tuple[Any, list[tuple[str, Fault]]]:
        ledger.fold()
        whole = self.stacked.whole(ledger.views()[self._mine(ledger)[0]])
        return self._unfinished(self._value_of_slots(whole)), [(type(self.base).__name__, f) for f in self._faults_of_slots(whole)]

    def value(self, slots: Slots) -> Any:
        return self._value_of_slots(self.stacked.whole(slots))

    def _bounds_later(self, read: Read | None, asked: Intervals) -> Any:
        whole = self.stacked.whole(self._slots_read(read))
        bounds, faults = self._bounds_of_slots(whole, asked), [(type(self.base).__name__, f) for f in self._faults_of_slots(whole)]
        return lambda: (bounds(), faults)


class Running(WrapperMetric):
    """A metric over the last `window` updates, whatever came before.

    `base_metric` is a metric or a collection. Memory is constant where the metric's is: the totals of each of the last updates are kept and the
    oldest are overwritten, without waiting for the device. Over ranks, the value is over the last `window` updates of each. `forward` gives the
    value of the batch alone. A metric that is given is copied, and starts empty.

    >>> from torchtally import SumMetric
    >>> from torchtally.wrappers import Running
    >>> metric = Running(SumMetric(), window=3)
    >>> for value in (1, 2, 3, 4, 5):
    ...     metric.update(value)
    >>> metric.compute()
    tensor(12.)
    """

    def __init__(self, base_metric: Any, window: int = 5) -> None:
        super().__init__()
        checked_metric(type(self).__name__, "base_metric", base_metric)
        if not isinstance(window, int) or isinstance(window, bool) or window < 1:
            raise ValueError(f"{type(self).__name__}: window is {window!r}; expected a positive integer.")
        self.window = window
        if stackable(base_metric):
            self.ring = Window(base_metric, window)
        else:
            empty = base_metric.clone()
            empty.reset()
            self.places = nn.ModuleList([empty.clone() for _ in range(window + 1)])
        self._hold()

    places: Any
    """Where there is no ring: an empty metric for the next update, and one for each of the last, the oldest first."""

    @property
    def base_metric(self) -> Any:
        """The metric that computes; it keeps nothing itself."""
        return self.ring.base if "ring" in self._modules else self.places[0]

    _draws_as_inside = True

    def _measured(self) -> Any:
        return self.base_metric

    def _parts(self) -> list[Any]:
        return [self.ring] if "ring" in self._modules else list(self.places)

    def _calls(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Call]:
        return [given_to(self._parts()[0], args, kwargs)]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch, and let go of the oldest."""
        with self._held():
            self._update_here(args, kwargs)

    def _update_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        next_place, positional, given = self._calls(args, kwargs)[0]
        if "valid" in kwargs:
            given = {**given, "valid": kwargs["valid"]}
        next_place.update(*positional, **given)
        self._turn()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The value of this batch alone, which is added in place of the oldest."""
        with self._held(waits=bool(self._parts()[0].__dict__.get("dist_sync_on_step"))):
            return self._forward_here(self._calls(args, kwargs))

    def _forward_here(self, calls: list[Call]) -> Any:
        next_place, positional, given = calls[0]
        value = next_place(*positional, **given)
        self._turn()
        self.__dict__["_forward_cache"] = next_place._forward_cache
        return value

    def _turn(self) -> None:
        """The oldest place is emptied for the next update."""
        if "ring" not in self._modules:
            newest, oldest, *others = self.places
            oldest.reset()
            self.places = nn.ModuleList([oldest, *others, newest])
            self.__dict__["_update_count"] += 1

    @property
    def update_count(self) -> int:
        return max(self._update_count, super().update_count)

    @guarded
    def reset(self) -> None:
        super().reset()
        self.__dict__["_update_count"] = 0

    def _later(self, read: Read | None) -> Later:
        if "ring" in self._modules:
            return super()._later(read)
        return merged_later(list(self.places), read)

    def _bounds_later(self, read: Read | None, asked: Intervals) -> Any:
        return super()._bounds_later(read, asked) if "ring" in self._modules else merged(list(self.places), read)._bounds_later(None, asked)


class RunningMean(Running):
    """Weighted mean of the numbers of the last `window` updates.

    `value` is a number or a tensor of any shape; `nan_strategy` is that of `MeanMetric`.

    >>> from torchtally import RunningMean
    >>> metric = RunningMean(window=2)
    >>> for loss in (4.0, 2.0, 1.0):
    ...     metric.update(loss)
    >>> metric.compute()
    tensor(1.5000)
    """

    def __init__(self, window: int = 5, nan_strategy: str | float = "warn", **kwargs: Unpack[MetricOptions]) -> None:
        super().__init__(MeanMetric(nan_strategy=nan_strategy, **kwargs), window)


class RunningSum(Running):
    """Sum of the numbers of the last `window` updates.

    `value` is a number or a tensor of any shape; `nan_strategy` is that of `SumMetric`.

    >>> from torchtally import RunningSum
    >>> metric = RunningSum(window=2)
    >>> for count in (4, 2, 1):
    ...     metric.update(count)
    >>> metric.compute()
    tensor(3.)
    """

    def __init__(self, window: int = 5, nan_strategy: str | float = "warn", **kwargs: Unpack[MetricOptions]) -> None:
        super().__init__(SumMetric(nan_strategy=nan_strategy, **kwargs), window)
