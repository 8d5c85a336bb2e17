"""What a device was asked to do, call by call, and what it costs: a pretend device reports to a `Meter`, which any price list can then be applied to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ..stall import Site
from .clocks import Clocks, Latencies, Loader, Task
from .host import HostSpeed
from .prices import Pace, Price
from .work import NOTHING, Work

Bus = Literal["", "pinned", "pageable", "to_host"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One call a device saw. `python_us` is the host's own time since the call before; `waits` how often it waits; `bus_bytes` what it copies over the bus
    and `bus` from where. `tag` is the caller's (a row of the catalogue, a stall) and comes back with each wait."""

    operator: str
    work: Work = NOTHING
    python_us: float = 0.0
    waits: int = 0
    bus: Bus = ""
    bus_bytes: float = 0.0
    stream: int = 0
    site: Site | None = None
    tag: Any = None


@dataclass(frozen=True, slots=True)
class Mark:
    """Something other than an operator: the end of a step, a batch asked of the loader, or a wait for all streams."""

    kind: Literal["step", "fetch", "synchronize"]
    tag: Any = None
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Tariff:
    """A price list, at a pace for the host and one for the device, with the speed of the host that ran the model."""

    price: Price
    speed: HostSpeed
    host: Pace = "typical"
    device: Pace = "typical"

    def latencies(self) -> Latencies:
        constant = self.price.device
        return Latencies(constant["start_us"].at(self.device), constant["return_us"].at(self.host), int(constant["queue_depth"].at("typical")))

    def task(self, seen: Seen) -> Task:
        """The time one call takes on either side."""
        costs, work = self.price.host, seen.work
        scale = costs["scale"].at(self.host)
        own = seen.python_us + (self.speed.dispatch_us if work.kernels or seen.bus else self.speed.view_us)
        host_us = own * scale + work.kernels * costs["launch_us"].at(self.host)
        if work.library:
            host_us += costs["library_us"].at(self.host)
        device_us = work.device_us(self.price, self.device)
        launches = work.kernels
        if seen.bus:
            moving = 1e6 * seen.bus_bytes / self.price.bus_rate(self.device, pinned=seen.bus == "pinned")
            host_us += costs["copy_us"].at(self.host)
            if seen.bus == "pageable" and not seen.waits:  # the driver copies it to a staging buffer before the call returns
                host_us += moving
            device_us += max(moving, self.price.device["kernel_us"].at(self.device))
            launches += 1
        return Task(seen.operator, host_us, device_us if launches else 0.0, launches, seen.waits, seen.stream, seen)


class Meter:
    """Collects what a device sees. `clocks` runs it, once or repeated, at a tariff; `live` clocks run along, for stalls that want their times at once."""

    def __init__(self, live: Tariff | None = None) -> None:
        self.seen: list[Seen | Mark] = []
        self.tariff = live
        self.live = Clocks(live.latencies()) if live else None

    def __call__(self, seen: Seen | Mark) -> None:
        self.seen.append(seen)
        if self.live and self.tariff:
            play(self.live, [seen], self.tariff)

    def steps(self) -> list[list[Seen | Mark]]:
        """What was seen, cut at the ends of steps; what comes after the last is left out."""
        cut: list[list[Seen | Mark]] = [[]]
        for seen in self.seen:
            cut[-1].append(seen)
            if isinstance(seen, Mark) and seen.kind == "step":
                cut.append([])
        return cut[:-1]


def play(clocks: Clocks, seen: Iterable[Seen | Mark], tariff: Tariff, loader: Loader | None = None) -> None:
    """Run what was seen on two clocks."""
    for s in seen:
        if isinstance(s, Seen):
            clocks.run(tariff.task(s))
        elif s.kind == "step":
            clocks.step()
        elif s.kind == "synchronize":
            clocks.synchronize(Task("synchronize", 0.0, note=s))
        elif loader:
            clocks.fetch(loader)
