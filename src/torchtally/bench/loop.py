"""The training loop of the experiment, run for several variants side by side so that whatever disturbs one disturbs all.

Every variant trains a model of its own from the same weights on the same batches. They take turns, in an order that rotates, and each
reads its metrics every `log_interval` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

import torch
from torch import Tensor, nn

from . import data, model, variants
from .settings import Settings

BASELINE = "none"


@dataclass
class Run:
    """One variant in training, and what was timed: milliseconds per step, one figure per turn; milliseconds per reading."""

    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    meter: variants.Meter
    step_ms: list[float] = field(default_factory=list)
    update_ms: list[float] = field(default_factory=list)
    read_ms: list[float] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)

    def forget(self) -> None:
        """Start timing and counting afresh, after warm-up."""
        self.meter.read()
        for times in (self.step_ms, self.update_ms, self.read_ms):
            times.clear()


@dataclass(frozen=True)
class Result:
    """What is known of one variant; None is unknown."""

    name: str
    step_ms: float | None
    images_per_s: float | None
    metric_ms: float | None
    stalls_per_step: float | None
    loss_percent: float | None
    values: dict[str, float]


def start(name: str, settings: Settings) -> Run:
    net = model.build(settings).to(settings.device).train()
    meter = variants.make(name, settings.classes, settings.device)
    return Run(name, net, torch.optim.SGD(net.parameters()), meter)


def train_step(run: Run, criterion: nn.Module, images: Tensor, target: Tensor) -> float:
    """One step as published; the seconds the host spent in the metrics' update."""
    run.optimizer.zero_grad()
    output = run.model(images)
    loss = criterion(output, target)
    loss.backward()
    run.optimizer.step()
    begin = perf_counter()
    run.meter.update(loss, output, target)
    return perf_counter() - begin


def turn(run: Run, batches: Iterator[tuple[Tensor, Tensor]], steps: int, settings: Settings) -> None:
    """Train `steps` steps; nothing here waits for the device."""
    criterion = nn.CrossEntropyLoss()
    begin, updates = perf_counter(), 0.0
    for _ in range(steps):
        images, target = next(batches)
        images = images.to(settings.device, non_blocking=True)
        target = target.to(settings.device, non_blocking=True)
        updates += train_step(run, criterion, images, target)
    run.step_ms.append((perf_counter() - begin) / steps * 1e3)
    run.update_ms.append(updates / steps * 1e3)


def read(run: Run, settings: Settings) -> None:
    """Read the metrics and start them again. On CUDA this waits for all that is queued, mostly the model's own work."""
    begin = perf_counter()
    run.values = run.meter.read()
    if settings.device == "cuda":
        torch.cuda.synchronize()
    run.read_ms.append((perf_counter() - begin) * 1e3)


def measure(names: Sequence[str], settings: Settings, advance: Callable[[int, str], None] = lambda steps, name: None) -> list[Result]:
    """Train every variant and time it. `advance` is told of every turn: 0 steps as it begins, all of them when it is done."""
    turns = [settings.turn] * (settings.timed_steps // settings.turn)
    warmup = [settings.warmup] if settings.warmup else []
    runs = [start(name, settings) for name in names]
    batches = iter(data.loader(settings, warmup + turns, len(runs)))
    done = -sum(warmup)
    for number, steps in enumerate(warmup + turns):
        done += steps
        first = number % len(runs)
        for run in runs[first:] + runs[:first]:
            advance(0, run.name)
            turn(run, batches, steps, settings)
            if done == 0:
                run.forget()
            elif done % settings.log_interval == 0:
                read(run, settings)
            advance(steps, run.name)
    return results(runs, settings)


def whole_ms(run: Run, settings: Settings) -> list[float]:
    """Milliseconds per step with the readings' share: the turn's own reading where each turn ends in one, else the median one."""
    readings = run.read_ms if len(run.read_ms) == len(run.step_ms) else [median(run.read_ms)] * len(run.step_ms)
    return [step + reading / settings.log_interval for step, reading in zip(run.step_ms, readings, strict=True)]


def results(runs: Sequence[Run], settings: Settings) -> list[Result]:
    """Medians over the turns. The loss is the median of the images per second lost against the same turn without metrics.

    The metrics' time is what the host spends in them; on CUDA without the readings, which mostly wait for the model's work.
    """
    baseline = next((whole_ms(run, settings) for run in runs if run.name == BASELINE), None)
    rows = []
    for run in runs:
        times = whole_ms(run, settings)
        step_ms = median(times)
        loss = None if baseline is None else median((1 - b / t) * 100 for b, t in zip(baseline, times, strict=True))
        metric_ms: float | None = None
        if run.name != BASELINE:
            metric_ms = median(run.update_ms) + (0 if settings.device == "cuda" else median(run.read_ms) / settings.log_interval)
        rows.append(Result(run.name, step_ms, settings.batch / step_ms * 1e3, metric_ms, None, loss, run.values))
    return rows


def disagreement(rows: Sequence[Result]) -> float | None:
    """The largest difference between two variants' values of the same name, or None where fewer than two have values."""
    with_values = [row.values for row in rows if row.values]
    if len(with_values) < 2:
        return None
    names = set.intersection(*(set(values) for values in with_values))
    spreads = ([values[name] for values in with_values] for name in names)
    return max((max(spread) - min(spread) for spread in spreads), default=None)
