"""What is saved when a `state_dict` is asked for, and what is merged when a file is given."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .errors import TallyError

_saving = threading.local()  # .complete: a metric's own state_dict() is under way


def saves_all() -> bool:
    """Whether all that metrics hold is to be saved, not only what was made `persistent`."""
    return getattr(_saving, "complete", False)


def asked_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a `state_dict`, called so, is asked of a metric itself, not of a module that holds it."""
    return not (args or kwargs.get("destination") is not None or saves_all())


@contextmanager
def saving_all() -> Iterator[None]:
    """Within, `state_dict` of every metric is complete."""
    before = saves_all()
    _saving.complete = True
    try:
        yield
    finally:
        _saving.complete = before


def check_whole(name: str, state: Mapping[str, Any], needed: frozenset[str]) -> None:
    """Raise where an object that was pickled whole, as another version of torchtally had it, lacks what this one needs."""
    if not needed <= state.keys():
        raise TallyError(
            f"{name}: was pickled whole by another version of torchtally, whose insides were different. Load it there, and save its state_dict() "
            "or use torchtally.save: what these write is read by later versions."
        )


def opened(other: Any) -> Any:
    """What a file holds, where a path is given."""
    if not isinstance(other, str | os.PathLike):
        return other
    from .checkpoint import load

    return load(other)
