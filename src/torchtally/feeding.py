"""How a batch gets into the members of a collection: each input taken once, plain numbers in groups, members apart in their own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .apart import Call, update_all
from .entries import required_of, taken_by
from .formula import Formula
from .ledger import Ledger
from .metric import Metric
from .refusal import refused
from .statistic import host_visible, in_functorch, may_wait
from .statistics.averages import Average, ScalarRows, add_scalars, read_scalars
from .valid import rows_of

HERE = "the collection"


class Plan:
    """What one update does for one shape of call: inputs to take, groups of plain numbers, members apart."""

    def __init__(self) -> None:
        self.inputs: list[tuple[int, tuple[int, ...], Callable[..., Any], bool]] = []  # the last: whether the batch is that of the one before
        self.scalars: list[tuple[str | float, tuple[int, ...], tuple[int, ...], ScalarRows]] = []
        self.apart: list[tuple[Metric, tuple[int, ...], dict[str, int]]] = []


class Feeding:
    """Who of a collection's members is fed what, for as long as they share in the same way.

    All hashing of statistics happens here at the start, so that planning can be traced.
    """

    def __init__(self, ledger: Ledger, members: Mapping[str, Metric]) -> None:
        self.ledger, self.members = ledger, members
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._apart: list[tuple[Metric, tuple[str, ...], tuple[str, ...]]] = []
        fed: dict[int, tuple[int, Any, tuple[str, ...], tuple[int, ...]]] = {}
        strict = [False] * len(ledger.inputs)
        serves: list[dict[str, None]] = [{} for _ in ledger.inputs]
        for name, m in members.items():
            wants = taken_by(m)
            bound = tuple(m._entries.get(p, p) for p in wants) if isinstance(m, Metric) else wants
            if not (isinstance(m, Formula) and m.ledger is ledger):
                if all(m is not other for other, _, _ in self._apart):
                    self._apart.append((m, wants, bound))
                continue
            for statistic, key in zip(m.statistics, m.needs()):
                i = ledger.keys.index(key)
                j = ledger.input_of(i)
                strict[j] |= m.validate_args
                serves[j][name] = None
                # Only what is not bound to a name can be given by position.
                positions = tuple(wants.index(e) if key[1][k] == e else -1 for k, e in enumerate(m.entries))
                fed.setdefault(i, (i, statistic, key[1], positions))
        ledger.strict = strict
        self._fed = [fed[i] for i in sorted(fed)]
        self.served = [", ".join(names) or "MetricCollection" for names in serves]
        """The members that each input of the ledger serves."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}

    # ---- plans
    def _plan(self, positional: int, names: tuple[str, ...]) -> Plan:
        """What an update with so many positional entries and these named ones does."""
        plan, given = Plan(), {n: positional + k for k, n in enumerate(names)}
        asked: dict[int, None] = {}
        before: Any = None
        groups: dict[str | float, list[tuple[int, int]]] = {}
        for i, statistic, entries, positions in self._fed:
            places = tuple(p if 0 <= p < positional else given[e] for e, p in zip(entries, positions) if 0 <= p < positional or e in given)
            j = self.ledger.input_of(i)
            if isinstance(statistic, Average) and len(places) == 1 and not torch.compiler.is_compiling():
                groups.setdefault(statistic.nan, []).append((i, places[0]))
            elif j not in asked:
                asked[j] = None
                input_ = self.ledger.inputs[j][0]
                batch = places, input_.host_values
                plan.inputs.append((j, places, input_.take, batch == before))
                before = batch
        for strategy, pairs in groups.items():
            indices = tuple(i for i, _ in pairs)
            plan.scalars.append((strategy, indices, tuple(p for _, p in pairs), ScalarRows(strategy, indices)))
        for name, m in self.members.items():
            _require(name, m, positional, given)
        for m, wants, bound in self._apart:
            if wants == ("*",):
                plan.apart.append((m, tuple(range(positional)), given))
            else:
                by_name = {p: given[e] for p, e in zip(wants, bound) if e in given}
                by_place = {p: k for k, (p, e) in enumerate(zip(wants, bound)) if k < positional and p == e and p not in by_name}
                plan.apart.append((m, (), {**by_place, **by_name}))
        if not torch.compiler.is_compiling():
            self._plans[(positional, *names)] = plan
        return plan

    # ---- adding
    def add(
        self, ledger: Ledger, args: tuple[Any, ...], kwargs: dict[str, Any], apart: Callable[[list[Call]], Any], compiling: bool
    ) -> Any:
        """Add a batch to a ledger laid out as the shared one, and to the members apart as `apart` does: all or nothing."""
        if not ledger.on_cpu:
            ledger.meet()
        plan = None if compiling else self._plans.get((len(args), *kwargs))  # a trace plans afresh
        if plan is None:
            plan = self._plan(len(args), tuple(kwargs))
        values = [*args, *kwargs.values()]
        taken: list[tuple[int, Any, Any]] = []
        rows: list[tuple[Sequence[int], Sequence[float | None]]] = []
        j = 0
        group: tuple[int, ...] = ()
        scalars: list[Any] = []
        try:
            for j, places, take, again in plan.inputs:
                if not again or ledger.followed:
                    follow = j in ledger.followed
                    batch = [x.detach() if isinstance(x := values[p], Tensor) and x.requires_grad and not follow else x for p in places]
                    ledger.accept(j, batch, HERE)
                key, piece = take(ledger.strict[j], *batch)
                if piece is not None:
                    taken.append((j, key, piece))
            for strategy, group, places, columns in plan.scalars:
                j = -1
                scalars = [values[p] for p in places]
                numbers, rest = read_scalars(strategy, scalars, eager=not in_functorch())
                rows.append((group, numbers))
                if rest:
                    taken += _take_rest(ledger, group, scalars, rest, columns)
        except Exception as error:
            if j < 0:
                j, batch = self._refused(group, scalars)
            raise refused(error, self.served[j], self.ledger.inputs[j][1], batch) from error.__cause__
        done = apart([(m, [values[p] for p in places], {n: values[p] for n, p in given.items()}) for m, places, given in plan.apart])
        now = ledger.now(compiling)
        for j, key, piece in taken:
            if j < 0:
                ledger.add_row(key, piece[0])
            else:
                ledger.add(j, key, piece, now)
        for indices, numbers in rows:
            add_scalars(ledger, indices, numbers)
        ledger.tick(now)
        return done

    def _refused(self, group: tuple[int, ...], scalars: list[Any]) -> tuple[int, list[Any]]:
        """The input of the first of some averages that was given NaN, or no number, and what it was given."""
        for i, x in zip(group, scalars):
            number = isinstance(x, float | int) or (isinstance(x, Tensor) and host_visible(x))
            if not number or bool(torch.as_tensor(x).isnan().any()):
                return self.ledger.input_of(i), [x]
        return self.ledger.input_of(group[0]), scalars[:1]

    def add_unseen(self, mask: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Add the rows of a batch that a mask, which only a device knows, says count.

        Members that feed a ledger wait for the mask in the background, the others here.
        """
        values = [*args, *kwargs.values()]
        plan = self._plans.get((len(args), *kwargs)) or self._plan(len(args), tuple(kwargs))
        takes = [(j, places) for j, places, _, _ in plan.inputs]
        takes += [(self.ledger.input_of(i), (p,)) for _, indices, places, _ in plan.scalars for i, p in zip(indices, places)]
        empty = [x[:0] if isinstance(x, Tensor) and x.ndim else x for x in values]
        for j, places in takes:  # refuses what can be refused now
            self.ledger.accept(j, [values[p] for p in places], HERE)
            self.ledger.inputs[j][0].take(False, *(empty[p] for p in places))
        waits = [isinstance(m, Formula) and m.only_feeds for m, _, _ in plan.apart]
        later = [call for call, wait in zip(plan.apart, waits) if wait]
        others = [call for call, wait in zip(plan.apart, waits) if not wait]
        rows = rows_of(mask.cpu(), values, "MetricCollection") if others else []
        update_all([(m, [rows[p] for p in places], {n: rows[p] for n, p in given.items()}) for m, places, given in others])
        for m, places, given in later:
            m.update(*(values[p] for p in places), **{n: values[p] for n, p in given.items()}, valid=mask)
        self.ledger.wait_for(mask, values, takes)


def _require(name: str, m: Metric, positional: int, given: dict[str, int]) -> None:
    """Raise where a member would miss an entry."""
    wants = taken_by(m)
    for place, p in enumerate(wants):
        entry = m._entries.get(p, p) if isinstance(m, Metric) else p
        if p in required_of(type(m)) and entry not in given and not (place < positional and entry == p):
            raise ValueError(
                f"MetricCollection: {name!r} ({type(m).__name__}) needs the entry {entry!r} but the update gave "
                f"{positional} by position and {list(given)} by name. Name what it takes, as in .bind({p}='…')."
            )


def _take_rest(ledger: Ledger, indices: tuple[int, ...], values: list[Any], rest: list[int], columns: ScalarRows) -> list[Any]:
    """Tensors among plain numbers: scalars of one dtype on a device stacked in one operator, the rest each by its input."""
    chosen = [x.detach() if (x := values[p]).requires_grad else x for p in rest]
    ledger.accept(ledger.input_of(indices[0]), chosen, HERE)
    first = chosen[0]
    alike = len(chosen) > 1 and all(x.ndim == 0 and x.dtype == first.dtype for x in chosen)
    if alike and may_wait(first):
        if len(rest) < len(indices):
            columns = ScalarRows(columns.strategy, tuple(indices[p] for p in rest))
        return [(-1, columns, (torch.stack(chosen),))]
    taken = []
    for place in rest:
        j = ledger.input_of(indices[place])
        taken.append((j, *ledger.inputs[j][0].take(ledger.strict[j], values[place].detach())))
    return taken
