"""Confidence intervals of metrics inside of others: asked for together, and read over ranks in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .faults import Fault, check_all
from .intervals import Intervals, NoInterval

Bounds = tuple[Any, Any]
Later = Callable[[], tuple[Bounds, list[tuple[str, Fault]]]]


def read_bounds(metric: Any, read: Any, asked: Intervals) -> Bounds:
    """The lower and the upper bounds, each in the form of the value, from what was read of all ranks."""
    with metric._guard:
        (low, high), faults = metric._bounds_later(read, asked)()
    check_all(faults, (low, high))
    return low, high


def of_those_that_have(metrics: Mapping[str, Any], read: Any, asked: Intervals, owner: str) -> dict[str, Later]:
    """What gives the bounds of each metric that has some; NoInterval, with what each says, where none has."""
    later: dict[str, Later] = {}
    reasons = []
    for name, m in metrics.items():
        if not hasattr(m, "_bounds_later"):
            reasons.append(f"{name!r}: {type(m).__name__} is no metric of torchtally.")
            continue
        try:
            later[name] = m._bounds_later(read, asked)
        except NoInterval as none:
            reasons.append(f"{name!r}: {none}")
    if not later:
        raise NoInterval(f"{owner}.interval: no metric has an interval in closed form. {' '.join(reasons)}")
    return later


def joined(later: Mapping[str, Later], named: Callable[[dict[str, Any]], Any], title: Callable[[str], str]) -> Later:
    """The bounds of several metrics as one, by the names that `named` gives them; `title` names a metric in messages."""

    def arrived() -> tuple[Bounds, list[tuple[str, Fault]]]:
        lows, highs, faults = {}, {}, []
        for name, thunk in later.items():
            (lows[name], highs[name]), found = thunk()
            faults += [(title(name), fault) for _, fault in found]
        return (named(lows), named(highs)), faults

    return arrived


def paired(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Bounds]:
    """Both bounds by name."""
    return {name: (x, high[name]) for name, x in low.items()}
