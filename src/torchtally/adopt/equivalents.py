"""Which class of torchtally a metric of torchmetrics becomes, and with which arguments: read from the object, not from a list of classes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from enum import Enum
from typing import Any

from torch import Tensor

import torchtally

from ..formula import Formula
from ..options import OPTIONS
from .totals import Untranslatable, slots_of

_FAMILIES = (
    "aggregation",
    "classification",
    "regression",
    "retrieval",
    "nominal",
    "clustering",
    "segmentation",
    "text",
    "image",
    "audio",
    "wrappers",
)


class NoEquivalent(Exception):
    """Why a metric is left as it is."""


def is_theirs(thing: object) -> bool:
    """Whether it is a metric or a collection of torchmetrics, or derived from one."""
    return any(
        c.__name__ in ("Metric", "MetricCollection") and c.__module__.partition(".")[0] == "torchmetrics" for c in type(thing).__mro__
    )


def class_for(metric: Any) -> type:
    """The class of torchtally with the same name and meaning."""
    kind = type(metric)
    if getattr(kind, "_nan_check_suppressed", False):
        kind = kind.__mro__[1]
    package, _, path = kind.__module__.partition(".")
    if package != "torchmetrics":
        base = next(c for c in kind.__mro__ if c.__module__.partition(".")[0] == "torchmetrics")
        raise NoEquivalent(
            f"{kind.__name__} is a class of your own: derive it from torchtally.Metric instead of torchmetrics' {base.__name__}"
        )
    family = path.partition(".")[0]
    found = getattr(_module(family), kind.__name__, None) or getattr(_module(""), kind.__name__, None)
    if not isinstance(found, type):
        inside = "; the metrics in it can be adopted before they are wrapped" if family == "wrappers" else ""
        raise NoEquivalent(f"torchtally has no {kind.__name__}{inside}")
    return found


def has_equivalent(name: str) -> bool:
    """Whether some family of torchtally has a class of this name."""
    families = [importlib.import_module(f"torchtally.{m.name}") for m in pkgutil.iter_modules(torchtally.__path__) if m.name in _FAMILIES]
    return any(isinstance(getattr(m, name, None), type) for m in (torchtally, *families))


def _module(family: str) -> Any:
    try:
        return importlib.import_module(f"torchtally.{family}" if family else "torchtally")
    except ModuleNotFoundError:
        return None


def arguments_for(metric: Any, ours: type) -> dict[str, Any]:
    """Constructor arguments that make an equal metric, from the attributes that torchmetrics keeps them in."""
    mine, theirs = _parameters(ours), _parameters(type(metric))
    given: dict[str, Any] = {}
    for name, parameter in mine.items():
        value = _argument(metric, name)
        if value is not inspect.Parameter.empty:
            given[name] = value
        elif parameter.default is inspect.Parameter.empty or name in theirs:
            raise NoEquivalent(f"its argument {name} cannot be read from the object")
    for name, parameter in theirs.items():
        value = _argument(metric, name)
        if name not in mine and value is not inspect.Parameter.empty and not _same(value, parameter.default):
            raise NoEquivalent(f"torchtally's {ours.__name__} has no argument {name} (here {value!r})")
    for name, default in OPTIONS.items():
        value = getattr(metric, name, default)
        if not _same(value, default) and not getattr(value, "__module__", "").startswith("torchmetrics"):  # a default of theirs
            given[name] = value
    if getattr(type(metric), "_nan_check_suppressed", False):
        given["nan_strategy"] = "disable"
    return given


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Named arguments, also those that a class hands on to its base."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
        found |= {p.name: p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in found}
        break
    return found


_DERIVED: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("KendallRankCorrCoef", "t_test"): lambda metric: metric.alternative is not None,
    ("RetrievalMAP", "top_k"): lambda metric: metric.k,
}
"""Arguments that torchmetrics keeps no attribute of that name of, from what it keeps."""


def _argument(metric: Any, name: str) -> Any:
    if (type(metric).__name__, name) in _DERIVED:
        return _DERIVED[type(metric).__name__, name](metric)
    for attribute in (name, f"_{name}"):
        if attribute in vars(metric):
            value = vars(metric)[attribute]
            return value.value if isinstance(value, Enum) else value
        for held in (metric._buffers, metric._modules):
            if held.get(attribute) is not None:
                return held[attribute]
    return inspect.Parameter.empty


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b
    return bool(a is b or a == b)


def states_for(metric: Any, new: Formula) -> dict[str, Any]:
    """A state_dict for the new metric with all that the old one has seen; empty where that is nothing."""
    if not metric._update_count:
        return {}
    if getattr(metric, "_is_synced", False):
        raise NoEquivalent("it is synced over ranks: call unsync() first")
    states = {name: getattr(metric, name) for name in metric._defaults}
    found: dict[str, Any] = {}
    for statistic in new.statistics:
        prefix = f"{statistic.label}." if len(new.statistics) > 1 else ""
        try:
            found |= {prefix + name: value for name, value in slots_of(statistic, states).items()}
        except Untranslatable as problem:
            raise NoEquivalent(str(problem)) from None
    return {**found, "updates": metric._update_count}
