"""Counts in which elements have weights: sums in float64, each of a cell that cannot be negative."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, note
from ..kernels import add_on_device, add_on_host
from ..refusal import check_plain
from ..statistic import Input, Piece, Slot, Slots, host_visible
from .class_counts import ClassCounts, Counts, Hits, Labels, is_label
from .confusion import Confusion
from .decisions import Decisions, LabelCounts, joined

FAULTS = {"bad_weight": Slot(), "first_bad_weight": Slot(combine="min")}


class WeightedCounts(Counts):
    """Counts made of their four cells: nothing is a difference, so what is 0 is 0 whatever was rounded."""

    def __init__(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor, averaged: Tensor | None = None) -> None:
        super().__init__(tp, tp + fp, tp + fn, tp + fp + fn + tn, averaged)
        self.__dict__.update(
            fp=fp,
            fn=fn,
            tn=tn,
            negative=fp + tn,
            unpredicted=fn + tn,
            union=tp + fp + fn,
            occurs=(tp + fp + fn).gt(0).double(),
        )

    def micro(self) -> Counts:
        return WeightedCounts(self.tp.sum(-1), self.fp.sum(-1), self.fn.sum(-1), self.tn.sum(-1))


def others(x: Tensor) -> Tensor:
    """Of each element of the last dimension, the sum of all others, without subtracting."""
    none = x.new_zeros(*x.shape[:-1], 1)
    before = torch.cat([none, x[..., :-1].cumsum(-1)], -1)
    after = torch.cat([none, x.flip(-1)[..., :-1].cumsum(-1)], -1).flip(-1)
    return before + after


# ---- inputs
def floating(slots: dict[str, Slot]) -> dict[str, Slot]:
    """The same slots for sums of weights."""
    return {name: Slot(slot.shape, torch.float64, slot.combine) for name, slot in slots.items()}


def like(weight: Any, target: Tensor, rows: tuple[int, ...] | None = None) -> Tensor:
    """Weights in the shape of the target, or of what it has a row for each of; 1 where none are given."""
    shape = target.shape if rows is None else rows
    if weight is None:
        return target.new_ones(shape, dtype=torch.float64)
    if not isinstance(weight, Tensor) or weight.is_complex():
        found = f"dtype {weight.dtype}" if isinstance(weight, Tensor) else f"type {type(weight).__name__}"
        raise ValueError(f"weight has {found}; expected a tensor of numbers, one for each sample or element.")
    check_plain("weight", weight)
    if weight.shape == shape:
        return weight
    if weight.ndim == 1 and len(shape) > 1 and len(weight) == shape[0]:
        return weight.reshape(-1, *[1] * (len(shape) - 1)).expand(shape)
    shapes = f"{tuple(shape)}" if len(shape) < 2 else f"{tuple(shape[:1])} or {tuple(shape)}"
    what = f" but target has {tuple(target.shape)}; expected {shapes}" if rows is None else f"; expected {shapes}, one for each row"
    raise ValueError(f"weight has shape {tuple(weight.shape)}{what}.")


def possible(weight: Any) -> Any:
    return (weight >= 0) & (weight < inf)


def taken(strict: bool, weight: Tensor) -> Tensor:
    """Weights in float64: on the host in memory of their own, checked; as they are where only a device knows them."""
    cast = weight.to(torch.float64)
    return torch.from_numpy(of_host(strict, cast.numpy(), None, cast is not weight)) if host_visible(cast) else cast


def of_host(strict: bool, weight: np.ndarray, live: np.ndarray | None, own: bool = False) -> np.ndarray:
    """Weights in memory of their own (as they are, if it is that), checked where elements are live (None: all) and 0 where they are not."""
    array = weight if own else np.array(weight)
    if live is None and array.size and array.min() >= 0 and array.max() < inf:
        return array
    usable = possible(array)
    if live is not None:
        usable |= ~live
        array = np.where(live, array, 0.0)
    if not usable.all():
        if strict:
            at = tuple(int(i) for i in np.argwhere(~usable)[0])
            raise FaultError(f"weight is {array[at]} at {at}; expected finite numbers of at least 0.")
        array[~usable] = 0.0
    return array


def of_device(slots: Slots, weight: Tensor, live: Tensor | None, rows: int, first: Any) -> Tensor:
    """Weights in float64, 0 where elements are not live (None: all are) or the weight is impossible, which is noted: of `rows` updates."""
    usable = possible(weight)
    note(slots, (~usable if live is None else live & ~usable).reshape(rows, -1), first, "bad_weight")
    return weight.double().where(usable if live is None else live & usable, 0.0)


@dataclass(frozen=True)
class Weighed(Input):
    """What an input with weights counts besides: impossible ones."""

    def slots(self) -> dict[str, Slot]:
        return {**super().slots(), **FAULTS}

    def faults(self, slots: Slots) -> list[Fault]:
        problem, advice = "impossible weights (expected finite numbers of at least 0)", "Give elements that do not count a weight of 0."
        return [*super().faults(slots), Fault(slots.bad_weight, slots.first_bad_weight, problem, advice)]


@dataclass(frozen=True)
class WeighedAtOnce(Weighed):
    """An input of two tensors and weights that is settled as it comes; the weights are the last of its normal form."""

    def rows(self, right: Tensor) -> tuple[int, ...] | None:
        """What there is a weight for each of, by the second tensor: its rows, or (None) its elements."""
        return None

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        left, right, weight = (*batch, None)[:3]
        key, piece = super().take(strict, left, right)
        assert piece is not None
        return key, (*piece, taken(strict, like(weight, right, self.rows(right))))

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        (piece,) = pieces
        return (*super().settle(slots, [piece[:-1]], first), of_device(slots, piece[-1], None, 1, first))


@dataclass(frozen=True)
class WeightedLabels(Weighed, Labels):
    """Predicted and true classes, and the weight of each: float64, 0 on a device for what does not count."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, weight = (*batch, None)[:3]
        key, piece = super().take(strict, preds, target)
        weight = like(weight, target).to(torch.float64)
        if not isinstance(piece[0], np.ndarray):
            if strict and host_visible(weight, target):
                of_host(True, weight.numpy(), None if self.ignore is None else ~is_label(target, self.ignore).numpy())
            return key, (*piece, (weight.clone() if key is not None else weight).reshape(piece[1].shape))
        live = None if self.ignore is None else target.numpy() != self.ignore
        array = of_host(strict, weight.numpy(), live)
        return key, (*piece, array.reshape(-1) if live is None else array[live])

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        if isinstance(pieces[0][0], np.ndarray):
            return super().settle(slots, pieces, first)
        p, y = super().settle(slots, [piece[:-1] for piece in pieces], first)
        weight = self._together([piece[-1] for piece in pieces]).reshape(y.shape)
        return p, y, of_device(slots, weight, self.live(y), len(pieces), first)


@dataclass(frozen=True)
class WeightedDecisions(Weighed, Decisions):
    """Yes or no per label with weights: the normal form is the sums of the four cells `(4, L)`, or `(N, 4, L)` if `per_sample`."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, weight = (*batch, None)[:3]
        key, piece = super().take(strict, preds, target)
        weight = like(weight, target).to(torch.float64)
        if isinstance(piece[0], np.ndarray):
            return key, (*piece, of_host(strict, self._array(weight), piece[2]))
        return key, (*piece, self._rows(weight.clone() if key is not None else weight))

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        yes, true, live = self._elements(slots, pieces, first)
        axis = 1 if self.per_sample else 0
        if isinstance(yes, np.ndarray):
            weight = joined(tuple(piece[-1] for piece in pieces))
            return (np.stack([(weight * cell).sum(axis) for cell in _cells(yes, true)], -2),)
        weight = pieces[0][-1] if len(pieces) == 1 else torch.cat([piece[-1] for piece in pieces])
        weight = of_device(slots, weight, live, len(pieces), first)
        axes = (1,) if self.per_sample else (0, 1)
        return (torch.stack([(weight * cell).sum(axes) for cell in _cells(yes, true)], -2),)


def _cells(yes: Any, true: Any) -> tuple[Any, Any, Any, Any]:
    """Where decisions are true and false positives, false and true negatives."""
    return yes & true, yes & ~true, ~yes & true, ~(yes | true)


# ---- statistics
@dataclass(frozen=True)
class WeightedHits(Hits):
    """The weight of labels predicted right, and of those predicted wrong (per sample: a row of both)."""

    def slots(self) -> dict[str, Slot]:
        if self.input.per_sample:
            return {"rows": Slot((2,), torch.float64, "cat")}
        return {"hit": Slot(dtype=torch.float64), "miss": Slot(dtype=torch.float64)}

    def lane(self) -> None:
        return None

    def update(self, slots: Slots, *normal: Any) -> None:
        p, y, weight = normal
        right = p == y
        if isinstance(p, np.ndarray):
            slots.hit.add_(float(weight[right].sum()))
            slots.miss.add_(float(weight[~right].sum()))
            return
        hit, miss = weight.where(right, 0.0), weight.where(~right, 0.0)
        if self.input.per_sample:
            slots.rows.append(torch.stack([hit.sum(1), miss.sum(1)], 1))
            return
        slots.hit.add_(hit.sum())
        slots.miss.add_(miss.sum())

    def totals(self, slots: Slots) -> Counts:
        hit, miss = _rows(slots, 2).unbind(1) if self.input.per_sample else (slots.hit.clone(), slots.miss.clone())
        classes = nan if self.input.classes is None else self.input.classes
        return WeightedCounts(hit, miss, miss, miss * (classes - 2) + hit * (classes - 1))  # summed over all classes


@dataclass(frozen=True)
class WeightedClassCounts(ClassCounts):
    """Per class: the weight of hits, of other predictions and of other targets (per sample: three vectors a sample)."""

    def slots(self) -> dict[str, Slot]:
        classes = self.input.classes or 0
        if self.input.per_sample:
            return {"rows": Slot((3, classes), torch.float64, "cat")}
        return {"counts": Slot((3, classes + 2), torch.float64)}

    def update(self, slots: Slots, *normal: Any) -> None:
        p, y, weight = normal
        right = p == y
        if isinstance(p, np.ndarray):
            wrong = ~right
            missed = weight[wrong]
            hit, fp, fn = slots.counts.numpy()
            add_on_host(hit, y[right], weight[right])
            add_on_host(fp, p[wrong], missed)
            add_on_host(fn, y[wrong], missed)
        elif self.input.per_sample:
            slots.rows.append(self._weigh(p, y, weight, right))
        else:
            self._scatter(slots.counts.unbind(), p, y, weight, right)

    @staticmethod
    def _scatter(counts: tuple[Tensor, ...], p: Tensor, y: Tensor, weight: Tensor, right: Tensor) -> None:
        hit, fp, fn = counts
        missed = weight.where(~right, 0.0)
        add_on_device(hit, y, weight.where(right, 0.0))
        add_on_device(fp, p, missed)
        add_on_device(fn, y, missed)

    def _weigh(self, p: Tensor, y: Tensor, weight: Tensor, right: Tensor) -> Tensor:
        n, size = len(y), (self.input.classes or 0) + 2
        counts = weight.new_zeros(3, n * size)
        start = torch.arange(n, device=y.device)[:, None] * size
        self._scatter(counts.unbind(), (p + start).flatten(), (y + start).flatten(), weight.flatten(), right.flatten())
        return counts.view(3, n, size)[:, :, :-2].transpose(0, 1)

    def totals(self, slots: Slots) -> Counts:
        classes = self.input.classes or 0
        if self.input.per_sample:
            hit, fp, fn = _rows(slots, 3, classes).unbind(1)
        else:
            hit, fp, fn = slots.counts.narrow(1, 0, classes).clone().unbind()
        negative, unpredicted = others(hit + fn), others(hit + fp)
        tn = torch.where(negative < unpredicted, negative - fp, unpredicted - fn).clamp(min=0)  # the smaller has the smaller error
        return WeightedCounts(hit, fp, fn, tn, self._averaged(hit.device))


@dataclass(frozen=True)
class WeightedLabelCounts(LabelCounts):
    """The weight of true positives, false positives, false negatives and true negatives of each label (of the one, if binary)."""

    def slots(self) -> dict[str, Slot]:
        return floating(super().slots())

    def totals(self, slots: Slots) -> Counts:
        labels = self.input.labels
        cells = _rows(slots, 4, labels or 1) if self.input.per_sample else slots.counts.clone()
        return WeightedCounts(*(cells.unbind(-2) if labels is not None else cells[..., 0].unbind(-1)))


@dataclass(frozen=True)
class WeightedConfusion(Confusion):
    """The confusion matrix of weights: rows are true classes, columns predictions."""

    def slots(self) -> dict[str, Slot]:
        return {"matrix": Slot((self._size, self._size), torch.float64)}

    def lane(self) -> None:
        return None

    def update(self, slots: Slots, *normal: Any) -> None:
        p, y, weight = normal
        if isinstance(p, np.ndarray):
            add_on_host(slots.matrix.view(-1).numpy(), np.multiply(y, self._size, dtype=np.intp) + p, weight)
        else:
            add_on_device(slots.matrix.view(-1), p.add(y, alpha=self._size), weight)


def _rows(slots: Slots, *shape: int) -> Tensor:
    """All samples in one tensor."""
    none = torch.zeros(0, *shape, dtype=torch.float64, device=slots.rows[0].device if slots.rows else None)
    return torch.cat([*slots.rows, none])
