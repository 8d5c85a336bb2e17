"""What is shared by all parts of the pretend device: the sessions that are open, what each thread is doing, and the telling of waits."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor

from ... import catalogue
from ...price.meter import Meter
from .memory import HOST, is_pinned, where


class TorchCall:
    """A call of PyTorch's Python interface. `target` is the device it was asked to put its result on, None where it was not asked."""

    __slots__ = ("args", "function", "kwargs", "target")

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: int | None = None) -> None:
        self.function, self.args, self.kwargs, self.target = function, args, kwargs, target


class ThreadState(threading.local):
    """What a thread is doing: the innermost call of PyTorch's interface, whether waits are told, its device, its streams."""

    call: TorchCall | None = None
    muted: int = 0
    index: int = 0
    graph: Any = None  # the CUDA graph that is being captured

    def __init__(self) -> None:
        self.streams: dict[int, Any] = {}


STATE = ThreadState()


class Session:
    """One `pretend_cuda` that is open."""

    def __init__(self, devices: int, recorder: Any, fast: bool, meter: Meter | None = None, shapes: bool = False) -> None:
        self.devices = devices
        self.recorder = recorder
        self.fast = fast
        self.meter = meter
        self.shapes = shapes
        self.tag: int | None = None
        """Which of the recorder's waits the last call told was; None where the recorder left it out."""

    def note(self, text: str) -> None:
        notes = self.recorder.notes
        if text not in notes:
            notes.append(text)


class Switches:
    """What any open session asks for, looked up at every operator."""

    fast = shapes = metered = False

    def update(self) -> None:
        self.fast = any(session.fast for session in SESSIONS)
        self.shapes = any(session.shapes for session in SESSIONS)
        self.metered = any(session.meter is not None for session in SESSIONS)


SESSIONS: list[Session] = []
ON = Switches()
FAULTS: dict[int, str] = {}  # by device: what an asynchronous kernel found wrong, raised at every wait from then on


def note(text: str) -> None:
    """Say once, to every open session, what is not as on a real device."""
    for session in SESSIONS:
        session.note(text)


def devices() -> int:
    """How many devices there seem to be."""
    return SESSIONS[-1].devices if SESSIONS else 0


def asks_for_device(device: Any) -> bool:
    """Whether a `device=` argument names a pretend device."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device == "cuda" or device.startswith("cuda:")
    return isinstance(device, int) and not isinstance(device, bool)


def index_of_device(device: Any) -> int:
    """The index a `device=` argument names; the current device's where it names none. `HOST` for the CPU."""
    if device is None:
        return STATE.index
    if isinstance(device, int):
        index: int | None = device if device >= 0 else None
    else:
        device = torch.device(device) if isinstance(device, str) else device
        if device.type != "cuda":
            return HOST
        index = device.index
    if index is None:
        return STATE.index
    if index >= devices():
        raise _accelerator_error()("CUDA error: invalid device ordinal\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n")
    return index


def _accelerator_error() -> type[RuntimeError]:
    return getattr(torch, "AcceleratorError", RuntimeError)


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Tell no waits: what runs here stands for one call that has told its own."""
    STATE.muted += 1
    try:
        yield
    finally:
        STATE.muted -= 1


def on_device(value: Any) -> bool:
    """Whether a value is a tensor, or a storage, on a pretend device."""
    if isinstance(value, Tensor):
        return where(value) != HOST
    return isinstance(value, torch.UntypedStorage) and value.device.type == "cuda"


def pinned(value: Any) -> bool:
    """Whether a value is a tensor in pinned host memory."""
    return isinstance(value, Tensor) and is_pinned(value)


def tell(operator: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, overload: str = "default") -> int:
    """Ask the catalogue whether a call waits, and tell every open session of each wait. Returns how often it waits."""
    if STATE.muted or not SESSIONS:
        return 0
    STATE.muted += 1  # a condition of the catalogue may look at tensors
    try:
        found = catalogue.waits(catalogue.Call(operator, overload, args, kwargs or {}, on_device, pinned))
    finally:
        STATE.muted -= 1
    if STATE.graph is not None and any(times for _, times in found):
        raise _accelerator_error()("CUDA error: operation not permitted when stream is capturing")
    for session in SESSIONS:
        before = getattr(session.recorder, "count", None)
        for row, times in found:
            for _ in range(times):
                session.recorder(row, operator)
        session.tag = before if before is not None and before != session.recorder.count else None
    waits = sum(times for _, times in found)
    if waits and not operator.startswith("aten::"):  # operators are metered with the work they do
        for session in SESSIONS:
            if session.meter is not None:
                session.meter.call(operator, waits, args, session.tag)
    if FAULTS and waits:
        raise_fault()
    return waits


def raise_fault() -> None:
    """Raise what a kernel found wrong, as the next wait for a real device does."""
    if FAULTS:
        index, text = next(iter(FAULTS.items()))
        raise _accelerator_error()(
            f"CUDA error: device-side assert triggered\n(found by the pretend device cuda:{index}: {text})\n"
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
        )


_MISSING = object()


class Patches:
    """Attributes and entries that were replaced, and how to put them back: also where a module that was loaded meanwhile has taken them."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.loaded = set(sys.modules)
        self.owns: dict[int, dict[str, Any]] = {}  # by the replacement: what it stands for, by name

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or class until `restore`."""
        own = vars(owner).get(name, _MISSING)
        if own is not _MISSING and isinstance(value, FunctionType | type) and value.__module__.startswith("torchtally."):  # True is True anywhere
            self.owns.setdefault(id(value), {}).setdefault(name, own)
        self.undo.append((lambda: delattr(owner, name)) if own is _MISSING else (lambda: setattr(owner, name, own)))
        setattr(owner, name, value)

    def add(self, owner: Any, **values: Any) -> None:
        for name, value in values.items():
            self.set(owner, name, value)

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace an attribute, where there is one, by what `make` makes of it."""
        if hasattr(owner, name):
            self.set(owner, name, make(getattr(owner, name)))

    def put(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Replace an entry of a dict."""
        own = mapping[key]
        self.undo.append(lambda: mapping.__setitem__(key, own))
        mapping[key] = value

    def put_first(self, values: list[Any], value: Any) -> None:
        """Put a value at the head of a list."""
        values.insert(0, value)
        self.undo.append(lambda: values.remove(value))

    def restore(self) -> None:
        self._restore_in_new_modules()
        while self.undo:
            self.undo.pop()()

    def _restore_in_new_modules(self) -> None:
        for name, module in list(sys.modules.items()):
            if name in self.loaded or not isinstance(module, ModuleType):
                continue
            for attribute, value in list(vars(module).items()):
                self._restore_in(module, attribute, value)
                if isinstance(value, type) and value.__module__ == name:
                    for inner, part in list(vars(value).items()):
                        self._restore_in(value, inner, part)

    def _restore_in(self, owner: Any, name: str, value: Any) -> None:
        wrap = type(value) if isinstance(value, staticmethod | classmethod) else None
        owns = self.owns.get(id(value.__func__ if wrap else value))
        if owns:
            own = owns.get(name, next(iter(owns.values())))
            setattr(owner, name, wrap(own) if wrap else own)
