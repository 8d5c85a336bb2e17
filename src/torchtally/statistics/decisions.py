"""Yes or no per label, and counts of right and wrong decisions: binary, and multilabel per label."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf, log
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, note
from ..statistic import Input, Piece, Slot, Slots, Statistic, host_visible, may_wait
from .class_counts import SMALL_DEVICE, Counts, integers
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
        integers("target", target)
        if preds.shape != target.shape:
            raise ValueError(f"preds has shape {tuple(preds.shape)} but target has {tuple(target.shape)}; expected equal shapes.")
        if self.labels is not None and (target.ndim < 2 or target.shape[1] != self.labels):
            raise ValueError(f"target has shape {tuple(target.shape)}; expected (N, {self.labels}, ...), one column a label.")
        least = (2 if self.labels is None else 3) if self.per_sample else 0
        if target.ndim < least:
            raise ValueError(
                f"target has shape {tuple(target.shape)}; expected at least {least} dimensions, since multidim_average is 'samplewise'."
            )
        preds, target = self._rows(preds), self._rows(target)
        if host_visible(preds, target):
            taken = self._take_on_host(strict, preds, target)
            if taken is not None:
                return None, taken
        yes, wrong, logits = self._decide(preds)
        if target.numel() <= SMALL_DEVICE and not self.per_sample and may_wait(target):
            return target.shape, (yes, target.to(torch.int64, copy=True), wrong, logits)
        return None, (yes, target, wrong, logits)

    def _rows(self, x: Tensor) -> Tensor:
        """As `(N, M, L)`: samples, positions in a sample, labels."""
        n = x.shape[0] if x.ndim else 1
        if self.labels is None:
            return x.reshape(n, -1, 1) if x.numel() else x.reshape(n, 0, 1)
        return x.reshape(n, self.labels, -1).transpose(1, 2) if x.numel() else x.reshape(n, 0, self.labels)

    # ---- the CPU form
    def _take_on_host(self, strict: bool, preds: Tensor, target: Tensor) -> tuple[np.ndarray, bool | None] | None:
        """Counts, and whether scores were taken for logits; None where the device form must tell what is wrong."""
        y = target.numpy()
        logits = None
        if preds.is_floating_point():
            scores = (preds.float() if preds.dtype in (torch.bfloat16, torch.float16) else preds).numpy()
            low, high = (scores.min(), scores.max()) if scores.size else (0.0, 0.0)
            if low != low and self.ignore is None:
                if strict:
                    raise FaultError(f"preds has NaN at {_place(np.isnan(scores))}; expected numbers.")
                return None
            if low != low:
                wrong = np.isnan(scores) & (y != self.ignore)
                if wrong.any():
                    if strict:
                        raise FaultError(f"preds has NaN at {_place(wrong)}; expected numbers.")
                    return None
                low, high = np.nanmin(scores, initial=0.0), np.nanmax(scores, initial=0.0)
            logits = bool(low < 0 or high > 1)
            if logits and self.logits is False:
                wrong = ((scores < 0) | (scores > 1)) & (True if self.ignore is None else y != self.ignore)
                if wrong.any():
                    if strict:
                        raise FaultError(
                            f"preds has {scores[_place(wrong)]} at {_place(wrong)}; expected probabilities in [0, 1], since from_logits is False."
                        )
                    return None
            yes = scores > self._cuts[preds.dtype][logits if self.logits is None else self.logits]
        else:
            scores = preds.numpy()
            yes = scores == 1
        true = y == 1
        live = None
        impossible = ~(true | (y == 0))
        if not preds.is_floating_point():
            impossible |= ~(yes | (scores == 0))
        if self.ignore is not None:
            live = y != self.ignore
            impossible &= live
            live = None if live.all() else live
        if impossible.any():
            if not strict:
                return None
            at = _place(impossible)
            raise FaultError(
                f"target {y[at]} with prediction {scores[at]} at {at} is impossible; expected 0 or 1. Pass ignore_index for a padding label."
            )
        axis = 1 if self.per_sample else (0, 1)
        if live is None:
            positive, predicted = true.sum(axis), yes.sum(axis)
            total: Any = y.shape[1] if self.per_sample else y.shape[0] * y.shape[1]
        else:
            true, yes = true & live, yes & live
            positive, predicted, total = true.sum(axis), yes.sum(axis), live.sum(axis)
        hit = (true & yes).sum(axis)
        counts = np.stack([hit, predicted, positive, np.broadcast_to(total, hit.shape)], -2).astype(np.int64)
        return counts, logits if y.size and (live is None or live.any()) else None

    # ---- the device form
    def _decide(self, preds: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The decisions; where a score is impossible (of labels: neither 0 nor 1); and, if that was decided, whether they are logits."""
        if not preds.is_floating_point():
            return preds.eq(1), preds.ne(0) & preds.ne(1), None
        probabilities, logits = self._cuts[preds.dtype]
        if self.logits is not None:
            return preds.gt(logits if self.logits else probabilities), preds.isnan() if self.logits else improbable(preds), None
        wrong = preds.isnan()
        if not preds.numel():
            return wrong, wrong, None
        found = outside(preds)
        return preds.gt(torch.where(found, logits, probabilities).to(preds.dtype)), wrong, found

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        readings = [piece[-1] for piece in pieces]
        if isinstance(pieces[0][0], np.ndarray):
            if self.logits is None:
                note_readings(slots, readings)
            return pieces[0][:1]
        yes, target, wrong = pieces[0][:3] if len(pieces) == 1 else (torch.cat(column) for column in list(zip(*pieces))[:3])
        true = target.eq(1)
        bad = ~(true | target.eq(0)) | wrong
        live = ~bad
        if self.ignore is not None:
            counted = target.ne(self.ignore)
            bad, live = bad & counted, live & counted
        note(slots, bad.reshape(len(pieces), -1), first)
        if self.logits is None:
            note_readings(slots, readings, None if self.ignore is None else live)
        axis = (1,) if self.per_sample else (0, 1)
        true, yes = true & live, yes & live
        hit, positive, predicted, total = ((true & yes).sum(axis), true.sum(axis), yes.sum(axis), live.sum(axis))
        return (torch.stack([hit, predicted, positive, total], -2),)


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


def _place(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


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
