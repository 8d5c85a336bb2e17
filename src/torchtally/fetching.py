"""Reads of several sets of ranks at once, and those that nobody waits for: what `fetch` starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from . import distributed
from .distributed import Flight, Flights
from .faults import Fault
from .ledger import Ledger
from .pending import Pending
from .together import Members, Read, Together, copy_over_ranks, leaves_of, peers_of, reads_of, same_ranks

if TYPE_CHECKING:
    from .formula import Formula
    from .metric import Metric

Leaves = list[tuple[str, "Metric"]]
Found = tuple[Any, list[tuple[str, Fault]]]


class Reads(Read):
    """The totals of all ranks of metrics that are not all read over the same ranks."""

    def __init__(self, reads: list[Read]) -> None:
        self.reads = reads

    def __contains__(self, metric: Metric) -> bool:
        return any(metric in read for read in self.reads)

    def _of(self, metric: Metric) -> Read:
        return next(read for read in self.reads if metric in read)

    def ledger_of(self, metric: Formula) -> Ledger:
        return self._of(metric).ledger_of(metric)

    def states_of(self, metric: Metric) -> list[dict[str, Any]]:
        return self._of(metric).states_of(metric)


def readers(leaves: Leaves) -> list[Metric]:
    """The first metric of each set of ranks that torch.distributed is to read over."""
    found: list[Metric] = []
    if distributed.available():
        for _, m in leaves:
            if m.dist_sync_fn is None and m._to_sync() and not any(same_ranks(m.process_group, f.process_group) for f in found):
                found.append(m)
    return found


def leaves_named(metric: Any) -> Leaves:
    """The metrics inside of one that hold totals, with names for messages."""
    for m in metric.modules():
        if hasattr(m, "_settle"):
            m._settle()
    return [(n or type(metric).__name__, m) for n, m in leaves_of(metric).items()]


def read_all(reader: Any, together: Together, leaves: Leaves, peers: Callable[[Any], Members] | None = None) -> Reads | None:
    """The totals of all ranks, waited for; None where there are none to read from. `peers` gives what is read together with a metric."""
    peers = peers or partial(peers_of, leaves)
    found = [together.read(reader, partial(peers, m), m.process_group, m.timeout) for m in readers(leaves)]
    reads = [read for read in found if read is not None]
    return Reads(reads) if reads else None


def over_ranks(metrics: Any, leaves: Leaves) -> Any:
    """A copy of a metric or collection with the totals of all ranks, waited for."""
    read = read_all(metrics, reads_of(metrics, "copy"), leaves)
    with metrics._guard:
        return copy_over_ranks(metrics, read)


class UnderWay:
    """Reads that were started, one for each set of ranks; the totals are in `read` when they have come."""

    def __init__(self, together: Together, leaves: Leaves) -> None:
        self.flights: list[Flight] = []
        reads: list[Read] = []
        for first in readers(leaves):
            started = together.start(peers_of(leaves, first), first.process_group)
            if started is not None:
                self.flights.append(started[0])
                reads.append(started[1])
        self.reads = reads
        self.read = Reads(reads) if reads else None

    def pending(self, evaluate: Callable[[], Found]) -> Pending:
        """The results of `evaluate`, which is called when all totals are there: now, if none is waited for."""
        if not self.flights:
            return Pending(*evaluate())

        def arrived(found: list[Any]) -> Found:
            for read, totals in zip(self.reads, found):
                read.totals = totals
            return evaluate()

        return Pending.after(Flights(self.flights), arrived)


def fetch_alone(metric: Any) -> Pending:
    """What `fetch` of one metric, on its own, gives."""
    under_way = UnderWay(Together(type(metric).__name__), leaves_named(metric))
    return under_way.pending(metric._later(under_way.read))
