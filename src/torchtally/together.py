"""Metrics that are read together: one reduction for all of them, kept until one of them changes."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .distributed import Channel, Flight, channel_of
from .ledger import Key, Ledger
from .reduction import Layout, Plan, Reduction, Totals
from .transfer import to_host

if TYPE_CHECKING:
    from .formula import Formula
    from .metric import Metric

Members = Sequence[tuple[str, "Metric"]]

MEMBERS = "members"
"""The purpose of reads of a collection's members that are asked on their own."""


class Read:
    """The totals of all ranks, and where each metric's are among them."""

    def __init__(self, totals: Totals, shared: dict[int, int], apart: dict[int, int], emptied: set[int]) -> None:
        self.totals, self._shared, self._apart, self._emptied = totals, shared, apart, emptied

    def __contains__(self, metric: Metric) -> bool:
        return id(metric) in self._shared

    def ledger_of(self, metric: Formula) -> Ledger:
        """The ledger that holds a metric's totals."""
        if self.totals.apart:
            return self.totals.ledgers[self._apart[id(metric)]]
        ledger = self.totals.ledgers[self._shared[id(metric)]]
        return ledger.scratch() if id(metric) in self._emptied else ledger

    def states_of(self, metric: Metric) -> list[dict[str, Any]]:
        """A user's metric's states, by rank."""
        k = self._shared[id(metric)]
        return [rank[k] for rank in self.totals.states]


class Together:
    """Reads for one purpose of one metric, of a collection, or of the members of one that are asked on their own (`shared`).

    A shared read serves all members until one of them is written to; a member that asks a second time starts a new one, because other ranks
    may have changed. All other reads are new. So who reads when decides what is communicated, and that is the same on all ranks.
    """

    def __init__(self, title: str, shared: bool = False) -> None:
        self.title, self.shared = title, shared
        self._lent: tuple[int, Channel | None, Read] | None = None
        self.forget()

    def __getstate__(self) -> dict[str, Any]:
        return {"title": self.title, "shared": self.shared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # nothing else is kept

    def forget(self) -> None:
        """Members came or went, or share differently."""
        self._read: Read | None = None
        self._late: tuple[Flight, Read] | None = None  # timed out, and still under way
        self._token: object = None
        self._channel: Channel | None = None
        self._served: set[int] = set()
        self._ledgers: list[Ledger] = []
        self._users: list[weakref.ref[Metric]] = []
        self._signs: Any = None
        self._peers: Members = ()
        self._laid_for: Members | None = None
        self._laid_over: Channel | None = None
        self._key: Any = None
        self._laid: Any = None

    # ---- what is kept
    def _unchanged(self) -> bool:
        token = self._token
        return (
            token is not None
            and all(ledger.reduced is token for ledger in self._ledgers)
            and all((user := held()) is not None and user.__dict__.get("_token") is token for held in self._users)
        )

    def kept(self, reader: Any, channel: Channel) -> Read | None:
        """What was read for another member and still holds."""
        if self._read is None or id(reader) in self._served or self._channel is not channel or not self._unchanged():
            return None
        self._served.add(id(reader))
        return self._read

    def peers(self, signs: Any, find: Callable[[], Members]) -> Members:
        """The members that are read together, found again only where `signs`, all that decides it, have changed; None: where nothing tells."""
        if signs is None:
            return find()
        if signs != self._signs:
            self._signs, self._peers = signs, find()
        return self._peers

    def again(self, metric: Metric) -> None:
        """A member was reset: what it reads next is new, whatever the others do with what was read."""
        self._served.add(id(metric))

    @contextmanager
    def lent(self, read: Read | None, group: Any) -> Iterator[None]:
        """What this thread asks for within is in a read that there is, whatever other threads add meanwhile."""
        self._lent = None if read is None else (get_ident(), channel_of(group), read)
        try:
            yield
        finally:
            self._lent = None

    # ---- reading
    def read(self, reader: Any, members: Callable[[], Members], group: Any, timeout: float | None) -> Read | None:
        """The totals of all ranks, waited for. None where this rank is alone.

        The totals of this rank are taken while no other thread writes to them; nothing is held while ranks are waited for.
        """
        with reader._guard:
            channel = channel_of(group)
            if channel is None:
                return None
            if self._lent is not None and self._lent[:2] == (get_ident(), channel):
                return self._lent[2]
            found = self.kept(reader, channel)
            if found is not None:
                return found
            current = None  # the others have, or will have, come for a read that timed out here
            if self._late is not None and self._late[0].failed is None and self._channel is channel and self._unchanged():
                current = self._late

        def begin() -> Flight:
            nonlocal current
            with reader._guard:
                self._channel, self._served, self._read = channel, set(), None
                current = self._late = self._start(channel, members())
                self._token = object()
                for ledger in self._ledgers:
                    ledger.reduced = self._token
                for user in self._users:
                    if (m := user()) is not None:
                        m.__dict__["_token"] = self._token
                channel.launch(current[0])
                return current[0]

        totals = channel.run(begin, timeout, None if current is None else current[0])
        assert current is not None
        with reader._guard:
            read = current[1]
            read.totals = totals
            if self._late is current:
                self._late = None
                if self.shared:
                    self._read = read
                    self._served.add(id(reader))
            return read

    def start(self, members: Members, group: Any) -> tuple[Flight, Read] | None:
        """Start to read and return at once: the flight's outcome goes into `totals` of the read. None where this rank is alone."""
        channel = channel_of(group)
        if channel is None or channel.fake:
            return None
        return self._start(channel, members, later=True)

    def _lay_out(self, channel: Channel, members: Members) -> None:
        """What travels how, and where each member's totals will be, unless it is known from the last time."""
        formulas: list[tuple[str, Any]] = [(n, m) for n, m in members if hasattr(m, "ledger")]
        users = [m for _, m in members if not hasattr(m, "ledger")]
        ledgers: list[Ledger] = list(dict.fromkeys(m.ledger for _, m in formulas))
        emptied = [m.emptied for _, m in formulas]
        key = [(n, id(m), id(m.__dict__.get("ledger")), m.__dict__.get("_needed")) for n, m in members], emptied, channel.world
        if key != self._key:
            places = [ledgers.index(m.ledger) for _, m in formulas]
            layout = Layout(
                self.title, [(n, described(m)) for n, m in members], repr((places, emptied, [ledger.keys for ledger in ledgers]))
            )
            shared = {id(m): k for (_, m), k in zip(formulas, places)} | {id(m): k for k, m in enumerate(users)}
            own = {id(m): k for k, (_, m) in enumerate(formulas)}
            gone = {id(m) for (_, m), empty in zip(formulas, emptied) if empty}
            needs = [(k, m.needs(), empty) for (_, m), k, empty in zip(formulas, places, emptied)]
            self._laid = layout, Plan(ledgers, channel.world, bool(users)), (shared, own, gone), partial(_parts, needs)
            self._key = key
        self._ledgers, self._users = ledgers, [weakref.ref(m) for m in users]
        self._laid_for, self._laid_over = (members if members is self._peers else None), channel  # a metric must not hold itself

    def _start(self, channel: Channel, members: Members, later: bool = False) -> tuple[Flight, Read]:
        if members is not self._laid_for or channel is not self._laid_over:
            self._lay_out(channel, members)
        ledgers, users = self._ledgers, [m for _, m in members if not hasattr(m, "ledger")] if self._users else []
        layout, plan, found_at, apart = self._laid
        read = Read(Totals([], [], False), *found_at)
        states, events = _states_of(users) if users else (None, [])
        reduction = Reduction(channel, plan, layout, ledgers, states, apart, later, closed=True)
        reduction.events += events
        flight = Flight(channel.wire, reduction.steps, _Lost(layout, channel))
        if later:
            channel.in_thread(flight)
        return flight, read


def reads_of(owner: Any, purpose: str) -> Together:
    """The reads of a metric or a collection for one purpose: what timed out in one is not what another goes on waiting for."""
    reads: dict[str, Together] | None = owner.__dict__.get("_reads")
    if reads is None:
        reads = owner.__dict__["_reads"] = {}
    found = reads.get(purpose)
    if found is None:
        found = reads[purpose] = Together(type(owner).__name__, purpose == MEMBERS)
    return found


def _parts(needs: list[tuple[int, list[Key], bool]], frozen: list[Ledger]) -> list[Ledger]:
    """A ledger for each metric: those it needs of the ledger at a place, or empty."""
    return [Ledger(keys, frozen[k].device) if empty else frozen[k].part(frozen[k].members_of(keys)) for k, keys, empty in needs]


class _Lost:
    """The text of an error: who wanted to read what, and where."""

    def __init__(self, layout: Layout, channel: Channel) -> None:
        self.layout, self.channel = layout, channel

    def __call__(self, what: str) -> str:
        title, held = self.layout.title, [n for n, _ in self.layout.lines]
        names = ", ".join(held[:12]) + (", …" if len(held) > 12 else "")
        whole = title if [title] == held else f"{title} of {names}"
        return f"{whole}, on rank {self.channel.rank} of {self.channel.world}: {what.rstrip('.')}. The totals of this rank are intact."


def _states_of(users: list[Metric]) -> tuple[list[Any], list[Any]]:
    """Users' states on their way to the host, and events that say when they are there."""
    leaves, tree = pytree.tree_flatten([m._snapshot() for m in users])
    leaves, events = to_host(leaves)
    return pytree.tree_unflatten(leaves, tree), events


def described(metric: Any) -> str:
    """What a metric is, so that equal texts on two ranks mean that their totals may be added."""
    if hasattr(metric, "ledger"):
        options = ", ".join(f"{name}={_plain(value)}" for name, value in metric._options())
        bound = f" bound to {metric._entries}" if metric._entries else ""
        ours = type(metric).__module__.startswith("torchtally.")  # then the options tell what it remembers
        return f"{type(metric).__qualname__}({options}){bound}" + ("" if ours else f" over {', '.join(map(repr, metric.statistics))}")
    states = ", ".join(
        f"{n} ({_plain(how)}{', list' if isinstance(metric._defaults[n], list) else ''})" for n, how in metric._reductions.items()
    )
    return f"{type(metric).__qualname__} with states {states}"


def _plain(value: Any) -> str:
    """A text without addresses and without reading a device."""
    if value is None or isinstance(value, str | int | float | bool | torch.dtype):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_plain(k)}: {_plain(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Tensor):
        return f"tensor{tuple(value.shape)}"
    return str(getattr(value, "__qualname__", type(value).__qualname__))


_signs = attrgetter("ledger", "_emptied", "sync_on_compute", "process_group", "dist_sync_fn")  # binding and syncing change the ledger


def signs_of(metrics: Collection[Any], group: Any) -> list[Any] | None:
    """All that decides which formulas are read together over the ranks of a group, and which totals are whose; None where there is more."""
    if any([m._modules for m in metrics]):
        return None
    found = [*map(_signs, metrics)]
    return [channel_of(group), found, [ledger.generation for ledger in {x[0]: None for x in found}]]


def same_ranks(group: Any, other: Any) -> bool:
    """Whether two `process_group` options mean the same ranks."""
    return group is other or channel_of(group) is channel_of(other)


def peers_of(leaves: Iterable[tuple[str, Metric]], metric: Metric) -> list[tuple[str, Metric]]:
    """Those of some metrics that are read over the same ranks as one of them, with their names."""
    return [
        (n, m)
        for n, m in leaves
        if m.dist_sync_fn is None and m.sync_on_compute and not m._is_synced and same_ranks(m.process_group, metric.process_group)
    ]


def leaves_of(metrics: nn.Module) -> dict[str, Any]:
    """The metrics inside that hold totals, by the name before their states."""
    return {
        n: m for n, m in metrics.named_modules() if (hasattr(m, "ledger") and hasattr(m, "statistics")) or getattr(m, "_defaults", None)
    }


class Copy:
    """A copy of metrics as they are now, to be filled with what is read of all ranks. It is local from then on."""

    def __init__(self, metrics: Any) -> None:
        self.new = copy.deepcopy(metrics)
        self.pairs: list[tuple[Any, Any]] = list(zip(leaves_of(metrics).values(), leaves_of(self.new).values()))
        for m in self.new.modules():
            if hasattr(m, "sync_on_compute"):
                m.sync_on_compute = False

    def filled(self, read: Read | None) -> Any:
        for mine, its in self.pairs:
            if read is None or mine not in read:
                continue
            if hasattr(mine, "ledger"):
                if its.ledger.shared:
                    its._leave()
                total = read.ledger_of(mine)
                its.__dict__["ledger"] = total.part(mine._mine(total))
            else:
                its.__dict__.update(mine._combined_over(read.states_of(mine)))
        return self.new


def copy_over_ranks(metrics: Any, read: Read | None) -> Any:
    """A copy of a metric or collection with what was read of all ranks."""
    return Copy(metrics).filled(read)


def part_of_all(ledger: Ledger, title: str, line: str, group: Any, timeout: float | None) -> Ledger | None:
    """A ledger's totals over all ranks, for one metric alone and not kept. `line` is of no other read, since ranks have no arrangement to differ in."""
    channel = channel_of(group)
    if channel is None:
        return None
    layout = Layout(title, [(title, line)], "alone")
    plan = Plan([ledger], channel.world, False)

    def begin() -> Flight:
        flight = Flight(channel.wire, Reduction(channel, plan, layout, [ledger]).steps, _Lost(layout, channel))
        channel.launch(flight)
        return flight

    totals: Totals = channel.run(begin, timeout)
    return totals.ledgers[0]


def gathered_by(gather: Callable[..., Any], ledger: Ledger, group: Any) -> Ledger:
    """A ledger's totals over all ranks through a user's `dist_sync_fn(tensor, group) -> list of tensors`."""
    mine = ledger.frozen()
    flats = {g: list(gather(flat, group)) for g, flat in mine.flats.items()}
    samples = {}
    for place, pieces in mine.samples.items():
        joined = torch.cat([torch.atleast_1d(x) for x in pieces]) if pieces else torch.zeros(0, device=mine.device)
        samples[place] = [[x] if x.numel() else [] for x in gather(joined, group)]
    world = len(next(iter([*flats.values(), *samples.values()]), []))
    ranks = [mine.twin({g: x[r].clone() for g, x in flats.items()}, {p: x[r] for p, x in samples.items()}) for r in range(world)]
    for other in ranks[1:]:
        ranks[0].absorb(other)
    return ranks[0]
