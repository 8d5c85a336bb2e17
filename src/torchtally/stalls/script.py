"""Run somebody's own, unmodified script on the pretend device and report what waits in it."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from types import CodeType, ModuleType
from typing import Any

from ..errors import TallyError
from . import children, notebooks, unseen
from .borrowed import Left, given_back
from .ownership import Owner, Ownership
from .recorder import Recorder
from .stall import Report
from .timeline import Timeline
from .watching import EnoughSteps

NO_DEVICE_WORK = "no device work at all: the script put nothing on a CUDA device (does an option of its own choose the CPU?), so no stall could be seen"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`report` holds what was found until the script ended. `error` is what it raised, None if it ended well; `status` is its own exit status."""

    report: Report
    device_work: bool
    error: BaseException | None = None
    status: int = 0
    timelines: tuple[Timeline, ...] = ()
    left: bool = False
    """Whether it ended by `os._exit`, which waits for no thread."""

    @property
    def failed(self) -> bool:
        return self.status != 0

    def traceback(self) -> str:
        """The script's error as Python would print it, without the frames of whoever ran it or of the pretend device; empty if there is none."""
        return "" if self.error is None or isinstance(self.error, SystemExit) else _own_traceback(self.error)


def check_script(
    script: str,
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    steps: int | None = None,
    warmup: int = 0,
    devices: int = 1,
    fast: bool = False,
    shapes: bool = False,
    price: str | None = None,
    own: Sequence[str] = (),
    on_step: Callable[[int, Recorder], None] | None = None,
    device: Callable[[Recorder], AbstractContextManager[Any]] | None = None,
) -> Outcome:
    """Run a script (or, with `module`, what `python -m` would run) as `__main__` on a pretend device, and report its stalls.

    `steps` ends it cleanly after that many optimiser steps; the first `warmup` are left out, unless it fails before. `devices`, `fast`, `shapes` and `price` are
    those of `pretend_cuda`. `own` names packages or paths whose lines count as the user's own wherever they lie. `on_step(made, recorder)` is called
    as it goes. What child processes do on the device is in the report as other ranks. An error of the script is part of the outcome; a script that
    cannot be read is a TallyError.
    """
    program = _find_module(script) if module else _find_script(script)
    own = (*own, *program.own)
    recorder: Recorder = Recorder(own=own, limit=steps, on_step=(lambda made: on_step(made, recorder)) if on_step else None)
    loaded = list(sys.modules)
    error: BaseException | None = None
    settings = children.Settings(steps, devices, fast, shapes, price, own)
    with children.watched(settings) as family, (device or settings.device)(recorder), recorder:
        try:
            _run(program, arguments, recorder)
        except EnoughSteps:
            pass
        except BaseException as raised:
            error = raised
    for text in unseen.notes(loaded, Ownership(own)):
        recorder.note(text)
    left = isinstance(error, Left)
    error, status = _ending(error)
    name = _name(script, arguments, module)
    report, device_work = family.join(recorder.report(name), recorder.device_work, 0 if status else warmup)
    if not device_work:
        report = replace(report, notes=(*report.notes, NO_DEVICE_WORK))
    return Outcome(report, device_work, error, status, (recorder.timeline(name),), left)


def _ending(error: BaseException | None) -> tuple[BaseException | None, int]:
    """The error and the status the script would have ended with."""
    if isinstance(error, SystemExit):
        code = error.code
        if code is None or code == 0:
            return None, 0
        return error, code if isinstance(code, int) else 1
    return error, 0 if error is None else 130 if isinstance(error, KeyboardInterrupt) else 1


@dataclass(frozen=True, slots=True)
class _Program:
    """What runs as `__main__`: its compiled code, its names to begin with, the folder Python puts first on its path."""

    file: str
    compile: Callable[[], CodeType]
    source: bytes
    names: dict[str, Any]
    folder: str
    own: tuple[str, ...] = ()


def _find_script(script: str) -> _Program:
    file = os.path.abspath(os.path.join(script, "__main__.py") if os.path.isdir(script) else script)
    try:
        with open(file, "rb") as f:
            source = f.read()
    except OSError as error:
        hint = "" if os.sep in script or script.endswith(".py") else f" To run the module {script} as `python -m` does, put -m before it."
        reason = "it is a folder without a __main__.py" if os.path.isdir(script) else error.strerror
        raise TallyError(f"{script}: {reason}; expected a Python script.{hint}") from None
    return _Program(file, lambda: compile(source, file, "exec"), source, {"__file__": file}, os.path.dirname(file), (file,))


def _find_module(name: str) -> _Program:
    with _first_on_path(os.getcwd()):
        try:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.submodule_search_locations is not None:  # a package runs its __main__
                spec = importlib.util.find_spec(f"{name}.__main__")
        except (ImportError, ValueError) as error:
            raise TallyError(f"-m {name}: {error}; expected a module that `python -m {name}` can run.") from None
    if spec is None or not hasattr(spec.loader, "get_code"):
        raise TallyError(f"-m {name}: there is no such module, or it has no __main__; expected a module that `python -m {name}` can run.")
    loader: Any = spec.loader
    names = {"__file__": spec.origin, "__spec__": spec, "__loader__": loader, "__package__": spec.parent}
    package = name.partition(".")[0]
    own = () if package in RUNS_OTHERS else (package,)
    return _Program(spec.origin or name, lambda: loader.get_code(spec.name), b"", names, os.getcwd(), own)


RUNS_OTHERS = ("torch", "lightning", "pytorch_lightning", "accelerate", "deepspeed", "runpy", "pdb", "cProfile")
"""Packages that run somebody else's script: not the user's own, though named after -m."""


@contextmanager
def _first_on_path(folder: str) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before


def _run(program: _Program, arguments: Sequence[str], recorder: Recorder) -> None:
    """Run it as Python would: as the module `__main__`, so that classes it defines pickle, with its own arguments and path."""
    main = ModuleType("__main__")
    names = vars(main)
    names.update(program.names, __builtins__=__builtins__)
    notebooks.furnish(names, program.source, recorder.note)
    replaced, argv = sys.modules["__main__"], sys.argv
    sys.modules["__main__"], sys.argv = main, [program.file, *arguments]
    try:
        with _first_on_path(program.folder), given_back():
            exec(program.compile(), names)
    finally:
        sys.modules["__main__"], sys.argv = replaced, argv
        _MAINS.append(main)  # functions that outlive the run (at exit, in threads) still need their names


_MAINS: list[ModuleType] = []


def _name(script: str, arguments: Sequence[str], module: bool) -> str:
    return " ".join([*(["-m"] if module else []), script, *arguments])


def _own_traceback(error: BaseException) -> str:
    shown = traceback.TracebackException.from_exception(error)
    ownership = Ownership()
    seen: set[int] = set()
    parts = [shown]
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        frames = list(part.stack)
        first = next((n for n, f in enumerate(frames) if f.filename != __file__), len(frames))
        part.stack[:] = [f for f in frames[first:] if not _is_ours(f.filename, ownership)]
        parts += [p for p in (part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())) if p is not None]
    return "".join(shown.format())


def _is_ours(file: str, ownership: Ownership) -> bool:
    return os.path.abspath(file).startswith(os.path.dirname(os.path.abspath(__file__)) + os.sep) and ownership(file) is Owner.PLUMBING
