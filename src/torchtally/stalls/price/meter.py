"""What a device was asked to do, call by call, and what it costs: a pretend device reports to a `Meter`, which any price list can then be applied to."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ..stall import Site
from .clocks import Clocks, Latencies, Loader, Task, Wait
from .host import CallCounter, HostSpeed
from .prices import Pace, Price
from .work import NOTHING, Work

Bus = Literal["", "pinned", "pageable", "to_host"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One call a device saw. `calls` is how many function calls the program made since the one before; `waits` how often it waits; `bus_bytes` what it
    copies over the bus and `bus` from where; `backward` whether the autograd engine ran it. `tag` is the caller's (a row of the catalogue, a stall) and comes back with each wait."""

    operator: str
    work: Work = NOTHING
    calls: int = 0
    waits: int = 0
    bus: Bus = ""
    bus_bytes: float = 0.0
    stream: int = 0
    backward: bool = False
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

    def note(self) -> str:
        """One sentence that says figures are predicted, and on what they rest."""
        p = self.price
        name = "tf32" if "tf32" in p.peak else "float32"
        peak = p.peak[name]
        share = p.rate(name, self.device, "convolution") / peak.at(self.device)
        return (
            f"Predicted for {p.name}, not measured: {p.bandwidth.at(self.device) / 1e9:.0f} GB/s at {p.efficiency['bandwidth'].at(self.device):.0%}, "
            f"{peak.at(self.device) / 1e12:.1f} TFLOP/s ({name}) at {share:.0%} in convolutions; on the host {self.speed.dispatch_us:.1f} us "
            f"an operator, {p.host['launch_us'].at(self.host)} us a launch and {self.speed.call_us:.2f} us a Python call."
        )

    def task(self, seen: Seen) -> Task:
        """The time one call takes on either side."""
        costs, work = self.price.host, seen.work
        scale = costs["scale"].at(self.host)
        own = seen.calls * self.speed.call_us + (self.speed.dispatch_us if work.kernels or seen.bus else self.speed.view_us)
        if seen.backward:
            own += self.speed.backward_us
        host_us = own * scale + work.kernels * costs["launch_us"].at(self.host)
        if work.library:
            host_us += work.kernels * costs["library_us"].at(self.host)
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
    """Collects what a device sees on the thread that made the meter. Given a tariff, it keeps nothing but runs `live` clocks along, and `timed` holds each
    of the recorder's waits as they ran.

    The program's own time between two calls is known by how many function calls it makes, while `counter` is entered: pretending takes a program
    many times as long, so that a clock would measure the pretending.
    """

    def __init__(self, live: Tariff | None = None) -> None:
        self.seen: list[Seen | Mark] = []
        self.tariff = live
        self.live = Clocks(live.latencies()) if live else None
        self.timed: dict[int, Wait] = {}
        self.counter = CallCounter()
        self._thread = threading.get_ident()
        self._counted = 0

    def __call__(self, seen: Seen | Mark) -> None:
        if not (self.live and self.tariff):
            self.seen.append(seen)
            return
        before = len(self.live.waits)
        play(self.live, [seen], self.tariff)
        if isinstance(seen.tag, int):
            self.timed.update(enumerate(self.live.waits[before:], seen.tag))

    def operator(self, name: str, work: Work, waits: int, bus: Bus, bus_bytes: float, tag: int | None, backward: bool = False) -> None:
        """A call has done this work, copied so much, and waited so often."""
        if threading.get_ident() == self._thread:
            calls, self._counted = self.counter.calls - self._counted, self.counter.calls
            self(Seen(name, work, calls, waits, bus, bus_bytes, backward=backward, tag=tag))

    def call(self, name: str, waits: int, args: tuple[Any, ...], tag: int | None) -> None:
        """Something other than an operator, such as `torch.tensor(1.0, device="cuda")` or `Tensor.tolist`, has made the host wait."""
        if name.endswith(".synchronize"):
            if threading.get_ident() == self._thread:
                self(Mark("synchronize", tag))
            return
        to_device = name.startswith("torch.") or name == "Tensor.new_tensor"
        size = float(getattr(args[0], "nbytes", 8)) if args else 8.0
        self.operator(name, NOTHING, waits, "pageable" if to_device else "to_host", size, tag)

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
