"""What each variant would cost on a GPU that is not here, and which of its lines wait: the training step recorded on a pretend device, on shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from ..stalls.price import HostSpeed, Meter, Seen, calibrate
from ..stalls.price import price as price_list
from ..stalls.recorder import Recorder
from ..stalls.sources.pretend import pretend_cuda
from ..stalls.stall import Report, Stall, StallGroup, group
from ..stalls.timeline import Timeline
from . import cost, data
from .ddp import process_group
from .loop import Run, start
from .settings import Settings
from .variants import BASELINE, Variant

STEPS = 2
"""Steps recorded of each variant: enough, since they are alike."""


@dataclass(frozen=True)
class Observed:
    """What one variant asks of a device. `error` is what reading its metrics ended in, if it did."""

    variant: Variant
    recording: cost.Recording
    error: str = ""

    @property
    def stalls(self) -> tuple[Stall, ...]:
        """The waits of the recorded steps, readings left out."""
        waits = [(n, s) for n, part in enumerate(self.recording.steps) for s in part if isinstance(s, Seen) and s.waits]
        return tuple(
            Stall(s.tag.kind, s.operator, s.tag.site, s.tag.inner, s.tag.metric, s.tag.region, step=n, remedy=s.tag.remedy)
            for n, s in waits
            for _ in range(s.waits)
            if isinstance(s.tag, Stall)
        )

    @property
    def stalls_per_step(self) -> float:
        return sum(s.waits for part in self.recording.steps for s in part if isinstance(s, Seen)) / len(self.recording.steps)

    @property
    def lines(self) -> list[StallGroup]:
        """Where it waits, the most frequent first; `per_step` says how often."""
        return group(self.stalls, len(self.recording.steps))


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


def observe(variant: Variant, sizes: Settings) -> Observed:
    """Record a few steps of a variant and one reading. Needs no memory for the model: tensors on the pretend device have shapes and no values."""
    images = torch.empty(sizes.batch, 3, sizes.image_size, sizes.image_size)
    target = torch.zeros(sizes.batch, dtype=torch.int64)
    recorder = Recorder(own=[str(Path(__file__).parent)])
    group = process_group("cpu") if variant.ddp else nullcontext()
    with group, pretend_cuda(record=recorder, shapes=True, meter=Meter()):
        run = start(variant, sizes, "cuda")
        batch = (images.pin_memory(), target.pin_memory())

        def step() -> None:
            run.step(batch, perf_counter())

        step()
        recording = cost.record(step, log=readable(run), log_interval=sizes.log_interval, steps=STEPS)
    return Observed(variant, recording, run.error)


def readable(run: Run) -> Callable[[], None] | None:
    """Reading the metrics, unless that fails."""
    run.read()
    return None if run.error else run.read


def forecast(observed: Sequence[Observed], sizes: Settings, price: str, speed: HostSpeed | None = None) -> Forecast:
    """Price what was observed, batches coming from a loader like the job's."""
    speed = speed or calibrate()
    device = price_list(price)
    batch_us = cost.loader_us(data.dataset(sizes), sizes.batch, sizes.workers, device)
    predictions = {o.variant.name: cost.predict_recording(o.recording, device, speed=speed, loader_us=batch_us) for o in observed}
    return Forecast(device.name, sizes, predictions)
