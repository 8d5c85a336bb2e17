"""How fast a training loop runs: samples and tokens a second, step times, and the share of the device's arithmetic that is used."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .formula import Formula
from .guard import guarded
from .ledger import Ledger
from .options import FormulaOptions, Unpack
from .statistic import Number, Slot, Slots, Statistic

PER_OCTAVE = 32
"""Bins of step times for each doubling: a percentile is off by at most 1.1 %, half a bin."""

SHORTEST = 2.0**-20
"""The first bin begins at a microsecond; what is shorter falls into it, and what is longer than an hour into the last."""

BINS = 32 * PER_OCTAVE

PERCENTILES = (50, 90, 99)


class Steps:
    """Steps that wait to join the slots."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.wall = self.flops = self.capacity = 0.0
        self.samples = self.tokens = 0
        self.times: list[float] = []


@dataclass(frozen=True)
class Paces(Statistic):
    """Sums over steps, and a histogram of their times."""

    def slots(self) -> dict[str, Slot]:
        floating = torch.float64
        return {
            "wall": Slot(dtype=floating, combine="max"),  # ranks run side by side
            "seconds": Slot(dtype=floating),
            "shortest": Slot(dtype=floating, combine="min"),
            "longest": Slot(dtype=floating, combine="max"),
            "steps": Slot(),
            "samples": Slot(),
            "tokens": Slot(),
            "flops": Slot(dtype=floating),
            "capacity": Slot(dtype=floating),  # what the devices could have done in that time
            "histogram": Slot((BINS,)),
        }

    def update(self, slots: Slots, *normal: Any) -> None:
        raise NotImplementedError("written to by the metric that owns it")

    def lane(self) -> Steps:
        return Steps()

    def drain(self, host: Steps) -> dict[str, Number]:
        host.clear()
        return {}

    def pour(self, slots: Slots) -> None:
        steps: Steps = slots.host
        if not steps.times:
            return
        times = np.array(steps.times)
        slots.wall.clamp_(min=0).add_(steps.wall)
        slots.seconds.add_(times.sum())
        slots.shortest.clamp_(max=times.min())
        slots.longest.clamp_(min=times.max())
        slots.steps.add_(len(times))
        slots.samples.add_(steps.samples)
        slots.tokens.add_(steps.tokens)
        slots.flops.add_(steps.flops)
        slots.capacity.add_(steps.capacity)
        places = np.log2(np.maximum(times, SHORTEST) / SHORTEST) * PER_OCTAVE
        slots.histogram.add_(torch.from_numpy(np.bincount(places.astype(np.int64).clip(0, BINS - 1), minlength=BINS)))
        steps.clear()


class HostClock:
    """Time as the host sees it."""

    now = staticmethod(time.perf_counter)

    def between(self, start: float, end: float) -> float | None:
        return end - start


class DeviceClock:
    """Time as the current stream of a device sees it, by events: nobody waits, and a step is known only when the device has done it."""

    def now(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float | None:
        return start.elapsed_time(end) / 1000 if end.query() else None


class Throughput(Formula):
    """Samples and tokens a second, step times, and model FLOPs utilisation (MFU) of a loop that calls `update` once a step.

    `update(samples=…, tokens=…, flops=…)` ends a step and tells what was in it; the first call, or `start`, only starts the clock, and what happens
    within `pause()` does not count. The value is a dict of seconds and rates: `step_time_mean_s`, `step_time_p50_s`, `…_p90_s`, `…_p99_s` (from a
    histogram of constant size, within 1.1 %; never outside of the shortest and the longest), `steps_per_s`, and where they were given
    `samples_per_s`, `tokens_per_s`, `flops_per_s` and `mfu`. Floating-point operations of a step are told as `flops`, or follow from
    `flops_per_sample` and `flops_per_token`; `count_flops` counts them. `peak_flops` is what one device can do in a second: a number, the name of a
    price list such as `"h100"`, or `"auto"` for that of the CUDA device here, with numbers of `dtype`. `warmup` steps are left out.

    Times are the host's, or with `events=True` those of CUDA events on the current stream, of the steps that the device has done: either way nothing
    waits. Over ranks, samples, tokens and operations add up, the longest time counts, and step times are those of all ranks.

    >>> from torchtally.throughput import Throughput
    >>> speed = Throughput(clock=iter([0.0, 0.5, 1.0, 2.0]).__next__, flops_per_sample=1e9, peak_flops=100e9)
    >>> speed.start()
    >>> for _ in range(3):
    ...     speed.update(samples=20)
    >>> {name: round(x, 3) for name, x in speed.fetch().result().items() if name in ("samples_per_s", "step_time_p50_s", "mfu")}
    {'step_time_p50_s': 0.505, 'samples_per_s': 30.0, 'mfu': 0.3}
    """

    shares = False
    entries = ("samples", "tokens", "flops")
    higher_is_better = None

    def __init__(
        self,
        flops_per_sample: float | None = None,
        flops_per_token: float | None = None,
        peak_flops: float | str | None = None,
        dtype: str = "bfloat16",
        warmup: int = 0,
        events: bool = False,
        clock: Callable[[], float] | None = None,
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        with torch.device("cpu"):
            super().__init__(Paces(), **kwargs)
        for name, x in (("flops_per_sample", flops_per_sample), ("flops_per_token", flops_per_token)):
            if x is not None and not (isinstance(x, int | float) and x >= 0):
                raise ValueError(f"Throughput: {name} is {x!r}; expected a number of operations, or None.")
        if not isinstance(warmup, int) or isinstance(warmup, bool) or warmup < 0:
            raise ValueError(f"Throughput: warmup is {warmup!r}; expected a number of steps.")
        if not isinstance(events, bool):
            raise ValueError(f"Throughput: events is {events!r}; expected True or False.")
        if clock is not None and not callable(clock):
            raise ValueError(f"Throughput: clock is {clock!r}; expected a function that gives seconds, or None.")
        if not isinstance(dtype, str):
            raise ValueError(f"Throughput: dtype is {dtype!r}; expected the name of one, such as 'bfloat16'.")
        if events and clock is not None:
            raise ValueError("Throughput: events=True and a clock are both given; expected one of them.")
        self.flops_per_sample, self.flops_per_token, self.peak_flops = flops_per_sample, flops_per_token, peak_flops
        self.dtype_of_peak, self.warmup, self.events = dtype, warmup, events
        watch: Any = DeviceClock() if events else HostClock()
        if clock is not None:
            watch.now = clock
        self.__dict__.update(peak=peak_of(peak_flops, dtype), _watch=watch, _since=None, _skip=warmup, _open=deque())

    peak: float | None
    _watch: Any
    _since: Any
    _skip: int
    _open: deque[tuple[Any, Any, tuple[Any, ...]]]

    @guarded
    def plot(self, val: Any = None, ax: Any = None, **_: Any) -> tuple[Any, Any]:
        """Draw the step times, with the rates in the title; or the rate over steps, of a list of values."""
        from .plotting.throughput import plot_throughput

        return plot_throughput(self.compute() if val is None else val, ax, type(self).__name__)

    def start(self) -> None:
        """The next step begins now."""
        self.__dict__["_since"] = self._watch.now()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """What happens within does not count, as validation or saving. To be entered between steps."""
        try:
            yield
        finally:
            self.start()

    @guarded
    def update(self, samples: int | None = None, tokens: int | None = None, flops: float | None = None) -> None:
        """A step ends now, and had so many samples, tokens and floating-point operations in it."""
        for name, x in (("samples", samples), ("tokens", tokens), ("flops", flops)):
            if x is not None and not isinstance(x, int | float):
                raise ValueError(
                    f"Throughput: {name} is a {type(x).__name__}; expected a Python number, so that nobody waits for a device."
                )
            if x is not None and not x >= 0:
                raise ValueError(f"Throughput: {name} is {x}; expected a number of at least 0.")
        since, now = self._since, self._watch.now()
        self.__dict__["_since"] = now
        if since is None:
            return
        if self._skip:
            self.__dict__["_skip"] -= 1
            return
        self._open.append((since, now, (samples, tokens, flops)))
        self._settle()
        self.ledger.tick()

    def _settle(self) -> None:
        """Count the steps of which the time is known."""
        steps: Steps = self.ledger.lanes[0]
        while self._open:
            start, end, told = self._open[0]
            seconds = self._watch.between(start, end)
            if seconds is None:
                return
            self._open.popleft()
            samples, tokens, flops = told
            if flops is None:
                flops = (samples or 0) * (self.flops_per_sample or 0) + (tokens or 0) * (self.flops_per_token or 0)
            steps.wall += seconds
            steps.times.append(seconds)
            steps.samples += int(samples or 0)
            steps.tokens += int(tokens or 0)
            steps.flops += float(flops)
            steps.capacity += seconds * (self.peak or 0.0)
            if len(steps.times) >= 1024:
                self.ledger.fold()

    def forward(self, samples: int | None = None, tokens: int | None = None, flops: float | None = None) -> dict[str, Any]:
        """Ends a step; the value over all steps of this rank."""
        self.update(samples, tokens, flops)
        with self._held():
            value: dict[str, Any] = self._finish(self._read(self._own()))
        self.__dict__["_forward_cache"] = value
        return value

    def _own(self) -> Ledger:
        self._settle()
        return super()._own()

    def value(self, slots: Slots) -> dict[str, Any]:
        steps, seconds, wall = float(slots.steps), float(slots.seconds), float(slots.wall)
        found = {"step_time_mean_s": seconds / steps if steps else math.nan}
        counts = slots.histogram.numpy()
        for p in PERCENTILES:
            found[f"step_time_p{p}_s"] = _percentile(counts, p / 100, float(slots.shortest), float(slots.longest))
        found["steps_per_s"] = steps / seconds if seconds else math.nan
        for name in ("samples", "tokens", "flops"):
            total = float(getattr(slots, name))
            if total:
                found[f"{name}_per_s"] = total / wall
        if float(slots.capacity) and float(slots.flops):
            found["mfu"] = float(slots.flops) / float(slots.capacity)
        return {name: torch.tensor(x, dtype=torch.float64) for name, x in found.items()}

    @guarded
    def reset(self) -> None:
        """Forget all steps. The clock goes on: a step that has begun belongs to what comes."""
        self._open.clear()
        super().reset()

    def _move(self, device: torch.device) -> None:
        """Stays on the host, where its numbers are."""

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return {**super().__getstate__(), "_since": None, "_open": deque()}


def _percentile(counts: np.ndarray, share: float, shortest: float, longest: float) -> float:
    total = counts.sum()
    if not total:
        return math.nan
    place = int(np.searchsorted(counts.cumsum(), share * total))
    return min(max(SHORTEST * 2 ** ((place + 0.5) / PER_OCTAVE), shortest), longest)


def peak_of(peak_flops: float | str | None, dtype: str = "bfloat16") -> float | None:
    """Operations a second that one device can do: a number as it is, or from the price list of a device by its name or, for "auto", of the one here."""
    if peak_flops is None:
        return None
    if isinstance(peak_flops, int | float) and not isinstance(peak_flops, bool):
        if peak_flops <= 0:
            raise ValueError(
                f"Throughput: peak_flops is {peak_flops!r}; expected a positive number of operations a second, or the name of a device."
            )
        return float(peak_flops)
    from .stalls.price import names, price

    name = str(peak_flops)
    if name == "auto":
        here = torch.cuda.get_device_name().lower().replace(" ", "") if torch.cuda.is_available() else "no CUDA device"
        known = next((n for n in sorted(names(), key=len, reverse=True) if n in here), None)
        if known is None:
            raise ValueError(
                f"Throughput: there is no price list for the device here ({here}); pass peak_flops as a number, or one of {', '.join(names())}."
            )
        name = known
    found = price(name).peak
    if dtype not in found:
        raise ValueError(f"Throughput: dtype is {dtype!r}; expected one of {', '.join(found)}, which the price list of {name} has.")
    return found[dtype].at("typical")


def count_flops(step: Callable[[], Any]) -> int:
    """Floating-point operations of a call, such as a forward and backward pass of one batch, counted by torch. Runs it once.

    >>> import torch
    >>> from torchtally.throughput import count_flops
    >>> count_flops(lambda: torch.ones(2, 3) @ torch.ones(3, 4))
    48
    """
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())
