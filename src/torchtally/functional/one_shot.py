"""Functions made from metrics: one formula, two doors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from ..classification.options import refuse_impossible
from ..formula import Formula
from ..options import OPTIONS, expected


def one_shot(cls: type[Formula], name: str, order: tuple[str, ...] = (), **defaults: Any) -> Callable[..., Any]:
    """The function `name(*batch, **options)` that gives what a fresh `cls(**options)` gives after one update with `batch`.

    Options may also be given by position after the batch, in the constructor's order unless `order` names another to begin with. What
    constructors pass on is given by name, and so is a weight, which makes the metric a weighted one. `defaults` are those in which the
    function differs from the class.
    """
    batch = [p for p in list(inspect.signature(cls.update).parameters.values())[1:] if p.name != "valid"]
    passed_on = [p for n, p in inspect.signature(cls).parameters.items() if p.kind is p.KEYWORD_ONLY and n not in OPTIONS]
    by_keyword = {p.name: p for p in passed_on if p.name != "weighted"}
    if len(by_keyword) < len(passed_on):
        by_keyword["weight"] = next(p for p in batch if p.name == "weight").replace(kind=inspect.Parameter.KEYWORD_ONLY)
        batch.remove(next(p for p in batch if p.name == "weight"))
    options = [p for p in inspect.signature(cls).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    options = [p.replace(default=defaults.get(p.name, p.default)) for p in options]
    by_name = {p.name: p for p in options}
    options = [*(by_name[n] for n in order), *(p for p in options if p.name not in order)]

    required_first = sorted(options, key=lambda p: p.default is not p.empty)
    parameters = [p.replace(annotation=p.annotation) for p in (*batch, *required_first, *by_keyword.values())]
    signature = inspect.Signature(parameters)

    @functools.lru_cache(128)
    def made(**given: Any) -> Formula:
        return cls(**given)

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = bound_to(signature, name, args, kwargs)
        values = [bound.pop(p.name, p.default) for p in batch]
        weight = bound.pop("weight", None) if "weight" in by_keyword else None
        if weight is not None:
            values.append(weight)
            bound["weighted"] = True
        bound = {**defaults, **bound}
        try:
            metric = cls(**bound) if torch.compiler.is_compiling() else made(**bound)  # Dynamo warns of what is remembered
        except TypeError as error:  # an option that cannot be hashed
            if "unhashable" not in str(error):
                raise
            metric = cls(**bound)
        return metric.one_shot(*values)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"One-shot form of `{cls.__name__}`: the value on one batch. {inspect.cleandoc(cls.__doc__ or '').splitlines()[0]}"
    function.__signature__ = signature  # type: ignore[attr-defined]  # what help() and editors show
    function.__module__ = __name__
    return function


def by_columns(cls: type[Formula], name: str) -> Callable[..., Any]:
    """The function `name(preds, target, **options)` with as many outputs as `preds` has columns."""
    inner = one_shot(cls, name)
    parameters = [p for p in inspect.signature(inner).parameters.values() if p.name != "num_outputs"]
    signature = inspect.Signature(parameters)

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = bound_to(signature, name, args, kwargs)
        preds = bound["preds"]
        return inner(**bound, num_outputs=max(1, preds.shape[1]) if getattr(preds, "ndim", 1) == 2 else 1)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = inner.__doc__
    function.__signature__ = signature  # type: ignore[attr-defined]  # what help() and editors show
    function.__module__ = __name__
    return function


def by_task(name: str, tasks: dict[str, Any], front: Any, order: tuple[str, ...] = ()) -> Callable[..., Any]:
    """The function `name(preds, target, task, …)` that calls the one of the task, with the options it takes.

    They are those of the front, by position in its order or in another, `zero_division` last.
    """
    own = {n: p for n, p in inspect.signature(front).parameters.items() if n not in OPTIONS and n not in ("task", "weighted")}
    order = order or (*(n for n, p in own.items() if p.kind is p.POSITIONAL_OR_KEYWORD), "zero_division")
    first = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("preds", "target", "task")]
    placed = [own[n].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in dict.fromkeys(order) if n in own]
    weight = inspect.Parameter("weight", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | None")
    named = [*(p.replace(kind=p.KEYWORD_ONLY) for n, p in own.items() if n not in order), weight]
    signature = inspect.Signature([*first, *placed, *named])
    usual = {p.name: p.default for p in (*placed, *named) if p.default is not p.empty and (p.default is not None or p.name == "average")}
    takes_of = {task: inspect.signature(f).parameters for task, f in tasks.items()}

    def function(*args: Any, **options: Any) -> Any:
        given = bound_to(signature, name, args, options)
        preds, target, task = (given.pop(n) for n in ("preds", "target", "task"))
        if task not in tasks:
            raise ValueError(f"{name}: task is {task!r}; expected one of {list(tasks)}.")
        takes = takes_of[task]
        refuse_impossible(name, {n: x for n, x in given.items() if n not in takes})
        return tasks[task](preds, target, **{n: x for n, x in {**usual, **given}.items() if n in takes})

    function.__name__ = function.__qualname__ = name
    function.__doc__ = " or ".join(f"`{f.__name__}`" for f in tasks.values()) + ", by `task`."
    function.__signature__ = signature  # type: ignore[attr-defined]  # what help() and editors show
    function.__module__ = __name__
    return function


def bound_to(signature: inspect.Signature, name: str, args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    """What a call gives, by the names of parameters; a TypeError says what the function takes."""
    try:
        return dict(signature.bind(*args, **given).arguments)
    except TypeError as error:
        known = list(signature.parameters)
        unknown = [n for n in given if n not in known]
        if not unknown:
            raise TypeError(f"{name}: {error}; it takes {known}.") from None
        raise TypeError(f"{name}: unexpected arguments {unknown}; {expected(unknown, known)}.") from None
