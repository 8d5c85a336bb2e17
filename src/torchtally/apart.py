"""Members of a collection that do not share its ledger: users' metrics, compositions, wrappers, and formulas with totals of their own.

They are updated all or none: formulas check the batch before anything is written, the others are put back if a later one refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .composition import CompositionalMetric
from .formula import Formula
from .ledger import Ledger
from .metric import Metric
from .together import leaves_of as holders_of

Call = tuple[Any, Sequence[Any], dict[str, Any]]
"""A member and the arguments of its update."""


def leaves_of(calls: list[Call]) -> list[Call]:
    """With the metrics inside of compositions in their place, each once."""
    found: dict[Metric, Call] = {}
    for m, positional, given in calls:
        for leaf in m.leaves() if isinstance(m, CompositionalMetric) else [m]:
            found.setdefault(leaf, (leaf, positional, leaf._filter_kwargs(**given) if leaf is not m else given))
    return list(found.values())


class _Undo:
    """Puts metrics back as they were, unless there is but one: its own refusal changes nothing."""

    def __init__(self, metrics: list[Any]) -> None:
        self.several = len(metrics) > 1
        self.states: dict[Metric, tuple[dict[str, Any], int]] = {}
        self.ledgers: dict[Ledger, Ledger] = {}

    def before(self, metric: Any) -> None:
        if not self.several:
            return
        for m in holders_of(metric).values():
            if isinstance(m, Formula):
                self.ledgers.setdefault(m.ledger, m.ledger.frozen())
            elif isinstance(m, Metric):
                self.states[m] = m._states_kept()

    def all(self) -> None:
        for ledger, kept in self.ledgers.items():
            ledger.restore(kept)
        for metric, (states, count) in self.states.items():
            metric._restore(states, count)
            metric.__dict__["_computed"] = None


def update_all(calls: list[Call]) -> None:
    """Update every member."""
    if len(calls) == 1 and not isinstance(calls[0][0], CompositionalMetric):
        m, positional, given = calls[0]
        m.update(*positional, **given)
    elif calls:
        calls = leaves_of(calls)
        formulas = [call for call in calls if isinstance(call[0], Formula) and call[0].shares]
        fed = [call for call in formulas if call[0].only_feeds]
        for m, _, _ in fed:
            if m.ledger.shared:
                m._leave()
        taken = [(m, m._taken(m._batch_of(positional, given))) for m, positional, given in fed]
        shares = [(m, m._share_of(*positional, **given)) for m, positional, given in formulas if not m.only_feeds]
        others = [call for call in calls if not (isinstance(call[0], Formula) and call[0].shares)]
        undo = _Undo(others)
        try:
            for m, positional, given in others:
                undo.before(m)
                m.update(*positional, **given)
        except BaseException:
            undo.all()
            raise
        for m, pieces in taken:
            m._write(pieces, torch.compiler.is_compiling())
        for m, share in shares:
            m.ledger.absorb(share, 1)


class Forwarded:
    """The batch accumulated in every member; then `values` gives what each has of it, by id."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        leaves = leaves_of(calls)
        formulas = [call for call in leaves if isinstance(call[0], Formula) and type(call[0]).forward is Formula.forward]
        self.shares: list[tuple[Formula, Ledger]] = [(m, m._share_of(*positional, **given)) for m, positional, given in formulas]
        self.found: dict[Metric, Any] = {}
        self.failed: Exception | None = None
        others = [call for call in leaves if not (isinstance(call[0], Formula) and type(call[0]).forward is Formula.forward)]
        undo = _Undo(others)
        try:
            for m, positional, given in others:
                undo.before(m)
                self._forward(m, positional, given)
        except BaseException:
            undo.all()
            raise
        for formula, share in self.shares:
            formula.ledger.absorb(share, 1)

    def _forward(self, m: Any, positional: Sequence[Any], given: dict[str, Any]) -> None:
        try:
            self.found[m] = m(*positional, **given)
        except Exception as error:
            if not getattr(error, "accumulated", False):
                raise
            self.failed = self.failed or error  # only its value failed: raised once everything is accumulated

    def values(self) -> dict[int, Any]:
        if self.failed is not None:
            raise self.failed
        for formula, share in self.shares:
            self.found[formula] = formula._value_of(share)
        out = {}
        for m, _, _ in self.calls:
            if isinstance(m, CompositionalMetric):
                self.found[m] = m.__dict__["_forward_cache"] = m._on_batch(self.found)
            out[id(m)] = self.found[m]
        return out


def mergeable(mine: Any, theirs: Any) -> bool:
    """Whether `mine.merge_state(theirs)` makes sense."""
    if isinstance(mine, Formula):
        return isinstance(theirs, Formula) and mine.statistics == theirs.statistics
    return type(mine) is type(theirs)
