"""The smallest and the largest value so far."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..aggregation import MaxMetric, MinMetric
from ..collection import MetricCollection
from ..formula import Formula
from ..intervals import Intervals, NoInterval
from ..options import MetricOptions, Unpack
from ..pending import finished
from ..together import Read, leaves_of
from .abstract import Later, WrapperMetric, checked_metric


class MinMaxMetric(WrapperMetric):
    """A metric's value, with the smallest and the largest that was read so far: `{"raw": …, "min": …, "max": …}`.

    Each `compute`, `fetch` and `forward` is a reading. What an empty metric gives does not count. `reset` starts the metric
    afresh and keeps the extremes, which are of a whole experiment; `reset_all` forgets them too. `state_dict` has the extremes, and the totals
    of the metric only where they were made `persistent`, so that a run that goes on starts the metric afresh; `torchtally.save` saves both. Of a collection, a dict of such dicts. Values that are no single number raise
    RuntimeError.

    >>> from torch import tensor
    >>> from torchtally.classification import BinaryAccuracy
    >>> from torchtally.wrappers import MinMaxMetric
    >>> metric = MinMaxMetric(BinaryAccuracy())
    >>> metric.update(tensor([1, 0, 1, 1]), tensor([1, 0, 1, 1]))
    >>> _ = metric.compute()
    >>> metric.reset()
    >>> metric.update(tensor([1, 0, 1, 1]), tensor([1, 0, 0, 1]))
    >>> metric.compute()
    {'raw': tensor(0.7500), 'max': tensor(1.), 'min': tensor(0.7500)}
    """

    lowest: Any
    highest: Any

    def __init__(self, base_metric: Any, **kwargs: Unpack[MetricOptions]) -> None:
        super().__init__(**kwargs)
        self._base_metric = checked_metric("MinMaxMetric", "base_metric", base_metric)
        count = len(base_metric) if isinstance(base_metric, MetricCollection) else 1
        self.lowest = nn.ModuleList([MinMetric(nan_strategy="ignore") for _ in range(count)]).to(base_metric.device)
        self.highest = nn.ModuleList([MaxMetric(nan_strategy="ignore") for _ in range(count)]).to(base_metric.device)
        parts = list(base_metric.values()) if isinstance(base_metric, MetricCollection) else [base_metric]
        for part, *bounds in zip(parts, self.lowest, self.highest):
            for m in bounds:
                for leaf in [*leaves_of(part).values()][:1]:  # the extremes are of values over the same ranks
                    m.__dict__.update({n: leaf.__dict__[n] for n in ("process_group", "sync_on_compute", "timeout")})
                m.persistent(True)
        self._hold()

    @property
    def min_val(self) -> Any:
        """The smallest value so far, inf before the first; of a collection, a list."""
        found = [m.compute() for m in self.lowest]
        return found if isinstance(self._base_metric, MetricCollection) else found[0]

    @property
    def max_val(self) -> Any:
        """The largest value so far, -inf before the first; of a collection, a list."""
        found = [m.compute() for m in self.highest]
        return found if isinstance(self._base_metric, MetricCollection) else found[0]

    def _parts(self) -> list[Any]:
        return [self._base_metric]

    def _later(self, read: Read | None) -> Later:
        base = self._base_metric._later(read)
        before = [m._later(read) for m in (*self.lowest, *self.highest)]

        counts = {m: m.update_count for m in leaves_of(self._base_metric).values()}

        def seen(m: Any) -> bool:
            if read is None or m not in read:
                return counts[m] > 0
            if isinstance(m, Formula):
                return read.ledger_of(m).updates > 0
            return any(_differs(x, m._defaults[n]) for states in read.states_of(m) for n, x in states.items())

        def arrived() -> Any:
            value, faults = base()
            return self._with_extremes(finished(value), [bound()[0] for bound in before], any(map(seen, counts))), faults

        return arrived

    def _bounds_later(self, read: Read | None, asked: Intervals) -> Any:
        raise NoInterval.of(self, "an extreme")

    def _value(self, values: list[Any]) -> Any:
        """Of a batch: with the extremes of this rank."""
        return self._with_extremes(finished(values[0]), [m._value_in(m.ledger) for m in (*self.lowest, *self.highest)])

    def _with_extremes(self, value: Any, before: list[Tensor], seen: bool = True) -> Any:
        """The value with the extremes, which it joins unless the metric is empty."""
        many = isinstance(value, dict)
        values = list(value.values()) if many else [value]
        for x in values:
            if not isinstance(x, int | float) and not (isinstance(x, Tensor) and x.numel() == 1):
                raise RuntimeError(f"MinMaxMetric: the metric's value is {_told(x)}; expected a single number.")
        if len(values) != len(self.lowest):
            raise RuntimeError(f"MinMaxMetric: the collection gives {len(values)} values; expected {len(self.lowest)}, one a metric.")
        out = []
        for k, x in enumerate(values):
            here = torch.as_tensor(x).detach()
            low, high = before[k].to(here.device, here.dtype), before[len(values) + k].to(here.device, here.dtype)
            if not seen:
                out.append({"raw": x, "max": high, "min": low})
                continue
            out.append({"raw": x, "max": torch.fmax(high, here), "min": torch.fmin(low, here)})
            self.lowest[k].update(here)
            self.highest[k].update(here)
        return dict(zip(value, out)) if many else out[0]

    def state_dict(self, *args: Any, reduce: bool = False, **kwargs: Any) -> Any:
        """The extremes, and the totals of the metric inside where they were made `persistent`; with `reduce=True` those of all ranks."""
        return self.over_ranks().state_dict(*args, **kwargs) if reduce else nn.Module.state_dict(self, *args, **kwargs)

    def _expects(self, path: str) -> bool:
        return not path.startswith("_base_metric")

    def _forget(self) -> None:
        self.reset_all()

    def reset_all(self) -> None:
        """Forget everything, the extremes too."""
        self.reset()
        for m in (*self.lowest, *self.highest):
            m.reset()

    def merge_state(self, other: Any) -> None:
        """Add what another wrapper of the same metric has seen, its extremes too."""
        theirs = self._like(other)
        super().merge_state(theirs)
        for mine, its in zip((*self.lowest, *self.highest), (*theirs.lowest, *theirs.highest)):
            mine.merge_state(its)


def _differs(x: Any, default: Any) -> bool:
    """Whether a state is another than that of an empty metric."""
    return len(x) > 0 if isinstance(default, list) else not torch.equal(x.to(default), default)


def _told(x: Any) -> str:
    return f"a tensor of shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
