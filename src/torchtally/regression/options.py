"""Checks of constructor arguments."""

from __future__ import annotations

from typing import Any

MULTIOUTPUT = ("raw_values", "uniform_average", "variance_weighted")
REDUCTION = ("mean", "sum", "none", None)


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
