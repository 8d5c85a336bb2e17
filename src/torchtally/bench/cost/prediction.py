"""Step time, idle time and the price of stalls on a GPU that is not here, as intervals over plausible hosts, loaders and efficiencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ...errors import TallyError
from ...stalls.price import PACES, Clocks, Constant, HostSpeed, Loader, Pace, Price, Tariff, Wait, calibrate
from ...stalls.price import price as price_list
from ...stalls.stall import Site
from .recording import Recording, record
from .simulation import Circumstances, Outcome, simulate

EDGES: tuple[Pace, Pace] = ("slow", "fast")


@dataclass(frozen=True)
class Waiting:
    """Waits of one operator at one site, per step: how often, how long the host stands still, how long the device has nothing to do after it.
    `saved_us` is what a step would gain if these waits went and all others stayed."""

    operator: str
    site: Site | None
    tag: Any
    per_step: float
    host_wait_us: float
    idle_us: float
    saved_us: float


@dataclass(frozen=True)
class Prediction:
    """The typical outcome first, then the corners of what is plausible; `low_ms` and `high_ms` span them all.

    `without_waits_ms` is the typical step if nothing waited. `clocks` hold the typical run's waits, `steps` is how many steps it timed.
    """

    price: Price
    speed: HostSpeed
    loader_us: tuple[float, float, float] | None
    outcomes: tuple[Outcome, ...]
    waiting: tuple[Waiting, ...]
    without_waits_ms: float
    launches: float
    steps: int
    clocks: Clocks
    recording: Recording

    @property
    def step_ms(self) -> float:
        return self.outcomes[0].step_us / 1000

    @property
    def low_ms(self) -> float:
        return min(o.step_us for o in self.outcomes) / 1000

    @property
    def high_ms(self) -> float:
        return max(o.step_us for o in self.outcomes) / 1000

    @property
    def idle_ms(self) -> float:
        """How long the device has nothing to do in a step."""
        return self.outcomes[0].idle_us / 1000

    @property
    def device_ms(self) -> float:
        """Device work per step."""
        return self.outcomes[0].busy_us / 1000

    @property
    def host_ms(self) -> float:
        """What the host is busy with per step; waiting is not being busy."""
        return self.outcomes[0].host_us / 1000

    @property
    def waits(self) -> float:
        """Waits per step."""
        return sum(w.per_step for w in self.waiting)

    def slower_than(self, baseline: Prediction) -> tuple[float, float, float]:
        """Per cent of speed lost against a baseline: typical, least, most. Both are compared under the same circumstances, one by one.

        It is the loss of images per second, 1 - baseline / step.
        """
        if [o.circumstances for o in self.outcomes] != [o.circumstances for o in baseline.outcomes] or self.price != baseline.price:
            raise TallyError(
                f"A prediction for {self.price.name} cannot be compared with one for {baseline.price.name} under other circumstances: "
                "use the same price list for both, and a loader in both or in neither."
            )
        lost = [100 * (1 - b.step_us / o.step_us) for o, b in zip(self.outcomes, baseline.outcomes)]
        return lost[0], min(lost), max(lost)

    def constants(self) -> dict[str, Constant]:
        """Every constant the prediction rests on, by name."""
        found = dict(self.price.constants())
        for name in ("dispatch_us", "backward_us", "call_us"):
            found[f"host.{name}"] = Constant((getattr(self.speed, name),) * 3, self.speed.source)
        if self.loader_us:
            found["loader.batch_us"] = Constant(self.loader_us, "given: time between two batches of the loader")
        return found

    def note(self) -> str:
        """One sentence that says these figures are predicted, and on what they rest."""
        pace = self.loader_us
        loader = f"a batch from the loader every {pace[2] / 1000:.3g} to {pace[0] / 1000:.3g} ms" if pace else "a loader that is never late"
        return f"{Tariff(self.price, self.speed).note()} With {loader}. Intervals span slow and fast hosts, devices and loaders."


def predict(
    step: Callable[[], object],
    price: str | Path | Price = "a40",
    *,
    log: Callable[[], object] | None = None,
    log_interval: int = 100,
    steps: int = 48,
    loader_us: float | tuple[float, float, float] | None = None,
    speed: HostSpeed | None = None,
) -> Prediction:
    """What `step`, called over and over, would cost on another device. Call it inside `with device_on_shapes():`, with model and metrics made there on "cuda".

    `log` is called every `log_interval` steps; the rest is as for `predict_recording`.
    """
    return predict_recording(record(step, log=log, log_interval=log_interval), price, steps=steps, loader_us=loader_us, speed=speed)


def predict_recording(
    recording: Recording,
    price: str | Path | Price = "a40",
    *,
    steps: int = 48,
    loader_us: float | tuple[float, float, float] | None = None,
    speed: HostSpeed | None = None,
) -> Prediction:
    """Run a recording on two clocks, once typical and once for every corner of fast and slow host, device and loader.

    `loader_us` is the time between two batches of a loader that keeps up to 24 ready: one figure, or slow, typical and fast. None is a loader that is
    never late. `speed` is the host's; by default this machine's, calibrated on the spot.
    """
    if not recording.steps:
        raise TallyError("There is no step to predict from: the recording is empty.")
    prices, speed = price_list(price), speed or calibrate()
    batch_us = (float(loader_us),) * 3 if isinstance(loader_us, (int, float)) else loader_us
    timed = recording.whole_intervals(steps)
    paces = list(product(EDGES, EDGES, EDGES if batch_us else ("typical",)))
    nominal = Circumstances()

    def run(c: Circumstances, drop: Any = None) -> tuple[Outcome, Clocks]:
        loader = Loader(batch_us[PACES.index(c.loader)] if batch_us else 0.0, prices.host["fetch_us"].at(c.host))
        return simulate(recording, Tariff(prices, speed, c.host, c.device), timed, loader, drop, c.loader)

    typical, clocks = run(nominal)
    corners = [run(Circumstances(host, device, loader))[0] for host, device, loader in paces]
    waiting = []
    for key, waits in _by_site(clocks.waits).items():
        without = run(nominal, drop=lambda seen, key=key: (seen.operator, seen.site) == key)[0]
        waiting.append(_waiting(key, waits, timed, typical.step_us - without.step_us))
    return Prediction(
        price=prices,
        speed=speed,
        loader_us=batch_us,
        outcomes=(typical, *corners),
        waiting=tuple(sorted(waiting, key=lambda w: -w.idle_us)),
        without_waits_ms=run(nominal, drop=lambda seen: True)[0].step_us / 1000 if waiting else typical.step_us / 1000,
        launches=clocks.launches / len(clocks.steps),
        steps=timed,
        clocks=clocks,
        recording=recording,
    )


def _by_site(waits: Sequence[Wait]) -> dict[tuple[str, Site | None], list[Wait]]:
    groups: dict[tuple[str, Site | None], list[Wait]] = {}
    for w in waits:
        groups.setdefault((w.task.operator, getattr(w.task.note, "site", None)), []).append(w)
    return groups


def _waiting(key: tuple[str, Site | None], waits: Sequence[Wait], steps: int, saved_us: float) -> Waiting:
    return Waiting(
        operator=key[0],
        site=key[1],
        tag=getattr(waits[0].task.note, "tag", None),
        per_step=len(waits) / steps,
        host_wait_us=sum(w.end_us - w.start_us for w in waits) / steps,
        idle_us=sum(w.idle_us or 0.0 for w in waits) / steps,
        saved_us=saved_us,
    )


def summary(rows: dict[str, Prediction], baseline: str = "none") -> Iterator[dict[str, Any]]:
    """Several predictions as rows of a table: milliseconds with their interval, waits per step, per cent lost against a baseline."""
    for name, p in rows.items():
        lost = p.slower_than(rows[baseline]) if baseline in rows else None
        yield {
            "variant": name,
            "predicted": p.price.name,
            "step_ms": p.step_ms,
            "low_ms": p.low_ms,
            "high_ms": p.high_ms,
            "idle_ms": p.idle_ms,
            "device_ms": p.device_ms,
            "host_ms": p.host_ms,
            "launches": p.launches,
            "waits": p.waits,
            "lost_percent": lost and lost[0],
            "lost_low_percent": lost and lost[1],
            "lost_high_percent": lost and lost[2],
        }
