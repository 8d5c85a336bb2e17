"""Scores and the yes/no targets that curves rank them against: checked, and brought into one form."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, note
from ..refusal import check_labels, unequal
from ..statistic import Input, Piece, Slot, Slots, host_visible, may_wait
from .class_counts import is_label
from .readings import READINGS, improbable, mixed, outside

_CONSTANTS: dict[tuple[tuple[float, ...], torch.device], Tensor] = {}

SMALL = 4096
SMALL_DEVICE = 1 << 16
"""Batches of at most so many scores, on the host and on a device, wait to be settled together."""

_LARGE = 1e300  # in place of infinite logits: as good as infinite for a softmax, but it can be subtracted


def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """The numbers as float64 on a device, copied there once and without waiting. Not to be returned or written to."""
    if torch.compiler.is_compiling():
        return torch.tensor(values, dtype=torch.float64, device=device)
    found = _CONSTANTS.get((values, device))
    if found is None:
        with torch.inference_mode(False):
            found = torch.tensor(values, dtype=torch.float64, pin_memory=device.type == "cuda").to(device, non_blocking=True)
        if type(found) is Tensor:  # a stand-in of a tracer is of no use to others
            if len(_CONSTANTS) >= 64:
                _CONSTANTS.clear()
            _CONSTANTS[values, device] = found
    return found


@dataclass(frozen=True)
class Scores(Input):
    """Scores and yes/no targets of each column: one if `labels` is None, `labels` columns otherwise.

    `exclusive` columns are classes, of which the target names one. The normal form is `(N, K)` scores, float32 or float64, and `(N, K)`
    int8 marks: 1 yes, 0 no, -1 not counted. With `probabilities` logits are turned into probabilities, in float64 (unless `normalize` is
    False). Whether they are logits, `logits` says; if None, a batch with a score outside [0, 1] is taken for them. A piece is either that form
    already, made of a batch on the host, or a copy of a batch on a device, which is brought into it when it is settled.
    """

    labels: int | None = None
    ignore: int | None = None
    exclusive: bool = False
    probabilities: bool = False
    normalize: bool = True
    logits: bool | None = None

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min"), **(READINGS if self.decides else {})}

    def faults(self, slots: Slots) -> list[Fault]:
        found = [Fault(slots.bad, slots.first_bad, f"impossible (expected {self._expected})", "Pass ignore_index for a padding label.")]
        return [*found, mixed(slots)] if self.decides else found

    @property
    def decides(self) -> bool:
        """Whether each batch is found to be logits or not."""
        return self.probabilities and self.normalize and self.logits is None

    @property
    def columns(self) -> int:
        return self.labels or 1

    @property
    def _expected(self) -> str:
        scores = "scores without NaN" if self.logits is not False else "probabilities in [0, 1]"
        if not self.exclusive:
            return f"targets 0 and 1 and {scores}"
        return f"labels 0..{self.columns - 1} and {scores}{', at most one of them infinite' if self.logits is not False else ''}"

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        self._check(preds, target)
        if host_visible(preds, target):
            scores, mark, decided = self._on_host(strict, preds, target)
            return scores.dtype if scores.size <= SMALL else None, (scores, mark, decided)
        if preds.numel() <= SMALL_DEVICE and may_wait(preds) and may_wait(target):
            return (preds.shape, preds.dtype, target.dtype), (preds.clone(), target.clone())
        return None, (preds, target)

    def _check(self, preds: Any, target: Any) -> None:
        check_labels(preds, target)
        if not preds.is_floating_point():
            raise ValueError(f"preds has dtype {preds.dtype}; expected floating-point scores, since a curve ranks them.")
        if self.exclusive:
            if preds.ndim != target.ndim + 1 or preds.shape != (*target.shape[:1], self.labels, *target.shape[1:]):
                raise ValueError(
                    f"preds has shape {tuple(preds.shape)} but target has {tuple(target.shape)}; expected scores (N, {self.labels}, ...) and labels (N, ...)."
                )
        elif preds.shape != target.shape:
            raise unequal(preds, target)
        elif self.labels is not None and (target.ndim < 2 or target.shape[1] != self.labels):
            raise ValueError(f"target has shape {tuple(target.shape)}; expected (N, {self.labels}, ...), one column a label.")

    def _on_host(self, strict: bool, preds: Tensor, target: Tensor) -> tuple[np.ndarray, np.ndarray, bool | None]:
        """The normal form in memory of its own, and whether logits were found; raises at once where a value is impossible."""
        held = preds if preds.dtype in (torch.float32, torch.float64) else preds.float()
        if self.labels is None:
            scores, y = held.numpy().reshape(-1, 1), target.numpy().reshape(-1, 1)
        else:
            scores, y = self._rows(held, True).numpy(), self._rows(target, not self.exclusive).numpy()
        if not y.size:
            return np.empty(scores.shape, scores.dtype), np.empty(scores.shape, np.int8), None
        low = scores.min()  # NaN if there is one
        high = scores.max() if self.probabilities or self.exclusive or self.logits is False else low
        inside = bool(low >= 0 and high <= 1)
        clear = inside or (self.logits is not False and (-inf < low and high < inf if self.exclusive else low <= high))
        if not (clear and _within(y, self.columns if self.exclusive else 2)):
            return self._on_host_slowly(strict, preds, target)
        if self.exclusive:
            mark = np.zeros(scores.shape, np.int8)
            mark[np.arange(len(y)), y[:, 0].astype(np.intp)] = 1
        else:
            mark = y.astype(np.int8)
        if self.ignore is not None and 0 <= self.ignore < (self.columns if self.exclusive else 2):
            mark[np.broadcast_to(y == self.ignore, mark.shape)] = -1
        if self.probabilities and self.normalize and (not inside if self.logits is None else self.logits):
            exact = torch.from_numpy(scores).double()
            scores = (exact.softmax(1) if self.exclusive else exact.sigmoid()).numpy()
        elif held is preds and not (self.probabilities and scores.size > SMALL):  # then it is counted at once
            scores = scores.copy()
        return scores, mark, not inside if self.decides and (self.ignore is None or mark.max() >= 0) else None

    def _on_host_slowly(self, strict: bool, preds: Tensor, target: Tensor) -> tuple[np.ndarray, np.ndarray, bool | None]:
        """The same where something is infinite, ignored or impossible."""
        scores, mark, bad, found = self._normal(preds[None], target[None])
        if strict and bad.numpy().any():
            i, k = (int(x) for x in bad[0].nonzero()[0])
            y = self._rows(target, self.labels is not None and not self.exclusive)
            row = self._rows(preds, self.labels is not None)[i].tolist()
            raise FaultError(
                f"target {int(y[i, k])} with scores {row} in row {i} is impossible; expected {self._expected}. "
                "Pass ignore_index for a padding label."
            )
        marks = mark.numpy()
        return scores.numpy(), marks, None if found is None or not (marks >= 0).any() else bool(found.numpy())

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        if isinstance(pieces[0][0], np.ndarray):
            arrays, marks, decided = zip(*pieces)
            if self.decides:
                slots.scored.add_(sum(d is not None for d in decided))
                if any(decided):
                    slots.logits.add_(sum(map(bool, decided)))
            if len(pieces) > 1:
                return torch.from_numpy(np.concatenate(arrays)), torch.from_numpy(np.concatenate(marks))
            return torch.from_numpy(arrays[0]), torch.from_numpy(marks[0])
        preds, target = (torch.stack(x) if len(x) > 1 else x[0][None] for x in zip(*pieces))
        scores, mark, bad, found = self._normal(preds, target)
        note(slots, bad, first)
        if found is not None:  # of batches with an element that counts
            counted = mark.reshape(len(pieces), -1).ge(0).any(1)
            slots.logits.add_((found & counted).sum())
            slots.scored.add_(counted.sum())
        return scores, mark

    def _rows(self, x: Tensor, columns: bool, batches: int = 0) -> Tensor:
        """`(…, N, K)` of `(…, N, K, *)`, or `(…, N, 1)`, where `…` are so many dimensions of batches."""
        lead = x.shape[:batches]
        if not columns:
            return x.reshape(*lead, -1, 1)
        return x.movedim(1 + batches, -1).reshape(*lead, -1, self.columns) if x.ndim > 2 + batches else x

    def _normal(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The normal form of `(U, …)` batches, what is impossible in each of them, and which were found to be logits."""
        scores = self._rows(preds, self.labels is not None, 1)
        y = self._rows(target, self.labels is not None and not self.exclusive, 1)
        nan = improbable(scores) if self.logits is False else scores.isnan()
        if self.exclusive:
            unclear = scores.eq(inf).sum(2, keepdim=True).gt(1) | scores.eq(-inf).all(2, keepdim=True)
            bad = y.lt(0) | y.ge(self.columns) | nan.any(2, keepdim=True) | unclear
            yes = y.eq(torch.arange(self.columns, device=y.device))
        else:
            yes = y.eq(1)
            bad = ~(yes | y.eq(0)) | nan
        out = bad
        if self.ignore is not None:
            ignored = is_label(y, self.ignore)
            bad, out = bad & ~ignored, bad | ignored
        scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        scores = torch.where(bad | nan, 0.0, scores)  # what is ignored has its say in whether these are logits, as in all metrics
        found = None
        if self.probabilities and self.normalize and scores.numel() > 0:
            found = None if self.logits is not None else outside(scores.flatten(1), 1)
            scores = self._probabilities(scores, found)
        mark = yes.to(torch.int8).masked_fill(out, -1)
        return scores.reshape(-1, self.columns), mark.reshape(-1, self.columns), bad, found

    def _probabilities(self, scores: Tensor, found: Tensor | None) -> Tensor:
        """Of `(U, N, K)` scores that are logits as `logits` says, or where they were found to be."""
        if self.logits is False:
            return scores
        exact = scores.double()
        made = exact.clamp(-_LARGE, _LARGE).softmax(2) if self.exclusive else exact.sigmoid()
        return made if found is None else torch.where(found[:, None, None], made, exact)


def _within(y: np.ndarray, limit: int) -> bool:
    """Whether all labels are in 0..limit-1."""
    if y.dtype == np.int64:
        return int(y.view(np.uint64).max()) < limit  # negative ones are huge
    return int(y.min()) >= 0 and int(y.max()) < limit


def log_odds(logits: Tensor) -> Tensor:
    """Logarithm of p / (1 - p) of the softmax of each row of `(N, C)`: in the order of p, and apart where p rounds to 0 or 1."""
    logits = logits.clamp(-_LARGE, _LARGE)
    best, at = logits.max(1, keepdim=True)
    others = logits.scatter(1, at, -inf).logsumexp(1, keepdim=True)
    below = logits - best
    rest = (others - best).exp() + 1 - below.exp()  # of the best, everything but each class: at least 1, but for the best itself
    return below.sub_(rest.log_()).scatter_(1, at, best - others)
