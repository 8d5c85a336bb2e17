"""What torchtally offers under the names of torchmetrics, and whether it takes the arguments of a call."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from dataclasses import dataclass
from typing import Any

_ROOT = ("metric", "collections")  # modules of torchmetrics whose names torchtally has at its root


@dataclass(frozen=True, slots=True)
class Offer:
    """Where torchtally has a thing: `torchtally.classification`, `BinaryAccuracy`."""

    module: str
    name: str

    @property
    def thing(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def wraps(self) -> bool:
        """Whether it is a metric around another."""
        return inspect.isclass(self.thing) and self.thing.__module__.startswith("torchtally.wrappers.")


def module_for(path: tuple[str, ...]) -> tuple[str, int]:
    """The module of torchtally for one of torchmetrics, and how many parts of the path name it; the rest are its private modules."""
    taken, found = 1, "torchtally"
    if len(path) > 1 and path[1] in _ROOT:
        return found, 2
    for part in path[1:]:
        if not _is_module(f"{found}.{part}"):
            break
        found, taken = f"{found}.{part}", taken + 1
    return found, taken


@functools.cache
def _is_module(name: str) -> bool:
    try:
        return inspect.ismodule(importlib.import_module(name)) and hasattr(importlib.import_module(name), "__all__")
    except ModuleNotFoundError:
        return False


def offer_for(module: tuple[str, ...], name: str) -> Offer | None:
    """What torchtally offers for a name of a module of torchmetrics."""
    found, taken = module_for(module)
    if module[taken:] and found == "torchtally" and module[1] not in _ROOT:
        return None  # a family torchtally has not
    for place in dict.fromkeys((found, "torchtally.functional" if ".functional" in found else "torchtally")):
        thing = getattr(importlib.import_module(place), name, None)
        if name in importlib.import_module(place).__all__ and (inspect.isclass(thing) or inspect.isfunction(thing)):
            return Offer(place, name)
    return None


def why_not(module: tuple[str, ...], name: str) -> str:
    """Why there is no offer."""
    path = ".".join((*module, name))
    if "utilities" in module:
        return "torchtally has no utilities of torchmetrics"
    if name[:2] == "__" or name[:1] == "_":
        return f"{path} is not a metric"
    return f"torchtally has no {name}"


def refused(offer: Offer, call: ast.Call) -> str | None:
    """What torchtally's class or function does not take of the arguments of a call; None where it takes all that can be seen."""
    thing = offer.thing
    keywords = [k.arg for k in call.keywords]
    if not callable(thing) or None in keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    takes, required, positional = _parameters(thing)
    unknown = [k for k in keywords if k not in takes]
    if unknown:
        return f"torchtally's {offer.name} has no argument {', '.join(map(str, unknown))}"
    if len(call.args) > len(positional):
        return f"torchtally's {offer.name} takes {len(positional)} arguments by position, here are {len(call.args)}"
    missing = sorted(required - set(keywords) - set(positional[: len(call.args)]))
    if missing == ["task"]:
        return f'{offer.name} needs task="binary", "multiclass" or "multilabel", as in torchmetrics since 0.11'
    return f"torchtally's {offer.name} needs {', '.join(missing)}" if missing else None


@functools.cache
def _parameters(thing: Any) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
    """Names of the arguments, of those that must be given, and of those that can be given by position."""
    parameters = inspect.signature(thing).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    positional = tuple(p.name for p in named if p.kind is not p.KEYWORD_ONLY)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        positional += ("",) * 99
    return frozenset(p.name for p in named), frozenset(p.name for p in named if p.default is p.empty), positional
