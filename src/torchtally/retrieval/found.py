"""How many of the first documents are relevant."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor

from ..options import FormulaOptions, Unpack, flag_of
from ..statistic import host_visible
from ..statistics.queries import Queries
from .base import Aggregation, RetrievalMetric, TopKMetric


class RetrievalPrecision(TopKMetric):
    """The share of relevant documents among the first `top_k` of a query, averaged over queries. From 0 to 1, the best.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. Without `top_k` all documents of a
    query are looked at. A query with fewer documents is as one with irrelevant ones added, or with `adaptive_k` of all it has. Tied documents
    count by how likely they are among the first. Of queries without a relevant document see `empty_target_action`. 0 of no queries.

    >>> from torch import tensor
    >>> RetrievalPrecision(top_k=2)(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([0, 0, 1, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.5000)
    """

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        adaptive_k: bool = False,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)
        self.adaptive_k = flag_of(type(self).__name__, "adaptive_k", adaptive_k)

    def score(self, queries: Queries) -> Tensor:
        found = queries.found(self.k)
        if self.top_k is None or self.adaptive_k:
            return found / queries.size.clamp(max=self.k)
        return found / self.k


class RetrievalRecall(TopKMetric):
    """The share of the relevant documents of a query that is among its first `top_k`, averaged over queries. From 0 to 1, the best.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. Tied documents count by how likely
    they are among the first. Of queries without a relevant document see `empty_target_action`. 0 of no queries.

    >>> from torch import tensor
    >>> RetrievalRecall(top_k=1)(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([1, 0, 1, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.7500)
    """

    def score(self, queries: Queries) -> Tensor:
        return queries.found(self.k) / queries.positives


class RetrievalFallOut(TopKMetric):
    """The share of the irrelevant documents of a query that is among its first `top_k`, averaged over queries. From 0, the best, to 1.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. Tied documents count by how likely
    they are among the first. Of queries without an irrelevant document see `empty_target_action`. 0 of no queries.

    >>> from torch import tensor
    >>> RetrievalFallOut(top_k=2)(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([0, 0, 1, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.7500)
    """

    higher_is_better = False
    lacks = "no irrelevant document"

    def __init__(
        self,
        empty_target_action: str = "pos",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def lacking(self, queries: Queries) -> Tensor:
        return queries.size == queries.positives

    def score(self, queries: Queries) -> Tensor:
        first = queries.sum(queries.live * queries.share(self.k))
        return (first - queries.found(self.k)) / (queries.size - queries.positives)


class RetrievalRPrecision(RetrievalMetric):
    """The share of relevant documents among the first R of a query, of which R are relevant, averaged over queries. From 0 to 1, the best.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. Tied documents count by how likely
    they are among the first. Of queries without a relevant document see `empty_target_action`. 0 of no queries.

    >>> from torch import tensor
    >>> RetrievalRPrecision()(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([1, 0, 1, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.7500)
    """

    def score(self, queries: Queries) -> Tensor:
        return queries.found(queries.of_documents(queries.positives)) / queries.positives


class RetrievalHitRate(TopKMetric):
    """The share of queries with a relevant document among the first `top_k`. From 0 to 1, the best.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. Where documents are tied, a query
    counts by how likely there is one. Of queries without a relevant document see `empty_target_action`. 0 of no queries.

    >>> from torch import tensor
    >>> RetrievalHitRate(top_k=1)(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([0, 1, 0, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.5000)
    """

    def score(self, queries: Queries) -> Tensor:
        tied, relevant = queries.tied, queries.tied_relevant
        slots = (self.k - queries.before).clamp(min=0.0).minimum(tied)  # of the first k, that this tie fills
        none = (log_choose(tied - relevant, slots) - log_choose(tied, slots)).exp()  # how likely all of them are irrelevant
        missed = torch.ones(queries.rows, dtype=torch.float64, device=none.device)
        return 1.0 - missed.scatter_reduce_(0, queries.number, none, "amin")


def log_choose(n: Tensor, k: Tensor) -> Tensor:
    """The logarithm of how many ways there are to choose k of n; minus infinity where there are none."""
    possible = (k >= 0) & (k <= n)
    if host_visible(n) and len(n) and bool(n.max() <= 1):  # no ties: there is one way at most
        return torch.zeros_like(n).masked_fill_(~possible, -inf)
    k = k.where(possible, 0.0)
    n = n.where(possible, 0.0)
    return ((n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()).where(possible, -inf)
