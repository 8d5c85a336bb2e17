"""PyTorch metrics that never make the host wait for the GPU, and a stall finder that shows what does wait."""

from . import aggregation, classification, functional, regression
from .aggregation import CatMetric, MaxMetric, MeanMetric, MinMetric, SumMetric
from .checkpoint import load, save
from .classification import (
    AUROC,
    Accuracy,
    AveragePrecision,
    CohenKappa,
    ConfusionMatrix,
    ExactMatch,
    F1Score,
    FBetaScore,
    HammingDistance,
    JaccardIndex,
    MatthewsCorrCoef,
    NegativePredictiveValue,
    Precision,
    Recall,
    Specificity,
    StatScores,
)
from .collection import MetricCollection
from .composition import CompositionalMetric
from .distributed import RankError, RankTimeout
from .errors import TallyError
from .faults import FaultError, FaultWarning
from .formula import Formula
from .metric import Metric
from .pending import Pending
from .regression import (
    ConcordanceCorrCoef,
    CosineSimilarity,
    CriticalSuccessIndex,
    ExplainedVariance,
    KendallRankCorrCoef,
    KLDivergence,
    LogCoshError,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogError,
    MinkowskiDistance,
    NormalizedRootMeanSquaredError,
    PearsonCorrCoef,
    R2Score,
    RelativeSquaredError,
    SpearmanCorrCoef,
    SymmetricMeanAbsolutePercentageError,
    TweedieDevianceScore,
    WeightedMeanAbsolutePercentageError,
)
from .statistic import Input, Slot, Statistic
from .virtual import register

register()

__all__ = [
    "AUROC",
    "Accuracy",
    "AveragePrecision",
    "CatMetric",
    "CohenKappa",
    "CompositionalMetric",
    "ConcordanceCorrCoef",
    "ConfusionMatrix",
    "CosineSimilarity",
    "CriticalSuccessIndex",
    "ExactMatch",
    "ExplainedVariance",
    "F1Score",
    "FBetaScore",
    "FaultError",
    "FaultWarning",
    "Formula",
    "HammingDistance",
    "Input",
    "JaccardIndex",
    "KLDivergence",
    "KendallRankCorrCoef",
    "LogCoshError",
    "MatthewsCorrCoef",
    "MaxMetric",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanMetric",
    "MeanSquaredError",
    "MeanSquaredLogError",
    "Metric",
    "MetricCollection",
    "MinMetric",
    "MinkowskiDistance",
    "NegativePredictiveValue",
    "NormalizedRootMeanSquaredError",
    "PearsonCorrCoef",
    "Pending",
    "Precision",
    "R2Score",
    "RankError",
    "RankTimeout",
    "Recall",
    "RelativeSquaredError",
    "Slot",
    "SpearmanCorrCoef",
    "Specificity",
    "StatScores",
    "Statistic",
    "SumMetric",
    "SymmetricMeanAbsolutePercentageError",
    "TallyError",
    "TweedieDevianceScore",
    "WeightedMeanAbsolutePercentageError",
    "aggregation",
    "classification",
    "functional",
    "load",
    "regression",
    "save",
]
