"""Slots of a ledger by the names they have in a `state_dict`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .ledger import Ledger
from .statistic import map_tensors

if TYPE_CHECKING:
    from .formula import Formula


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
