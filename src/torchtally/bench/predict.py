"""What each variant would cost on a GPU that is not here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..stalls.price import HostSpeed, calibrate
from ..stalls.price import price as price_list
from ..stalls.stall import Report
from ..stalls.timeline import Timeline
from . import cost, data
from .counting import Counted
from .settings import Settings
from .variants import BASELINE


@dataclass(frozen=True)
class Forecast:
    """Predictions for one price list, by variant. `sizes` is the job they are for.

    `predictions` have a loader that is never late, as a job worth tuning has; `loaded` the job's own, at the pace it has on this machine. Where that
    is the slower, it hides what metrics cost. Typical figures are of the first, intervals span both.
    """

    price: str
    sizes: Settings
    predictions: Mapping[str, cost.Prediction]
    loaded: Mapping[str, cost.Prediction]

    @property
    def note(self) -> str:
        """What every output says of these figures."""
        note = next(iter(self.predictions.values())).note()
        paces = next(iter(self.loaded.values())).loader_us
        if not paces:
            return note
        slow, _, fast = paces
        return (
            note + f" They also span this job's own loader: with {self.sizes.workers} workers a batch every {fast / 1000:.3g} to {slow / 1000:.3g} ms."
        )

    def constants(self) -> dict[str, dict[str, Any]]:
        """Every constant of the cost model: its slow, typical and fast value, and where it comes from."""
        found = next(iter(self.loaded.values())).constants()
        return {name: {"slow": c.values[0], "typical": c.values[1], "fast": c.values[2], "source": c.source} for name, c in found.items()}

    def figures(self, name: str) -> dict[str, float | None]:
        """One variant's figures, with `low` and `high` ends of what is plausible."""
        p, loaded = self.predictions[name], self.loaded[name]
        figures: dict[str, float | None] = {
            "step_ms": p.step_ms,
            "step_ms_low": min(p.low_ms, loaded.low_ms),
            "step_ms_high": max(p.high_ms, loaded.high_ms),
            "images_per_s": self.sizes.batch / p.step_ms * 1e3,
            "device_idle_ms": p.idle_ms,
            "loss_percent": None,
            "loss_percent_low": None,
            "loss_percent_high": None,
        }
        if BASELINE in self.predictions:
            lost = [p.slower_than(self.predictions[BASELINE]), loaded.slower_than(self.loaded[BASELINE])]
            figures |= {"loss_percent": lost[0][0], "loss_percent_low": min(low for _, low, _ in lost), "loss_percent_high": max(high for *_, high in lost)}
        return figures

    def report(self, name: str) -> Report:
        return cost.report(self.predictions[name], "bench", name)

    def timeline(self, name: str) -> Timeline:
        return cost.timeline(self.predictions[name], name)


def forecast(counted: Sequence[Counted], sizes: Settings, price: str, speed: HostSpeed | None = None) -> Forecast:
    """Price what was recorded."""
    speed = speed or calibrate()
    device = price_list(price)
    late = sizes.data != "ready"
    batch_us = cost.loader_us(data.dataset(sizes), sizes.batch, sizes.workers, device) if late else None
    recordings = {c.variant.name: c.recording for c in counted if c.recording}
    ideal = {name: cost.predict_recording(recording, device, speed=speed) for name, recording in recordings.items()}
    loaded = {name: cost.predict_recording(recording, device, speed=speed, loader_us=batch_us) for name, recording in recordings.items()}
    return Forecast(device.name, sizes, ideal, loaded)
