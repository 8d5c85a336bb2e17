"""Precision and recall at every number of documents that are looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import Any

import torch
from torch import Tensor

from ..options import FormulaOptions, Unpack, count_of, flag_of
from ..pending import Unfinished
from ..statistic import host_visible
from ..statistics.queries import Queries
from .base import Aggregation, PerQuery, RetrievalMetric


@dataclass
class AtEveryK:
    """Precision and recall `(K,)` of the first 1, 2, … K documents. `longest`: after how many of them queries and curve end, where only a
    device knows it. `lacking`: queries for which there is to be an error."""

    precision: Tensor
    recall: Tensor
    longest: Tensor | None = None
    lacking: Tensor | None = None

    @property
    def k(self) -> Tensor:
        return torch.arange(1, len(self.precision) + 1, device=self.precision.device)


_ROUNDING = 1e-12  # a mean of precisions may be off by so much


class RetrievalPrecisionRecallCurve(RetrievalMetric):
    """Precision and recall of the first 1, 2, … `max_k` documents of a query, averaged over queries; and these numbers.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. The value is `(precisions, recalls, k)`,
    each `(max_k,)`; without `max_k` the curve ends with the longest query, which on a device `forward` does not wait for: there it ends with the
    batch. A query with fewer documents is as one with irrelevant ones added, or with `adaptive_k` keeps its last precision. Tied documents
    count by how likely they are among the first. Of queries without a relevant document see `empty_target_action`. 0 of no queries.

    >>> from torch import tensor
    >>> curve = RetrievalPrecisionRecallCurve(max_k=2)
    >>> curve(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([1, 0, 1, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    (tensor([1.0000, 0.5000]), tensor([0.7500, 0.7500]), tensor([1, 2]))
    """

    higher_is_better: bool | None = None

    def __init__(
        self,
        max_k: int | None = None,
        adaptive_k: bool = False,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        name = type(self).__name__
        if max_k is not None:
            count_of(name, "max_k", max_k)
        super().__init__(empty_target_action, ignore_index, aggregation, **kwargs)
        self.max_k, self.adaptive_k = max_k, flag_of(name, "adaptive_k", adaptive_k)

    def value(self, queries: Queries) -> Any:
        counted, lacking = self._told(queries)
        longest = queries.size.where(counted, 0.0)
        length = self.max_k
        if length is None:
            length = len(queries.live) if queries.exists is not None else int(longest.max()) if len(longest) else 0
        if self.empty_target_action == "skip":
            counted = counted & ~lacking
        make = self._means if self.aggregation == "mean" else self._aggregates
        curve = make(queries, length, counted, lacking)
        if queries.exists is not None and self.max_k is None and len(longest):
            curve.longest = longest.amax()
        if self.empty_target_action == "error":
            curve.lacking = lacking.sum()
        return curve

    def _means(self, queries: Queries, length: int, counted: Tensor, lacking: Tensor) -> AtEveryK:
        """From sums over all queries at each place, without a table of queries by places."""
        has = (counted & ~lacking).double()
        found = queries.relevant_share * queries.of_documents(has)
        place = queries.rank.long() - 1

        def up_to(x: Tensor, place: Tensor) -> Tensor:
            """The sum of what lies at each place or before."""
            into = torch.zeros(length + 1, dtype=torch.float64, device=x.device)
            return into.scatter_add_(0, place.clamp(max=length), x)[:length].cumsum(0)

        k = torch.arange(1, length + 1, dtype=torch.float64, device=found.device)
        count = counted.sum()
        extra = lacking.sum() if self.empty_target_action == "pos" else 0.0
        recall = up_to(found / queries.of_documents(queries.positives.clamp(min=1.0)), place)
        at_k = up_to(found, place) / k
        if self.adaptive_k:
            last = queries.size.long()  # from here on a query keeps its last precision
            positives = queries.positives * has
            at_k = at_k - up_to(positives, last) / k + up_to(positives / queries.size.clamp(min=1.0), last)
        precision, recall = ((x + extra).div(count).where(count > 0, 0.0) for x in (at_k, recall))
        return AtEveryK(precision, recall)

    def _aggregates(self, queries: Queries, length: int, counted: Tensor, lacking: Tensor) -> AtEveryK:
        """From a table of queries by places."""
        table = torch.zeros(queries.rows, length + 1, dtype=torch.float64, device=queries.rank.device)
        table[queries.number, (queries.rank.long() - 1).clamp(max=length)] = queries.relevant_share
        found = table[:, :length].cumsum(1)
        k = torch.arange(1, length + 1, dtype=torch.float64, device=table.device)
        precision = found / (k.minimum(queries.size.clamp(min=1.0)[:, None]) if self.adaptive_k else k)
        recall = found / queries.positives.clamp(min=1.0)[:, None]
        if self.empty_target_action == "pos":
            precision, recall = (x.masked_fill(lacking[:, None], 1.0) for x in (precision, recall))
        if callable(self.aggregation):  # which waits for a device
            dense = [x[counted] for x in (precision, recall)]
            return AtEveryK(*(self._called_by_column(x) if len(x) else x.new_zeros(length) for x in dense))
        return AtEveryK(*(self._of_all(PerQuery(x, counted[:, None].expand(x.shape), lacking)) for x in (precision, recall)))

    def _called_by_column(self, x: Tensor) -> Tensor:
        assert callable(self.aggregation)
        return torch.as_tensor(self.aggregation(x, dim=0), dtype=torch.float64, device=x.device)

    def plot(self, curve: Any = None, ax: Any = None) -> tuple[Any, Any]:  # type: ignore[override]  # torchmetrics' arguments
        """Draw precision and recall, or those of `curve`, of the first 1, 2, … documents."""
        from ..plotting.canvas import spaced
        from ..plotting.curves import plot_at_every_k

        return plot_at_every_k(self.compute() if curve is None else curve, ax, name=spaced(type(self).__name__))

    # ---- results
    def of_curve(self, curve: AtEveryK) -> tuple[Tensor, ...]:
        """The result, in full precision."""
        return curve.precision, curve.recall, curve.k

    def _cut(self, curve: AtEveryK) -> AtEveryK:
        """Ended with the longest query; waits for a device."""
        if curve.lacking is not None:
            self._refuse(curve.lacking)
        if curve.longest is None:
            return curve
        end = int(curve.longest)
        return AtEveryK(curve.precision[:end], curve.recall[:end])

    def _finish(self, value: Any) -> Any:
        return super()._finish(self.of_curve(self._cut(value)))

    def _of_batch(self, value: Any) -> Any:
        if value.lacking is not None and not host_visible(value.lacking):
            precision, recall = (x.where(value.lacking == 0, nan) for x in (value.precision, value.recall))
            value = replace(value, precision=precision, recall=recall)
        elif value.lacking is not None:
            self._refuse(value.lacking)
        return super()._finish(self.of_curve(value))

    def _unfinished(self, value: Any) -> Any:
        ends = value.longest, value.lacking
        if ends == (None, None):
            return self.of_curve(value)
        known = [value.recall.new_zeros(()) if x is None else x.double() for x in ends]

        def finish(joined: Tensor) -> tuple[Tensor, ...]:
            told = [None if end is None else x for end, x in zip(ends, joined)]
            return self.of_curve(self._cut(AtEveryK(*joined[2:].view(2, -1), *told)))

        return Unfinished(torch.cat([torch.stack(known), value.precision, value.recall]), finish)


class RetrievalRecallAtFixedPrecision(RetrievalPrecisionRecallCurve):
    """The highest recall of the first k documents at which precision is at least `min_precision`, over all k, and the largest such k.

    `preds` are scores, `target` is 0 or 1, `indexes` the number of each document's query, all `(N, ...)`. Precision and recall are the means
    over queries of `RetrievalPrecisionRecallCurve`. The value is `(recall, k)`; where no k qualifies, 0 and the number of points of the curve.

    >>> from torch import tensor
    >>> metric = RetrievalRecallAtFixedPrecision(min_precision=0.4)
    >>> metric(tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([1, 0, 1, 0, 1]), indexes=tensor([0, 0, 0, 1, 1]))
    (tensor(1.), tensor(3))
    """

    higher_is_better = True

    def plot(self, val: Any = None, ax: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """Draw the recall, or that of `val`, and write the k it is reached at; of a list of values, the recalls step by step."""
        from ..plotting.canvas import spaced
        from ..plotting.curves import plot_operating_point
        from ..plotting.values import Scale, plot_values

        scale = Scale(spaced(type(self).__name__), low=0.0, high=1.0, higher_is_better=True)
        if isinstance(val, list):
            return plot_values([recall for recall, _ in val], ax, scale=scale)
        recall, k = self.compute() if val is None else val
        return plot_operating_point(recall, k, ax, labels=None, scale=scale, what="k =")

    def __init__(
        self,
        min_precision: float = 0.0,
        max_k: int | None = None,
        adaptive_k: bool = False,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        if not isinstance(min_precision, int | float) or isinstance(min_precision, bool) or not 0 <= min_precision <= 1:
            raise ValueError(f"{type(self).__name__}: min_precision is {min_precision!r}; expected a number from 0 to 1.")
        super().__init__(max_k, adaptive_k, empty_target_action, ignore_index, aggregation, **kwargs)
        self.min_precision = min_precision

    def of_curve(self, curve: AtEveryK) -> tuple[Tensor, ...]:
        end = curve.precision.new_full((), len(curve.precision)) if curve.longest is None else curve.longest
        good = (curve.precision >= self.min_precision - _ROUNDING) & (curve.k <= end)
        recall = torch.cat([curve.recall.where(good, 0.0), curve.recall.new_zeros(1)]).amax()
        k = torch.cat([curve.k.where(good & (curve.recall == recall), 0), curve.k.new_zeros(1)]).amax()
        return recall, k.where(recall > 0, end.long())
