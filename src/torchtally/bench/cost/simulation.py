"""One run of a recording on two clocks, under one set of circumstances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...stalls.price import Clocks, Loader, Mark, Pace, Seen, Tariff, Task
from .recording import Part, Recording

SETTLE = 12
"""Steps simulated before timing: the queue fills in fewer."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How fast host, device and loader are taken to be."""

    host: Pace = "typical"
    device: Pace = "typical"
    loader: Pace = "typical"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one simulation, in microseconds per step: its length; what the device worked; what the host worked, waits left out; how long
    the host stood in waits; how long it lacked a batch."""

    circumstances: Circumstances
    step_us: float
    busy_us: float
    host_us: float
    wait_us: float
    starved_us: float

    @property
    def idle_us(self) -> float:
        """How long the device has nothing to do."""
        return max(0.0, self.step_us - self.busy_us)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The clocks' counters at one moment."""

    done_us: float
    host_us: float
    busy_us: float
    starved_us: float
    blocked_us: float
    waited_us: float

    @staticmethod
    def of(clocks: Clocks) -> _Reading:
        waited = sum(w.end_us - w.start_us for w in clocks.waits)
        return _Reading(max(clocks.host_us, clocks.end_us()), clocks.host_us, clocks.busy_us, clocks.starved_us, clocks.blocked_us, waited)


def simulate(
    recording: Recording,
    tariff: Tariff,
    steps: int,
    loader: Loader | None = None,
    drop: Callable[[Seen], bool] | None = None,
    loader_pace: Pace = "typical",
    keep: bool = False,
) -> tuple[Outcome, Clocks]:
    """Let the recording run for `steps` steps after some to settle in, without the waits that `drop` picks; the clocks' `waits` are those of the timed steps."""
    clocks = Clocks(tariff.latencies(), keep)
    priced: dict[int, list[Task | Mark]] = {}  # by identity: the same few parts come again and again
    start = _Reading.of(clocks)
    for part in recording.sequence(SETTLE):
        _run(clocks, _priced(part, priced, tariff, drop), loader)
        start = _Reading.of(clocks)
    settled = len(clocks.waits)
    for part in recording.sequence(steps):
        _run(clocks, _priced(part, priced, tariff, drop), loader)
    end = _Reading.of(clocks)
    clocks.waits = clocks.waits[settled:]
    waited, starved, blocked = end.waited_us - start.waited_us, end.starved_us - start.starved_us, end.blocked_us - start.blocked_us
    outcome = Outcome(
        Circumstances(tariff.host, tariff.device, loader_pace),
        step_us=(end.done_us - start.done_us) / steps,
        busy_us=(end.busy_us - start.busy_us) / steps,
        host_us=(end.host_us - start.host_us - waited - starved - blocked) / steps,
        wait_us=waited / steps,
        starved_us=starved / steps,
    )
    return outcome, clocks


def _priced(part: Part, known: dict[int, list[Task | Mark]], tariff: Tariff, drop: Callable[[Seen], bool] | None) -> list[Task | Mark]:
    if id(part) not in known:
        known[id(part)] = [
            s if isinstance(s, Mark) else tariff.task(replace(s, waits=0) if drop and s.waits and drop(s) else s)
            for s in part
            if not (drop and isinstance(s, Mark) and s.kind == "synchronize")
        ]
    return known[id(part)]


def _run(clocks: Clocks, tasks: list[Task | Mark], loader: Loader | None) -> None:
    for task in tasks:
        if isinstance(task, Task):
            clocks.run(task)
        elif task.kind == "step":
            clocks.step()
        elif task.kind == "synchronize":
            clocks.synchronize(Task("synchronize", 0.0, note=task))
        elif loader:
            clocks.fetch(loader)
