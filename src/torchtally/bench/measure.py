"""The measurement: variants that want a process group and those that must not see one, in one process or in several."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch.multiprocessing as mp

from ..errors import TallyError
from .ddp import process_group
from .loop import Advance, train
from .result import Result, results
from .settings import Settings
from .variants import BASELINE, VARIANTS, Variant


def silent(steps: int, name: str) -> None:
    """Tell nobody."""


def total_steps(variants: Sequence[Variant], settings: Settings) -> int:
    """How many steps all of it takes, for a progress bar."""
    return sum(len(batch) for batch, _ in _batches(variants, settings)) * (settings.warmup + settings.timed_steps)


def measure(variants: Sequence[Variant], settings: Settings, advance: Advance = silent) -> list[Result]:
    """Train with every variant and time it; rows in the order of `variants`."""
    if settings.nproc > 1:
        return _in_processes(variants, settings, advance)
    return _measure(variants, settings, advance)


def _batches(variants: Sequence[Variant], settings: Settings) -> list[tuple[list[Variant], bool]]:
    """The variants that run together, and whether under DistributedDataParallel. Those that run so get a baseline that runs so too."""
    alone = [v for v in variants if not (v.ddp or settings.ddp)]
    together = [v for v in variants if v.ddp or settings.ddp]
    if together and not any(v.name == BASELINE for v in together) and any(v.name == BASELINE for v in variants):
        together.insert(0, VARIANTS[BASELINE])
    return [(batch, ddp) for batch, ddp in ((alone, False), (together, True)) if batch]


def _measure(variants: Sequence[Variant], settings: Settings, advance: Advance, rank: int = 0, world_size: int = 1, meeting: str = "") -> list[Result]:
    found: dict[str, Result] = {}
    for batch, ddp in _batches(variants, settings):
        if ddp:
            with process_group(settings.device, rank, world_size, meeting):
                rows = results(train(batch, settings, advance, rank, world_size, ddp=True), settings, world_size)
        else:
            rows = results(train(batch, settings, advance), settings)
        for row in rows:
            found.setdefault(row.name, row)
    return [found[v.name] for v in variants]


def _in_processes(variants: Sequence[Variant], settings: Settings, advance: Advance) -> list[Result]:
    """The same in `nproc` processes; the figures are those of the first, the values those of all."""
    names = [v.name for v in variants]
    with tempfile.TemporaryDirectory() as folder:
        progress = mp.get_context("spawn").SimpleQueue()
        running = mp.start_processes(_process, (names, settings, folder, progress), nprocs=settings.nproc, join=False, start_method="spawn")
        try:
            while not running.join(timeout=0.2):
                while not progress.empty():
                    advance(*progress.get())
        except mp.ProcessRaisedException as error:
            raise TallyError(f"One of {settings.nproc} processes failed:\n{error}", exit_code=3) from None
        rows: list[Any] = pickle.loads((Path(folder) / "rows").read_bytes())
    return [replace(row, variant=VARIANTS[row.variant]) for row in rows]


def _process(rank: int, names: list[str], settings: Settings, folder: str, progress: Any) -> None:
    advance: Advance = silent if rank else lambda steps, name: progress.put((steps, name))
    meeting = str(Path(folder) / "meeting")
    rows = _measure([VARIANTS[name] for name in names], settings, advance, rank, settings.nproc, meeting)
    if rank == 0:  # a variant holds functions, which another process knows by its name
        named: list[Any] = [replace(row, variant=row.name) for row in rows]  # type: ignore[arg-type]
        (Path(folder) / "rows").write_bytes(pickle.dumps(named))
