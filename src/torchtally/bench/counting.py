"""Which lines of a variant wait for the device, and how often: counted on a real GPU, or on a pretend one, on shapes alone."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from ..stalls.price import Meter, Seen
from ..stalls.recorder import Recorder
from ..stalls.sources.live import watch
from ..stalls.sources.pretend import pretend_cuda
from ..stalls.stall import Stall, StallGroup, group
from . import cost
from .ddp import process_group
from .loop import start
from .settings import Settings
from .variants import Variant

STEPS = 2
"""Steps counted of each variant: enough, since they are alike."""
SETTLING = 3
"""Steps before them: a metric's first updates may prepare something."""


@dataclass(frozen=True)
class Counted:
    """The waits of `steps` steps of a variant, readings left out. `error` is what reading its metrics ended in, if it did.

    `recording` is all that the steps ask of a device, for a prediction; there is none from a real GPU.
    """

    variant: Variant
    steps: int
    stalls: tuple[Stall, ...]
    error: str = ""
    recording: cost.Recording | None = None

    @property
    def stalls_per_step(self) -> float:
        return len(self.stalls) / self.steps

    @property
    def lines(self) -> list[StallGroup]:
        """Where it waits, the most frequent first; `per_step` says how often."""
        return group(self.stalls, self.steps)


def pretended(variant: Variant, sizes: Settings) -> Counted:
    """Count on a pretend device, and keep what it was asked to do. Needs no memory for the model: large tensors there have shapes and no values."""
    images = torch.empty(sizes.batch, 3, sizes.image_size, sizes.image_size)
    target = torch.zeros(sizes.batch, dtype=torch.int64)
    with group_of(variant, "cpu"), pretend_cuda(record=recorder(), shapes=True, meter=Meter()):
        run = start(variant, sizes, "cuda")
        batch = (images.pin_memory(), target.pin_memory())

        def step() -> None:
            run.step(batch, perf_counter())

        step()
        run.read()
        recording = cost.record(step, log=None if run.error else run.read, log_interval=sizes.log_interval, steps=STEPS)
    return Counted(variant, STEPS, stalls_of(recording), run.error, recording)


def stalls_of(recording: cost.Recording) -> tuple[Stall, ...]:
    """The waits of the recorded steps, once each."""
    waits = [(number, seen) for number, part in enumerate(recording.steps) for seen in part if isinstance(seen, Seen) and seen.waits]
    return tuple(known(seen, number) for number, seen in waits for _ in range(seen.waits))


def known(seen: Seen, step: int) -> Stall:
    """What is known of a wait besides times, which a pretend device does not have."""
    s = seen.tag if isinstance(seen.tag, Stall) else Stall("read", seen.operator, seen.site)
    return Stall(s.kind, seen.operator, s.site, s.inner, s.metric, s.region, step=step, inferred=s.inferred, remedy=s.remedy)


def live(variant: Variant, settings: Settings) -> Counted:
    """Count on the real GPU."""
    images = torch.randn(settings.batch, 3, settings.image_size, settings.image_size).pin_memory()
    target = torch.zeros(settings.batch, dtype=torch.int64).pin_memory()
    watching = recorder()
    with group_of(variant, settings.device):
        run = start(variant, settings, settings.device)
        for _ in range(SETTLING):
            run.step((images, target), perf_counter())
        run.read()
        with watch(watching):
            for _ in range(STEPS):
                run.step((images, target), perf_counter())
                watching.step()
    return Counted(variant, STEPS, tuple(watching.stalls), run.error)


def recorder() -> Recorder:
    """One that takes the experiment's own lines for a user's."""
    return Recorder(own=[str(Path(__file__).parent)])


def group_of(variant: Variant, device: str) -> AbstractContextManager[Any]:
    return process_group(device) if variant.ddp else nullcontext()
