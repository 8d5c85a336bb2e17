"""One-shot forms of the retrieval metrics: of one query, or the mean over the rows of several."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from .. import retrieval as r
from ..formula import Formula
from .one_shot import bound_to, one_shot

_OF_QUERIES = ("indexes", "empty_target_action", "ignore_index", "aggregation")


def by_rows(cls: type[Formula], name: str) -> Callable[..., Any]:
    """The function `name(preds, target, **options)` of one query, or of a query a row; one about which the metric says nothing counts 0."""
    inner = one_shot(cls, name, empty_target_action="neg")
    signature = inspect.Signature([p for n, p in inspect.signature(inner).parameters.items() if n not in _OF_QUERIES])

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = bound_to(signature, name, args, kwargs)
        preds = bound.pop("preds")
        rows = torch.zeros_like(preds, dtype=torch.int64) if isinstance(preds, torch.Tensor) else None
        if rows is not None and rows.ndim > 1:
            rows += torch.arange(len(rows), device=rows.device).view(-1, *[1] * (rows.ndim - 1))
        return inner(preds, bound.pop("target"), rows, **bound)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{inner.__doc__} `preds` and `target` are those of one query, or `(Q, ...)` with a query a row, whose values are averaged."
    )
    function.__signature__ = signature  # type: ignore[attr-defined]  # what help() and editors show
    function.__module__ = __name__
    return function


retrieval_auroc = by_rows(r.RetrievalAUROC, "retrieval_auroc")
retrieval_average_precision = by_rows(r.RetrievalMAP, "retrieval_average_precision")
retrieval_fall_out = by_rows(r.RetrievalFallOut, "retrieval_fall_out")
retrieval_hit_rate = by_rows(r.RetrievalHitRate, "retrieval_hit_rate")
retrieval_normalized_dcg = by_rows(r.RetrievalNormalizedDCG, "retrieval_normalized_dcg")
retrieval_precision = by_rows(r.RetrievalPrecision, "retrieval_precision")
retrieval_precision_recall_curve = by_rows(r.RetrievalPrecisionRecallCurve, "retrieval_precision_recall_curve")
retrieval_r_precision = by_rows(r.RetrievalRPrecision, "retrieval_r_precision")
retrieval_recall = by_rows(r.RetrievalRecall, "retrieval_recall")
retrieval_reciprocal_rank = by_rows(r.RetrievalMRR, "retrieval_reciprocal_rank")

__all__ = [
    "retrieval_auroc",
    "retrieval_average_precision",
    "retrieval_fall_out",
    "retrieval_hit_rate",
    "retrieval_normalized_dcg",
    "retrieval_precision",
    "retrieval_precision_recall_curve",
    "retrieval_r_precision",
    "retrieval_recall",
    "retrieval_reciprocal_rank",
]
