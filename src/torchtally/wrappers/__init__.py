"""Metrics around metrics."""

from ..aggregation import BaseAggregator
from ..moving import ExponentialMovingAverage
from .abstract import WrapperMetric
from .bootstrapping import BootStrapper
from .classwise import ClasswiseWrapper
from .feature_share import FeatureShare, NetworkCache
from .minmax import MinMaxMetric
from .multioutput import MultioutputWrapper
from .multitask import MultitaskWrapper
from .running import Running, RunningMean, RunningSum
from .sliced import Sliced
from .tracker import MetricTracker
from .transformations import BinaryTargetTransformer, LambdaInputTransformer, MetricInputTransformer

__all__ = [
    "BaseAggregator",
    "BinaryTargetTransformer",
    "BootStrapper",
    "ClasswiseWrapper",
    "ExponentialMovingAverage",
    "FeatureShare",
    "LambdaInputTransformer",
    "MetricInputTransformer",
    "MetricTracker",
    "MinMaxMetric",
    "MultioutputWrapper",
    "MultitaskWrapper",
    "NetworkCache",
    "Running",
    "RunningMean",
    "RunningSum",
    "Sliced",
    "WrapperMetric",
]
