"""What a compiled update does outside of its graph: samples join their lists, whose lengths a graph must not know."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .ledger import Ledger

_library = torch.library.Library("torchtally", "DEF")
# A compiler drops what returns nothing and changes nothing, so it is told that the token changes: that keeps calls, and their order.
_library.define("keep(Tensor(a!) token, SymInt ledger, SymInt part, str names, Tensor[] samples) -> ()")

_ledgers: weakref.WeakValueDictionary[int, Ledger] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def enrol(ledger: Ledger) -> int:
    """A number by which a graph finds a ledger: it can hold numbers and tensors only."""
    number = next(_numbers)
    _ledgers[number] = ledger
    return number


def _keep(token: Tensor, ledger: int, part: int, names: str, samples: list[Tensor]) -> None:
    found = _ledgers[ledger]
    for name, sample in zip(names.split(), samples):
        found.samples[part, name].append(sample.clone())  # the graph will use its memory again
    found.keys[part][0].tidy(found.views()[part])


_library.impl("keep", _keep, "CompositeExplicitAutograd")
torch.library.register_fake("torchtally::keep", lambda *_: None, lib=_library)


def keep(ledger: Ledger, part: int, samples: dict[str, list[Tensor]]) -> None:
    """Let a graph, when it runs, append samples to slots of one part of a ledger."""
    names = " ".join([name for name, pieces in samples.items() for _ in pieces])
    if names:
        torch.ops.torchtally.keep(ledger.clock.ticks, ledger.number, part, names, [x for pieces in samples.values() for x in pieces])
