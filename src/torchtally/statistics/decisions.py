"""Yes or no per label, and counts of right and wrong decisions: binary, and multilabel per label."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import inf, log
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, note
from ..refusal import check_labels, unequal
from ..statistic import Input, Piece, Slot, Slots, Statistic, host_visible, may_wait
from .class_counts import SMALL_DEVICE, UNSIGNED, Counts, is_label
from .readings import READINGS, improbable, mixed, note_readings, outside

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Decisions(Input):
    """Yes or no per label, from labels, probabilities or logits and a threshold; `labels` is None for binary.

    With `logits` None a batch of floating-point predictions with a value outside [0, 1] is taken for logits, otherwise they are what it says.
    The normal form is counts of hits, positive predictions, positive targets and all elements: an int64 NumPy array or tensor `(4, L)`, with
    samples before it `(N, 4, L)` if `per_sample`.
    """

    threshold: float = 0.5
    ignore: int | None = None
    labels: int | None = None
    per_sample: bool = False
    logits: bool | None = None

    def __post_init__(self) -> None:
        cuts = {d: (cut(self.threshold, d, False), cut(self.threshold, d, True)) for d in _FLOATS}
        object.__setattr__(self, "_cuts", cuts)  # not a field: it follows from the threshold

    _cuts: ClassVar[dict[torch.dtype, tuple[float, float]]]

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min"), **(READINGS if self.logits is None else {})}

    def faults(self, slots: Slots) -> list[Fault]:
        scores = "scores in [0, 1]" if self.logits is False else "scores without NaN"
        problem = f"impossible (expected targets 0 and 1 and {scores})"
        found = [Fault(slots.bad, slots.first_bad, problem, "Pass ignore_index for a padding label.")]
        return [*found, mixed(slots)] if self.logits is None else found

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        check_labels(preds, target)
        if preds.shape != target.shape:
            raise unequal(preds, target)
        if self.labels is not None and (target.ndim < 2 or target.shape[1] != self.labels):
            raise ValueError(f"target has shape {tuple(target.shape)}; expected (N, {self.labels}, ...), one column a label.")
        if self.per_sample and not target.ndim:
            raise ValueError("target is a scalar; expected (N, ...), one row a sample, since multidim_average is 'samplewise'.")
        if host_visible(preds, target):
            taken = self._take_on_host(strict, preds, target)
            if taken is not None:
                waits = not self.per_sample and taken[0].size <= SMALL_DEVICE
                return ("host", taken[2] is None) if waits else None, taken
        preds, target = self._rows(preds), self._rows(target)
        yes, wrong, logits = self._decide(preds)
        if target.numel() <= SMALL_DEVICE and not self.per_sample and may_wait(target):
            return target.shape, (yes, target.to(torch.int64, copy=True), wrong, logits)
        return None, (yes, target, wrong, logits)

    def _rows(self, x: Tensor) -> Tensor:
        """As `(N, M, L)`: samples, positions in a sample, labels."""
        n = x.shape[0] if x.ndim else 1
        if self.labels is None:
            return x.reshape(n, -1, 1) if x.numel() > 0 else x.reshape(n, 0, 1)
        return x.reshape(n, self.labels, -1).transpose(1, 2) if x.numel() > 0 else x.reshape(n, 0, self.labels)

    # ---- the CPU form
    def _take_on_host(self, strict: bool, preds: Tensor, target: Tensor) -> Piece | None:
        """Decisions, whether targets are yes, which elements count (None: all), and whether scores were taken for logits.

        Arrays `(R, L)`, or `(N, M, L)` if `per_sample`. None where the device form must tell what is wrong.
        """
        y, scores = self._array(target), self._array(preds)
        live = None if self.ignore is None else y != self.ignore
        logits = None
        if scores.dtype.kind == "f":
            decided = self._decide_on_host(strict, scores, live, preds.dtype)
            if decided is None:
                return None
            yes, logits = decided
        else:
            yes = scores == 1
        true = y == 1
        if y.size and not (_within_one(y) and (logits is not None or _within_one(scores))):
            impossible = ~(true | (y == 0))
            if scores.dtype.kind != "f":
                impossible |= ~(yes | (scores == 0))
            if live is not None:
                impossible &= live
            if impossible.any():
                return self._refuse(strict, impossible, lambda at: f"target {y[at]} with prediction {scores[at]}", "0 or 1")
        if logits is not None and live is not None and not live.any():
            logits = None
        return yes, true, live, logits if y.size else None

    def _decide_on_host(
        self, strict: bool, scores: np.ndarray, live: np.ndarray | None, dtype: torch.dtype
    ) -> tuple[np.ndarray, bool] | None:
        low, high = (scores.min(), scores.max()) if scores.size else (0.0, 0.0)
        if low != low:
            wrong = np.isnan(scores) if live is None else np.isnan(scores) & live
            if wrong.any():
                return self._refuse(strict, wrong, lambda at: "preds has NaN", "numbers")
            low, high = np.nanmin(scores, initial=0.0), np.nanmax(scores, initial=0.0)
        logits = bool(low < 0 or high > 1)
        if logits and self.logits is False:
            wrong = (scores < 0) | (scores > 1)
            wrong = wrong if live is None else wrong & live
            if wrong.any():
                return self._refuse(
                    strict, wrong, lambda at: f"preds has {scores[at]}", "probabilities in [0, 1], since from_logits is False"
                )
        return scores > self._cuts[dtype][logits if self.logits is None else self.logits], logits

    @staticmethod
    def _refuse(strict: bool, wrong: np.ndarray, found: Callable[[tuple[int, ...]], str], expected: str) -> None:
        if strict:
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise FaultError(f"{found(at)} at {at}, which is impossible; expected {expected}. Pass ignore_index for a padding label.")

    def _array(self, x: Tensor) -> np.ndarray:
        """Rows of labels: `(R, L)`, or `(N, M, L)` if `per_sample`."""
        array: np.ndarray = (x.float() if x.dtype in (torch.bfloat16, torch.float16) else x).numpy()
        if self.per_sample or (self.labels is not None and array.ndim > 2):
            array = self._rows(torch.from_numpy(array)).numpy()
            return array if self.per_sample else array.reshape(-1, array.shape[2])
        return array.reshape(-1, 1) if self.labels is None else array

    def _count(self, yes: np.ndarray, true: np.ndarray, live: np.ndarray | None) -> np.ndarray:
        """Hits, positive predictions, positive targets and all elements `(4, L)`, or `(N, 4, L)` if `per_sample`."""
        if live is not None:
            true, yes = true & live, yes & live
        if self.per_sample:
            rows = [x.sum(1) for x in (true & yes, yes, true)]
            rows.append(np.full_like(rows[0], yes.shape[1]) if live is None else live.sum(1))
            return np.stack(rows, -2)
        if yes.shape[1] == 1:
            seen = len(yes) if live is None else np.count_nonzero(live)
            return np.array([[np.count_nonzero(true & yes)], [np.count_nonzero(yes)], [np.count_nonzero(true)], [seen]])
        rows = [np.add.reduce(x, 0, np.int64) for x in (true & yes, yes, true)]
        rows.append(np.full_like(rows[0], len(yes)) if live is None else np.add.reduce(live, 0, np.int64))
        return np.stack(rows)

    # ---- the device form
    def _decide(self, preds: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The decisions; where a score is impossible (of labels: neither 0 nor 1); and, if that was decided, whether they are logits."""
        if not preds.is_floating_point():
            return preds.eq(1), preds.ne(0) & preds.ne(1), None
        probabilities, logits = self._cuts[preds.dtype]
        if self.logits is not None:
            return preds.gt(logits if self.logits else probabilities), preds.isnan() if self.logits else improbable(preds), None
        wrong = preds.isnan()
        if preds.numel() == 0:
            return wrong, wrong, None
        found = outside(preds)
        return preds.gt(torch.where(found, logits, probabilities).to(preds.dtype)), wrong, found

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        yes, true, live = self._elements(slots, pieces, first)
        if isinstance(yes, np.ndarray):
            return (self._count(yes, true, live),)
        axis = (1,) if self.per_sample else (0, 1)
        true, yes = true & live, yes & live
        hit, positive, predicted, total = ((true & yes).sum(axis), true.sum(axis), yes.sum(axis), live.sum(axis))
        return (torch.stack([hit, predicted, positive, total], -2),)

    def _elements(self, slots: Slots, pieces: list[Piece], first: Any) -> tuple[Any, Any, Any]:
        """Decisions, whether targets are yes, and which elements count (None: all), of all pieces. Counts what is impossible."""
        readings = [piece[3] for piece in pieces]
        if isinstance(pieces[0][0], np.ndarray):
            if self.logits is None:
                note_readings(slots, [x for x in readings if x is not None])
            yes, true, live = (joined(column) for column in list(zip(*pieces))[:3])
            return yes, true, live
        yes, target, wrong = pieces[0][:3] if len(pieces) == 1 else (torch.cat(column) for column in list(zip(*pieces))[:3])
        true = target.eq(1)
        bad = ~(true | target.eq(0)) | wrong
        live = ~bad
        if self.ignore is not None:
            counted = ~is_label(target, self.ignore)
            bad, live = bad & counted, live & counted
        note(slots, bad.reshape(len(pieces), -1), first)
        if self.logits is None:
            note_readings(slots, readings, None if self.ignore is None else live)
        return yes, true, live


def cut(threshold: float, dtype: torch.dtype, logits: bool) -> float:
    """The largest number of a dtype up to the threshold (of its logit), so that comparing in the dtype is comparing exactly."""
    t = float(threshold)
    if logits:
        t = -inf if t <= 0 else inf if t >= 1 else log(t / (1 - t))
    nearest = torch.tensor(t, dtype=dtype)
    if t in (inf, -inf) or float(nearest) <= t:
        return float(nearest)
    if dtype in (torch.float16, torch.bfloat16):  # torch.nextafter has no half-precision form: step the bits
        bits = nearest.view(torch.int16)
        return float((bits + (-1 if float(nearest) > 0 else 1)).to(torch.int16).view(dtype))
    return float(torch.nextafter(nearest, torch.tensor(-inf, dtype=dtype)))


def _within_one(labels: np.ndarray) -> bool:
    """Whether all are 0 or 1; a negative label is a huge unsigned one."""
    return bool(labels.view(UNSIGNED[labels.itemsize]).max() <= 1)


def joined(column: tuple[Any, ...]) -> Any:
    """One array of what came in several pieces; None if it is None in all."""
    return column[0] if len(column) == 1 or column[0] is None else np.concatenate(column)


@dataclass(frozen=True)
class LabelCounts(Statistic):
    """Hits, positive predictions, positive targets and all elements of each label (of the one, if binary)."""

    input: Decisions

    def slots(self) -> dict[str, Slot]:
        shape = (4, self.input.labels or 1)
        return {"rows": Slot(shape, combine="cat")} if self.input.per_sample else {"counts": Slot(shape)}

    def update(self, slots: Slots, *normal: Any) -> None:
        (counts,) = normal
        if self.input.per_sample:
            slots.rows.append(torch.from_numpy(counts) if isinstance(counts, np.ndarray) else counts)
        elif isinstance(counts, np.ndarray):
            into = slots.counts.numpy()
            into += counts
        else:
            slots.counts.add_(counts)

    def totals(self, slots: Slots) -> Counts:
        counts = slots.counts if not self.input.per_sample else None
        if counts is None:
            shape = (0, 4, self.input.labels or 1)
            counts = torch.cat([*slots.rows, torch.zeros(shape, dtype=torch.int64, device=slots.rows[0].device if slots.rows else None)])
        counts = counts.double() if self.input.labels is not None else counts[..., 0].double()
        return Counts(*counts.unbind(-2 if self.input.labels is not None else -1))

    def numbers(self, slots: Slots) -> Counts | None:
        if self.input.per_sample:
            return None
        counts = slots.counts.astype(np.float64)
        return Counts(*(counts if self.input.labels is not None else counts[:, 0]))
