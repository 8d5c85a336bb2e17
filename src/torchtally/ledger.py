"""The memory of a metric or a collection: one flat buffer per dtype and combination, and what waits to join it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .buffers import IN_NUMPY, Group, buffer, combine, lay_out, ordinary, strides
from .clock import STILL, Clock
from .faults import Fault
from .guard import follow, stream_of
from .outside import CAPTURED, UNTRACED, enrol, keep, meet
from .saving import check_whole
from .statistic import Input, Number, Piece, Slots, Statistic, neutral
from .statistics.averages import ScalarRows
from .transfer import to_host
from .valid import Unseen

Key = tuple[Statistic, tuple[str, ...]]
"""A statistic and the batch entries it is fed: equal keys share their totals."""

ROOM = 64
"""How many small pieces may wait before they are settled together."""


def _bytes(piece: Piece) -> int:
    return 1 + sum(x.nbytes for x in piece if isinstance(x, Tensor | np.ndarray))


class Line:
    """Pieces of one input and successive updates that wait to be settled together; the first of them came with update `first`."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.key: Hashable = None
        self.first = 0
        self.room = ROOM  # for how many of them


_NOT_KEPT = ("_views", "_flats_in_numpy", "_views_in_numpy", "_receivers", "_scratch", "reduced", "stream", "number")


class Ledger:
    """Owner of the totals: flat buffers, lanes of host numbers, waiting pieces, samples, and the only cache of views of them.

    Views are dropped whenever a buffer is replaced, pickled or copied, so nothing outside can go on writing to old memory.
    """

    followed: frozenset[int] = frozenset()
    """The inputs from whose batches autograd follows to the slots."""

    closed = False
    """Whether nothing is added any more, so that nothing can wait to join the buffers: totals of all ranks."""

    quiet: frozenset[int] = frozenset()
    """The inputs of such totals that kept nothing out, as far as the host knows."""

    def __init__(self, keys: Iterable[Key] = (), device: torch.device | str = "cpu") -> None:
        self.keys: list[Key] = list(keys)
        self.inputs: list[tuple[Input, tuple[str, ...]]] = list(dict.fromkeys((s.input, entries) for s, entries in self.keys))
        self.feeds = [[i for i, (s, e) in enumerate(self.keys) if (s.input, e) == pair] for pair in self.inputs]
        self._input_of = {i: j for j, feeds in enumerate(self.feeds) for i in feeds}
        self.strict = [True] * len(self.inputs)
        self.parts: list[Statistic | Input] = [s for s, _ in self.keys] + [i for i, _ in self.inputs]
        # What a collection and its members keep here about sharing; see collection.py.
        self.shared = False
        self.left = self.members = self.emptied = self.generation = 0
        self.device = torch.device(device)
        if self.device.type == "cuda" and self.device.index is None and torch.cuda.is_available():
            self.device = torch.device("cuda", torch.cuda.current_device())
        self.on_cpu = self.device.type == "cpu"
        self.stream = stream_of(self.device)  # that used the totals last
        self.place, self.sizes, self.sampled = lay_out(self.parts)
        self.counts = [[n for n, slot in i.slots().items() if slot.combine == "sum"] for i, _ in self.inputs]  # what inputs count: faults
        self.neutrals = {(dtype, how): neutral(how, dtype) for dtype, how in self.sizes}
        with torch.inference_mode(False):
            self.flats = {g: buffer(size, g, self.device) for g, size in self.sizes.items()}
            self.clock = Clock(self.device)
        self.samples: dict[tuple[int, str], list[Tensor]] = {place: [] for place in self.sampled}
        self.lanes = [s.lane() for s, _ in self.keys]
        self.lines = [Line() for _ in self.inputs]
        self.rows: dict[ScalarRows, Line] = {}
        self.unseen: list[tuple[Unseen, list[tuple[int, tuple[int, ...]]]]] = []
        self.known: dict[tuple[int, int], tuple[int, int]] = {}  # of totals over all ranks: counts and first updates of each input's faults
        self._drop()

    # ---- views
    def _drop(self) -> None:
        self._views: list[Slots] | None = None
        self._flats_in_numpy: dict[Group, np.ndarray] | None = None
        self._views_in_numpy: list[Slots] | None = None
        self._receivers: list[list[tuple[Statistic, Slots]]] = []
        self._scratch: Ledger | None = None
        self.reduced: Any = None
        self.number = 0  # of one whose compiled updates do something outside of their graphs, see outside.py
        if torch.compiler.is_compiling():
            if self.sampled:
                raise RuntimeError(UNTRACED)
        elif self.sampled or not self.on_cpu:
            self.number = enrol(self)

    def __getstate__(self) -> dict[str, Any]:
        self.fold()
        return {k: v for k, v in self.__dict__.items() if k not in _NOT_KEPT}

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        new = memo[id(self)] = Ledger.__new__(type(self))
        with torch.inference_mode(False):
            new.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return new

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_whole("Metric", state, _kept())
        self.__dict__.update(state)
        self.stream = stream_of(self.device)
        self._drop()

    def views(self, without_samples: bool = False) -> list[Slots]:
        """The slots of every part: the statistics in order of `keys`, then the inputs. `without_samples` begins new lists of them, in a trace."""
        if not torch.compiler.is_compiling() and self._views is not None:  # in this order: a trace must not depend on the cache
            return self._views
        if self.sampled and not without_samples and torch.compiler.is_compiling():
            raise RuntimeError(UNTRACED)  # what graphs appended before is not in the lists yet
        views = [Slots(self.lanes[i] if i < len(self.lanes) else None, self.clock) for i in range(len(self.parts))]
        if self.on_cpu and not torch.compiler.is_compiling() and not torch.is_inference_mode_enabled():
            for (i, name), (group, start, shape) in self.place.items():  # as below, in a third of the time
                setattr(views[i], name, self.flats[group].as_strided(shape, strides(shape), start))
        else:
            with torch.inference_mode(False):
                for (i, name), (group, start, shape) in self.place.items():
                    setattr(views[i], name, self.flats[group].narrow(0, start, prod(shape)).view(shape))
        for i, name in self.sampled:
            setattr(views[i], name, [] if without_samples else self.samples[i, name])
        if not torch.compiler.is_compiling():
            self._views = views
            self._receivers = [[(self.keys[i][0], views[i]) for i in feeds] for feeds in self.feeds]
        return views

    def flats_in_numpy(self) -> dict[Group, np.ndarray] | None:
        """The buffers as NumPy sees them; None on a device, in a trace, and where it knows no such numbers."""
        if torch.compiler.is_compiling() or not self.on_cpu:
            return None
        if self._flats_in_numpy is None and all([type(x) is Tensor and x.dtype in IN_NUMPY for x in self.flats.values()]):
            self._flats_in_numpy = {group: x.numpy() for group, x in self.flats.items()}
        return self._flats_in_numpy

    def views_in_numpy(self) -> list[Slots] | None:
        """The slots of every part that are no samples, as NumPy sees them."""
        flats = self.flats_in_numpy()
        if flats is None:
            return None
        if self._views_in_numpy is None:
            views = self._views_in_numpy = [Slots(None, self.clock) for _ in self.parts]
            for (i, name), (group, start, shape) in self.place.items():
                setattr(views[i], name, flats[group][start : start + prod(shape)].reshape(shape))
        return self._views_in_numpy

    def column(self, parts: Sequence[int], name: str) -> Tensor | None:
        """The same scalar slot of several parts as one view, if they lie side by side in this order."""
        places = [self.place[i, name] for i in parts]
        group, start, _ = places[0]
        if any(p != (group, start + k, ()) for k, p in enumerate(places)):
            return None
        return self.flats[group].narrow(0, start, len(places))

    def input_of(self, i: int) -> int:
        """The input of statistic `i`."""
        return self._input_of[i]

    def members_of(self, keys: Iterable[Key]) -> list[int]:
        """Places of some keys."""
        return [self.keys.index(k) for k in keys]

    # ---- streams
    def meet(self) -> None:
        """Order what the device is asked next after what other streams were asked to do with the totals. To be called before they are used."""
        if torch.compiler.is_compiling():
            if self.number and not self.on_cpu:
                meet(self)
        elif self.stream is not None:
            self.stream = follow(self.stream, self.device, self._held)

    def _held(self) -> list[Any]:
        """All memory on the device that holds totals, or what waits to join them."""
        waiting = [line.pieces for line in (*self.lines, *self.rows.values())]
        return pytree.tree_leaves(
            [
                list(self.flats.values()),
                self.clock.ticks,
                list(self.samples.values()),
                waiting,
                [unseen.values for unseen, _ in self.unseen],
            ]
        )

    # ---- adding
    def accept(self, j: int, values: Iterable[Any], name: str) -> None:
        """Raise where a tensor of a batch for input `j` lies on another device."""
        cpu = self.on_cpu
        for x in values:
            if isinstance(x, Tensor) and not (x.is_cpu if cpu else x.device == self.device):
                if self.inputs[j][0].host_values and x.is_cpu:
                    continue
                raise ValueError(
                    f"{name} is on {self.device} but was given a tensor on {x.device}. "
                    f"Move the metric with .to({str(x.device)!r}) before the first update, or the tensor with .to({str(self.device)!r})."
                )

    def now(self, compiling: bool) -> Any:
        """The number of the update under way."""
        return self.clock.count + 1 if self.on_cpu and not compiling else self.clock.now

    def add(self, j: int, key: Hashable, piece: Piece | None, now: Any = None) -> None:
        """Add a piece taken by input `j` for the update under way, number `now`."""
        if piece is None:
            return
        if key is None:
            self._settle(j, [piece], self.clock.now if now is None else now)
            return
        line = self.lines[j]
        pieces = line.pieces
        if (
            not pieces or line.key != key or line.first + len(pieces) != self.clock.count + 1
        ):  # only pieces of successive updates wait together
            self._settle_line(j)
            pieces, line.key, line.first = line.pieces, key, self.clock.count + 1
            line.room = min(ROOM, self.inputs[j][0].waiting_bytes // _bytes(piece))
        pieces.append(piece)
        if len(pieces) >= line.room:
            self._settle_line(j)

    def add_row(self, rows: ScalarRows, row: Tensor) -> None:
        """Add device scalars of several averages, stacked, for the update under way."""
        line = self.rows.get(rows)
        if line is None:
            line = self.rows[rows] = Line()
        if line.pieces and (line.key != row.dtype or line.first + len(line.pieces) != self.clock.count + 1):
            self._settle_rows(rows)
        if not line.pieces:
            line.key, line.first = row.dtype, self.clock.count + 1
        line.pieces.append((row,))
        if len(line.pieces) >= ROOM:
            self._settle_rows(rows)

    def _settle_rows(self, rows: ScalarRows) -> None:
        line = self.rows[rows]
        if line.pieces:
            pieces, line.pieces = line.pieces, []
            rows.settle(self, pieces, line.first)

    def _settle_line(self, j: int) -> None:
        line = self.lines[j]
        if line.pieces:
            pieces, line.pieces = line.pieces, []
            self._settle(j, pieces, line.first)

    def _settle(self, j: int, pieces: list[Piece], first: Any) -> None:
        if isinstance(first, int):
            self.settle_into(self.views() if self._views is None else self._views, j, pieces, first)
            return
        # A trace, whose numbers are tensors, must not depend on the cache, nor on lists that grow: it would be compiled again each time.
        views = self.views(torch.compiler.is_compiling())
        kept = [(i, [name for part, name in self.sampled if part == i]) for i in self.feeds[j]]
        if not torch.compiler.is_compiling() and any([names for _, names in kept]):
            raise RuntimeError(CAPTURED)
        self.settle_into(views, j, pieces, first)
        if torch.compiler.is_compiling():
            for i, names in kept:
                keep(self, i, {name: getattr(views[i], name) for name in names})

    def settle_into(self, slots: list[Slots], j: int, pieces: list[Piece], first: Any) -> None:
        """Add pieces of input `j` to these slots of all parts."""
        input_ = self.inputs[j][0]
        normal = input_.settle(slots[len(self.keys) + j], pieces, first)
        known = isinstance(first, int) and slots is self._views
        input_.feed(normal, self._receivers[j] if known else [(self.keys[i][0], slots[i]) for i in self.feeds[j]])

    def wait_for(self, mask: Tensor, values: Sequence[Any], takes: list[tuple[int, tuple[int, ...]]]) -> None:
        """Add a batch, given to inputs `takes`, when the mask of its rows has come to the host."""
        self.meet()
        self.unseen.append((Unseen(mask, values, self.clock.count + 1), takes))
        self.tick()
        while self.unseen and (self.unseen[0][0].here or len(self.unseen) > ROOM):
            self._see()

    def _see(self) -> None:
        """Add the oldest batch whose mask was on its way."""
        unseen, takes = self.unseen.pop(0)
        values, now = unseen.rows(), self.clock.count
        self.clock.count = unseen.update - 1
        try:
            for j, places in takes:
                self.add(j, *self.inputs[j][0].take(False, *(values[p] for p in places)))
                self._settle_line(j)
        finally:
            self.clock.count = now

    def tick(self, now: Any = None) -> None:
        """One more update, number `now`."""
        self.clock.tick(now)
        self.reduced = None

    @property
    def updates(self) -> int:
        return self.clock.updates

    def fold(self) -> None:
        """Let everything that waits join the buffers, so that they hold the totals."""
        if self.closed:
            return
        self.meet()
        if self.unseen or self.rows or any([line.pieces for line in self.lines]):
            with torch.no_grad():
                while self.unseen:
                    self._see()
                for j in range(len(self.lines)):
                    self._settle_line(j)
                for rows in self.rows:
                    self._settle_rows(rows)
        numbers: dict[Group, dict[int, Number]] = {}
        for i, lane in enumerate(self.lanes):
            if lane is None:
                continue
            statistic = self.keys[i][0]
            if statistic.pours:
                with torch.no_grad():
                    statistic.pour(self.views()[i])
            else:
                for name, value in statistic.drain(lane).items():
                    group, start, _ = self.place[i, name]
                    numbers.setdefault(group, {})[start] = value
        for (dtype, how), found in numbers.items():
            self._combine_numbers((dtype, how), found)

    def _combine_numbers(self, group: Group, found: dict[int, Number]) -> None:
        flat = self.flats[group]
        if flat.is_cpu and type(flat) is Tensor:
            values = flat.numpy()
            for start, value in found.items():
                if group[1] == "sum":
                    values[start] += value
                else:
                    values[start] = (np.maximum if group[1] == "max" else np.minimum)(values[start], value)
            return
        size, empty = max(found) + 1, self.neutrals[group]
        # From pinned memory, so that the copy need not wait for the device.
        part = torch.tensor([found.get(i, empty) for i in range(size)], dtype=group[0], pin_memory=flat.is_cuda)
        combine(group[1], flat[:size], part.to(self.device, non_blocking=True))

    # ---- whole ledgers
    def reset(self) -> None:
        self.meet()
        self.clock.reset()
        self.emptied, self.reduced = 0, None
        self.generation += 1
        for group, flat in self.flats.items():
            flat.fill_(self.neutrals[group])
        for pieces in self.samples.values():
            pieces.clear()
        for slots in self._views or ():
            slots.__dict__.pop("derived", None)  # what readers made of samples
        for line in [*self.lines, *self.rows.values()]:
            line.pieces = []
        self.unseen.clear()
        for (s, _), lane in zip(self.keys, self.lanes):
            if lane is not None:
                s.drain(lane)

    def to(self, device: torch.device) -> None:
        if self.device != device:
            if self.device.type == "meta":  # there is nothing to move: start empty
                empty = Ledger(self.keys, device)
                self.flats, self.samples, self.clock = empty.flats, empty.samples, empty.clock
            else:
                self.fold()
                self._replace(lambda x: x.to(device))
            self.device, self.on_cpu, self.stream = device, device.type == "cpu", stream_of(device)
            self._drop()

    def _replace(self, copy: Callable[[Tensor], Tensor]) -> None:
        """New buffers in place of the old."""
        with torch.inference_mode(False), torch.no_grad():
            self.flats = {g: copy(flat) for g, flat in self.flats.items()}
            self.clock.ticks = copy(self.clock.ticks)
            self.samples = {p: [copy(x) for x in pieces] for p, pieces in self.samples.items()}

    def scratch(self) -> Ledger:
        """An empty ledger of the same layout: what one batch adds."""
        if self.sampled and torch.compiler.is_compiling():
            raise RuntimeError(UNTRACED)
        if self._scratch is None:
            self._scratch = Ledger(self.keys, self.device)
        self._scratch.strict = self.strict
        self._scratch.reset()
        self._scratch.clock.count = self.clock.count  # faults are numbered by the updates of this ledger
        return self._scratch

    def scratch_in_use(self) -> Ledger:
        """The ledger that `scratch` last gave, with what was added to it."""
        assert self._scratch is not None
        return self._scratch

    def absorb(self, other: Ledger, updates: int | None = None) -> None:
        """Combine with what a ledger of the same layout has seen: `updates` more updates (all of its own if None)."""
        other = other.settled()
        other.fold()
        self.fold()
        mine, theirs = self.views(), other.views()
        together = {i: [(n, getattr(mine[i], n).clone()) for n in s.slots()] for i, (s, _) in enumerate(self.keys) if s.merges}
        for group, flat in self.flats.items():
            combine(group[1], flat, other.flats[group])
        for i, before in together.items():  # these do not combine slot by slot
            for name, value in before:
                getattr(mine[i], name).copy_(value)
            self.keys[i][0].merge(mine[i], theirs[i])
        for place, pieces in self.samples.items():
            pieces.extend(other.samples[place])
        self.clock.add(other.clock, updates)
        self.reduced = None

    def settled(self) -> Ledger:
        """The totals without the graph that led to them."""
        return self

    def part(self, indices: Iterable[int]) -> Ledger:
        """A ledger of its own with the totals of some statistics."""
        self.fold()
        indices = list(indices)
        new = Ledger([self.keys[i] for i in indices], self.device)
        pairs = list(enumerate(indices))
        pairs += [(len(indices) + j, len(self.keys) + self.inputs.index(pair)) for j, pair in enumerate(new.inputs)]
        new.strict = [self.strict[self.inputs.index(pair)] for pair in new.inputs]
        mine, theirs = self.views(), new.views()
        for j, i in pairs:
            for name, slot in self.parts[i].slots().items():
                if slot.combine == "cat":
                    getattr(theirs[j], name).extend(getattr(mine[i], name))
                else:
                    getattr(theirs[j], name).copy_(getattr(mine[i], name))
        new.clock.count, new.clock.traced = self.clock.count, self.clock.traced
        new.clock.ticks.copy_(self.clock.ticks)
        return new

    def copy(self) -> Ledger:
        """The same totals in memory of their own."""
        return self.part(range(len(self.keys)))

    def frozen(self) -> Ledger:
        """The totals as they are now, in memory of their own and with nothing waiting: a consistent cut."""
        self.fold()
        with torch.inference_mode(False), torch.no_grad():
            return self.twin({g: flat.clone() for g, flat in self.flats.items()}, {p: list(x) for p, x in self.samples.items()})

    def restore(self, kept: Ledger) -> None:
        """Back to the totals of an earlier `frozen()` of this ledger."""
        self.meet()
        with torch.no_grad():
            for group, flat in self.flats.items():
                flat.copy_(kept.flats[group])
        for place, pieces in self.samples.items():
            pieces[:] = kept.samples[place]
        for line in [*self.lines, *self.rows.values()]:
            line.pieces = []
        for (s, _), lane in zip(self.keys, self.lanes):
            if lane is not None:
                s.drain(lane)
        self.clock.count = kept.clock.count
        self.reduced = None

    def on_host(self) -> tuple[Ledger, list[Any]]:
        """A consistent cut on its way to the host, without waiting, and events that say when it is there."""
        if self.on_cpu:
            return self.frozen(), []
        self.fold()
        places = [(p, len(pieces)) for p, pieces in self.samples.items()]
        with torch.inference_mode(False), torch.no_grad():
            leaves, events = to_host([*self.flats.values(), *(x for pieces in self.samples.values() for x in pieces)])
        found = iter(leaves)
        flats = {g: next(found) for g in self.flats}
        return self.twin(flats, {p: [next(found) for _ in range(n)] for p, n in places}, torch.device("cpu")), events

    def twin(
        self,
        flats: dict[Group, Tensor],
        samples: dict[tuple[int, str], list[Tensor]],
        device: torch.device | None = None,
        closed: bool = False,
    ) -> Ledger:
        """A ledger of the same layout with these totals, which lie on `device` (None: on ours). `closed`: nobody adds to it."""
        new = Ledger.__new__(Ledger)
        new.__dict__.update(self.__dict__)
        if device is not None:
            new.device, new.on_cpu, new.stream = device, device.type == "cpu", stream_of(device)
        new.flats, new.samples, new.known, new.unseen = flats, samples, {}, []
        new.lanes, new.lines, new.rows = [s.lane() for s, _ in self.keys], [Line() for _ in self.inputs], {}
        new.closed = closed
        with ordinary():
            new.clock = Clock(new.device, STILL if closed and new.on_cpu else None)
            new.clock.count, new.clock.traced = self.clock.count, self.clock.traced and not closed
            if new.clock.traced and new.device == self.device:  # elsewhere it would have to be waited for, and only updates want it
                new.clock.ticks.copy_(self.clock.ticks)
        new._drop()
        return new

    # ---- faults
    def faults_of(self, j: int) -> list[Fault]:
        """What was wrong with the values of input `j`; nothing where nobody asks."""
        if not self.strict[j] or j in self.quiet:
            return []
        part = len(self.keys) + j
        in_numpy = None if self.known else self.views_in_numpy()
        if in_numpy is not None and not any([getattr(in_numpy[part], n) for n in self.counts[j]]):
            return []
        slots = self.views()[part]
        found = self.inputs[j][0].faults(slots)
        if not self.known:
            return found
        told = [(fault, *self.known.get((j, n), (None, None))) for n, fault in enumerate(found)]  # some the host has read already
        return [f if n is None else replace(f, count=torch.tensor(n), first=torch.tensor(first)) for f, n, first in told if n != 0]

    def faults(self, indices: Iterable[int] | None = None) -> list[Fault]:
        """What was wrong with values of the inputs of some statistics (all, if None)."""
        wanted = None if indices is None else {(s.input, e) for s, e in (self.keys[i] for i in indices)}
        return [f for j, pair in enumerate(self.inputs) if wanted is None or pair in wanted for f in self.faults_of(j)]


@functools.cache
def _kept() -> frozenset[str]:
    """What a pickle holds."""
    return frozenset(Ledger().__getstate__())
