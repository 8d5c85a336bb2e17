"""Traces that PyTorch's profiler exported, of every era and vendor, as timelines."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ...errors import TallyError
from ..timeline import Timeline
from .align import aligned
from .events import Damage, Event, Events, unpacked
from .records import Records, memory_left

Progress = Callable[[int], None]

_BASE_TIME = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(\d{1,19})\b')
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*"?(\d{1,9})\b')
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_]?(\d{1,9})", re.IGNORECASE)
_DEVICES = re.compile(rb'"deviceProperties"\s*:\s*\[(.*?)\]', re.DOTALL)
_DEVICE_NAME = re.compile(rb'"name"\s*:\s*"([^"\\]{1,100})"')
_SUFFIXES = (".json", ".json.gz", ".gz")


def read_trace(path: str | Path, progress: Progress | None = None) -> Timeline:
    """The timeline of one trace file: plain or gzip, an object or a bare list of events, whole or broken.

    What is wrong with the file, and what could therefore not be read, is said in `Timeline.notes`. `progress` is called with the number of
    bytes read from the file since the last call. Nothing but what the timeline needs is kept: metadata of the file is not.

    Raises TallyError for what is no trace, for what cannot be opened, and before memory runs out.
    """
    path = Path(path)
    damage = Damage()
    events = Events(path, unpacked(path, damage, progress), damage)
    records = Records(str(path))
    room = memory_left()
    collecting = gc.isenabled()
    gc.disable()  # the events are trees: looking for cycles in them doubles the time and finds none
    try:
        for block in events:
            records.take(block)
            if room is not None and records.size > room // 2:
                raise MemoryError
        if not events.header and not records.seen:
            raise TallyError(f"{path}: is a list, but not of trace events. Give a trace that torch.profiler exported (Chrome trace JSON).")
        records.draft.notes = damage.notes()
        _metadata(records, events.header + b"\n" + events.footer, path)
        return records.timeline()
    except MemoryError:
        raise TallyError(
            f"{path}: its {records.seen:,} events so far need more memory than this machine has left. "
            "Record fewer steps, or without with_stack, or read it on a larger machine."
        ) from None
    finally:
        if collecting:
            gc.enable()


def events_of(path: str | Path) -> Iterator[list[Event]]:
    """The events of a trace file as they stand in it, in blocks; those that are no JSON are mended or left out. Metadata of the file are not read."""
    path, damage = Path(path), Damage()
    return iter(Events(path, unpacked(path, damage), damage))


def read_traces(paths: Iterable[str | Path], progress: Progress | None = None) -> list[Timeline]:
    """The timelines of several ranks: of files, and of all traces in folders. Each has a rank of its own, and where
    all show the same collectives, `origin_ns` is that of one common clock.

    In a folder, files that are no traces are passed over and named in a note; a file given by its path must be a trace.
    """
    found: list[Timeline] = []
    notes: list[str] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(read_trace(path, progress))
            continue
        files = trace_files(path)
        before = len(found)
        for file in files:
            try:
                found.append(read_trace(file, progress))
            except TallyError as error:
                notes.append(f"passed over: {error}")
        if len(found) == before:
            raise TallyError(
                f"{path}: the folder holds no trace ({len(files)} files ending in .json or .gz were tried). Give a folder of torch.profiler traces."
            )
    return _ranked(found, notes)


def trace_files(folder: Path) -> list[Path]:
    """The files in a folder that may be traces, by their names."""
    return sorted(f for f in folder.iterdir() if f.is_file() and f.name.endswith(_SUFFIXES))


def _ranked(found: list[Timeline], notes: list[str]) -> list[Timeline]:
    if len({t.rank for t in found}) < len(found):
        found = [replace(t, rank=i) for i, t in enumerate(found)]
        notes = [*notes, "the files do not say their ranks, or say the same: they are numbered in the order given"]
    found = aligned(found)
    if notes and found:
        found[0] = replace(found[0], notes=(*found[0].notes, *notes))
    return found


def _metadata(records: Records, text: bytes, path: Path) -> None:
    """The few things worth knowing from what surrounds the events; the rest may hold secrets and is not looked at."""
    base = _BASE_TIME.search(text)
    records.base_ns = int(base[1]) if base else None
    records.draft.stacks_have_lines = base is None  # profilers that write a base time write where functions begin
    rank = _RANK.search(text) or _RANK_IN_NAME.search(path.name)
    records.draft.rank = int(rank[1]) if rank else 0
    devices = _DEVICES.search(text)
    names = _DEVICE_NAME.findall(devices[1]) if devices else []
    records.draft.devices = tuple(n.decode("utf-8", "replace") for n in names)
