"""Scores against yes/no targets: every sample for exact curves, or a histogram of the scores at given thresholds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, note
from ..kernels import count_on_device, count_on_host
from ..statistic import Input, Piece, Slot, Slots, Statistic, host_visible
from .class_counts import integers
from .readings import READINGS, improbable, mixed, note_readings, outside

_CONSTANTS: dict[tuple[tuple[float, ...], torch.device], Tensor] = {}


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
    False). Whether they are logits, `logits` says; if None, a batch with a score outside [0, 1] is taken for them.
    """

    labels: int | None = None
    ignore: int | None = None
    exclusive: bool = False
    probabilities: bool = False
    normalize: bool = True
    logits: bool | None = None

    @property
    def decides(self) -> bool:
        """Whether each batch is found to be logits or not."""
        return self.probabilities and self.normalize and self.logits is None

    @property
    def _expected(self) -> str:
        scores = "scores without NaN" if self.logits is not False else "probabilities in [0, 1]"
        return f"{f'labels 0..{(self.labels or 1) - 1}' if self.exclusive else 'targets 0 and 1'} and {scores}"

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min"), **(READINGS if self.decides else {})}

    def faults(self, slots: Slots) -> list[Fault]:
        found = [Fault(slots.bad, slots.first_bad, f"impossible (expected {self._expected})", "Pass ignore_index for a padding label.")]
        return [*found, mixed(slots)] if self.decides else found

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        integers("target", target)
        if not preds.is_floating_point():
            raise ValueError(f"preds has dtype {preds.dtype}; expected floating-point scores, since a curve ranks them.")
        if self.exclusive:
            if preds.ndim != target.ndim + 1 or preds.shape != (*target.shape[:1], self.labels, *target.shape[1:]):
                raise ValueError(
                    f"preds has shape {tuple(preds.shape)} but target has {tuple(target.shape)}; expected scores (N, {self.labels}, ...) and labels (N, ...)."
                )
        elif preds.shape != target.shape:
            raise ValueError(f"preds has shape {tuple(preds.shape)} but target has {tuple(target.shape)}; expected equal shapes.")
        elif self.labels is not None and (target.ndim < 2 or target.shape[1] != self.labels):
            raise ValueError(f"target has shape {tuple(target.shape)}; expected (N, {self.labels}, ...), one column a label.")
        columns = self.labels or 1
        scores = preds.reshape(-1, 1) if self.labels is None else preds.movedim(1, -1).reshape(-1, columns)
        y = target.reshape(-1, 1) if self.exclusive or self.labels is None else target.movedim(1, -1).reshape(-1, columns)
        seen = host_visible(preds, target)
        nan = improbable(scores) if self.logits is False else scores.isnan()
        if self.exclusive:
            bad = y.lt(0) | y.ge(columns) | nan.any(1, keepdim=True)
            yes = y.eq(torch.arange(columns, device=y.device))
        else:
            yes = y.eq(1)
            bad = ~(yes | y.eq(0)) | nan
        out = bad
        if self.ignore is not None:
            ignored = y.eq(self.ignore)
            bad, out = bad & ~ignored, bad | ignored
        if seen and bool(bad.any()):
            if strict:
                i, k = (int(x) for x in bad.nonzero()[0])
                raise FaultError(
                    f"target {int(y[i, k])} with scores {scores[i].tolist()} in row {i} is impossible; expected {self._expected}. "
                    "Pass ignore_index for a padding label."
                )
            bad = torch.zeros_like(bad)
        scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        scores = torch.where(out | nan, 0.0, scores) if not seen or out.any() else scores
        decided = None
        if self.probabilities and self.normalize:
            scores, decided = self._normalized(scores, seen)
        mark = yes.to(torch.int8).masked_fill(out, -1)
        return None, (scores if self.probabilities else scores.clone(), mark, None if seen else bad, decided)

    def _normalized(self, scores: Tensor, seen: bool) -> tuple[Tensor, Tensor | None]:
        """As probabilities, and whether they were found to be logits."""
        found = outside(scores) if self.logits is None and scores.numel() else None
        logits = self.logits if found is None else bool(found) if seen else None
        if logits is False or not scores.numel():
            return scores, found
        exact = scores.double()
        made = exact.softmax(1) if self.exclusive else exact.sigmoid()
        return made if found is None or logits else torch.where(found, made, exact), found

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        ((scores, mark, bad, decided),) = pieces
        if bad is not None:
            note(slots, bad[None], first)
        if self.decides:
            note_readings(slots, [decided], mark.ge(0))
        return scores, mark


def log_odds(logits: Tensor) -> Tensor:
    """Logarithm of p / (1 - p) of the softmax of each row of `(N, C)`: in the order of p, and apart where p rounds to 0 or 1."""
    log_p = logits.log_softmax(1)
    odds = log_p - (-log_p.exp()).log1p()
    best, at = logits.max(1, keepdim=True)
    others = logits.scatter(1, at, -inf).logsumexp(1, keepdim=True)  # only the best can have a p near 1
    return odds.scatter(1, at, best - others)


class Curve:
    """True and false positives of each column as the threshold falls, float64 `(K, M)`; points may repeat.

    `score` holds the threshold of each point (None for a histogram) and `distinct` tells which points are not repetitions.
    """

    def __init__(self, tp: Tensor, fp: Tensor, score: Tensor | None = None, distinct: Tensor | None = None) -> None:
        self.tp, self.fp, self.score, self.distinct = tp, fp, score, distinct
        none = tp.new_zeros(tp.shape[0])
        self.positives = tp[:, -1] if tp.shape[1] else none
        self.negatives = fp[:, -1] if tp.shape[1] else none


def ranked(scores: Tensor, mark: Tensor) -> Curve:
    """The exact curve of each column of `(N, K)` scores: one sort; ties are one point."""
    if not scores.numel():
        nothing = torch.zeros(scores.shape[1], 0, dtype=torch.float64, device=scores.device)
        return Curve(nothing, nothing, nothing, nothing.bool())
    if scores.shape[1] == 1 and host_visible(scores, mark):
        return _ranked_on_host(scores[:, 0].numpy(), mark[:, 0].numpy())
    live = mark.ge(0)
    ordered, order = scores.where(live, -inf).t().sort(1, descending=True)
    mark = mark.t().gather(1, order)
    tp, fp = mark.eq(1).cumsum(1), mark.eq(0).cumsum(1)
    end = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[:, 1:], ordered[:, :-1], out=end[:, :-1])
    counted = (tp + fp).where(end, 0).cummax(1).values
    before = torch.zeros_like(counted)
    before[:, 1:] = counted[:, :-1]
    distinct = end & (counted > before)  # a last group of nothing but uncounted elements is no point
    most = scores.shape[0] + 1
    tp, fp = (x.where(end, most).flip(1).cummin(1).values.flip(1).double() for x in (tp, fp))
    return Curve(tp, fp, ordered, distinct)


def _ranked_on_host(scores: np.ndarray, mark: np.ndarray) -> Curve:
    if mark.min() < 0:
        live = mark >= 0
        scores, mark = scores[live], mark[live]
    order = np.argsort(scores)[::-1]
    ordered = scores[order]
    end = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1) if len(ordered) else np.empty(0, np.int64)
    tp = mark[order].cumsum(dtype=np.int64)[end]
    hit, miss, score = (torch.from_numpy(x)[None] for x in (tp.astype(np.float64), (end + 1 - tp).astype(np.float64), ordered[end]))
    return Curve(hit, miss, score, torch.ones(1, len(end), dtype=torch.bool))


class Curves:
    """What formulas over curves see: the curve of each column, and of all columns as one. Each is sorted once for all that read it."""

    def __init__(self, scores: Tensor, mark: Tensor, kind: Scores) -> None:
        self._scores, self._mark, self._kind = scores, mark, kind

    @cached_property
    def _rankable(self) -> Tensor:
        """Scores to rank by: as they came, but classes share the probability, so their logits are compared by log-odds."""
        if not (self._kind.exclusive and self._kind.normalize and self._scores.numel()):
            return self._scores
        exact = self._scores.double()
        if self._kind.logits is not None:
            return log_odds(exact) if self._kind.logits else exact
        return torch.where(outside(exact), log_odds(exact), exact)

    @cached_property
    def each(self) -> Curve:
        return ranked(self._rankable, self._mark)

    @cached_property
    def joined(self) -> Curve:
        return ranked(self._rankable.reshape(-1, 1), self._mark.reshape(-1, 1))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Thresholds of curves over independent columns as probabilities."""
        exact = scores.double()
        if not self._kind.normalize or self._kind.logits is False:
            return exact
        return exact.sigmoid() if self._kind.logits else torch.where(outside(self._scores), exact.sigmoid(), exact)


@dataclass(frozen=True)
class ScoreSamples(Statistic):
    """Every score with its target. Samples have no order of their own, so a read may join them for the next."""

    input: Scores

    def slots(self) -> dict[str, Slot]:
        columns = (self.input.labels or 1,)
        return {"score": Slot(columns, torch.float32, "cat"), "mark": Slot(columns, torch.int8, "cat")}

    def update(self, slots: Slots, *normal: Any) -> None:
        slots.score.append(normal[0])
        slots.mark.append(normal[1])

    def totals(self, slots: Slots) -> Curves:
        if len(slots.score) > 1:
            slots.score[:], slots.mark[:] = [torch.cat(slots.score)], [torch.cat(slots.mark)]
        if not slots.score:
            empty = torch.zeros(0, self.input.labels or 1)
            return Curves(empty, empty.to(torch.int8), self.input)
        known = slots.__dict__.get("curves")  # what another reader of the same slots has sorted
        if known is None or known[0] is not slots.score[0]:
            known = slots.__dict__["curves"] = slots.score[0], Curves(slots.score[0], slots.mark[0], self.input)
        curves: Curves = known[1]
        return curves


class BinnedCurves:
    """The same from a histogram: exact for scores rounded down to the next threshold. The last point has every element."""

    def __init__(self, counts: Tensor) -> None:
        self._no, self._yes = counts.flip(-1).cumsum(-1).unbind()

    @cached_property
    def each(self) -> Curve:
        return Curve(self._yes.double(), self._no.double())

    @cached_property
    def joined(self) -> Curve:
        return Curve(self._yes.sum(0, keepdim=True).double(), self._no.sum(0, keepdim=True).double())


@dataclass(frozen=True)
class ScoreHistogram(Statistic):
    """How many scores of each target lie between ascending thresholds: a score on a threshold is above it."""

    input: Scores
    thresholds: tuple[float, ...] = ()

    def slots(self) -> dict[str, Slot]:
        return {"counts": Slot((self._size + 1,))}  # one spare bin, for what does not count

    @property
    def _size(self) -> int:
        return 2 * (self.input.labels or 1) * (len(self.thresholds) + 1)

    def update(self, slots: Slots, *normal: Any) -> None:
        scores, mark = normal
        columns, bins = scores.shape[1], len(self.thresholds) + 1
        limits = constant(self.thresholds, scores.device)
        if host_visible(scores, mark, slots.counts):
            yes = mark.numpy()
            key = np.searchsorted(limits.numpy(), scores.numpy().ravel(), "right").reshape(yes.shape)
            key += yes * np.int64(columns * bins) + np.arange(columns) * bins
            count_on_host(slots.counts.numpy(), key[yes >= 0] if yes.size and yes.min() < 0 else key.ravel())
            return
        row = torch.bucketize(scores.double().contiguous(), limits, right=True)
        row = row + mark.long() * (columns * bins) + torch.arange(columns, device=row.device) * bins
        count_on_device(slots.counts, row.where(mark.ge(0), self._size).reshape(-1))

    def totals(self, slots: Slots) -> BinnedCurves:
        return BinnedCurves(slots.counts[: self._size].view(2, self.input.labels or 1, len(self.thresholds) + 1))
