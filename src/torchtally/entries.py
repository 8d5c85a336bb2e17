"""The batch entries that the `update` of a metric takes, by the names of its parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Found = TypeVar("Found")


def _cached_by_class(look: Callable[[Any], Found]) -> Callable[[Any], Found]:
    known: dict[Any, Found] = {}

    @functools.wraps(look)
    def cached(cls: Any) -> Found:
        found = known.get(cls)
        if found is None:
            found = known[cls] = look(cls)
        return found

    return cached


@_cached_by_class
def parameters_of(cls: Any) -> tuple[str, ...]:
    """Names of the batch entries that a class's `update` takes; `("*",)` when it takes any."""
    parameters = list(inspect.signature(cls.update).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return ("*",)
    ours = ("valid",) if getattr(cls.update, "feeds", False) else ()
    return tuple(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL and p.name not in ours)


@_cached_by_class
def required_of(cls: Any) -> frozenset[str]:
    """Those of them that have no default."""
    parameters = list(inspect.signature(cls.update).parameters.values())[1:]
    return frozenset(p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def taken_by(metric: Any) -> tuple[str, ...]:
    """Names of the batch entries that a metric takes, made as it is."""
    names, left = parameters_of(type(metric)), getattr(metric, "_untaken", ())
    return tuple(n for n in names if n not in left) if left else names
