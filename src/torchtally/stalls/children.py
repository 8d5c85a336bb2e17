"""Child processes of a checked script: each Python process it starts pretends too, and hands its report to the parent when it ends.

The parent puts the folder `child/` first on PYTHONPATH; the `sitecustomize` there starts the pretend device as soon as the child imports torch.
Forked children inherit the device from their parent and, as with a real one, may not use it.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn

import orjson
import torch

from .recorder import Recorder
from .selection import after_warmup
from .stall import Report, Site, Stall

VARIABLE = "TORCHTALLY_CHECK"
_SITE = str(Path(__file__).parent / "child")
_SOURCES = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True)
class Settings:
    """How a child pretends."""

    steps: int | None = None
    devices: int = 1
    fast: bool = False
    shapes: bool = False
    price: str | None = None
    own: tuple[str, ...] = ()

    def device(self, recorder: Recorder) -> AbstractContextManager[Any]:
        """The pretend device they describe."""
        from .sources.pretend import pretend_cuda

        return pretend_cuda(self.devices, record=recorder, fast=self.fast, shapes=self.shapes, price=self.price)


class Family:
    """The reports of child processes, in a folder of their own until joined."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: list[tuple[Report, bool, int | None]] = []

    def collect(self) -> None:
        for file in sorted(self._folder.glob("*.json"), key=lambda f: int(f.stem)):
            found = orjson.loads(file.read_bytes())
            stalls = tuple(_stall(s) for s in found["report"].pop("stalls"))
            report = Report(**{**found["report"], "stalls": stalls, "notes": tuple(found["report"]["notes"]), "gains": ()})
            self._found.append((report, found["device_work"], found["rank"]))

    def join(self, parent: Report, device_work: bool, warmup: int = 0) -> tuple[Report, bool]:
        """One report of all that used the device, each without its warm-up: stalls of each process as a rank of their own, the steps of all together."""
        children = [(after_warmup(report, warmup), rank) for report, worked, rank in self._found if worked]
        if not children:
            return after_warmup(parent, warmup), device_work
        reports = [after_warmup(parent, warmup)] if device_work else []
        taken = {rank for _, rank in children if rank is not None} | ({0} if device_work else set())
        free = (n for n in range(len(taken) + len(children) + 1) if n not in taken)
        reports += [_as_rank(report, next(free) if rank is None else rank) for report, rank in children]
        steps = [r.steps for r in reports if r.steps is not None]
        notes = dict.fromkeys(note for r in [parent, *reports] for note in r.notes)
        note = f"{len(children)} child process{'es' * (len(children) > 1)} used the device; steps are counted over all"
        return replace(parent, steps=sum(steps) or None, stalls=tuple(s for r in reports for s in r.stalls), notes=(*notes, note)), True


def _as_rank(report: Report, rank: int) -> Report:
    return replace(report, stalls=tuple(replace(s, rank=rank) for s in report.stalls))


def _stall(values: dict[str, Any]) -> Stall:
    sites = {name: Site(**values[name]) if values[name] else None for name in ("site", "inner")}
    return Stall(**{**values, **sites})


@contextmanager
def watched(settings: Settings) -> Iterator[Family]:
    """While inside, Python processes that this one starts pretend as the settings say. Their reports are collected on leaving."""
    with tempfile.TemporaryDirectory(prefix="torchtally-") as folder:
        family = Family(Path(folder))
        values = {
            VARIABLE: orjson.dumps({"folder": folder, "sources": _SOURCES, **asdict(settings)}).decode(),
            "PYTHONPATH": os.pathsep.join([_SITE, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield family
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            family.collect()


def begin(settings: dict[str, Any]) -> None:
    """Called in a child once it has imported torch: pretend until it ends."""
    folder = Path(settings.pop("folder"))
    del settings["sources"]
    pretending = Settings(**settings)
    recorder = Recorder(own=pretending.own, limit=pretending.steps)
    stack = ExitStack()
    stack.enter_context(pretending.device(recorder))
    stack.enter_context(recorder)
    process = os.getpid()

    def end() -> None:
        if os.getpid() == process and not (file := folder / f"{process}.json").exists():
            rank = _rank()
            stack.close()
            if file.parent.exists():  # the parent may be gone before
                part = file.with_suffix(".part")
                part.write_bytes(orjson.dumps({"report": asdict(recorder.report(f"process {process}")), "device_work": recorder.device_work, "rank": rank}))
                part.rename(file)

    leave = os._exit

    def end_and_leave(status: int) -> NoReturn:
        end()
        leave(status)

    os._exit = end_and_leave  # type: ignore[assignment]  # it takes what that takes
    atexit.register(end)
    # processes of multiprocessing may leave without exit handlers; they run finalizers, but only those made after they began
    util.register_after_fork(recorder, lambda _: util.Finalize(None, end, exitpriority=0))


def _rank() -> int | None:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdigit() else None


