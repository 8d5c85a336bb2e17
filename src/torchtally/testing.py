"""Assert that code never makes the host wait for the GPU, on a machine with or without one.

>>> import torch
>>> with assert_no_stalls():
...     x = torch.ones(3, device="cuda")
...     y = x.where(x > 0, 0).sum()

The same as a decorator, and for pytest as a mark, `@pytest.mark.no_stalls`. Where there is no GPU, one is pretended: make tensors that are to be on
the device inside.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ContextDecorator, ExitStack
from types import TracebackType
from typing import Any, TypeVar

import torch

from .stalls import selection, watch
from .stalls.recorder import Recorder
from .stalls.sources.pretend import pretend_cuda
from .stalls.sources.pretend.session import SESSIONS
from .stalls.stall import Report, Site, StallGroup, group

F = TypeVar("F", bound=Callable[..., Any])


class assert_no_stalls(ContextDecorator):
    """Context and decorator that raise an AssertionError, with the lines and their remedies, if the host would have waited for the GPU.

    `allow` names what may wait: `FILE:LINE`, `FILE`, or a shell pattern for a function, metric, region, operator or kind. `at_most` is a number of stalls
    that is fine. `own` names packages or paths that count as one's own code though they are installed. Entered, it gives the recorder.
    An error raised inside is passed on as it is.
    """

    def __init__(self, *, allow: Sequence[str] = (), at_most: int = 0, own: Sequence[str] = ()) -> None:
        if isinstance(allow, str):
            raise TypeError(f"allow is the string {allow!r}; expected a list of them: allow=[{allow!r}].")
        self.allow = tuple(allow)
        self.at_most = at_most
        self.own = tuple(own)
        self._stack = ExitStack()
        self._recorder: Recorder | None = None

    def _recreate_cm(self) -> assert_no_stalls:
        return type(self)(allow=self.allow, at_most=self.at_most, own=self.own)

    def __call__(self, function: F) -> F:  # type: ignore[override]  # keeps the function's own type
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asynchronous(*args: Any, **kwargs: Any) -> Any:
                with self._recreate_cm():
                    return await function(*args, **kwargs)

            return asynchronous  # type: ignore[return-value]
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"assert_no_stalls cannot wrap the generator {function.__name__}: it runs piecemeal; use `with assert_no_stalls():` inside it."
            )
        return super().__call__(function)

    def __enter__(self) -> Recorder:
        with ExitStack() as stack:
            self._recorder = stack.enter_context(listen(Recorder(own=self.own)))
            self._stack = stack.pop_all()
        return self._recorder

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, trace)
        if kind is None and self._recorder is not None:
            judge(self._recorder.report(""), self.allow, self.at_most)


def listen(recorder: Recorder) -> AbstractContextManager[Recorder]:
    """What tells the recorder of waits: the GPU of this machine, or a pretend one where there is none or one is pretended already."""
    return watch(recorder) if torch.cuda.is_available() and not SESSIONS else pretend_cuda(record=recorder)


def judge(report: Report, allow: Sequence[str] = (), at_most: int = 0) -> None:
    """Raise an AssertionError if a report holds more stalls than allowed."""
    __tracebackhide__ = True
    report = selection.allow(report, allow)
    if len(report.stalls) > at_most:
        raise AssertionError(message(report, at_most))


def message(report: Report, at_most: int = 0) -> str:
    """What waited, line by line, and what to write instead."""
    count = len(report.stalls)
    head = f"{count} stall{'s' * (count != 1)}; expected {f'at most {at_most}' if at_most else 'none'}:"
    return "\n".join([head, *(describe(row) for row in group(report.stalls, None)), *(f"note: {note}" for note in report.notes)])


def describe(row: StallGroup) -> str:
    """One group of stalls in a few lines."""
    lines = [f"  {row.count}x {row.kind} ({row.operator}) at {_place(row.site)}{' (line inferred)' if row.inferred else ''}"]
    if row.site and row.site.code:
        lines.append(f"        {row.site.code}")
    if row.inner and row.inner != row.site:
        lines.append(f"      inside {_place(row.inner)}: {row.inner.code}")
    within = [f"{word} {name}" for word, name in (("metric", row.metric), ("region", row.region)) if name]
    if within:
        lines.append(f"      in {', '.join(within)}")
    return "\n".join([*lines, f"      → {row.remedy}"])


def _place(site: Site | None) -> str:
    if site is None:
        return "an unknown line"
    file = site.file
    if "site-packages" in file:
        file = file.rpartition("site-packages" + os.sep)[2]
    elif file.startswith(os.getcwd() + os.sep):
        file = os.path.relpath(file)
    return f"{file}:{site.line} in {site.function}"
