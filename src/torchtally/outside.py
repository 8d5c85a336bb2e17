"""What a compiled update does outside of its graph: samples join their lists, whose lengths a graph must not know, and streams are ordered."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .statistic import captured

if TYPE_CHECKING:
    from .ledger import Ledger


def _own_library() -> torch.library.Library:
    """A namespace of operators, under another name where torchtally was imported before, as notebooks and servers that load modules anew do."""
    for n in itertools.count(1):
        try:
            return torch.library.Library("torchtally" if n == 1 else f"torchtally_{n}", "DEF")
        except RuntimeError as error:
            if "TORCH_LIBRARY" not in str(error):
                raise
    raise AssertionError


_library = _own_library()
_tags = [torch.Tag.cudagraph_unsafe] if hasattr(torch.Tag, "cudagraph_unsafe") else []  # a replay would not come here
# A compiler drops what returns nothing and changes nothing, so it is told that tensors change: that keeps calls, and their order.
_library.define("keep(Tensor(a!) token, SymInt ledger, SymInt part, str names, Tensor[] samples) -> ()", tags=_tags)
_library.define("meet(Tensor(a!)[] totals, SymInt ledger) -> ()", tags=_tags)

CAPTURED = "Samples are kept in lists, to which the replay of a CUDA graph cannot append. Update such metrics outside of the capture."
UNTRACED = "Metrics that keep samples can be updated within a compiled graph, but not read. Call forward, compute and the functions outside of it."

_ledgers: weakref.WeakValueDictionary[int, Ledger] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def enrol(ledger: Ledger) -> int:
    """A number by which a graph finds a ledger: it can hold numbers and tensors only."""
    number = next(_numbers)
    _ledgers[number] = ledger
    return number


def _keep(token: Tensor, ledger: int, part: int, names: str, samples: list[Tensor]) -> None:
    if captured(token):
        raise RuntimeError(CAPTURED)
    found = _ledgers[ledger]
    for name, sample in zip(names.split(), samples):
        found.samples[part, name].append(sample.clone())  # the graph will use its memory again
    found.keys[part][0].tidy(found.views()[part])


def _meet(totals: list[Tensor], ledger: int) -> None:
    _ledgers[ledger].meet()


for _name, _run in (("keep", _keep), ("meet", _meet)):
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_library.ns}::{_name}", lambda *_: None, lib=_library)

_operators = getattr(torch.ops, _library.ns)


def keep(ledger: Ledger, part: int, samples: dict[str, list[Tensor]]) -> None:
    """Let a graph, when it runs, append samples to slots of one part of a ledger."""
    names = " ".join([name for name, pieces in samples.items() for _ in pieces])
    if names:
        _operators.keep(ledger.clock.ticks, ledger.number, part, names, [x for pieces in samples.values() for x in pieces])


def meet(ledger: Ledger) -> None:
    """Let a graph, when it runs, order what it does with a ledger's totals after what other streams were asked to do with them."""
    _operators.meet([*ledger.flats.values(), ledger.clock.ticks], ledger.number)
