"""The things a metric can remember. Look here before writing a new one."""

from .averages import Average, Weighed
from .class_counts import ClassCounts, Counts, Decisions, Hits, LabelCounts, Labels
from .confusion import Confusion
from .curves import BinnedCurves, Curve, Curves, ScoreHistogram, Scores, ScoreSamples
from .extremes import Extremal, Extreme
from .samples import NumberSamples
from .whole_rows import DecisionRows, LabelRows, WholeRows

__all__ = [
    "Average",
    "BinnedCurves",
    "ClassCounts",
    "Confusion",
    "Counts",
    "Curve",
    "Curves",
    "DecisionRows",
    "Decisions",
    "Extremal",
    "Extreme",
    "Hits",
    "LabelCounts",
    "LabelRows",
    "Labels",
    "NumberSamples",
    "ScoreHistogram",
    "ScoreSamples",
    "Scores",
    "Weighed",
    "WholeRows",
]
