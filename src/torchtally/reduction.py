"""One reduction for everything that is read: what travels in which collective, and how the totals of all ranks come out of it.

A read starts with one all_reduce of a head of fixed size, equal on every rank whatever its metrics are: digests of the layout, what was kept
out, and the sums, as far as they fit. Only where the digests agree do larger buffers follow, one collective per dtype and combination, and one
or two for what is gathered.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .buffers import Group, ordinary
from .distributed import READY, Channel, RankError, Steps
from .head import Head, as_floats, from_floats
from .ledger import Ledger
from .plan import FIXED, Layout, Plan
from .statistic import Slots
from .wire import Wire

_NEVER = torch.iinfo(torch.int64).max
_ONE = 1 << 40  # one rank with a fault, above the number of its first update


class Totals:
    """What a read gives: a ledger for each that was reduced, and the states of users' metrics by rank. `apart`: one ledger per member."""

    def __init__(self, ledgers: list[Ledger], states: list[list[Any]], apart: bool) -> None:
        self.ledgers, self.states, self.apart = ledgers, states, apart


class Reduction:
    """One read of the totals of all ranks.

    `ledgers` are taken as they are now. Where ranks agree on the metrics but not on which of them share totals (one was updated or reset on
    its own, on some ranks only), `apart(ledgers)` gives a ledger for each metric, and these are reduced instead. `aside`: over the host, while
    the caller goes on. `closed`: nobody will add to what comes back.
    """

    def __init__(
        self,
        channel: Channel,
        plan: Plan,
        layout: Layout,
        ledgers: Sequence[Ledger],
        states: list[Any] | None = None,
        apart: Callable[[list[Ledger]], list[Ledger]] | None = None,
        aside: bool = False,
        closed: bool = False,
    ) -> None:
        self.closed = closed
        self.channel, self.plan, self.layout = channel, plan, layout
        self.events: list[Any] = []
        if aside:
            cuts = [ledger.on_host() for ledger in ledgers]
            self.ledgers = [cut for cut, _ in cuts]
            self.events = [event for _, events in cuts for event in events]
        else:
            for ledger in ledgers:
                ledger.fold()
            self.ledgers = list(ledgers)
        self.states, self.apart, self.aside = states, apart, aside
        device = ledgers[0].device if ledgers else torch.device("cpu")
        self.device = torch.device("cpu") if aside else channel.device_for(device)

    def steps(self, wire: Wire) -> Steps:
        """Collective after collective; each is yielded to be waited for."""
        plan = self.plan
        while not all(event.query() for event in self.events):  # in a thread of our own: the copies to the host are under way
            time.sleep(0.0002)
        try:
            payload = self._payload() if plan.payload else None
            head = self._head(payload)
            # All that will be sent is taken now: the ledgers may go on before the last collective is called.
            big = [(group, ks, self._joined(group, ks)) for group, ks in plan.alone.items()]
            fixed = [_bytes(x) for x in self._gatherable()] if plan.columns is None else []
        except Exception as error:
            return (yield from self._refuse(wire, error))
        yield READY
        head = yield from _of_all(wire, head)
        known = head.known(plan.known)
        same_metrics, same_arrangement = self.layout.agreed(known)
        if not same_metrics:
            raise RankError(f"{self.layout.title}: {self._differences(wire, known, self.layout.lines)}")
        if not same_arrangement:
            return (yield from self._all_apart(wire))
        works = [wire.all_reduce(flat, group[1]) for group, _, flat in big]
        rows = None  # what is gathered, in one go with the samples if there are any
        if payload is not None:
            largest, sizes = yield from self._largest(wire, known, payload)
            joined = torch.cat([*fixed, payload, payload.new_zeros(largest - payload.numel())])
            rows, work = wire.all_gather(joined)
            works.append(work)
        elif fixed:
            rows, work = wire.all_gather(torch.cat(fixed))
            works.append(work)
        for work in works:
            yield work
        return partial(self._totals, head, known, big, rows, sizes if payload is not None else [], sum(map(len, fixed)))

    # ---- what is sent
    def _head(self, payload: Tensor | None) -> Head:
        plan, head = self.plan, self.layout.head(self.device)
        if plan.sizes is not None and payload is not None:
            head.put(plan.sizes + self.channel.rank, float(payload.numel()))
        for k, ledger in enumerate(self.ledgers):
            head.put(plan.updates + k, float(ledger.clock.count))
            if ledger.clock.traced:
                head.tensor[plan.updates + k].add_(ledger.clock.ticks.to(self.device))
        in_numpy = [ledger.flats_in_numpy() or {} for ledger in self.ledgers]
        if plan.faults:
            self._put_faults(head, in_numpy)
        for k, group, place, _ in plan.packed:
            head.put_flat(place, self.ledgers[k].flats[group], in_numpy[k].get(group))
        if plan.columns is not None:  # the others add zeros to it
            start = plan.columns + self.channel.rank * plan.width
            head.tensor[start : start + plan.width] = torch.cat([as_floats(x) for x in self._gatherable()])
        return head

    def _put_faults(self, head: Head, in_numpy: list[dict[Group, Any]]) -> None:
        """How many faults of each sort, and where there are any in which update the first was."""
        plan, flats = self.plan, [ledger.flats for ledger in self.ledgers]
        mine = 1 + self.channel.rank % max(plan.buckets, 1)
        if head.tensor.is_cpu and all(in_numpy):  # mostly nothing, and then nothing is written
            for row, (k, _, (counts, place), (firsts, first)) in enumerate(plan.faults):
                if found := int(in_numpy[k][counts][place]):
                    start = plan.table + row * (1 + plan.buckets)
                    head.put(start, found)
                    if plan.buckets:
                        head.put(start + mine, int(in_numpy[k][firsts][first]) + _ONE)
            return
        table = head.tensor[plan.table : plan.known].view(len(plan.faults), -1)
        count = torch.stack([flats[k][group][start] for k, _, (group, start), _ in plan.faults])
        table[:, 0] = count
        if plan.buckets:
            earliest = torch.stack([flats[k][group][start] for k, _, _, (group, start) in plan.faults])
            table[:, mine] = torch.where(count > 0, earliest + _ONE, 0)

    def _joined(self, group: Group, ks: list[int]) -> Tensor:
        flats = [self.ledgers[k].flats[group] for k in ks]
        return flats[0].to(self.device, copy=True) if len(flats) == 1 else torch.cat(flats).to(self.device)

    def _gatherable(self) -> list[Tensor]:
        parts = [self.ledgers[k].flats[group] for k, group in self.plan.gathered]
        parts += [getattr(self.ledgers[k].views()[i], name) for k, i, name in self.plan.merged_slots(self.ledgers)]
        return [x.to(self.device) for x in parts]

    def _payload(self) -> Tensor:
        """Samples and users' states as bytes: the length of a description, the description, and the samples' memory."""
        pieces: list[Tensor] = []
        runs = []
        for ledger in self.ledgers:
            for place in ledger.sampled:
                samples = [x.contiguous() for x in ledger.samples[place]]
                runs.append(_runs(samples))
                pieces += samples
        description = pickle.dumps((runs, self.states))
        lead = torch.frombuffer(bytearray(len(description).to_bytes(8, "little") + description), dtype=torch.uint8).to(self.device)
        return torch.cat([lead, *(_bytes(x.to(self.device)) for x in pieces)])

    def _largest(self, wire: Wire, known: list[float], payload: Tensor) -> Any:
        """How many bytes each rank has, and the most."""
        if self.plan.sizes is not None:
            sizes = [int(x) for x in known[self.plan.sizes : self.plan.sizes + self.channel.world]]
        else:
            rows, work = wire.all_gather(torch.tensor([payload.numel()], device=self.device))
            yield work
            sizes = rows.flatten().tolist()
        return max(sizes), sizes

    def _all_apart(self, wire: Wire) -> Steps:
        assert self.apart is not None
        ledgers = self.apart(self.ledgers)
        plan = Plan(ledgers, self.channel.world, self.states is not None)
        again = Reduction(self.channel, plan, Layout(self.layout.title, self.layout.lines, "apart"), ledgers, self.states, None, self.aside, self.closed)
        make = yield from again.steps(wire)

        def totals() -> Totals:
            found: Totals = make()
            found.apart = True
            return found

        return totals

    # ---- what comes back
    def _totals(self, head: Head, known: list[float], big: list[Any], rows: Tensor | None, sizes: list[int], fixed: int) -> Totals:
        plan = self.plan
        flats: list[dict[Group, Tensor]] = [{} for _ in self.ledgers]
        for k, group, place, size in plan.packed:
            flats[k][group] = head.flat(place, size, group[0])
        for group, ks, joined in big:
            for k, flat in zip(ks, joined.split([self.ledgers[k].sizes[group] for k in ks])):
                flats[k][group] = flat if len(ks) == 1 else flat.clone()
        states: list[list[Any]] = []
        pieces: list[list[list[Tensor]]] = []  # by rank, by sampled slot
        merged: dict[tuple[int, int, str], Tensor] = {}
        if rows is not None or plan.columns is not None:
            ranks = self._by_rank(head, rows)
            for k, group in plan.gathered:
                found = next(ranks)
                flats[k][group] = found.amax(0) if group[1] == "max" else found.amin(0)
            for slot in plan.merged_slots(self.ledgers):
                merged[slot] = next(ranks)
        if rows is not None and sizes:
            for row, size in zip(rows[:, fixed:].unbind(), sizes):
                unpacked, theirs = _unpacked(row[:size])
                pieces.append(unpacked)
                states.append(theirs)
        out = [self._ledger(k, flats[k], merged, pieces) for k in range(len(self.ledgers))]
        for k, ledger in enumerate(out):
            ledger.clock.load(int(known[plan.updates + k]))
        width = 1 + plan.buckets
        for n, (k, which, _, _) in enumerate(plan.faults):
            start = plan.table + n * width
            out[k].known[which] = int(known[start]), _first(known[start + 1 : start + width])
        for (k, j), rows_of_j in plan.told.items():
            if not any([known[plan.table + n * width] for n in rows_of_j]):
                out[k].quiet |= {j}
        return Totals(out, states, False)

    def _by_rank(self, head: Head, rows: Tensor | None) -> Iterator[Tensor]:
        """Each part of what was gathered, the ranks' one a row."""
        plan, at = self.plan, 0
        end = 0 if plan.columns is None else plan.columns + self.channel.world * plan.width
        columns = None if plan.columns is None else head.tensor[plan.columns : end].view(-1, plan.width)
        for mine in self._gatherable():
            if columns is not None:
                size = mine.numel() * (1 if mine.dtype.is_floating_point else 2)
                found = from_floats(columns[:, at : at + size], mine.dtype)
            else:
                assert rows is not None
                size = mine.numel() * mine.element_size()
                found = _typed(rows[:, at : at + size], mine.dtype)
            at += size
            yield found.view(-1, *mine.shape)

    def _ledger(self, k: int, flats: dict[Group, Tensor], merged: dict[Any, Tensor], pieces: list[list[list[Tensor]]]) -> Ledger:
        mine = self.ledgers[k]
        before = sum(len(ledger.sampled) for ledger in self.ledgers[:k])
        samples = {place: [x for rank in pieces for x in rank[before + n]] for n, place in enumerate(mine.sampled)}
        home = self.device if self.aside else mine.device
        with ordinary():
            total = mine.twin({g: flats.get(g, flat).to(home) for g, flat in mine.flats.items()}, samples, home, self.closed)
        if home != self.device:
            total.samples = {place: [x.to(home) for x in found] for place, found in samples.items()}
        for i in [i for kk, i in self.plan.merged if kk == k]:
            statistic = mine.keys[i][0]
            names = [name for kk, ii, name in self.plan.merged_slots(self.ledgers) if (kk, ii) == (k, i)]
            into = total.views()[i]
            for rank in range(self.channel.world):
                theirs = Slots(None, mine.clock)
                for name in names:
                    setattr(theirs, name, merged[k, i, name][rank].to(home))
                if rank:
                    statistic.merge(into, theirs)
                else:
                    for name in names:
                        getattr(into, name).copy_(getattr(theirs, name))
        return total

    # ---- when ranks differ
    def _refuse(self, wire: Wire, error: Exception) -> Steps:
        """Tell the others, who would wait for ever, that this rank cannot give its totals: perhaps there is no memory left to copy them."""
        head = self.layout.head(self.device)
        head.tensor[1].add_(1)  # a digest that nobody has
        head = yield from _of_all(wire, head)
        what = f"not readable there ({type(error).__name__}: {error})"
        lines = [(name, what) for name, _ in self.layout.lines]
        raise RankError(f"{self.layout.title}: {self._differences(wire, head.known(FIXED), lines)}") from error

    def _differences(self, wire: Wire, known: list[float], lines: list[tuple[str, str]]) -> str:
        """Who holds what, exchanged where the ranks met: their collectives can no longer be trusted to match."""
        channel, store = self.channel, self.channel.store()
        wire.refused += 1
        incident = hashlib.blake2b(repr(known[:FIXED]).encode(), digest_size=8).hexdigest()  # the same on all ranks
        key = f"torchtally/{channel.name}/{type(wire).__name__}/{wire.refused}/{incident}"
        store.set(f"{key}/{channel.rank}", pickle.dumps(lines))
        ranks = [f"{key}/{r}" for r in range(channel.world)]
        try:
            store.wait(ranks)
        except RuntimeError:
            return (
                "ranks hold different metrics. Construct them alike, in the same order, on every rank. This rank holds:\n"
                + self.layout.text
            )
        return differences([pickle.loads(store.get(name)) for name in ranks])


def _of_all(wire: Wire, mine: Head) -> Generator[Any, None, Head]:
    """The heads of all ranks, added up."""
    sum_or_rows, work = wire.total(mine.tensor)
    yield work
    return mine if sum_or_rows is mine.tensor else Head(sum_or_rows.numpy().sum(0))


def differences(layouts: list[list[tuple[str, str]]]) -> str:
    """An error's text: which metrics differ, and on which ranks."""
    by_text: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for rank, lines in enumerate(layouts):
        by_text.setdefault(tuple(lines), []).append(rank)
    common = max(by_text, key=lambda lines: len(by_text[lines]))
    said = []
    for found, ranks in by_text.items():
        if found == common:
            continue
        usual, here = dict(common), dict(found)
        told = [f"{n} is {here[n]} (elsewhere {usual[n]})" for n in here if n in usual and here[n] != usual[n]]
        told += [f"{n} is {here[n]} (elsewhere missing)" for n in here if n not in usual]
        told += [f"{n} is missing (elsewhere {usual[n]})" for n in usual if n not in here]
        told = told or [f"the order is {', '.join(here)} (elsewhere {', '.join(usual)})"]
        said.append(f"on {_named(ranks)}: {'; '.join(told)}")
    return (
        f"ranks hold different metrics or read different ones at the same time: {'. And '.join(said)}. "
        "Construct them alike, in the same order, and read them in the same order on every rank; nothing was reduced."
    )


def _named(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def _first(table: list[float]) -> int:
    """The first update with a fault. Exact unless ranks share an entry; of those that do, their mean is taken."""
    found = [(int(x) & (_ONE - 1)) // (int(x) >> 40) for x in table if x]
    return min(found, default=_NEVER)


def _bytes(x: Tensor) -> Tensor:
    return x.detach().contiguous().view(-1).view(torch.uint8)


def _typed(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows of bytes as rows of numbers, in memory of their own, since a view must be aligned."""
    return rows.clone(memory_format=torch.contiguous_format).view(dtype)


Run = tuple[torch.dtype, tuple[int, ...], int]


def _runs(pieces: list[Tensor]) -> list[Run]:
    """Dtype and shape of tensors, and how many in a row are alike."""
    runs: list[Run] = []
    for x in pieces:
        shape = tuple(x.shape)
        if runs and runs[-1][:2] == (x.dtype, shape):
            runs[-1] = (x.dtype, shape, runs[-1][2] + 1)
        else:
            runs.append((x.dtype, shape, 1))
    return runs


def _unpacked(row: Tensor) -> tuple[list[list[Tensor]], Any]:
    """What one rank has to say."""
    length = int.from_bytes(bytes(row[:8].tolist()), "little")
    described, states = pickle.loads(bytes(row[8 : 8 + length].cpu().numpy().tobytes()))
    at, found = 8 + length, []
    for runs in described:
        pieces: list[Tensor] = []
        for dtype, shape, count in runs:
            size = count * torch.Size(shape).numel() * dtype.itemsize
            block = row[at : at + size].clone().view(dtype).view(count, *shape)
            pieces += block.unbind()
            at += size
        found.append(pieces)
    return found, states
