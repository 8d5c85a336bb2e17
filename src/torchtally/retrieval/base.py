"""What is common to all metrics of retrieval: documents ranked by query, queries in which nothing is relevant, and one value from those of all queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from ..classification.options import checked
from ..formula import Formula, feeds
from ..options import FormulaOptions, Unpack, choice_of, count_of
from ..pending import Unfinished
from ..statistic import host_visible
from ..statistics.queries import Judged, Queries, QuerySamples
from ..valid import Valid

Aggregation = str | Callable[..., Any]


@dataclass
class PerQuery:
    """A value for each query: of those `counted`, and those that are `lacking` what the metric is about."""

    values: Tensor
    counted: Tensor
    lacking: Tensor

    def dense(self) -> Tensor:
        """Without those that do not count; waits for a device."""
        return self.values[self.counted]


class RetrievalMetric(Formula):
    """One value from a value for each query. Documents are ranked by falling score; memory grows with the data."""

    entries = ("preds", "target", "indexes")
    higher_is_better: bool | None = True
    is_differentiable = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    ignore_index: int | None
    declined = {"weighted": "what a weight of a document or of a query should do is not agreed on"}
    graded = False
    lacks = "no relevant document"

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        checked(self, ignore_index=ignore_index)
        name = type(self).__name__
        choice_of(name, "empty_target_action", empty_target_action, ("error", "skip", "neg", "pos"))
        if not callable(aggregation):
            choice_of(name, "aggregation", aggregation, ("mean", "median", "min", "max"))
        super().__init__(QuerySamples(Judged(ignore_index, self.graded)), **kwargs)
        self.empty_target_action, self.aggregation = empty_target_action, aggregation

    @feeds
    def update(self, preds: Tensor, target: Tensor, indexes: Tensor, *, valid: Valid = None) -> None:  # type: ignore[override]  # queries, too
        self._add(preds, target, indexes, valid=valid)

    def score(self, queries: Queries) -> Tensor:
        """The value of each query; of one that is lacking anything."""
        raise NotImplementedError

    def lacking(self, queries: Queries) -> Tensor:
        """Which queries the metric says nothing about."""
        return queries.positives == 0

    def value(self, queries: Queries) -> Tensor | PerQuery:
        there, lacking = self._told(queries)
        action = self.empty_target_action
        values = self.score(queries).masked_fill(lacking, {"neg": 0.0, "pos": 1.0}.get(action, nan))
        found = PerQuery(values, there & ~lacking if action == "skip" else there, lacking)
        return found if callable(self.aggregation) or action == "error" else self._of_all(found)

    def _told(self, queries: Queries) -> tuple[Tensor, Tensor]:
        """Which rows are queries, and which of these the metric says nothing about."""
        lacking = self.lacking(queries)
        there = torch.ones_like(lacking) if queries.exists is None else queries.exists
        return there, lacking & there

    def _of_some(self, found: PerQuery) -> Tensor:
        """The value where it takes a look at which queries there are, or lack something; waits for a device."""
        self._refuse(found.lacking)
        values = found.dense() if callable(self.aggregation) else found.values
        return self._called(values) if callable(self.aggregation) and len(values) else self._of_all(found)

    def _refuse(self, lacking: Tensor) -> None:
        """Raise where queries lack something and that is to be an error; waits for a device."""
        if self.empty_target_action == "error" and (count := int(lacking.sum())):
            raise ValueError(
                f"{type(self).__name__}: {count} quer{'y has' if count == 1 else 'ies have'} {self.lacks}, for which empty_target_action='error' "
                "asks for an error. Pass 'skip' to leave such queries out, 'neg' to count them as 0 or 'pos' as 1."
            )

    def _called(self, values: Tensor) -> Tensor:
        assert callable(self.aggregation)
        return torch.as_tensor(self.aggregation(values), dtype=torch.float64, device=values.device)

    def _of_all(self, found: PerQuery) -> Tensor:
        """The value, or that of each column, without knowing how many count; 0 of none, as torchmetrics has it."""
        values, counted = found.values, found.counted
        if not len(values):
            return values.new_zeros(values.shape[1:])
        count = counted.sum(0)
        if self.aggregation == "mean":
            result = values.masked_fill(~counted, 0.0).sum(0) / count
        elif self.aggregation == "median":  # the lower one of two in the middle, as torch.median has it
            result = values.masked_fill(~counted, inf).sort(0).values.gather(0, (count[None] - 1).clamp(min=0) // 2)[0]
        elif self.aggregation == "min":
            result = values.masked_fill(~counted, inf).amin(0)
        else:
            result = values.masked_fill(~counted, -inf).amax(0)
        return result.where(count > 0, 0.0)

    def _finish(self, value: Any) -> Any:
        return super()._finish(self._of_some(value) if isinstance(value, PerQuery) else value)

    def _of_batch(self, value: Any) -> Any:
        """On a device a batch with a query that lacks something gives NaN where that is to be an error: `forward` does not wait to find out."""
        if isinstance(value, PerQuery) and not callable(self.aggregation) and not host_visible(value.lacking):
            value = self._of_all(value)
        return self._finish(value)

    def _unfinished(self, value: Any) -> Any:
        if not isinstance(value, PerQuery):
            return value

        def finish(stacked: Tensor) -> Tensor:
            values, counted, lacking = stacked
            return self._of_some(PerQuery(values, counted.bool(), lacking.bool()))

        return Unfinished(torch.stack([value.values, value.counted.double(), value.lacking.double()]), finish)


class TopKMetric(RetrievalMetric):
    """A metric of the first `top_k` documents of each query, or of all of them."""

    def __init__(
        self,
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: Aggregation = "mean",
        **kwargs: Unpack[FormulaOptions],
    ) -> None:
        if top_k is not None:
            count_of(type(self).__name__, "top_k", top_k)
        super().__init__(empty_target_action, ignore_index, aggregation, **kwargs)
        self.top_k = top_k

    @property
    def k(self) -> float:
        return inf if self.top_k is None else float(self.top_k)
