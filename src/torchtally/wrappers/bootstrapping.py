"""How sure a value is: the same metric over resampled data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..apart import update_all
from ..distributed import rank_of
from ..formula import Formula
from ..intervals import Intervals
from ..options import MetricOptions, Unpack, count_of, flag_of
from ..pending import finished
from ..statistic import Slot, Slots, Statistic, recorded
from ..valid import rows_at, rows_of
from .abstract import WrapperMetric, checked_metric, given_to
from .by_rows import ByRow, rows_in, sums_rows
from .draws import times_drawn
from .multioutput import stacked
from .stacked import StackedFormula

MANY = 8
"""From so many replicates on it pays to weigh all rows for all of them at once."""


class Replicates(StackedFormula):
    """A formula over `copies` resamples of the data, in slots with one dimension more."""

    def __init__(self, base: Formula, copies: int) -> None:
        super().__init__(base, copies)
        self.__dict__["by_rows"] = ByRow(base)

    by_rows: ByRow

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any], times: Tensor) -> None:
        """Add a batch, row n `times[r, n]` times to replicate r."""
        if self.ledger.on_cpu and not recorded(self.ledger.clock.ticks):
            self._share(args, kwargs)  # refuses impossible values
        batch = self._rows(args, kwargs)
        self.ledger.meet()
        slots, clock = self.ledger.views()[0], self.ledger.clock
        weights, taken = times.double(), times.gt(0)
        with torch.no_grad():
            logits = self.by_rows.logits(batch)
            rows = self.by_rows.shares(batch, logits, clock)
            for i, name, here, slot in self.stacked.names:
                into = getattr(slots, here)
                if name not in rows[i]:  # how batches of scores were read, of which this may be one
                    if logits is not None:
                        into.add_(taken.any(1) if name == "scored" else taken.any(1) & logits)
                    continue
                x = rows[i][name]
                if slot.combine == "sum":
                    total = (weights @ x.reshape(len(x), -1).double()).view(into.shape)
                    into.add_(total if slot.dtype.is_floating_point else total.round_().to(slot.dtype))
                elif len(x):
                    chosen = torch.where(taken.view(*taken.shape, *(1 for _ in slot.shape)), x, slot.neutral)
                    into.clamp_min_(chosen.amax(1)) if slot.combine == "max" else into.clamp_max_(chosen.amin(1))
        self.ledger.tick()

    def value(self, slots: Slots) -> list[Any]:
        return [self._value_of_slots(self.stacked.copy(slots, place)) for place in range(self.copies)]

    def _finish(self, value: Any) -> Any:
        return [self.base._finish(x) for x in value]


@dataclass(frozen=True)
class RowsDrawn(Statistic):
    """How many rows each of `copies` replicates has taken."""

    copies: int

    def slots(self) -> dict[str, Slot]:
        return {"rows": Slot((self.copies,))}


class Drawn(Formula):
    """Which replicates have taken a row: one that has not is no sample of the data, whatever its metric says of nothing."""

    shares = False

    def __init__(self, copies: int, **kwargs: Any) -> None:
        super().__init__(RowsDrawn(copies), **kwargs)

    def add(self, times: Tensor) -> None:
        """Count the rows of a batch, row n `times[r, n]` times for replicate r."""
        self.ledger.meet()
        rows, device = times.sum(1), self.ledger.device
        rows = rows.pin_memory().to(device, non_blocking=True) if rows.is_cpu and device.type == "cuda" else rows
        self.ledger.views()[0].rows.add_(rows)
        self.ledger.tick()

    def value(self, slots: Slots) -> Tensor:
        rows: Tensor = slots.rows
        return rows > 0


class BootStrapper(WrapperMetric):
    """Mean, standard deviation, quantiles or all values of a metric over `num_bootstraps` resamples of the data.

    Each batch is resampled by rows: "poisson" takes every row as often as a Poisson number of mean 1 says, which over a stream is the bootstrap;
    "multinomial" draws as many rows as there are, with replacement. The draws follow from `seed` (by default drawn from `generator`, or torch's
    own), the rank, and the number of the update since the last reset, on any device alike; nothing waits for it. The value is a dict of `"mean"`,
    `"std"`, `"quantile"` (one or several, along a first dimension) and `"raw"`, as asked; of a collection, each is a dict. `forward` gives that of
    the batch. A replicate that has not taken any row, as happens to "poisson" with little data, is in none but `"raw"`.

    From 8 replicates on, metrics that are sums over rows take all replicates in one pass, as a product with the matrix of draws; the update of
    these can be compiled whole.

    >>> from torch import tensor
    >>> from torchtally.classification import MulticlassAccuracy
    >>> from torchtally.wrappers import BootStrapper
    >>> metric = BootStrapper(MulticlassAccuracy(num_classes=2, average="micro"), num_bootstraps=50, seed=0)
    >>> for _ in range(100):
    ...     metric.update(tensor([0, 1, 1, 0]), tensor([0, 1, 1, 1]))
    >>> {name: round(float(x), 2) for name, x in metric.compute().items()}
    {'mean': 0.75, 'std': 0.02}
    """

    def __init__(
        self,
        base_metric: Any,
        num_bootstraps: int = 10,
        mean: bool = True,
        std: bool = True,
        quantile: float | Sequence[float] | Tensor | None = None,
        raw: bool = False,
        sampling_strategy: str = "poisson",
        seed: int | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(**kwargs)
        checked_metric("BootStrapper", "base_metric", base_metric)
        count_of("BootStrapper", "num_bootstraps", num_bootstraps)
        for option, x in (("mean", mean), ("std", std), ("raw", raw)):
            flag_of("BootStrapper", option, x)
        if sampling_strategy not in ("poisson", "multinomial"):
            raise ValueError(f"BootStrapper: sampling_strategy is {sampling_strategy!r}; expected 'poisson' or 'multinomial'.")
        if seed is not None and generator is not None:
            raise ValueError("BootStrapper: seed and generator are both given; expected one of them.")
        self.num_bootstraps, self.mean, self.std, self.raw = num_bootstraps, mean, std, raw
        asked = torch.as_tensor([] if quantile is None else quantile, dtype=torch.float64)
        if not bool((asked.ge(0) & asked.le(1)).all()):
            raise ValueError(f"BootStrapper: quantile is {quantile!r}; expected numbers from 0 to 1.")
        self.quantile = None if quantile is None else asked.tolist()
        self.sampling_strategy = sampling_strategy
        self.seed = int(torch.randint(1 << 62, (), generator=generator)) if seed is None else seed
        if sums_rows(base_metric) and num_bootstraps >= MANY:
            self.replicates = Replicates(base_metric, num_bootstraps)
        else:
            empty = base_metric.clone()
            empty.reset()
            self.metrics = nn.ModuleList([empty.clone() for _ in range(num_bootstraps)])
        self.drawn = Drawn(num_bootstraps).to(base_metric.device)
        self._hold()

    @property
    def _together_at_once(self) -> bool:
        return "replicates" in self._modules

    def _parts(self) -> list[Any]:
        return [*([self.replicates] if self._together_at_once else self.metrics), self.drawn]

    def plot(self, val: Any = None, ax: Any = None, *, labels: Sequence[str] | None = None) -> tuple[Any, Any]:  # type: ignore[override]  # no other options
        """Draw the mean, or that of `val`, with the standard deviation, the quantiles and all values, as far as they were asked for."""
        from ..plotting.wrappers import plot_bootstrap

        return plot_bootstrap(self, val, ax, labels)

    # ---- adding
    def _update_here(self, args: tuple[Any, ...], kwargs: dict[str, Any], number: Any = None) -> None:
        values = [*args, *kwargs.values()]
        if "valid" in kwargs:
            valid = kwargs.pop("valid")
            values = [*args, *kwargs.values()]
            found = rows_of(valid.cpu() if isinstance(valid, Tensor) else valid, values, "BootStrapper")
            assert isinstance(found, list)
            values = found
        args, kwargs = tuple(values[: len(args)]), dict(zip(kwargs, values[len(args) :]))
        self._add(args, kwargs, self._number() if number is None else number)

    def _add(self, args: tuple[Any, ...], kwargs: dict[str, Any], update: Any) -> None:
        values = [*args, *kwargs.values()]
        lengths = [len(x) for x in values if isinstance(x, (list, tuple)) or (isinstance(x, Tensor) and x.ndim)]  # Dynamo of torch 2.6 takes no unions
        if not lengths:
            raise ValueError("BootStrapper: no entry of the batch has rows; expected a tensor or list with one row a sample.")
        rows = lengths[0]
        if self._together_at_once:
            m, positional, given = given_to(self.replicates, args, kwargs)
            if rows_in([*positional, *given.values()]) != rows:
                raise ValueError(f"BootStrapper: the entries of the batch differ in rows; expected {rows} in each.")
            drawn = self._times(rows, update, self.drawn.device)
            self.replicates.add(tuple(positional), given, drawn)
            self.drawn.add(drawn)
            return
        if torch.compiler.is_compiling():
            raise ValueError("BootStrapper: rows of this metric must be picked by the host; update it outside of torch.compile.")
        times = self._times(rows, update, torch.device("cpu"))
        calls = []
        for m, taken in zip(self.metrics, times.numpy()):
            places = np.repeat(np.arange(rows), taken)
            if len(places):
                found = rows_at(torch.from_numpy(places), rows, values, "BootStrapper")
                calls.append(given_to(m, tuple(found[: len(args)]), dict(zip(kwargs, found[len(args) :]))))
        update_all(calls)
        self.drawn.add(times)

    def _number(self) -> Any:
        """Of the update under way, from 1."""
        return self.drawn.ledger.clock.now

    def _times(self, rows: int, update: Any, device: torch.device) -> Tensor:
        """How often each replicate takes each row: `(replicates, rows)`. Ranks draw independently."""
        return times_drawn(self.sampling_strategy, self.seed, rank_of(), update, self.num_bootstraps, rows, device)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a bootstrap of this batch alone gives; the batch is also accumulated."""
        with self._held():
            batch, number = self._scratch(), self._number()
            batch._update_here(args, kwargs, number)
            for mine, theirs in zip(self._parts(), batch._parts()):
                mine.merge_state(theirs)
            value = self._finish(finished(batch._later(None)()[0]))
        self.__dict__["_forward_cache"] = value
        return value

    # ---- reading
    def interval(self, level: float = 0.95) -> tuple[Any, Any]:  # type: ignore[override]  # resamples have one method
        """The interval `(low, high)` that holds the middle `level` of the resamples' values, each in the form of the metric's value.

        It wants many resamples: of 200, five lie beyond each bound of 95 %.
        """
        return super().interval(level)

    def _bounds_later(self, read: Any, asked: Intervals) -> Any:
        parts = [m._later(read) for m in self._parts()]
        tail = (1 - asked.level) / 2

        def arrived() -> Any:
            found = [later() for later in parts]
            every, taken = self._every([value for value, _ in found])
            low, high = (self._finish(_over(every, lambda x, q=q: _quantiles(x, taken, q))) for q in (tail, 1 - tail))
            return (low, high), [fault for _, faults in found for fault in faults]

        return arrived

    def _every(self, values: list[Any]) -> tuple[Any, Tensor]:
        """The values of all resamples, stacked, and which of them have taken a row; before the first row all, which say what they say of nothing."""
        *values, drawn = values
        return stacked(list(finished(values[0] if self._together_at_once else values))), drawn | ~drawn.any()

    def _value(self, values: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        every, taken = self._every(values)
        if self.mean:
            found["mean"] = _over(every, lambda x: _mean(x, taken))
        if self.std:
            found["std"] = _over(every, lambda x: _deviation(x, taken))
        if self.quantile is not None:
            found["quantile"] = _over(every, lambda x: _quantiles(x, taken, self.quantile))
        if self.raw:
            found["raw"] = every
        return found

    @property
    def higher_is_better(self) -> None:  # type: ignore[override]  # a dict of several sorts of numbers
        return None


def _over(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {n: _over(x, change) for n, x in value.items()}
    if isinstance(value, list):
        raise ValueError(
            "BootStrapper: the values of the replicates differ in form or length; expected the same of all. Ask for raw=True, mean=False, std=False."
        )
    return tuple(_over(x, change) for x in value) if isinstance(value, tuple) else change(value)


def _samples(x: Tensor, taken: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The values of replicates as numbers, which of them count, and how many."""
    return x if x.is_floating_point() else x.double(), taken.to(x.device).view(-1, *[1] * (x.ndim - 1)), taken.sum().to(x.device)


def _mean(x: Tensor, taken: Tensor) -> Tensor:
    x, counts, number = _samples(x, taken)
    return x.where(counts, 0).sum(0) / number


def _deviation(x: Tensor, taken: Tensor) -> Tensor:
    """NaN of a single one."""
    x, counts, number = _samples(x, taken)
    return (((x - _mean(x, taken)).where(counts, 0).square().sum(0)) / (number - 1)).sqrt()


def _quantiles(x: Tensor, taken: Tensor, at: Any) -> Tensor:
    """Linear between the ordered values, along a first dimension where several are asked for; NaN where one of them is."""
    x, counts, number = _samples(x, taken)
    ordered = x.where(counts, torch.nan).sort(0).values  # NaN last
    found = []
    for q in at if isinstance(at, list) else [at]:
        place = q * (number - 1)
        low = place.long()
        a, b = (ordered.index_select(0, i.clamp(max=len(x) - 1).view(1))[0] for i in (low, torch.minimum(low + 1, number - 1)))
        found.append(torch.lerp(a, b, (place - low).to(a.dtype)))
    out = torch.where((x.isnan() & counts).any(0), torch.nan, torch.stack(found))
    return out if isinstance(at, list) else out[0]
