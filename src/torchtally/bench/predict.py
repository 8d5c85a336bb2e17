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
    """Predictions for one price list, by variant. `sizes` is the job they are for."""

    price: str
    sizes: Settings
    predictions: Mapping[str, cost.Prediction]

    @property
    def note(self) -> str:
        return next(iter(self.predictions.values())).note()

    def constants(self) -> dict[str, dict[str, Any]]:
        """Every constant of the cost model: its slow, typical and fast value, and where it comes from."""
        found = next(iter(self.predictions.values())).constants()
        return {name: {"slow": c.values[0], "typical": c.values[1], "fast": c.values[2], "source": c.source} for name, c in found.items()}

    def figures(self, name: str) -> dict[str, float | None]:
        """One variant's figures, with `low` and `high` ends of what is plausible."""
        p = self.predictions[name]
        lost: Sequence[float | None] = p.slower_than(self.predictions[BASELINE]) if BASELINE in self.predictions else (None, None, None)
        return {
            "step_ms": p.step_ms,
            "step_ms_low": p.low_ms,
            "step_ms_high": p.high_ms,
            "images_per_s": self.sizes.batch / p.step_ms * 1e3,
            "device_idle_ms": p.idle_ms,
            "loss_percent": lost[0],
            "loss_percent_low": lost[1],
            "loss_percent_high": lost[2],
        }

    def report(self, name: str) -> Report:
        return cost.report(self.predictions[name], "bench", name)

    def timeline(self, name: str) -> Timeline:
        return cost.timeline(self.predictions[name], name)


def forecast(counted: Sequence[Counted], sizes: Settings, price: str, speed: HostSpeed | None = None) -> Forecast:
    """Price what was recorded, batches coming from a loader like the job's."""
    speed = speed or calibrate()
    device = price_list(price)
    batch_us = cost.loader_us(data.dataset(sizes), sizes.batch, sizes.workers, device)
    predictions = {c.variant.name: cost.predict_recording(c.recording, device, speed=speed, loader_us=batch_us) for c in counted if c.recording}
    return Forecast(device.name, sizes, predictions)
