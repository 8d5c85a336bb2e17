"""`fetch`: what is known here now, and what is known when other ranks have sent their totals, as one cut."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from . import distributed
from .distributed import Flight, Flights
from .faults import Fault
from .pending import Pending
from .together import Read, Together, leaves_of, peers_of, same_ranks

if TYPE_CHECKING:
    from .formula import Formula
    from .metric import Metric

Faults = list[tuple[str, Fault]]
Leaves = list[tuple[str, "Metric"]]


def readers(leaves: Leaves) -> list[Metric]:
    """The first metric of each set of ranks that torch.distributed is to read over."""
    found: list[Metric] = []
    if distributed.available():
        for _, m in leaves:
            if m.dist_sync_fn is None and m._to_sync() and not any(same_ranks(m.process_group, f.process_group) for f in found):
                found.append(m)
    return found


class Copy:
    """A copy of a metric, or of several in a module, that takes the totals of all ranks when they are there. It is local from then on."""

    def __init__(self, metrics: Any) -> None:
        self.new = copy.deepcopy(metrics)
        self.pairs: list[tuple[Any, Any]] = list(zip(leaves_of(metrics).values(), leaves_of(self.new).values()))
        for m in self.new.modules():
            if hasattr(m, "sync_on_compute"):
                m.sync_on_compute = False

    def filled(self, reads: Iterable[Read]) -> Any:
        reads = list(reads)
        for mine, its in self.pairs:
            read = next((r for r in reads if mine in r), None)
            if read is None:
                continue
            if hasattr(mine, "ledger"):
                if its.ledger.shared:
                    its._leave()
                total = read.ledger_of(mine)
                its.__dict__["ledger"] = total.part(mine._mine(total))
            else:
                its.__dict__.update(mine._combined_over(read.states_of(mine)))
        return self.new


class Later:
    """A metric whose value is made when other ranks have sent their totals. What it was told so far is taken now."""

    def __init__(self, metric: Any, under_way: UnderWay) -> None:
        self.metric, self.reads = metric, under_way.reads
        self.read = under_way.read_of(metric)
        self.copy = Copy(metric) if self.read is None or metric._modules else None
        self.stand_in = None if hasattr(metric, "ledger") or self.copy is not None else metric._stand_in()

    def ledger(self) -> Any:
        """The totals of a built-in metric; None for another."""
        return None if self.copy is not None or self.stand_in is not None or self.read is None else self.read.ledger_of(self.metric)

    def value(self) -> Any:
        ledger = self.ledger()
        if ledger is not None:
            formula: Formula = self.metric
            return formula._unfinished(formula._value_in(ledger))
        if self.copy is not None:
            return self.copy.filled(self.reads).compute()
        assert self.read is not None
        assert self.stand_in is not None
        return self.stand_in._value_over(self.read.states_of(self.metric))


class UnderWay:
    """Reads that were started for some metrics, one for each set of ranks; nothing of them is there yet."""

    def __init__(self, together: Together, leaves: Leaves) -> None:
        self.flights: list[Flight] = []
        self.reads: list[Read] = []
        for first in readers(leaves):
            started = together.start(peers_of(leaves, first), first.process_group)
            if started is not None:
                self.flights.append(started[0])
                self.reads.append(started[1])

    def read_of(self, metric: Metric) -> Read | None:
        return next((read for read in self.reads if metric in read), None)

    def later(self, metric: Any) -> Later | None:
        """The metric's value to come; None where it does not wait for other ranks."""
        inside = leaves_of(metric).values()
        return Later(metric, self) if any(m in read for read in self.reads for m in inside) else None

    def pending(self, evaluate: Callable[[], tuple[Any, Faults]]) -> Pending:
        """The results of `evaluate`, which is called when the totals of all ranks are there."""

        def arrived(found: list[Any]) -> tuple[Any, Faults]:
            for read, totals in zip(self.reads, found):
                read.totals = totals
            return evaluate()

        return Pending.after(Flights(self.flights), arrived)


def leaves_named(metric: Any) -> Leaves:
    """The metrics inside of one that hold totals, with names for messages."""
    return [(n or type(metric).__name__, m) for n, m in leaves_of(metric).items()]


def over_ranks(metrics: Any, together: Together, leaves: Leaves) -> Any:
    """A copy of a metric or collection with the totals of all ranks, waited for."""
    reads = [together.read(metrics, partial(peers_of, leaves, m), m.process_group, m.timeout) for m in readers(leaves)]
    with metrics._guard:
        return Copy(metrics).filled(read for read in reads if read is not None)


def fetch_alone(metric: Any, together: Together) -> Pending | None:
    """What a metric on its own fetches from other ranks; None where there is nothing to wait for."""
    under_way = UnderWay(together, leaves_named(metric))
    later = under_way.later(metric)
    if later is None:
        return None
    title = type(metric).__name__

    def evaluate() -> tuple[Any, Faults]:
        ledger = later.ledger()
        return later.value(), [] if ledger is None else [(title, f) for f in metric._faults(ledger)]

    return under_way.pending(evaluate)
