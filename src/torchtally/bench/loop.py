"""The training loop of the experiment, run for several variants side by side so that whatever disturbs one disturbs all.

Every variant trains a model of its own from the same weights on the same batches. They take turns, in an order that rotates, and each
reads its metrics every `log_interval` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from . import data, model
from .meter import Meter
from .settings import Settings
from .variants import Variant, make

Advance = Callable[[int, str], None]
"""Told of every turn: 0 steps as it begins, all of them when it is done, and the variant's name."""


@dataclass
class Run:
    """One variant in training, and what was timed: milliseconds per step, one figure per turn; milliseconds per reading."""

    variant: Variant
    model: nn.Module
    optimizer: torch.optim.Optimizer
    meter: Meter
    device: str
    step_ms: list[float] = field(default_factory=list)
    update_ms: list[float] = field(default_factory=list)
    read_ms: list[float] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    error: str = ""

    def step(self, batch: Sequence[Tensor], began: float) -> float:
        """One step as published, begun when its batch was asked for; the seconds the host spent in the metrics' update."""
        images = batch[0].to(self.device, non_blocking=True)
        target = batch[1].to(self.device, non_blocking=True)
        self.optimizer.zero_grad()
        output = self.model(images)
        loss = nn.functional.cross_entropy(output, target)
        loss.backward()
        self.optimizer.step()
        trained = perf_counter()
        if self.variant.feeds == "batch":
            self.meter.update(loss, output, target)
        else:
            self.meter.update(trained - began)
        return perf_counter() - trained

    def read(self) -> None:
        """Read the metrics and start them again. On a GPU this waits for all that is queued, mostly the model's own work."""
        try:
            self.values = self.meter.read()
        except RuntimeError as error:
            if not self.variant.fails:
                raise
            self.error = str(error).splitlines()[0]

    def forget(self) -> None:
        """Start timing and counting afresh, after warm-up."""
        self.read()
        for times in (self.step_ms, self.update_ms, self.read_ms):
            times.clear()


def start(variant: Variant, settings: Settings, device: str, wrap: Callable[[nn.Module], nn.Module] = lambda net: net) -> Run:
    net = wrap(model.build(settings).to(device).train())
    return Run(variant, net, torch.optim.SGD(net.parameters()), make(variant, settings.classes, device), device)


def turn(run: Run, batches: Iterator[Any], steps: int) -> None:
    """Train `steps` steps; nothing here waits for the device."""
    begin, updates = perf_counter(), 0.0
    for _ in range(steps):
        asked = perf_counter()
        updates += run.step(next(batches), asked)
    run.step_ms.append((perf_counter() - begin) / steps * 1e3)
    run.update_ms.append(updates / steps * 1e3)


def timed_read(run: Run) -> None:
    begin = perf_counter()
    run.read()
    if run.device == "cuda":
        torch.cuda.synchronize()
    run.read_ms.append((perf_counter() - begin) * 1e3)


def train(variants: Sequence[Variant], settings: Settings, advance: Advance, rank: int = 0, world_size: int = 1, ddp: bool = False) -> list[Run]:
    """Train the variants side by side and time them; over several processes, each on its own share of the data."""
    turns = [settings.turn] * (settings.timed_steps // settings.turn)
    warmup = [settings.warmup] if settings.warmup else []
    runs = [start(variant, settings, settings.device, distributed if ddp else lambda net: net) for variant in variants]
    batches = iter(data.loader(settings, warmup + turns, len(runs), rank, world_size))
    done = -sum(warmup)
    for number, steps in enumerate(warmup + turns):
        done += steps
        first = number % len(runs)
        for run in runs[first:] + runs[:first]:
            advance(0, run.variant.name)
            turn(run, batches, steps)
            if done == 0:
                run.forget()
            elif done % settings.log_interval == 0:
                timed_read(run)
            advance(steps, run.variant.name)
    return runs


def distributed(net: nn.Module) -> nn.Module:
    return nn.parallel.DistributedDataParallel(net)
