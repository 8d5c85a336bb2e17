"""Metrics of documents that were ranked for queries."""

from .curve import RetrievalPrecisionRecallCurve, RetrievalRecallAtFixedPrecision
from .found import RetrievalFallOut, RetrievalHitRate, RetrievalPrecision, RetrievalRecall, RetrievalRPrecision
from .order import RetrievalAUROC, RetrievalMAP, RetrievalMRR, RetrievalNormalizedDCG

__all__ = [
    "RetrievalAUROC",
    "RetrievalFallOut",
    "RetrievalHitRate",
    "RetrievalMAP",
    "RetrievalMRR",
    "RetrievalNormalizedDCG",
    "RetrievalPrecision",
    "RetrievalPrecisionRecallCurve",
    "RetrievalRPrecision",
    "RetrievalRecall",
    "RetrievalRecallAtFixedPrecision",
]
