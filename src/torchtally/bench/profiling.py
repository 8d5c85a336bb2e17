"""The experiment under PyTorch's profiler, as published: traces for TensorBoard and Perfetto, and with probes the time of each line of the metrics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

from ..stalls.probes import probe_lines
from ..stalls.regions import line_of
from ..stalls.sources.trace import read_trace
from ..stalls.stall import Site
from ..stalls.timeline import Timeline
from . import data, loop
from .ddp import process_group
from .settings import Settings
from .variants import Variant

WAIT, WARMUP, ACTIVE = 10, 2, 3
STEPS = WAIT + WARMUP + ACTIVE


@dataclass(frozen=True)
class Profiled:
    """One variant's trace, as a file and as a timeline."""

    variant: Variant
    file: Path
    timeline: Timeline

    @property
    def lines(self) -> list[tuple[Site, float]]:
        """The probed lines and the host's microseconds in each per step, lines within them included; the longest first."""
        regions, spent = self.timeline.regions, dict[Site, float]()
        for name, start, end in zip(regions.name.tolist(), regions.start_us.tolist(), regions.end_us.tolist()):
            if site := line_of(self.timeline.name(name)):
                spent[site] = spent.get(site, 0.0) + (end - start) / ACTIVE
        return sorted(spent.items(), key=lambda item: -item[1])


def profile_variant(variant: Variant, settings: Settings, logdir: Path, probe: bool = False) -> Profiled:
    """Train for 15 steps: 10 unwatched, 2 to warm the profiler up, 3 recorded with memory and stacks. The trace lies in `logdir`, in a folder named as the variant."""
    folder = logdir / variant.name
    before = set(folder.glob("*.json"))
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (settings.device == "cuda")
    with process_group(settings.device) if variant.ddp else nullcontext():
        run = loop.start(variant, settings, settings.device)
        batches = iter(data.loader(settings, [STEPS], 1))
        with (
            probe_lines(*code_of(run)) if probe else nullcontext(),
            profile(
                activities=activities,
                schedule=schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1),
                on_trace_ready=tensorboard_trace_handler(str(folder)),
                record_shapes=False,
                profile_memory=True,
                with_stack=True,
            ) as profiler,
        ):
            for _ in range(STEPS):
                loop.turn(run, batches, 1)
                profiler.step()
    written = sorted(set(folder.glob("*.json")) - before)
    return Profiled(variant, written[-1], read_trace(written[-1]))


def code_of(run: loop.Run) -> list[Any]:
    """The functions whose lines are worth timing: the variant's own `update`, and those that torchmetrics' MeanMetric runs."""
    found: list[Any] = [run.meter.update] if hasattr(run.meter.update, "__code__") else []
    aggregation = sys.modules.get("torchmetrics.aggregation")
    if aggregation is not None:
        found += [aggregation.MeanMetric.update, aggregation.BaseAggregator._cast_and_nan_check_input]
    return found


def profile_all(variants: Sequence[Variant], settings: Settings, logdir: Path, probe: bool = False) -> list[Profiled]:
    return [profile_variant(variant, settings, logdir, probe) for variant in variants]
