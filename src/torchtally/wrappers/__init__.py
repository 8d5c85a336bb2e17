"""Metrics around metrics."""

from ..aggregation import BaseAggregator
from .abstract import WrapperMetric
from .classwise import ClasswiseWrapper
from .minmax import MinMaxMetric
from .multioutput import MultioutputWrapper
from .multitask import MultitaskWrapper
from .running import Running, RunningMean, RunningSum
from .tracker import MetricTracker
from .transformations import BinaryTargetTransformer, LambdaInputTransformer, MetricInputTransformer

__all__ = [
    "BaseAggregator",
    "BinaryTargetTransformer",
    "ClasswiseWrapper",
    "LambdaInputTransformer",
    "MetricInputTransformer",
    "MetricTracker",
    "MinMaxMetric",
    "MultioutputWrapper",
    "MultitaskWrapper",
    "Running",
    "RunningMean",
    "RunningSum",
    "WrapperMetric",
]
