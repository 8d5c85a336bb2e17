"""Options that constructors pass on by name: what they are to type checkers, to `inspect.signature` and `help`, who takes which, and checks of those that some take."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

if sys.version_info >= (3, 11):
    from typing import TypedDict
    from typing import Unpack as Unpack  # metrics take it from here
else:
    from typing_extensions import TypedDict
    from typing_extensions import Unpack as Unpack

OPTIONS = {
    "sync_on_compute": True,
    "dist_sync_on_step": False,
    "process_group": None,
    "dist_sync_fn": None,
    "distributed_available_fn": None,
    "compute_with_cache": True,
    "compute_on_cpu": False,
    "timeout": None,
}


class MetricOptions(TypedDict, total=False):
    """Of every metric."""

    sync_on_compute: bool
    dist_sync_on_step: bool
    process_group: Any
    dist_sync_fn: Callable[..., Any] | None
    distributed_available_fn: Callable[[], bool] | None
    compute_with_cache: bool
    compute_on_cpu: bool
    timeout: float | None


class FormulaOptions(MetricOptions, total=False):
    """Of built-in metrics."""

    validate_args: bool


class PairOptions(FormulaOptions, total=False):
    """Of metrics of predicted numbers."""

    weighted: bool


class WeighableOptions(MetricOptions, total=False):
    """Of metrics that take sample weights where they are made to, and have `validate_args` among their parameters."""

    weighted: bool


class NamedOptions(WeighableOptions, total=False):
    """Of metrics whose classes may have names."""

    labels: Sequence[str] | None


class RateOptions(NamedOptions, total=False):
    """Of rates of classes, some of which may never occur."""

    absent: Literal["skip", "keep", "zero", "nan"] | None


def options_of(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a metric: those given, checked, and the defaults of the others."""
    name = cls.__name__
    if not given.keys() <= OPTIONS.keys():
        raise unknown_options(cls, [option for option in given if option not in OPTIONS])
    for option in ("sync_on_compute", "dist_sync_on_step", "compute_with_cache", "compute_on_cpu"):
        if not isinstance(given.get(option, False), bool):
            raise ValueError(f"{name}: {option} is {given[option]!r}; expected True or False.")
    for option in ("dist_sync_fn", "distributed_available_fn"):
        if given.get(option) is not None and not callable(given[option]):
            raise ValueError(f"{name}: {option} is {given[option]!r}; expected a function.")
    if (limit := given.get("timeout")) is not None and not (isinstance(limit, int | float) and limit > 0):
        raise ValueError(f"{name}: timeout is {limit!r}; expected a number of seconds, or None.")
    return {**OPTIONS, **given}


def count_of(name: str, option: str, x: Any, least: int = 1) -> int:
    """A checked whole number."""
    if not isinstance(x, int) or isinstance(x, bool) or x < least:
        raise ValueError(f"{name}: {option} is {x!r}; expected an integer of at least {least}.")
    return x


def choice_of(name: str, option: str, x: Any, choices: tuple[Any, ...]) -> Any:
    """A checked word."""
    if x not in choices:
        raise ValueError(f"{name}: {option} is {x!r}; expected one of {list(choices)}.")
    return x


def flag_of(name: str, option: str, x: Any) -> bool:
    """A checked yes or no."""
    if not isinstance(x, bool):
        raise ValueError(f"{name}: {option} is {x!r}; expected True or False.")
    return x


def affix_of(name: str, option: str, x: Any) -> str | None:
    """What goes before or after names, checked."""
    if x is not None and not isinstance(x, str):
        raise ValueError(f"{name}: {option} is {x!r}; expected a string or None.")
    return x


def unknown_options(cls: Any, options: list[str]) -> ValueError:
    """What is wrong with options that a class does not take."""
    why = next((f"{option} is no option: {cls.declined[option]}" for option in options if option in cls.declined), None)
    if why is not None:
        return ValueError(f"{cls.__name__}: {why}.")
    known = {p.name for p in inspect.signature(cls).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    if not _made_here(cls):
        known |= OPTIONS.keys()
    return ValueError(f"{cls.__name__}: unexpected keyword arguments {sorted(options)}; {expected(options, known)}.")


def check_names(cls: Any, given: Mapping[str, Any]) -> None:
    """Raise where one of our constructors is given what it does not take: before it says what is missing, since a name may be misspelt."""
    if _made_here(cls) and not given.keys() <= (known := constructor_of(cls).parameters.keys()):
        raise unknown_options(cls, [option for option in given if option not in known])


def expected(given: Iterable[str], known: Iterable[str]) -> str:
    """What could have been meant by names that are unknown, and what there is."""
    from difflib import get_close_matches

    names = sorted(known)
    meant = [repr(match) for name in given for match in get_close_matches(name, names, 1)]
    question = f"did you mean {' and '.join(meant)}? E" if meant else "e"
    return f"{question}xpected any of {names}"


class Constructor:
    """`__signature__` of classes of metrics, in which what their constructors pass on has names; of a metric, what it is called with."""

    def __get__(self, metric: Any, cls: type) -> inspect.Signature:
        if metric is not None:
            return inspect.signature(metric.update)
        if not _made_here(cls):
            raise AttributeError("__signature__")  # inspect tells more of what users write
        return constructor_of(cls)


@functools.cache
def _made_here(cls: type) -> bool:
    """Whether the constructor of a class is one of ours."""
    of = next(base for base in cls.__mro__ if "__init__" in vars(base))
    return of.__module__.partition(".")[0] == __name__.partition(".")[0]


@functools.cache
def constructor_of(cls: Any) -> inspect.Signature:
    """The parameters of a class of metrics, those that its constructor passes on to its bases by name."""
    makers = [base for base in cls.__mro__ if "__init__" in vars(base)]
    found: dict[str, inspect.Parameter] = {}
    for base in makers:
        named, passes_on = _own(base)
        found |= {p.name: p for p in named if p.name not in found and (base is makers[0] or p.kind is p.KEYWORD_ONLY)}
        if not passes_on:
            break
    if _own(makers[0])[1]:
        found |= {p.name: p for p in _common() if p.name not in found}
    return inspect.Signature(sorted(found.values(), key=lambda p: (p.kind, p.name in OPTIONS)))


@functools.cache
def _own(base: Any) -> tuple[list[inspect.Parameter], bool]:
    """What the constructor of a class itself names, and whether it passes more on."""
    own = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
    named = [p for p in own if p.kind is not p.VAR_KEYWORD]
    return named, len(named) < len(own)


@functools.cache
def _common() -> list[inspect.Parameter]:
    """The options of every metric as parameters."""
    types = {name: getattr(x, "__forward_arg__", x) for name, x in MetricOptions.__annotations__.items()}
    return [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=x, annotation=types[n]) for n, x in OPTIONS.items()]
