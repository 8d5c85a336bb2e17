"""PyTorch metrics that never make the host wait for the GPU, and a stall finder that shows what does wait."""

from typing import TYPE_CHECKING, Any

from . import aggregation
from .aggregation import CatMetric, MaxMetric, MeanMetric, MinMetric, SumMetric
from .checkpoint import load, save
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

if TYPE_CHECKING:
    from . import classification, functional, regression, retrieval, text, wrappers
    from .classification import (
        AUROC,
        EER,
        ROC,
        Accuracy,
        AveragePrecision,
        CalibrationError,
        CohenKappa,
        ConfusionMatrix,
        ExactMatch,
        F1Score,
        FBetaScore,
        HammingDistance,
        HingeLoss,
        JaccardIndex,
        LogAUC,
        MatthewsCorrCoef,
        NegativePredictiveValue,
        Precision,
        PrecisionAtFixedRecall,
        PrecisionRecallCurve,
        Recall,
        RecallAtFixedPrecision,
        SensitivityAtSpecificity,
        Specificity,
        SpecificityAtSensitivity,
        StatScores,
    )
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
    from .retrieval import (
        RetrievalFallOut,
        RetrievalHitRate,
        RetrievalMAP,
        RetrievalMRR,
        RetrievalNormalizedDCG,
        RetrievalPrecision,
        RetrievalPrecisionRecallCurve,
        RetrievalRecall,
        RetrievalRecallAtFixedPrecision,
        RetrievalRPrecision,
    )
    from .text import Perplexity
    from .throughput import Throughput
    from .wrappers import (
        BootStrapper,
        ClasswiseWrapper,
        ExponentialMovingAverage,
        FeatureShare,
        MetricTracker,
        MinMaxMetric,
        MultioutputWrapper,
        MultitaskWrapper,
        Running,
        RunningMean,
        RunningSum,
        Sliced,
    )

register()

__all__ = [
    "AUROC",
    "EER",
    "ROC",
    "Accuracy",
    "AveragePrecision",
    "BootStrapper",
    "CalibrationError",
    "CatMetric",
    "ClasswiseWrapper",
    "CohenKappa",
    "CompositionalMetric",
    "ConcordanceCorrCoef",
    "ConfusionMatrix",
    "CosineSimilarity",
    "CriticalSuccessIndex",
    "ExactMatch",
    "ExplainedVariance",
    "ExponentialMovingAverage",
    "F1Score",
    "FBetaScore",
    "FaultError",
    "FaultWarning",
    "FeatureShare",
    "Formula",
    "HammingDistance",
    "HingeLoss",
    "Input",
    "JaccardIndex",
    "KLDivergence",
    "KendallRankCorrCoef",
    "LogAUC",
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
    "MetricTracker",
    "MinMaxMetric",
    "MinMetric",
    "MinkowskiDistance",
    "MultioutputWrapper",
    "MultitaskWrapper",
    "NegativePredictiveValue",
    "NormalizedRootMeanSquaredError",
    "PearsonCorrCoef",
    "Pending",
    "Perplexity",
    "Precision",
    "PrecisionAtFixedRecall",
    "PrecisionRecallCurve",
    "R2Score",
    "RankError",
    "RankTimeout",
    "Recall",
    "RecallAtFixedPrecision",
    "RelativeSquaredError",
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
    "Running",
    "RunningMean",
    "RunningSum",
    "SensitivityAtSpecificity",
    "Sliced",
    "Slot",
    "SpearmanCorrCoef",
    "Specificity",
    "SpecificityAtSensitivity",
    "StatScores",
    "Statistic",
    "SumMetric",
    "SymmetricMeanAbsolutePercentageError",
    "TallyError",
    "Throughput",
    "TweedieDevianceScore",
    "WeightedMeanAbsolutePercentageError",
    "aggregation",
    "classification",
    "functional",
    "load",
    "regression",
    "retrieval",
    "save",
    "text",
    "wrappers",
]

_FAMILIES = ("classification", "regression", "retrieval", "text", "wrappers", "throughput")


def __getattr__(name: str) -> Any:
    """Families of metrics are loaded when first asked for: importing torchtally should cost little beside importing torch."""
    import importlib

    if name in (*_FAMILIES, "functional"):
        return importlib.import_module(f".{name}", __name__)
    if name in __all__:
        for family in _FAMILIES:
            found = getattr(importlib.import_module(f".{family}", __name__), name, None)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
