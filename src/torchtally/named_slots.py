"""Slots of a ledger by the names they have in a `state_dict`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .ledger import Ledger
from .statistic import map_tensors

if TYPE_CHECKING:
    from .formula import Formula

Places = Mapping[str, tuple[int, str]]


def places_of(ledger: Ledger, statistics: Sequence[int]) -> dict[str, tuple[int, str]]:
    """Part of a ledger and slot, by the names that a metric over these statistics saves: with the statistic's before the slot's where it has several."""
    places = {}
    for i in statistics:
        statistic, entries = ledger.keys[i]
        for slot in statistic.slots():
            places[f"{statistic.label}.{slot}" if len(statistics) > 1 else slot] = i, slot
        j = len(ledger.keys) + ledger.inputs.index((statistic.input, entries))
        for slot in statistic.input.slots():
            places[slot] = j, slot
    return places


def states_of(ledger: Ledger, places: Places) -> dict[str, Any]:
    """What is in some slots, by name."""
    ledger.fold()
    views = ledger.views()
    return {name: getattr(views[part], slot) for name, (part, slot) in places.items()}


def fill(ledger: Ledger, places: Places, states: Mapping[str, Any], name: str) -> None:
    """Overwrite some slots with states of the same names, all or none; `name` is told where one does not fit."""
    views = ledger.views()
    for n, (part, slot) in places.items():
        mine, theirs, dtype = getattr(views[part], slot), states.get(n), ledger.parts[part].slots()[slot].dtype
        if theirs is not None and isinstance(mine, Tensor) and (not isinstance(theirs, Tensor) or theirs.shape != mine.shape):
            found = tuple(theirs.shape) if isinstance(theirs, Tensor) else type(theirs).__name__
            raise ValueError(f"{name}: state {n!r} has shape {found}; expected {tuple(mine.shape)}. Was it saved with other arguments?")
        for x in [theirs] if isinstance(theirs, Tensor) else theirs or ():
            if x.is_floating_point() != dtype.is_floating_point:
                raise ValueError(f"{name}: state {n!r} has dtype {x.dtype}; expected {dtype}. Was it saved with another `weighted`?")
    for n, (part, slot) in places.items():
        mine, theirs = getattr(views[part], slot), states.get(n)
        if theirs is None:
            continue
        if isinstance(mine, Tensor):
            mine.copy_(theirs)
        else:
            mine[:] = [x.detach().clone().to(ledger.device) for x in theirs]


def agree(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether loading would change nothing: what is shared was already filled with the same totals."""
    return all(
        isinstance(x, Tensor) and isinstance(mine[n], Tensor) and x.shape == mine[n].shape and torch.equal(mine[n].cpu(), x.cpu())
        for n, x in theirs.items()
    )


class SharedSlots:
    """The slots of a collection's ledger, by member: each is copied, or filled, once for all members that share it."""

    def __init__(self, ledger: Ledger, members: Mapping[str, Formula]) -> None:
        self.ledger = ledger
        self.places = {name: {f"{name}.{key}": place for key, place in m._places(ledger).items()} for name, m in members.items()}

    def saver(self) -> Callable[[str, dict[str, Any]], None]:
        """What writes the totals of a member, as they are now, into a `state_dict`."""
        self.ledger.fold()
        views, updates = self.ledger.views(), torch.tensor(self.ledger.updates)
        copies: dict[tuple[int, str], Any] = {}

        def save(name: str, into: dict[str, Any]) -> None:
            for key, place in self.places[name].items():
                if place not in copies:
                    copies[place] = map_tensors(getattr(views[place[0]], place[1]), Tensor.clone)
                into[key] = copies[place]
            into[f"{name}.updates"] = updates

        return save

    def fill(self, names: Iterable[str], states: Mapping[str, Any], prefix: str) -> None:
        """Take over what a `state_dict` holds of some members, where it fits."""
        views = self.ledger.views()
        filled: set[tuple[int, str]] = set()
        for name in names:
            for key, (part, slot) in self.places[name].items():
                x, mine = states.get(prefix + key), getattr(views[part], slot)
                if not isinstance(x, Tensor) or not isinstance(mine, Tensor) or (part, slot) in filled:
                    continue
                if x.shape == mine.shape and x.is_floating_point() == mine.is_floating_point():
                    filled.add((part, slot))
                    mine.copy_(x)
                    self.ledger.reduced = None
