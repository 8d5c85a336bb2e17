"""Metrics of numbers that were predicted."""

from .correlation import ConcordanceCorrCoef, KendallRankCorrCoef, PearsonCorrCoef, SpearmanCorrCoef
from .distances import (
    ContinuousRankedProbabilityScore,
    CosineSimilarity,
    CriticalSuccessIndex,
    JensenShannonDivergence,
    KLDivergence,
    MinkowskiDistance,
    TweedieDevianceScore,
)
from .errors import (
    LogCoshError,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogError,
    NormalizedRootMeanSquaredError,
    SymmetricMeanAbsolutePercentageError,
    WeightedMeanAbsolutePercentageError,
)
from .variance import ExplainedVariance, R2Score, RelativeSquaredError

__all__ = [
    "ConcordanceCorrCoef",
    "ContinuousRankedProbabilityScore",
    "CosineSimilarity",
    "CriticalSuccessIndex",
    "ExplainedVariance",
    "JensenShannonDivergence",
    "KLDivergence",
    "KendallRankCorrCoef",
    "LogCoshError",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogError",
    "MinkowskiDistance",
    "NormalizedRootMeanSquaredError",
    "PearsonCorrCoef",
    "R2Score",
    "RelativeSquaredError",
    "SpearmanCorrCoef",
    "SymmetricMeanAbsolutePercentageError",
    "TweedieDevianceScore",
    "WeightedMeanAbsolutePercentageError",
]
