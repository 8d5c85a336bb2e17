"""Moments of predictions and targets together: all that squared errors, explained variance and correlation need."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..lazy import Once
from ..statistic import Input, Number, Piece, Slot, Slots, Statistic
from .pairs import Block, Paired, Pairs, check_pair

ROWS = 9
"""Of a table of moments: count; pivot of predictions and of targets; mean beyond the pivot of each; sum of squared deviations of each;
sum of products of deviations; sum of squared errors. One column an output.

A pivot is 0 or a value that occurred. What is far from zero is first taken relative to it, which costs no digits.
"""


class Moments:
    """What formulas see: `(outputs,)` or, of one output, scalars."""

    def __init__(self, table: Tensor) -> None:
        self.table = table.squeeze(-1) if table.shape[-1] == 1 else table

    count = Once(lambda self: self.table[0])
    mean_target = Once(lambda self: self.table[2] + self.table[4])
    gap = Once(lambda self: (self.table[1] - self.table[2]) + (self.table[3] - self.table[4]))  # of the means
    preds = Once(lambda self: self.table[5])
    target = Once(lambda self: self.table[6])
    joint = Once(lambda self: self.table[7])
    squared_error = Once(lambda self: self.table[8])
    pairs = Once(lambda self: self.table[0])  # how many there are
    freedom = Once(lambda self: self.table[0] - 1)  # what sums of squared deviations are divided by for a variance


def grown(a: Any, n: Any, p: Any, t: Any, pp: Any, tt: Any, pt: Any, ee: Any) -> list[Any]:
    """A table with `n` more pairs, whose means beyond the same pivots are `p` and `t` (Chan, Golub, LeVeque 1983).

    Works on rows that are Python numbers, arrays or tensors alike.
    """
    count = a[0] + n
    share = n / count
    by_p, by_t, weight = p - a[3], t - a[4], a[0] * share
    return [
        count,
        a[1],
        a[2],
        a[3] + by_p * share,
        a[4] + by_t * share,
        a[5] + pp + by_p * by_p * weight,
        a[6] + tt + by_t * by_t * weight,
        a[7] + pt + by_p * by_t * weight,
        a[8] + ee,
    ]


def merged(a: Tensor, b: Tensor) -> Tensor:
    """Two tables as one; each may be empty, and their pivots may differ."""
    none = a[0] == 0
    a = torch.where(none, torch.stack([a[0], b[1], b[2], *a[3:]]), a)
    count = torch.where(b[0] == 0, 1.0, b[0])
    p, t = (b[1] - a[1]) + b[3], (b[2] - a[2]) + b[4]
    more = [x + y for x, y in zip(a[ROWS:], b[ROWS:])]
    return torch.where(b[0] == 0, a, torch.stack([*grown(a, count, p, t, b[5], b[6], b[7], b[8]), *more]))


def _table_on_host(table: np.ndarray, block: Block) -> None:
    rows, e, n, each, total = list(table), block.error, block.count, block.each, block.total
    if rows[0][0] == 0:
        rows[1], rows[2] = ((x[:, 0] if block.across else x[0]).copy() for x in (block.preds, block.target))
    p, t = block.preds - each(rows[1]), block.target_beyond(each(rows[2]))
    mean_p, mean_t = total(p) / n, total(t) / n
    p -= each(mean_p)
    t -= each(mean_t)
    products = [total(x * y) for x, y in ((p, p), (t, t), (p, t), (e, e))]
    table[:] = grown(rows, n, mean_p, mean_t, *products)


def column_on_host(rows: list[float], block: Block, mass: float) -> list[float]:
    """The same for one output, whose table is a row of numbers. `mass` is how much the pairs count in all: how many there are, or their weight."""
    e = block.error
    ee = float((e * block.weight if block.weighted else e).dot(e))
    found = None
    if rows[1] == rows[2]:
        found = _by_errors(block, block.target_beyond(rows[2]) if rows[2] else block.target, mass, ee)
    if found is None and rows[0] == 0:
        near_p, near_t = _near_mean(block.preds), _near_mean(block.target)
        found = _by_errors(block, block.target - near_t, mass, ee)
        rows[1:3] = near_p if found is None else near_t, near_t
    if found is None:
        found = _by_predictions(block, block.preds - rows[1], block.target - rows[2], mass)
    return grown(rows, mass, *found, ee)


def _near_mean(x: np.ndarray) -> float:
    """The number nearest to the mean."""
    return float(x[np.abs(x - x.mean()).argmin()])


LOSS = 1 / 256
"""What may be left of a sum of squares when the square of the mean is taken off: a loss of eight bits of 53."""


def _by_errors(block: Block, t: np.ndarray, mass: float, ee: float) -> tuple[float, float, float, float, float] | None:
    """Means of predictions and targets beyond a pivot of both, squared deviations and products, from targets and errors: the least work.

    None where that would lose too many digits: the pivot is far off, predictions hardly vary, or are far from the targets.
    """
    mean_t, mean_e, tt, by_t, by_et = _one_pass(block, t, block.error, mass)
    by_p = (ee - mass * mean_e * mean_e) + 2 * by_et + by_t
    if by_t > LOSS * tt and by_p > LOSS * (ee + tt):
        return mean_t + mean_e, mean_t, by_p, by_t, by_et + by_t
    return None


def _by_predictions(block: Block, p: np.ndarray, t: np.ndarray, mass: float) -> tuple[float, float, float, float, float]:
    """The same from predictions and targets, each beyond a pivot of its own."""
    pp = float((p * block.weight if block.weighted else p).dot(p))
    mean_t, mean_p, tt, by_t, by_pt = _one_pass(block, t, p, mass)
    by_p = pp - mass * mean_p * mean_p
    if by_t > LOSS * tt and by_p > LOSS * pp:
        return mean_p, mean_t, by_p, by_t, by_pt
    mean_p, mean_t = (float(x.mean()) if not block.weighted else mean for x, mean in ((p, mean_p), (t, mean_t)))
    p, t = p - mean_p, t - mean_t
    weighed_p, weighed_t = (x * block.weight if block.weighted else x for x in (p, t))
    return mean_p, mean_t, float(weighed_p.dot(p)), float(weighed_t.dot(t)), float(weighed_p.dot(t))


def _one_pass(block: Block, t: np.ndarray, x: np.ndarray, mass: float) -> tuple[float, float, float, float, float]:
    """Means of both, the sum of squares of the first, that of its deviations, and the products of the deviations of both."""
    weight = block.weight
    weighed = t * weight if block.weighted else t
    mean_t, mean_x, tt = float(t.dot(weight)) / mass, float(x.dot(weight)) / mass, float(weighed.dot(t))
    return mean_t, mean_x, tt, tt - mass * mean_t * mean_t, float(weighed.dot(x)) - mass * mean_x * mean_t


def _table_on_device(table: Tensor, preds: Tensor, target: Tensor) -> Tensor:
    n, outputs = len(preds), table.shape[1]
    preds, target = preds.reshape(n, outputs), target.reshape(n, outputs)
    pivots = torch.where(table[0] == 0, torch.stack([preds[0], target[0]]).detach(), table[1:3])
    p, t, error = preds - pivots[0], target - pivots[1], preds - target
    mean_p, mean_t = p.mean(0), t.mean(0)
    p, t = p - mean_p, t - mean_t
    a = [table[0], pivots[0], pivots[1], *table[3:]]
    return torch.stack(grown(a, n, mean_p, mean_t, (p * p).sum(0), (t * t).sum(0), (p * t).sum(0), (error * error).sum(0)))


def _by_group(tables: Tensor, place: Tensor, preds: Tensor, target: Tensor) -> Tensor:
    """Tables `(G, ROWS, outputs)` with the pairs of each; those whose place is G are left out, whatever they are."""
    groups, _, outputs = tables.shape
    n = len(place)
    preds, target = preds.reshape(n, outputs), target.reshape(n, outputs)

    def summed(x: Tensor) -> Tensor:
        return x.new_zeros(groups + 1, *x.shape[1:]).index_add_(0, place, x)

    def spread(x: Tensor) -> Tensor:
        return torch.cat([x, torch.zeros_like(x[:1])])[place]  # of each group, to its pairs

    a = list(tables.unbind(1))
    first = place.new_full((groups + 1,), n - 1).scatter_reduce_(0, place, torch.arange(n, device=place.device), "amin")[:groups]
    none = a[0] == 0
    pivot_p, pivot_t = torch.where(none, preds[first], a[1]), torch.where(none, target[first], a[2])
    count = summed(torch.ones_like(preds))[:groups]
    some = count.clamp(min=1)
    p, t, error = preds - spread(pivot_p), target - spread(pivot_t), preds - target
    mean_p, mean_t = summed(p)[:groups] / some, summed(t)[:groups] / some
    p, t = p - spread(mean_p), t - spread(mean_t)
    products = [summed(x)[:groups] for x in (p * p, t * t, p * t, error * error)]
    found = torch.stack(grown([a[0], pivot_p, pivot_t, *a[3:]], count, mean_p, mean_t, *products), 1)
    return torch.where(count[:, None].eq(0), tables, found)


@dataclass(frozen=True)
class PairMoments(Statistic):
    """Count, means, squared deviations and their products of predictions and targets, and squared errors, per output."""

    outputs: int = 1

    @property
    def input(self) -> Pairs:  # type: ignore[override]
        return Pairs(self.outputs)

    height: ClassVar[int] = ROWS

    def slots(self) -> dict[str, Slot]:
        return {"moments": Slot((self.height, self.outputs), torch.float64)}

    def lane(self) -> list[float] | None:
        return [0.0] * self.height if self.outputs == 1 else None

    def drain(self, host: list[float]) -> dict[str, Number]:
        host[:] = [0.0] * self.height
        return {}

    def pour(self, slots: Slots) -> None:
        if slots.host is not None and slots.host[0]:
            waiting = slots.moments.new_tensor(slots.host)[:, None]
            slots.moments.copy_(waiting if slots.moments.numpy()[0, 0] == 0 else merged(slots.moments.clone(), waiting))
            self.drain(slots.host)

    def update(self, slots: Slots, *normal: Any) -> None:
        if len(normal) == 1:
            block, rows = normal[0], slots.host
            if not block.count:
                return
            if rows is None:
                self.add_block(slots.moments.numpy(), block)
                return
            if not rows[0]:  # the lane goes on from the slot, and leaves it empty
                rows[:] = slots.moments.numpy()[:, 0].tolist()
                slots.moments.zero_()
            rows[:] = self.column(rows, block)
        elif len(normal[0]) > 0:
            # On a copy, so that autograd may keep what it needs.
            slots.moments.copy_(self.added(slots.moments.clone(), *normal))

    added: ClassVar[Callable[..., Tensor]] = staticmethod(_table_on_device)
    add_block: ClassVar[Callable[..., None]] = staticmethod(_table_on_host)

    @staticmethod
    def column(rows: list[float], block: Block) -> list[float]:
        return column_on_host(rows, block, block.count)

    def merge(self, slots: Slots, other: Slots) -> None:
        slots.moments.copy_(merged(slots.moments.clone(), other.moments))

    def update_groups(self, slots: Slots, place: Tensor, *normal: Any) -> None:
        preds, target = (normal[0].preds.double(), normal[0].target.double()) if len(normal) == 1 else normal
        if len(preds):
            place = place.repeat_interleave(len(preds) // len(place))  # of one output, the positions of a row count as pairs
            slots.moments.copy_(_by_group(slots.moments, place, preds, target))

    def totals(self, slots: Slots) -> Moments:
        return Moments(slots.moments)


@dataclass(frozen=True)
class Columns(Paired):
    """Pairs `(N,)`, of which nothing is wanted, or `(N, D)` with any number of outputs D; the normal form has two dimensions."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece | None]:
        preds, target = batch
        if preds.ndim == 1:
            return None, None  # `Pairs`, which is always fed the same, says what is wrong with them
        check_pair(preds, target)
        if preds.ndim != 2:
            raise ValueError(f"preds and target have shape {tuple(preds.shape)}; expected (N,) or (N, outputs). Flatten both.")
        return None, None if preds.shape[1] == 1 else (preds, target)


@dataclass(frozen=True)
class WideMoments(Statistic):
    """Pair moments of several outputs, however many the first batch has; nothing of one output.

    Kept as at most one row, since the number of outputs is not known when the ledger is laid out, or ever on a rank without data.
    """

    input = Columns()

    def slots(self) -> dict[str, Slot]:
        return {"rows": Slot(dtype=torch.float64, combine="cat")}

    height: ClassVar[int] = ROWS
    seen_as: ClassVar[type[Moments]] = Moments
    added: ClassVar[Callable[..., Tensor]] = staticmethod(_table_on_device)
    add_block: ClassVar[Callable[..., None]] = staticmethod(_table_on_host)

    def update(self, slots: Slots, *normal: Any) -> None:
        block = normal[0] if len(normal) == 1 else None
        (count, outputs), device = ((block.count, block.outputs), None) if block else (normal[0].shape, normal[0].device)
        rows = slots.rows
        table = torch.zeros(self.height, outputs, dtype=torch.float64, device=device)
        if rows and rows[-1].shape[1] == self.height * outputs:
            table = rows.pop().view(self.height, outputs).clone()
        if not count:
            pass  # all that is known is how many outputs there are
        elif block:
            self.add_block(table.numpy(), block)
        else:
            table = self.added(table, *normal)
        rows.append(table.view(1, -1))

    def tidy(self, slots: Slots) -> None:
        if [x.shape for x in slots.rows[:-1]] == [slots.rows[-1].shape]:
            slots.rows[:] = [merged(*(x.view(self.height, -1) for x in slots.rows)).view(1, -1)]

    def totals(self, slots: Slots) -> Moments | None:
        rows = [x.view(self.height, -1) for piece in slots.rows for x in piece]
        if not rows:
            return None
        widths = sorted({x.shape[1] for x in rows})
        if len(widths) > 1:
            raise ValueError(f"batches had {widths} outputs; expected the same number in each. Reset the metric and use one for each.")
        total = rows[0]
        for row in rows[1:]:
            total = merged(total, row)
        return self.seen_as(total)


@dataclass(frozen=True)
class OneColumn(Input):
    """Only a check: pairs `(N,)` or `(N, 1)`. Always fed along with pairs that are added."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece | None]:
        preds, target = batch[:2]  # whatever weights they have
        if preds.ndim == 1:
            return None, None
        check_pair(preds, target)
        if preds.ndim > 2 or (preds.ndim == 2 and preds.shape[1] != 1):
            raise ValueError(
                f"preds and target have shape {tuple(preds.shape)}; expected (N,). Pass num_outputs={preds.shape[-1]} for a value per column."
            )
        return None, None


@dataclass(frozen=True)
class Single(Statistic):
    """Remembers nothing; refuses batches of several outputs, which would be flattened otherwise."""

    input = OneColumn()

    def slots(self) -> dict[str, Slot]:
        return {}

    def update(self, slots: Slots, *normal: Any) -> None:
        pass


@dataclass(frozen=True)
class TargetRange(Statistic):
    """The smallest and the largest target, per output."""

    outputs: int = 1

    @property
    def input(self) -> Pairs:  # type: ignore[override]
        return Pairs(self.outputs)

    def slots(self) -> dict[str, Slot]:
        shape = () if self.outputs == 1 else (self.outputs,)
        return {"least": Slot(shape, torch.float64, "min"), "most": Slot(shape, torch.float64, "max")}

    def update(self, slots: Slots, *normal: Any) -> None:
        block = normal[0] if len(normal) == 1 else None
        target = torch.from_numpy(block.target) if block else normal[1]
        pairs = 1 if block and block.across else 0  # the dimension along which they lie
        if target.shape[pairs] > 0:
            least, most = self._ends(target, *([torch.from_numpy(block.weight)] if block and block.weighted else normal[2:]))
            slots.least.copy_(torch.minimum(slots.least.clone(), least.amin(pairs)))
            slots.most.copy_(torch.maximum(slots.most.clone(), most.amax(pairs)))

    @staticmethod
    def _ends(target: Tensor, *weight: Tensor) -> tuple[Tensor, Tensor]:
        """What is looked through for the smallest and for the largest."""
        return target, target
