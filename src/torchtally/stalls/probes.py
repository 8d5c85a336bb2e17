"""Which line waits: every statement of a function in a `record_function` region of its own, named as in `regions`.

The code of the function object is exchanged, nothing else, so that every reference to it is probed: existing instances, bound methods, functions
that decorators have wrapped. A trace recorded meanwhile names the line whatever version of torch wrote it, and without recorded stacks.

What a region covers: a simple statement as a whole; of `if` and `while` the test with its truth value; of `for` the iterable and each step; of `with`
and `match` the expression. Where a statement yields or awaits, its parts before and after are covered, never the time in which other code runs.
Nested functions are probed with the function, nested classes are not. `torch.compile` leaves probed functions uncompiled. Each region costs as much
as any `record_function`, some microseconds.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any, TypeVar, overload

import torch

from ..errors import TallyError
from ._rewriting import rewrite
from .stall import Site

T = TypeVar("T")


@dataclass
class _Installed:
    """What a probed function ran before, whether `torch.compile` was free to compile it, and how many probes want it probed."""

    original: CodeType
    probed: CodeType
    sites: tuple[Site, ...]
    compilable: bool = True
    users: int = 0


_installed: weakref.WeakKeyDictionary[FunctionType, _Installed] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class LineProbes:
    """Probes in place, until `undo()` or the end of the `with` block. `sites` lists the probed lines.

    It can be called, and used as a method, in place of the function it was made from.
    """

    def __init__(self, targets: tuple[object, ...]) -> None:
        self.functions = tuple(dict.fromkeys(f for t in targets for f in _functions(t)))
        self.sites: tuple[Site, ...] = ()
        self._active = False
        self._target: Any = targets[0] if len(targets) == 1 else None
        self._install()
        if callable(self._target):
            functools.update_wrapper(self, self._target, updated=())

    def _install(self) -> None:
        with _lock:
            if self._active:
                return
            new = rewrite([f for f in self.functions if f not in _installed])
            for function, (code, sites) in new.items():
                _installed[function] = _Installed(function.__code__, code, sites, not hasattr(function, "_torchdynamo_disable"))
                _keep_from_compiler(function, code)
                function.__code__ = code
            for function in self.functions:
                _installed[function].users += 1
            self.sites = tuple(s for f in self.functions for s in _installed[f].sites)
            self._active = True

    def undo(self) -> None:
        """Give the functions their own code back, unless other probes still want them probed. A second call does nothing."""
        with _lock:
            if not self._active:
                return
            self._active = False
            for function in self.functions:
                installed = _installed[function]
                installed.users -= 1
                if installed.users == 0:
                    del _installed[function]
                    if function.__code__ is installed.probed:  # else another tool has exchanged it since
                        function.__code__ = installed.original
                    if installed.compilable:
                        del function._torchdynamo_disable  # type: ignore[attr-defined]

    def __enter__(self) -> LineProbes:
        self._install()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.undo()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._target is None:
            raise TallyError("These probes are of several functions: call the functions themselves.")
        return self._target(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        bind = getattr(type(self._target), "__get__", None)
        return self if bind is None else bind(self._target, instance, owner)

    def __repr__(self) -> str:
        names = ", ".join(f.__qualname__ for f in self.functions)
        return f"<probes of {len(self.sites)} lines of {names}{'' if self._active else ', undone'}>"


@overload
def probe_lines() -> Callable[[T], T]: ...
@overload
def probe_lines(*targets: object) -> LineProbes: ...
def probe_lines(*targets: object) -> Any:
    """Wrap each statement of Python functions in a region named by file, line and code.

    A target is a function, a method, a property, or a class (all that is defined in it). Of a decorated function the innermost is probed.

    * `with probe_lines(Model.forward, my_metric.update): ...` probes until the block ends;
    * `probes = probe_lines(f)` probes until `probes.undo()`;
    * `@probe_lines()` above a function or class probes it for good and leaves the object itself in place. `@probe_lines` without
      parentheses also works above a function, which it replaces by something that acts like it.

    Values, exceptions, tracebacks, closures, generators and coroutines are those of the function itself. Raises `TallyError` for what has no
    Python source.

    >>> import textwrap
    >>> probes = probe_lines(textwrap.shorten)
    >>> [site.code for site in probes.sites]
    ['w = TextWrapper(width=width, max_lines=1, **kwargs)', "return w.fill(' '.join(text.strip().split()))"]
    >>> probes.undo()
    """
    if targets:
        return LineProbes(targets)

    def decorate(target: T) -> T:
        LineProbes((target,))
        return target

    return decorate


def _keep_from_compiler(function: FunctionType, code: CodeType) -> None:
    """Let `torch.compile` run probed code as it is: it knows no regions as constants, and a compiled function has no lines to time."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]  # functions take any attribute
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT))
    else:  # torch 2.6
        frames.skip_code(code)  # type: ignore[attr-defined]  # gone since


def _functions(target: object) -> list[FunctionType]:
    """The Python functions behind a target."""
    if isinstance(target, LineProbes):
        return list(target.functions)
    if isinstance(target, type):
        return _defined_in(target)
    if isinstance(target, property):
        return [f for part in (target.fget, target.fset, target.fdel) if part is not None for f in _functions(part)]
    if isinstance(target, MethodType):
        return _functions(target.__func__)
    wrapped = inspect.getattr_static(target, "__wrapped__", None)
    if wrapped is not None and not isinstance(target, (staticmethod, classmethod)):
        return _functions(wrapped)
    if isinstance(target, FunctionType):
        return [target]
    for name in ("__func__", "func"):  # staticmethod and classmethod; partial and cached_property
        if (inner := getattr(target, name, None)) is not None:
            return _functions(inner)
    hint = "is not written in Python" if inspect.isroutine(target) else f"is no function but a {type(target).__qualname__}"
    raise TallyError(f"probe_lines: {target!r} {hint}. Give a function or method written in Python, or a class whose methods are.")


def _defined_in(cls: type) -> list[FunctionType]:
    """What the text of a class defines: not what it inherits or borrows, nor what was generated for it, such as the `__init__` of a dataclass."""
    found = []
    for member in vars(cls).values():
        try:
            functions = _functions(member)
        except TallyError:
            continue
        own = f"{cls.__qualname__}."
        found += [f for f in functions if f.__qualname__.startswith(own) and f.__module__ == cls.__module__ and _has_source(f)]
    if not found:
        raise TallyError(
            f"probe_lines: {cls.__qualname__} defines no function with Python source. Give one of its base classes, or a function."
        )
    return found


def _has_source(function: FunctionType) -> bool:
    try:
        inspect.getsourcelines(function)
    except (OSError, TypeError):
        return False
    return True
