"""PyTorch metrics that never make the host wait for the GPU, and a stall finder that shows what does wait."""

from . import aggregation, classification, functional
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
    "ConfusionMatrix",
    "ExactMatch",
    "F1Score",
    "FBetaScore",
    "FaultError",
    "FaultWarning",
    "Formula",
    "HammingDistance",
    "Input",
    "JaccardIndex",
    "MatthewsCorrCoef",
    "MaxMetric",
    "MeanMetric",
    "Metric",
    "MetricCollection",
    "MinMetric",
    "NegativePredictiveValue",
    "Pending",
    "Precision",
    "RankError",
    "RankTimeout",
    "Recall",
    "Slot",
    "Specificity",
    "StatScores",
    "Statistic",
    "SumMetric",
    "TallyError",
    "aggregation",
    "classification",
    "functional",
    "load",
    "save",
]
