"""What a script may do to the process that runs it, put back for the report: its streams, its folder, and the way it leaves."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")

PATIENCE_S = 10.0
"""How long a thread that ends the process waits for the main thread to stop and tell what was found."""


def usable(stream: Any) -> bool:
    """Whether one can still read or write."""
    try:
        return stream is not None and not stream.closed
    except ValueError:  # detached from its buffer
        return False


class _Kept:
    """The streams of `sys` and the files behind them, as they were."""

    def __init__(self) -> None:
        self.streams = {name: getattr(sys, name) for name in STREAMS}
        self.about = {name: _about(stream) for name, stream in self.streams.items()}
        numbers = {0, 1, 2, *(about["number"] for about in self.about.values() if about)}
        self.files = {number: copy for number in sorted(numbers) if (copy := _copied(number)) is not None}

    def give_back(self) -> None:
        for stream in (*(getattr(sys, name, None) for name in STREAMS), *self.streams.values()):
            with suppress(Exception):
                stream.flush()  # type: ignore[union-attr]  # where the script meant it to go; whatever it put there
        for number, copy in self.files.items():
            os.dup2(copy, number)
            os.close(copy)
        anew: dict[int, Any] = {}
        for name, stream in self.streams.items():
            if stream is not None and not usable(stream):
                anew.setdefault(id(stream), self._again(name))
                stream = anew[id(stream)]
            setattr(sys, name, stream)

    def _again(self, name: str) -> Any:
        """A stream like one that was closed."""
        about = self.about[name]
        if about is None:
            return None
        mode, lines = ("r", -1) if "stdin" in name else ("w", 1 if about["line_buffering"] else -1)
        return open(about["number"], mode, lines, about["encoding"], about["errors"], closefd=False)  # it is handed on


def _about(stream: Any) -> dict[str, Any] | None:
    """What it takes to open a stream again; None where no file is behind it."""
    try:
        number = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return {"number": number, **{name: getattr(stream, name, None) for name in ("encoding", "errors", "line_buffering")}}


def _copied(number: int) -> int | None:
    try:
        return os.dup(number)
    except OSError:  # closed
        return None


class Left(SystemExit):
    """The script ended itself by `os._exit`."""


class Leaving:
    """Stands for `os._exit` while a script runs: it ends the script, not the report. In a child of the script it is itself."""

    def __init__(self) -> None:
        self.status: int | None = None
        """What the script left with, if it did."""
        self._leave, self._process, self._main = os._exit, os.getpid(), threading.current_thread()
        self._lock, self._over, self._sent = threading.Lock(), threading.Event(), False

    def __call__(self, status: int) -> NoReturn:
        if os.getpid() != self._process:
            self._leave(status)
        if threading.current_thread() is self._main:
            self.status = status
            raise Left(status)
        with self._lock:
            if not self._over.is_set() and not self._sent:
                self.status, self._sent = status, self._interrupt()
        if self._over.wait(PATIENCE_S):
            raise SystemExit  # of this thread
        self._leave(status or 3)  # nothing was told, so nothing may pass

    def _interrupt(self) -> bool:
        """Have the main thread raise KeyboardInterrupt, also where it waits for something."""
        if self._main is not threading.main_thread():
            return False
        if hasattr(signal, "pthread_kill") and self._main.ident is not None:
            signal.pthread_kill(self._main.ident, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)
        return True

    def end(self, interrupted: bool) -> None:
        """The script is over, by the interrupt or before it came."""
        with self._lock:
            self._over.set()
        if self._sent and not interrupted:
            with suppress(KeyboardInterrupt):
                time.sleep(0.5)


@contextmanager
def given_back() -> Iterator[Leaving]:
    """While inside, a script may close, replace or redirect the streams, change the folder and leave by `os._exit`, which is `Left` here."""
    kept, folder, leave = _Kept(), os.getcwd(), Leaving()
    before, os._exit = os._exit, leave  # type: ignore[assignment]  # it takes what that takes
    interrupted = False
    try:
        yield leave
    except KeyboardInterrupt:
        interrupted = True
        if leave.status is None:
            raise
        raise Left(leave.status) from None
    finally:
        leave.end(interrupted)
        os._exit = before
        kept.give_back()
        with suppress(OSError):
            os.chdir(folder)
