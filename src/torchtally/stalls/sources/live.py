"""Waits of a real device, as they happen: torch's own signs of them, and the copies that the driver stages without a sign.

Three things tell. The GPU trace calls back at every wait for a stream, an event or the device, while it happens. Synchronisation warnings know some waits that
the trace misses (MAGMA, `mode`), but come when the operator is over. Copies that are asynchronous in name only, from pageable memory, show in neither: `to`,
`cuda` and `copy_` are wrapped while somebody watches. What both trace and warning tell is counted once.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import torch
from torch.cuda import _gpu_trace

from ...errors import TallyError
from ..allowing import allowed
from ..catalogue import WATCHED, Call, Row, waits
from ..recorder import Recorder
from .expression import row_of
from .pretend import pretend_cuda
from .pretend.session import SESSIONS

UNNAMED = Row(
    "cudaStreamSynchronize", "read", lambda call: 1, "Something on this line reads from the device.",
    "keep the result on the device; docs/what-waits.md lists what reads",
)
SIGN = "called a synchronizing CUDA operation"
EVENTS = {"device": "torch.cuda.synchronize", "event": "torch.cuda.Event.synchronize"}
OURS = (__file__, warnings.__file__, sys.modules[torch._utils.CallbackRegistry.__module__].__file__)


class Watcher:
    """What one thread is watched for, and the waits held back until a wrapped call knows its name."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.thread = threading.get_ident()
        self.held: int | None = None
        self.traced = 0  # waits whose warning is still to come
        self.by_engine = 0  # the same, of waits on autograd's threads: their warnings come here, when backward is over
        self.at: tuple[int, int] = (0, 0)

    def wait(self, sign: str, native: bool = False) -> None:
        """One sign of one wait: `stream`, `event`, `device` or `warning`. A native thread, such as autograd's, works for the watched one."""
        frame = innermost()
        at = (id(frame), frame.f_lasti if frame else 0)
        if at != self.at:
            self.at, self.traced = at, 0
        if sign == "warning" and self.traced:
            self.traced -= 1
            return
        if sign == "warning" and self.by_engine and in_backward(frame):
            self.by_engine -= 1
            return
        self.traced += sign == "stream" and not native
        self.by_engine += sign == "stream" and native
        if allowed(self.thread):
            return
        if self.held is not None and not native:
            self.held += 1
            return
        self.record(WATCHED[EVENTS[sign]][0] if sign in EVENTS else (row_of(frame) if frame else None) or UNNAMED)

    def record(self, row: Row) -> None:
        if not allowed(self.thread):
            self.recorder(row, row.operator)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Count the waits inside instead of recording them."""
        self.held = 0
        try:
            yield
        finally:
            self.held = None


def innermost() -> FrameType | None:
    """The innermost frame that is neither ours nor the messenger's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in OURS:
        frame = frame.f_back
    return frame


_WATCHERS: dict[int, list[Watcher]] = {}
"""Watchers by thread, the innermost last."""
_LOCK = threading.RLock()
_UNDO = ExitStack()


def watcher() -> Watcher | None:
    """The innermost watcher of this thread."""
    mine = _WATCHERS.get(threading.get_ident())
    return mine[-1] if mine else None


def signalled(sign: str) -> None:
    """A sign arrived on this thread."""
    found = watcher()
    if found is not None:
        found.wait(sign)
    elif isinstance(threading.current_thread(), threading._DummyThread):
        running = sys._current_frames()
        for others in list(_WATCHERS.values()):
            if in_backward(running.get(others[-1].thread)):
                others[-1].wait(sign, native=True)
                return


def in_backward(frame: FrameType | None) -> bool:
    """Whether a thread waits for autograd's engine, whose threads then work for it."""
    engine = torch.autograd.graph._engine_run_backward.__code__
    while frame is not None:
        if frame.f_code is engine:
            return True
        frame = frame.f_back
    return False


def traced_stream(stream: int) -> None:
    signalled("stream")


def traced_event(event: int) -> None:
    signalled("event")


def traced_device() -> None:
    signalled("device")


def wrap_copy(original: Callable[..., Any], into: bool) -> Callable[..., Any]:
    """`copy_` (into), or one of `to`, `cuda` and `cpu`: afterwards both ends are known, and so are the row and whether the driver staged it."""

    def copying(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = watcher()
        if found is None or found.held is not None:
            return original(self, *args, **kwargs)
        with found.holding():
            result = original(self, *args, **kwargs)
            held = found.held or 0
        later = held == 0 and (kwargs.get("non_blocking", False) or next((a for a in args if isinstance(a, bool)), False))
        if into:
            seen = call("aten::copy_", (self, args[0] if args else kwargs["src"], later), {})
        else:
            seen = call("aten::_to_copy", (self,), {"device": result.device, "non_blocking": later})
        rows = [row for row, _ in waits(seen)] if held or later else []
        row = rows[0] if rows else UNNAMED
        for _ in range(max(held, len(rows))):
            found.record(row)
        return result

    return copying


def wrap_printing(original: Callable[..., Any], operator: str) -> Callable[..., Any]:
    """Printing waits for each number it looks at; it is told once."""

    def printing(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = watcher()
        if found is None or found.held is not None:
            return original(self, *args, **kwargs)
        with found.holding():
            result = original(self, *args, **kwargs)
            held = found.held
        if held:
            found.record(WATCHED[operator if operator == "Tensor.__repr__" or self.dim() == 0 else "Tensor.__repr__"][0])
        return result

    return printing


def wrap_release(original: Callable[[], None]) -> Callable[[], None]:
    """Freeing memory waits for the device inside the driver, without a sign."""

    def empty_cache() -> None:
        found = watcher()
        if found is None:
            return original()
        with found.holding():
            original()
        found.record(WATCHED["torch.cuda.empty_cache"][0])

    return empty_cache


def call(operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    return Call(operator, "default", args, kwargs, on_device=lambda x: not x.is_cpu, pinned=lambda x: x.is_pinned())


def replace(undo: ExitStack, owner: Any, name: str, wrapped: Any) -> None:
    """Put a wrapper in place, and remember how it was: some attributes are the class's own, others its base's."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, wrapped)


def hear_warnings(undo: ExitStack) -> None:
    """Ask torch for its warnings and keep those of watched threads from the screen."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    undo.callback(torch.cuda.set_sync_debug_mode, before)
    warnings.filterwarnings("always", message=SIGN)
    undo.callback(lambda ours: ours in warnings.filters and warnings.filters.remove(ours), warnings.filters[0])  # type: ignore[attr-defined]  # not in typeshed
    show = warnings.showwarning

    def showwarning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: str | None = None) -> None:
        if not str(message).startswith(SIGN):
            show(message, category, filename, lineno, file, line)
        elif watcher() is not None:
            signalled("warning")
        elif before:
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = showwarning
    undo.callback(setattr, warnings, "showwarning", show)


def hear_trace(undo: ExitStack) -> None:
    """Take part in the GPU trace. It cannot be switched off again in this process: afterwards it calls back to nobody."""
    trace: Any = _gpu_trace
    for registry, heard in (
        (trace.StreamSynchronizationCallbacks, traced_stream),
        (trace.EventSynchronizationCallbacks, traced_event),
        (trace.DeviceSynchronizationCallbacks, traced_device),
    ):
        registry.add_callback(heard)
        undo.callback(registry.callback_list.remove, heard)
    torch._C._activate_gpu_trace()


def wrap_calls(undo: ExitStack) -> None:
    tensor = torch.Tensor
    for name in ("to", "cuda", "cpu", "copy_"):
        replace(undo, tensor, name, wrap_copy(getattr(tensor, name), into=name == "copy_"))
    for name in ("__repr__", "__format__"):
        replace(undo, tensor, name, wrap_printing(getattr(tensor, name), f"Tensor.{name}"))
    release = wrap_release(torch.cuda.empty_cache)
    replace(undo, torch.cuda.memory, "empty_cache", release)
    replace(undo, torch.cuda, "empty_cache", release)


@contextmanager
def watch(recorder: Recorder | None = None) -> Iterator[Recorder]:
    """Record what makes this thread wait for a real GPU: the live twin of `pretend_cuda`, with the same records.

    Threads of autograd are watched with the thread that called `backward`; other threads need a `watch` of their own. Waits inside `allow()` are meant and left out.
    Outside, nothing is patched and nothing costs, except that torch's GPU trace stays on once it was needed (a microsecond or two per allocation).

    >>> with watch() as recorder:  # doctest: +SKIP
    ...     train_one_step()
    >>> [stall.site for stall in recorder.stalls]  # doctest: +SKIP
    """
    if SESSIONS:  # the device is pretended: so are its waits
        with pretend_cuda(SESSIONS[-1].devices, recorder) as pretended:
            yield pretended
        return
    if not torch.cuda.is_available():
        raise TallyError(
            "watch() follows a real GPU, and torch.cuda.is_available() is False here. "
            "Use torchtally.stalls.pretend_cuda() to find the same waits without one."
        )
    torch.cuda.init()
    mine = Watcher(recorder if recorder is not None else Recorder())
    with _LOCK:
        if not _WATCHERS:
            hear_trace(_UNDO)
            hear_warnings(_UNDO)
            wrap_calls(_UNDO)
        _WATCHERS.setdefault(mine.thread, []).append(mine)
    try:
        with mine.recorder:
            yield mine.recorder
    finally:
        with _LOCK:
            _WATCHERS[mine.thread].remove(mine)
            if not _WATCHERS[mine.thread]:
                del _WATCHERS[mine.thread]
            if not _WATCHERS:
                _UNDO.close()
