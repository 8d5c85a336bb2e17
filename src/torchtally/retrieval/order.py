"""How far ahead the relevant documents are."""

from __future__ import annotations

from torch import Tensor

from ..classification.options import checked
from ..options import FormulaOptions, Unpack
from ..statistics.queries import Queries
from .base import Aggregation, TopKMetric
from .found import log_choose


class RetrievalMRR(TopKMetric):
    """One over the place of the first relevant document of a query, averaged over queries. From 0 to 1, the best.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. A query whose first relevant document
    comes after `top_k` counts 0. Where documents are tied, it is the mean over their orders. Of queries without a relevant document see
    `empty_target_action`. 0 of no queries.

    >>> from torch import tensor
    >>> RetrievalMRR()(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([0, 1, 0, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.7500)
    """

    def score(self, queries: Queries) -> Tensor:
        tied, relevant = queries.tied, queries.tied_relevant
        # How likely the first relevant document of the first tie that has one is at this place of it.
        chance = (log_choose(tied - queries.tie_rank, relevant - 1) - log_choose(tied, relevant)).exp()
        leads = (queries.relevant_before == 0) & (relevant > 0) & (queries.rank <= self.k)
        return queries.sum((chance / queries.rank).where(leads, 0.0))


class RetrievalMAP(TopKMetric):
    """Mean average precision: the precision at each relevant document of a query, averaged over these, then over queries. From 0 to 1, the best.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. With `top_k` only precisions at the
    first ones are added, and divided by the number of relevant documents, or by `top_k` if that is less. Where documents are tied, it is the
    mean over their orders. Of queries without a relevant document see `empty_target_action`. 0 of no queries.

    >>> from torch import tensor
    >>> RetrievalMAP()(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([1, 0, 1, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.9167)
    """

    def score(self, queries: Queries) -> Tensor:
        tied, relevant = queries.tied, queries.tied_relevant
        others = (queries.tie_rank - 1) * (relevant - 1) / (tied - 1).clamp(min=1.0)  # relevant ones that come before it in its tie
        precision = (queries.relevant_before + others + 1) / queries.rank
        added = (relevant / tied * precision).where(queries.rank <= self.k, 0.0)
        return queries.sum(added) / queries.positives.clamp(max=self.k)


class RetrievalNormalizedDCG(TopKMetric):
    """Normalized discounted cumulative gain: relevance over log2 of one more than the place, as a share of the best order's; mean over queries.

    `preds` are scores, `target` are gains of at least 0, whole or not, `indexes` the number of each document's query, all `(N, ...)`. From 0 to 1,
    the best. Only the first `top_k` documents, and the best `top_k`, are added. Where documents are tied, it is the mean over their orders. Of
    queries without a gain see `empty_target_action`. 0 of no queries. Source: Järvelin and Kekäläinen, 2002.

    >>> from torch import tensor
    >>> RetrievalNormalizedDCG()(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([3, 0, 1, 0, 2]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.8443)
    """

    graded = True

    def score(self, queries: Queries) -> Tensor:
        discount = (1 / (queries.rank + 1).log2()).where(queries.rank <= self.k, 0.0)
        mean_gain = queries.of_tie(queries.gain) / queries.tied
        return queries.sum(mean_gain * discount) / queries.sum(queries.ideal_gain * discount)


class RetrievalAUROC(TopKMetric):
    """The share of pairs of a relevant and an irrelevant document of a query that are ranked in this order, averaged over queries; 0.5 by chance.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. Ties count half. Only the first `top_k`
    documents, with those tied with the last of them, are looked at. With `max_fpr` it is the area up to that false positive rate, rescaled to 0.5
    by chance and 1 at best (McClish, 1989). Of queries in which documents of one of the two sorts are missing see `empty_target_action`. 0 of no
    queries.

    >>> from torch import tensor
    >>> RetrievalAUROC()(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([1, 0, 1, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    tensor(0.7500)
    """

    lacks = "no relevant or no irrelevant document"
    max_fpr: float | None

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        max_fpr: float | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        checked(self, max_fpr=max_fpr)
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, **kwargs)

    def _sides(self, queries: Queries) -> tuple[Tensor, Tensor]:
        """How many relevant and irrelevant documents of each query are looked at."""
        seen = queries.live * (queries.before < self.k)
        positives = queries.sum(queries.relevant * seen)
        return positives, queries.sum(seen.double()) - positives

    def lacking(self, queries: Queries) -> Tensor:
        positives, negatives = self._sides(queries)
        return (positives == 0) | (negatives == 0)

    def score(self, queries: Queries) -> Tensor:
        positives, negatives = self._sides(queries)
        limit = 1.0 if self.max_fpr is None else float(self.max_fpr)
        width = queries.tied - queries.tied_relevant  # irrelevant ones of the tie: a step to the right, and `tied_relevant` up
        left = queries.before - queries.relevant_before
        step = (queries.of_documents(negatives * limit) - left).clamp(min=0.0).minimum(width)
        height = queries.relevant_before + queries.tied_relevant * step / (2 * width).clamp(min=1.0)
        area = queries.sum((step * height).where(queries.first & (queries.before < self.k), 0.0)) / (positives * negatives)
        if limit == 1:
            return area
        least = limit**2 / 2
        result: Tensor = 0.5 * (1 + (area - least) / (limit - least))
        return result
