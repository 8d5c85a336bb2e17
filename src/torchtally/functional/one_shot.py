"""Functions made from metrics: one formula, two doors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..formula import Formula


def one_shot(cls: type[Formula], name: str, order: tuple[str, ...] = (), **defaults: Any) -> Callable[..., Any]:
    """The function `name(*batch, **options)` that gives what a fresh `cls(**options)` gives after one update with `batch`.

    Options may also be given by position after the batch, in the constructor's order unless `order` names another to begin with. What
    constructors pass on is given by name, and so is a weight, which makes the metric a weighted one. `defaults` are those in which the
    function differs from the class.
    """
    keywords: tuple[str, ...] = getattr(cls, "keywords", ())
    batch = [p for p in list(inspect.signature(cls.update).parameters.values())[1:]]
    by_keyword = {p.name: p.replace(kind=p.KEYWORD_ONLY) for p in batch if p.name == "weight" and "weighted" in keywords}
    batch = [p for p in batch if p.name not in by_keyword]
    passed_on = [n for n in keywords if n != "weighted"]
    by_keyword |= {n: inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in passed_on}
    options = [p for p in list(inspect.signature(cls.__init__).parameters.values())[1:] if p.kind is not p.VAR_KEYWORD]
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
        bound = signature.bind(*args, **kwargs).arguments
        values = [bound.pop(p.name, p.default) for p in batch]
        weight = bound.pop("weight", None) if "weight" in by_keyword else None
        if weight is not None:
            values.append(weight)
            bound["weighted"] = True
        bound = {**defaults, **bound}
        try:
            metric = made(**bound)
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
        bound = signature.bind(*args, **kwargs).arguments
        preds = bound["preds"]
        return inner(**bound, num_outputs=max(1, preds.shape[1]) if getattr(preds, "ndim", 1) == 2 else 1)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = inner.__doc__
    function.__signature__ = signature  # type: ignore[attr-defined]  # what help() and editors show
    function.__module__ = __name__
    return function


def by_task(name: str, tasks: dict[str, Any], defaults: dict[str, Any], order: tuple[str, ...]) -> Callable[..., Any]:
    """The function `name(preds, target, task, …)` that calls the one of the task, with the options it takes; by position in this order."""
    known = {n for f in tasks.values() for n in inspect.signature(f).parameters}

    def function(preds: Any, target: Any, task: str, *args: Any, **options: Any) -> Any:
        twice = sorted(set(order[: len(args)]) & set(options))
        if len(args) > len(order) or twice:
            given_twice = f"{twice} came twice" if twice else f"{len(args)} options came by position"
            raise TypeError(f"{name}: {given_twice}; expected at most, in this order, {list(order)}. Pass options by name.")
        options = {**dict(zip(order, args)), **options}
        if task not in tasks:
            raise ValueError(f"{name}: task is {task!r}; expected one of {list(tasks)}.")
        takes = inspect.signature(tasks[task]).parameters
        unknown = sorted(set(options) - known)
        if unknown:
            raise TypeError(f"{name}: unexpected arguments {unknown}; expected any of {sorted(known - {'preds', 'target'})}.")
        given = {**defaults, **options}
        return tasks[task](preds, target, **{k: v for k, v in given.items() if k in takes})

    function.__name__ = function.__qualname__ = name
    function.__doc__ = " or ".join(f"`{f.__name__}`" for f in tasks.values()) + ", by `task`."
    function.__module__ = __name__
    return function
