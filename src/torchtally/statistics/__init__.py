"""The things a metric can remember. Look here before writing a new one."""

from .averages import Average, Weighed
from .class_counts import ClassCounts, Counts, Decisions, Hits, LabelCounts, Labels
from .confusion import Confusion
from .extremes import Extremal, Extreme
from .samples import NumberSamples

__all__ = [
    "Average",
    "ClassCounts",
    "Confusion",
    "Counts",
    "Decisions",
    "Extremal",
    "Extreme",
    "Hits",
    "LabelCounts",
    "Labels",
    "NumberSamples",
    "Weighed",
]
