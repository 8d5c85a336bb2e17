"""The keyword options that every metric takes, and checks of those that some take."""

from __future__ import annotations

from typing import Any

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


def options_of(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """All options of a metric: those given, checked, and the defaults of the others."""
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise ValueError(f"{name}: unexpected keyword arguments {unknown}; expected any of {sorted(OPTIONS)}.")
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
