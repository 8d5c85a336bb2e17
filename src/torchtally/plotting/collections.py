"""Pictures of collections: one for each metric, or all values in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .values import Scale, plot_values


def plot_collection(collection: Any, val: Any, ax: Any, together: bool) -> Any:
    """`MetricCollection.plot`."""
    name = type(collection).__name__
    if val is None:
        val = collection.compute()
    steps = val if isinstance(val, list | tuple) else [val]
    if not steps or not all(isinstance(v, Mapping) for v in steps):
        raise TypeError(
            f"{name}.plot: val is {type(val).__name__}; expected what compute() gives, or a list of such dicts, one for each step."
        )
    if together:
        if pictures := [n for n, x in steps[0].items() if _is_picture(x)]:
            raise ValueError(
                f"{name}.plot: {pictures} are curves or matrices, which have no place in one picture with numbers. "
                "Leave together=True out, or give it the other values alone: plot({name: value, …}, together=True)."
            )
        return plot_values(val, ax, scale=Scale("Metrics", label="value"))
    members = list(zip(collection.keys(keep_base=True), *zip(*collection.items(keep_base=False))))
    given = [None] * len(members) if ax is None else list(ax)
    if len(given) != len(members):
        raise ValueError(f"{name}.plot: ax holds {len(given)} axes; expected {len(members)}, one for each metric, or together=True.")
    drawn = []
    for (base, key, metric), own in zip(members, given):
        of_member = [_value_of(v, key, collection, {n: collection._name(f"{base}_{n}") for n in _names(metric)}) for v in steps]
        drawn.append(metric.plot(of_member if isinstance(val, list | tuple) else of_member[0], ax=own))
    return drawn


def _is_picture(value: Any) -> bool:
    """Whether a value is no number, nor some: a curve, which has three parts, or a matrix."""
    return len(value) == 3 if isinstance(value, tuple) else getattr(value, "ndim", 0) > 1


def _names(metric: Any) -> Sequence[str]:
    """The names of classes that a metric puts into its value."""
    return metric.labels if getattr(metric, "_names_values", False) else ()


def _value_of(values: Mapping[str, Any], key: str, collection: Any, named: Mapping[str, str]) -> Any:
    """A member's value; one that is a dict was spread out under names of its own."""
    if key in values:
        return values[key]
    if named and all(n in values for n in named.values()):
        return {n: values[place] for n, place in named.items()}
    inner = {k.removeprefix(f"{key}_"): x for k, x in values.items() if k not in collection.keys(keep_base=False)}
    others = [k for k in collection.keys(keep_base=False) if k not in values]
    if not inner or others != [key]:
        raise ValueError(
            f"{type(collection).__name__}.plot: val has no value named {key!r} but {list(values)}. Draw that metric alone: collection[{key!r}].plot()."
        )
    return inner
