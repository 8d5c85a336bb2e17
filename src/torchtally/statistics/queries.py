"""Documents that were retrieved for queries: all that was seen, and what is known of each document and each query once they are ranked."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, note
from ..kernels import runs_on_device, runs_on_host
from ..lazy import Once
from ..refusal import integers
from ..statistic import Input, Piece, Slot, Slots, Statistic, host_visible, may_wait
from .class_counts import is_label
from .pairs import check_pair
from .ranks import sortable

SMALL = 4096
"""Batches of at most so many documents wait to be settled together."""


@dataclass(frozen=True)
class Judged(Input):
    """Scores of documents, how relevant each is, and the number of the query it was scored for: three tensors of one shape, flattened.

    Relevance is 0 or 1, or any number from 0 on if `graded`. The normal form is `(N,)` scores, float32 or float64, `(N,)` marks, the relevance
    or -1 for what does not count, and `(N,)` numbers of queries. On the host what does not count is left out.
    """

    ignore: int | None = None
    graded: bool = False

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min")}

    def faults(self, slots: Slots) -> list[Fault]:
        return [Fault(slots.bad, slots.first_bad, f"impossible (expected {self._expected})", "Pass ignore_index for padding.")]

    @property
    def _expected(self) -> str:
        return f"{'finite targets of at least 0' if self.graded else 'targets 0 and 1'} and scores without NaN"

    @property
    def mark_dtype(self) -> torch.dtype:
        return torch.float64 if self.graded else torch.int8

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, indexes = batch
        check_pair(preds, target)
        if indexes is None:
            raise ValueError("indexes is None; expected the number of the query of each document, shaped as preds.")
        check_pair(preds, indexes, ("preds", "indexes"))
        integers("indexes", indexes)
        if not preds.is_floating_point():
            raise ValueError(f"preds has dtype {preds.dtype}; expected floating-point scores, by which documents are ranked.")
        if not self.graded:
            integers("target", target)
        preds, target, indexes = (x.reshape(-1) for x in batch)
        if host_visible(preds, target, indexes):
            return preds.dtype if len(preds) <= SMALL else None, self._on_host(strict, preds, target, indexes)
        if len(preds) <= SMALL and all(map(may_wait, batch)):
            return (len(preds), *(x.dtype for x in batch)), (preds.clone(), target.clone(), indexes.clone())
        return None, (preds, target, indexes)

    def _on_host(self, strict: bool, preds: Tensor, target: Tensor, indexes: Tensor) -> Piece:
        scores, mark, bad = self._normal(preds, target)
        if strict and bad.numpy().any():
            i = int(bad.nonzero()[0])
            raise FaultError(
                f"target {target[i].item()} with score {preds[i].item()} at place {i} is impossible; expected {self._expected}. "
                "Pass ignore_index for padding."
            )
        live = mark.ge(0)
        if not live.numpy().all():
            scores, mark, indexes = scores[live], mark[live], indexes[live]
        return (scores.clone() if scores is preds else scores), mark, indexes.to(torch.int64, copy=True)

    def _normal(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores, marks, and what is impossible."""
        scores = preds if preds.dtype in (torch.float32, torch.float64) else preds.float()
        mark = target.to(self.mark_dtype, copy=True)
        bad = ~(target.ge(0) & target.double().isfinite()) if self.graded else ~(target.eq(0) | target.eq(1))
        bad |= scores.isnan()
        if self.ignore is None:
            return scores, mark.masked_fill_(bad, -1), bad
        ignored = is_label(target, self.ignore) if not target.is_floating_point() else target.eq(self.ignore)
        return scores, mark.masked_fill_(bad | ignored, -1), bad & ~ignored

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        if host_visible(*pieces[0]) and pieces[0][1].dtype is self.mark_dtype and pieces[0][2].dtype is torch.int64:
            return tuple(torch.cat(x) if len(x) > 1 else x[0] for x in zip(*pieces))
        preds, target, indexes = (torch.stack(x) for x in zip(*pieces))
        scores, mark, bad = self._normal(preds, target)
        note(slots, bad, first)
        return scores.masked_fill(scores.isnan(), 0.0).reshape(-1), mark.reshape(-1), indexes.reshape(-1).long()


@dataclass(frozen=True)
class QuerySamples(Statistic):
    """Every document with its score, relevance and query, since a query may go on in any batch. Ranked once for all that read it."""

    input: Judged

    def slots(self) -> dict[str, Slot]:
        return {
            "score": Slot((), torch.float32, "cat"),
            "mark": Slot((), self.input.mark_dtype, "cat"),
            "query": Slot((), torch.int64, "cat"),
        }

    def update(self, slots: Slots, *normal: Any) -> None:
        for name, x in zip(("score", "mark", "query"), normal):
            getattr(slots, name).append(x)

    def totals(self, slots: Slots) -> Queries:
        lists = [slots.score, slots.mark, slots.query]
        if not slots.score:
            return Queries(torch.zeros(0), torch.zeros(0, dtype=torch.int8), torch.zeros(0, dtype=torch.int64))
        for samples in lists:  # samples have no order of their own, so a read may join them for the next
            samples[:] = [torch.cat(samples)] if len(samples) > 1 else samples
        known = slots.__dict__.get("derived")  # what another reader of the same slots has ranked
        if known is None or known[0] is not slots.score[0]:
            known = slots.__dict__["derived"] = slots.score[0], Queries(*(samples[0] for samples in lists))
        queries: Queries = known[1]
        return queries


def _runs(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of each place of rising integers, the first and the last with an equal one."""
    if host_visible(x):
        begin, end = runs_on_host(x.numpy())
        return torch.from_numpy(begin), torch.from_numpy(end)
    return runs_on_device(x)


def _ordered(score: Tensor, mark: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Documents by query, then by falling score; what does not count comes last."""
    order = score.sort(descending=True, stable=True).indices
    order = order[query[order].sort(stable=True).indices]
    order = order[mark[order].ge(0).to(torch.int8).sort(descending=True, stable=True).indices]
    return score[order], mark[order], query[order]


def _ordered_on_host(score: Tensor, mark: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same without what does not count; scores may be any numbers that are equal where they are, and queries too.

    Query, score and mark of a document become one integer where they fit: one sort in place of three.
    """
    live = mark.ge(0)
    if not live.numpy().all():
        score, mark, query = score[live], mark[live], query[live]
    if not len(score) or score.dtype is not torch.float32:
        return _ordered(score, mark, query)
    numbers = query.numpy()
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= 1 << 30:
        return _ordered(score, mark, query)
    key = np.subtract(numbers, low)
    key <<= 32
    key += 0x7FFFFFFF - sortable(score).numpy().astype(np.int64)
    if mark.dtype is not torch.int8:
        order = np.argsort(key)
        mark = mark[torch.from_numpy(order)]
        key = key[order]
    else:
        key <<= 1
        key |= mark.numpy()
        key.sort()
        mark = torch.from_numpy((key & 1).astype(np.int8))
        key >>= 1
    return torch.from_numpy(key & 0xFFFFFFFF), mark, torch.from_numpy(key >> 32)


class Queries:
    """What formulas see: documents ordered by query and by falling score, and sums over queries, all in float64.

    Documents of equal score have no order. What depends on it is the mean over all orders of them (McSherry and Najork, Computing information
    retrieval performance measures efficiently in the presence of tied scores, 2008), so that no value depends on the order of the data.

    On the host there is a row for each query; on a device as many rows as documents, of which `exists` tells those that are a query's.
    """

    def __init__(self, score: Tensor, mark: Tensor, query: Tensor) -> None:
        on_host = host_visible(score, mark, query)
        score, mark, query = _ordered_on_host(score, mark, query) if on_host else _ordered(score, mark, query)
        self.live = live = mark.ge(0)
        self.gain = mark.clamp(min=0).double()
        self.relevant = self.gain.gt(0).double()
        begins = torch.ones_like(live)
        begins[1:] = (query[1:] != query[:-1]) | (live[1:] != live[:-1])
        self.number = begins.cumsum(0) - 1  # of each document's query
        ties = begins.clone()
        ties[1:] |= score[1:] != score[:-1]
        self._ties = ties.cumsum(0) - 1
        self._begin, self._end = _runs(self.number)
        self._tie_begin, self._tie_end = _runs(self._ties)
        places = torch.arange(len(live), device=live.device)
        self.rank = (places - self._begin + 1).double()
        """The place of each document in its query, from 1 on; those of a tie in any order."""
        self.rows = (int(self.number[-1]) + 1 if len(live) else 0) if on_host else len(live)
        self.exists = None if on_host else places < (begins & live).sum()

    def sum(self, x: Tensor) -> Tensor:
        """The sum over the documents of each query."""
        return torch.zeros(self.rows, dtype=torch.float64, device=x.device).scatter_add_(0, self.number, x)

    def of_documents(self, x: Tensor) -> Tensor:
        """A value of each query, at each of its documents."""
        return x[self.number]

    @Once
    def size(self) -> Tensor:
        """How many documents each query has."""
        return self.sum(self.live.double())

    @Once
    def positives(self) -> Tensor:
        """How many of them are relevant."""
        return self.sum(self.relevant)

    # ---- ties, of which most have one document
    @Once
    def tied(self) -> Tensor:
        """How many documents of the query have the score of this one, itself among them."""
        return (self._tie_end - self._tie_begin + 1).double()

    @Once
    def before(self) -> Tensor:
        """How many documents of the query score higher."""
        return (self._tie_begin - self._begin).double()

    @Once
    def first(self) -> Tensor:
        """Whether a document is the one that stands for its tie."""
        return self.rank == self.before + 1

    def of_tie(self, x: Tensor) -> Tensor:
        """The sum over the documents of each tie, at each of them."""
        return torch.zeros_like(x).scatter_add_(0, self._ties, x)[self._ties]

    @Once
    def tied_relevant(self) -> Tensor:
        return self.of_tie(self.relevant)

    @Once
    def relevant_share(self) -> Tensor:
        """How likely the document at this place of the query is relevant."""
        return self.tied_relevant / self.tied

    @Once
    def relevant_before(self) -> Tensor:
        """How many relevant documents of the query score higher."""
        up_to = self.relevant.cumsum(0)  # whole numbers, so that differences are exact
        return up_to[self._tie_begin] - self.relevant[self._tie_begin] - up_to[self._begin] + self.relevant[self._begin]

    @Once
    def tie_rank(self) -> Tensor:
        """The place of each document in its tie, from 1 on, in any order."""
        return self.rank - self.before

    def share(self, k: Tensor | float) -> Tensor:
        """How likely each document is among the first k of its query; `k` is a number, or one for each document."""
        return ((k - self.before).clamp(min=0.0).minimum(self.tied)) / self.tied

    def found(self, k: Tensor | float) -> Tensor:
        """How many relevant documents are among the first k of each query."""
        return self.sum(self.relevant * self.share(k))

    @Once
    def ideal_gain(self) -> Tensor:
        """Gains in the order of the documents' places, were they ranked by gain."""
        falling = self.gain.sort(descending=True, stable=True).indices
        return self.gain[falling[self.number[falling].sort(stable=True).indices]]
