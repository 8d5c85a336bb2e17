"""Record a few steps of a training loop with the profiler's right settings, and read at once what waited."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch
from rich.console import Console
from torch.profiler import ProfilerActivity, schedule
from torch.profiler import profile as torch_profile

from ..errors import TallyError
from .analysis import report
from .metric_regions import MetricRegions
from .renderers import text
from .sources.trace import read_trace
from .stall import Report
from .timeline import Timeline

T = TypeVar("T")


class Recording:
    """A running profile: call `step()` at the end of every step, or loop over `over(loader)`. See `profile`.

    `done` is true once the steps asked for are recorded. Once the block has ended, `path` is the trace, `timeline` what it holds, `report` what waited.
    """

    def __init__(
        self, profiler: Callable[[Callable[[Any], None]], torch_profile], directory: Path, worker: str, lead_in: int, steps: int, show: bool
    ) -> None:
        self.directory = directory
        self.path: Path | None = None
        self.timeline: Timeline | None = None
        self._report: Report | None = None
        self._worker = worker
        self._lead_in, self._steps, self._show = lead_in, steps, show
        self._stepped = 0
        self._metrics = MetricRegions()
        self._profiler = profiler(self._write)

    @property
    def done(self) -> bool:
        return self.path is not None

    @property
    def report(self) -> Report:
        if self._report is None:
            raise TallyError(
                "There is no report yet: " + (self._too_short() if self.path is None else "it is made when the `with` block ends.")
            )
        return self._report

    def step(self) -> None:
        """The end of a step."""
        self._stepped += 1
        self._profiler.step()
        if self.done:
            self._metrics.__exit__()

    def over(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches, each of them a step."""
        for batch in batches:
            yield batch
            self.step()

    def __enter__(self) -> Recording:
        self._metrics.__enter__()
        try:
            self._profiler.__enter__()
        except BaseException:
            self._metrics.__exit__()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._metrics.__exit__()
        self._profiler.__exit__(kind, error, traceback)
        if kind is not None:
            return
        if self.path is None:
            warnings.warn(f"Nothing was recorded: {self._too_short()}", stacklevel=2)
            return
        self.timeline = read_trace(self.path)
        self._report = report([self.timeline])
        if self._show:
            Console(highlight=False, soft_wrap=True).print(text.table(self._report, [self.timeline]))

    def _write(self, profiler: Any) -> None:
        """Under the name that TensorBoard's profiler page and Perfetto open."""
        if self._stepped <= self._lead_in:  # the loop ended while warming up: what there is belongs to no whole step
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{self._worker}.{time.time_ns() // 1_000_000}.pt.trace.json.gz"
        profiler.export_chrome_trace(str(path))
        self.path = path

    def _too_short(self) -> str:
        needed = self._lead_in + self._steps
        return (
            f"step() was called {self._stepped} times and recording {self._steps} steps after {self._lead_in} of waiting and warming up takes {needed}. "
            "Call step() at the end of every step, run more of them, or ask for fewer steps, warmup or wait."
        )


def profile(
    steps: int = 3,
    warmup: int = 2,
    wait: int = 0,
    *,
    directory: str | Path = "traces",
    worker: str | None = None,
    stacks: bool = True,
    memory: bool = False,
    shapes: bool = False,
    show: bool = True,
) -> Recording:
    """Record `steps` steps of a loop, write the trace, read it and print which lines waited for the device.

        with profile(steps=3, directory="traces") as recording:
            for batch in loader:
                train(batch)
                recording.step()
                if recording.done:
                    break

    The first `wait` steps are left alone and the next `warmup` are run with the profiler on but thrown away. Python stacks, step marks and a region
    around each method of each metric (of torchtally and torchmetrics) are recorded, so that every wait has a line, a step and a metric; `probe_lines`
    adds exact lines of code in libraries. `memory` and `shapes` make the trace larger and are for other tools.

    The trace goes to `directory`, named by `worker` (by default the rank) so that `tensorboard --logdir`, Perfetto and `torchtally stalls` open it.
    Where there is no device the report says so: it then shows no waits, which is not the same as there being none. `show=False` prints nothing; the
    report is in `recording.report` either way.
    """
    for name, value, least in (("steps", steps, 1), ("warmup", warmup, 1), ("wait", wait, 0)):
        if not isinstance(value, int) or value < least:
            raise TallyError(f"profile: {name} is {value!r}; expected a whole number of at least {least}.")
    rank = torch.distributed.get_rank() if torch.distributed.is_available() and torch.distributed.is_initialized() else 0

    def profiler(write: Callable[[Any], None]) -> torch_profile:
        return torch_profile(
            activities=_activities(),
            schedule=schedule(wait=wait, warmup=warmup, active=steps, repeat=1),
            on_trace_ready=write,
            with_stack=stacks,
            profile_memory=memory,
            record_shapes=shapes,
            acc_events=True,  # the only cycle's events are all there are; without it newer versions warn
        )

    return Recording(profiler, Path(directory), worker or f"rank{rank}", wait + warmup, steps, show and rank == 0)


def _activities() -> list[ProfilerActivity]:
    """Those of this machine: a build for CUDA offers that activity without a GPU too, and complains when it is taken."""
    absent = {ProfilerActivity.CUDA} if not torch.cuda.is_available() else set()
    return sorted(torch.profiler.supported_activities() - absent, key=lambda activity: activity.value)
