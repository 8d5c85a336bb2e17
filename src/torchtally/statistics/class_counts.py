"""Counts of right and wrong class labels, per class."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arithmetic import at_least, at_most, not_zero
from ..faults import Fault, FaultError, note
from ..kernels import (
    add_on_device,
    channel_argmax,
    count_on_device,
    count_on_host,
    count_pairs_on_host,
    in_top_k,
    in_top_k_on_host,
    row_argmax,
)
from ..lazy import Once
from ..refusal import check_labels, misshapen
from ..statistic import Input, Number, Piece, Slot, Slots, Statistic, host_visible, may_wait

SMALL_HOST = 1024
SMALL_DEVICE = 16384
"""Batches of up to this many labels wait as copies and are counted many at a time."""

SMALL_TABLE = 1 << 16
"""On the CPU counts of classes come from one table of pairs of up to this size, if there are as many labels."""

UNBOUND = 1 << 62
"""Above all labels, where the number of classes is not known."""

UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}

_ADVICE = "Pass ignore_index for a padding label, or check num_classes."


Amount = Any
"""A tensor, or where the totals are on the host a NumPy array or number."""


class Counts:
    """What formulas over classes see, float64, classes last: `tp` hits, `predicted` and `actual` positives, `seen` elements in all.

    What several formulas want is computed once. `seen` None: each element has one target. `averaged` tells which classes may enter an
    average (None: all).
    """

    def __init__(self, tp: Amount, predicted: Amount, actual: Amount, seen: Amount | None = None, averaged: Amount | None = None) -> None:
        self.tp, self.predicted, self.actual, self.averaged = tp, predicted, actual, averaged
        if seen is not None:
            self.seen = seen

    seen = Once(lambda self: self.actual.sum(-1, keepdims=True))
    fp = Once(lambda self: self.predicted - self.tp)
    fn = Once(lambda self: self.actual - self.tp)
    tn = Once(lambda self: self.seen - self.predicted - self.actual + self.tp)
    involved = Once(lambda self: self.predicted + self.actual)
    negative = Once(lambda self: self.seen - self.actual)
    unpredicted = Once(lambda self: self.seen - self.predicted)
    union = Once(lambda self: self.involved - self.tp)
    occurs = Once(lambda self: at_most(self.involved, 1))  # 1 for a class that was predicted or is there
    occurring = Once(lambda self: at_least(not_zero(self.involved), 1))  # at least 1: where no class occurs, sums are 0

    beyond_chance = Once(lambda self: beyond_chance(self.tp.sum(), self.predicted, self.actual))

    def micro(self) -> Counts:
        """Summed over the classes."""
        seen = 0 * self.tp + self.seen  # of each class
        return Counts(self.tp.sum(-1), self.predicted.sum(-1), self.actual.sum(-1), seen.sum(-1))


def beyond_chance(hit: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
    """By how much hits are more than if predictions did not depend on targets, times the number of all; the classes lie in one dimension."""
    return hit * actual.sum() - (predicted * actual).sum()


def is_label(y: Tensor, label: int) -> Tensor:
    """Where `y` is `label`: nowhere if its dtype does not reach so far, where torch would compare with what is left of the label."""
    if y.dtype is not torch.bool and not torch.iinfo(y.dtype).min <= label <= torch.iinfo(y.dtype).max:
        return torch.zeros_like(y, dtype=torch.bool)
    return y.eq(label)


@dataclass(frozen=True)
class Labels(Input):
    """Predicted and true classes, from scores `(N, C, ...)` or labels `(N, ...)`, and labels `(N, ...)`.

    The normal form is two equally long rows of labels. On the CPU, NumPy arrays of the elements that count. On a device, tensors in
    which an element that does not count has target C and prediction C + 1, two spare bins (UNBOUND for an unknown C). `per_sample`
    keeps a row for each sample.
    With `top_k` above 1 the prediction is the target where that is among the k highest scores, else the highest.
    """

    classes: int | None
    ignore: int | None = None
    top_k: int = 1
    per_sample: bool = False

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min")}

    def faults(self, slots: Slots) -> list[Fault]:
        expected = "non-negative labels" if self.classes is None else f"labels 0..{self.classes - 1}"
        return [Fault(slots.bad, slots.first_bad, f"impossible (expected {expected} and scores without NaN)", _ADVICE)]

    def _bound(self, preds: Tensor, scored: bool) -> int:
        return self.classes if self.classes is not None else preds.shape[1] if scored else UNBOUND

    def live(self, y: Tensor) -> Tensor:
        """Which elements of a device's normal form count, by their target."""
        return y.lt(UNBOUND if self.classes is None else self.classes)

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        shape, given = target.shape, preds.shape
        usual = target.dtype is torch.int64 and preds.dtype is torch.float32 and given == (*shape, self.classes) and len(shape) == 1
        if usual and not self.per_sample and host_visible(preds, target):
            return self._take_on_host(strict, preds, target, True)  # without the longer way to the same
        check_labels(preds, target)
        scored = len(given) == len(shape) + 1
        if scored:
            if not shape or given[0] != shape[0] or given[2:] != shape[1:] or (self.classes is not None and given[1] != self.classes):
                raise misshapen(preds, target, self.classes)
            if not preds.is_floating_point():
                raise ValueError(
                    f"preds has shape {tuple(given)} and dtype {preds.dtype}; expected floating-point scores, or labels shaped as target."
                )
            if self.top_k > given[1]:
                raise ValueError(f"top_k is {self.top_k} but preds has only {given[1]} classes.")
        elif given != shape or preds.is_floating_point():
            raise misshapen(preds, target, self.classes)
        elif self.top_k > 1:
            raise ValueError(
                f"preds has dtype {preds.dtype}; expected floating-point scores of shape (N, C, ...), since top_k is {self.top_k}."
            )
        if self.per_sample:
            if not shape:
                raise ValueError("target is a scalar; expected (N, ...), one row a sample, since multidim_average is 'samplewise'.")
            if len(shape) == 1:  # samples of one element each
                preds, target = preds.unsqueeze(-1), target.unsqueeze(-1)
            return self._take_on_device(strict, preds, target, scored)
        if len(shape) != 1:
            taken = self._take_images(preds, target) if scored else None
            if taken is not None:
                return taken
            preds = preds.movedim(1, -1).reshape(-1, given[1]) if scored else preds.reshape(-1)
            target = target.reshape(-1)
        if host_visible(preds, target):
            return self._take_on_host(strict, preds, target, scored)
        return self._take_on_device(strict, preds, target, scored)

    # ---- the CPU form
    def _take_on_host(self, strict: bool, preds: Tensor, target: Tensor, scored: bool) -> tuple[Hashable, Piece]:
        y = target.numpy()
        waits = len(y) <= SMALL_HOST  # what waits needs memory of its own
        if scored:
            p, nan_row = row_argmax(preds) if len(y) else (np.empty(0, np.int64), None)
        else:
            p, nan_row = preds.numpy(), None
            p = p.astype(np.int64, copy=waits)
        y = y.astype(np.int64, copy=waits)
        keep = None
        if self.ignore is not None:
            keep = y != self.ignore
            if not keep.all():
                p, y = p[keep], y[keep]
                if nan_row is not None:  # NaN scores of an ignored row are no fault
                    nan_row = row_argmax(preds[torch.from_numpy(keep)])[1] if len(y) else None
        bound = self.classes or self._bound(preds, scored)
        if len(y):
            if nan_row is not None or _out_of_range(y, bound) or (not scored and _out_of_range(p, bound)):
                if strict:
                    raise self._impossible(y, None if scored else p, bound, nan_row)
                return self._take_on_device(strict, preds, target, scored)
            if self.top_k > 1:
                scores = (preds.float() if preds.dtype in (torch.bfloat16, torch.float16) else preds).numpy()
                p = np.where(in_top_k_on_host(scores if keep is None else scores[keep], y, self.top_k), y, p)
        return "host" if waits else None, (p, y)

    def _take_images(self, preds: Tensor, target: Tensor) -> tuple[Hashable, Piece] | None:
        """The labels of large images in bytes; None for smaller ones, and where something is wrong that the usual way will tell."""
        if self.top_k > 1 or not host_visible(preds, target):
            return None
        p = channel_argmax(preds)
        if p is None:
            return None
        y = target.numpy().reshape(-1)
        if self.ignore is not None:
            keep = y != self.ignore
            if not keep.all():
                p, y = p[keep], y[keep]
        if len(y) and _out_of_range(y, preds.shape[1]):
            return None
        return None, (p, y.astype(np.uint8, copy=False))

    def _impossible(self, y: np.ndarray, p: np.ndarray | None, bound: int, nan_row: int | None) -> FaultError:
        for name, labels in (("target", y), ("preds", p)):
            if labels is not None and _out_of_range(labels, bound):
                return FaultError(f"{name} has labels from {labels.min()} to {labels.max()}; expected 0..{bound - 1}. {_ADVICE}")
        return FaultError(f"preds has NaN in row {nan_row}; expected numbers.")

    # ---- the device form
    def _take_on_device(self, strict: bool, preds: Tensor, target: Tensor, scored: bool) -> tuple[Hashable, Piece]:
        best = None
        if scored:
            best, p = preds.max(1) if preds.numel() > 0 else (preds.new_empty(target.shape), target.new_empty(target.shape))
            if self.top_k > 1:
                flat = preds.movedim(1, -1).reshape(-1, preds.shape[1])
                y = target.reshape(-1).long().clamp(0, preds.shape[1] - 1)
                p = torch.where(in_top_k(flat, y, self.top_k).view(target.shape), target, p)
        else:
            p = preds
        bound = self._bound(preds, scored)
        if self.per_sample and host_visible(preds, target):
            self._check_per_sample(strict, p, target, best, bound)
        if target.numel() > SMALL_DEVICE or self.per_sample or not may_wait(target):
            return None, (p, target, best, bound)
        own = target.to(torch.int64, copy=True)
        return (target.shape, scored, bound), (p if scored else p.to(torch.int64, copy=True), own, best, bound)

    def _check_per_sample(self, strict: bool, p: Tensor, target: Tensor, best: Tensor | None, bound: int) -> None:
        if not strict:
            return
        wrong = target.lt(0) | target.ge(bound) | p.lt(0) | p.ge(bound)
        if best is not None:
            wrong |= best.isnan()
        if self.ignore is not None:
            wrong &= ~is_label(target, self.ignore)
        if wrong.numpy().any():
            where = tuple(wrong.nonzero()[0].tolist())
            raise FaultError(f"target or preds is impossible at {where}; expected labels 0..{bound - 1} and scores without NaN. {_ADVICE}")

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        if isinstance(pieces[0][0], np.ndarray):
            if len(pieces) == 1:
                return pieces[0]
            return tuple(np.concatenate(column) for column in zip(*pieces))
        bound = pieces[0][3]
        p, y, best = (self._together([piece[c] for piece in pieces]) for c in range(3))
        p, y = p.long(), y.long()
        bad = y.lt(0) | y.ge(bound)
        if best is not None:
            bad = bad | best.isnan()
        else:
            bad = bad | p.lt(0) | p.ge(bound)
        out = bad
        if self.ignore is not None:
            ignored = y.eq(self.ignore)
            bad = bad & ~ignored
            out = bad | ignored
        note(slots, bad[None] if len(pieces) == 1 else bad, first)
        spare = UNBOUND if self.classes is None else bound
        y, p = y.masked_fill(out, spare), p.masked_fill(out, spare + 1)
        if self.per_sample:
            return p.flatten(1), y.flatten(1)
        return p.reshape(-1), y.reshape(-1)

    @staticmethod
    def _together(column: list[Any]) -> Any:
        return column[0] if len(column) == 1 else None if column[0] is None else torch.stack(column)


def _out_of_range(labels: np.ndarray, bound: int) -> bool:
    return bool(np.maximum.reduce(labels.view(UNSIGNED[labels.itemsize])) >= bound)  # a negative label is a huge unsigned one


@dataclass(frozen=True)
class Hits(Statistic):
    """How many labels were predicted right, and how many there were (per sample: a row of both)."""

    input: Labels

    def slots(self) -> dict[str, Slot]:
        if self.input.per_sample:
            return {"rows": Slot((2,), combine="cat")}
        return {"hit": Slot(), "seen": Slot()}

    def lane(self) -> list[int] | None:
        return None if self.input.per_sample else [0, 0]

    def drain(self, host: list[int]) -> dict[str, Number]:
        drained: dict[str, Number] = {"hit": host[0], "seen": host[1]} if host[1] else {}
        host[:] = 0, 0
        return drained

    def update(self, slots: Slots, *normal: Any) -> None:
        p, y = normal
        if isinstance(p, np.ndarray):
            slots.host[0] += int(np.count_nonzero(p == y))
            slots.host[1] += len(y)
            return
        hit, live = p.eq(y), self.input.live(y)
        if self.input.per_sample:
            slots.rows.append(torch.stack([hit.sum(1), live.sum(1)], 1))
            return
        slots.hit.add_(hit.sum())
        slots.seen.add_(live.sum())

    def totals(self, slots: Slots) -> Counts:
        if self.input.per_sample:
            rows = torch.cat([*slots.rows, torch.zeros(0, 2, dtype=torch.int64, device=slots.rows[0].device if slots.rows else None)])
            hit, seen = rows.double().unbind(1)
        else:
            hit, seen = slots.hit.double(), slots.seen.double()
        classes = nan if self.input.classes is None else self.input.classes
        return Counts(hit, seen, seen, seen * classes)  # over all classes, each element is one prediction and one target

    def numbers(self, slots: Slots) -> Counts | None:
        if self.input.per_sample:
            return None
        hit, seen = np.float64(slots.hit), np.float64(slots.seen)
        return Counts(hit, seen, seen, seen * (nan if self.input.classes is None else self.input.classes))


@dataclass(frozen=True)
class ClassCounts(Statistic):
    """Per class: hits, predictions and targets, in three vectors (per sample: three vectors a sample)."""

    input: Labels

    def slots(self) -> dict[str, Slot]:
        classes = self.input.classes or 0
        if self.input.per_sample:
            return {"rows": Slot((3, classes), combine="cat")}
        return {"counts": Slot((3, classes + 2))}  # two spare bins, for what does not count

    def update(self, slots: Slots, *normal: Any) -> None:
        p, y = normal
        if self.input.per_sample:
            slots.rows.append(self._rows(p, y))
        elif isinstance(p, np.ndarray):
            hit, predicted, actual = slots.counts.numpy()
            classes = self.input.classes or 0
            if classes * classes <= min(len(y), SMALL_TABLE):
                table = count_pairs_on_host(y, p, classes)
                hit[:classes] += table.diagonal()
                predicted[:classes] += table.sum(0)
                actual[:classes] += table.sum(1)
                return
            count_on_host(hit, y[p == y])
            count_on_host(predicted, p)
            count_on_host(actual, y)
        else:
            hit, predicted, actual = slots.counts.unbind()
            count_on_device(predicted, p)
            count_on_device(actual, y)
            add_on_device(hit, y, p.eq(y).long())

    def _rows(self, p: Tensor, y: Tensor) -> Tensor:
        classes = self.input.classes or 0
        counts = y.new_zeros(3, len(y), classes + 2)
        one = y.new_ones(()).expand(y.shape)
        counts[0].scatter_add_(1, y, p.eq(y).long())
        counts[1].scatter_add_(1, p, one)
        counts[2].scatter_add_(1, y, one)
        return counts[:, :, :classes].transpose(0, 1)

    def totals(self, slots: Slots) -> Counts:
        classes = self.input.classes or 0
        if self.input.per_sample:
            rows = torch.cat(
                [*slots.rows, torch.zeros(0, 3, classes, dtype=torch.int64, device=slots.rows[0].device if slots.rows else None)]
            )
            hit, predicted, actual = rows.double().unbind(1)
        else:
            hit, predicted, actual = slots.counts.double().narrow(1, 0, classes).unbind()
        return Counts(hit, predicted, actual, None, self._averaged(hit.device))

    def numbers(self, slots: Slots) -> Counts | None:
        classes, ignore = self.input.classes or 0, self.input.ignore
        if self.input.per_sample:
            return None
        hit, predicted, actual = slots.counts[:, :classes].astype(np.float64)
        averaged = None if ignore is None or not 0 <= ignore < classes else np.arange(classes) != ignore
        return Counts(hit, predicted, actual, None, averaged)

    def _averaged(self, device: torch.device) -> Tensor | None:
        ignore, classes = self.input.ignore, self.input.classes or 0
        if ignore is None or not 0 <= ignore < classes:
            return None
        return torch.arange(classes, device=device).ne(ignore)  # an ignored class is in no average
