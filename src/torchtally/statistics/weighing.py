"""Which statistic remembers the same of weighted elements."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..statistic import Input, Statistic
from .auto_curves import AutoSamples
from .calibration import CalibrationBins
from .class_counts import ClassCounts, Hits, Labels
from .confusion import Confusion
from .curves import ScoreSamples
from .decisions import Decisions, LabelCounts
from .groups import GroupCounts, GroupDecisions
from .hinge import HingeSums
from .label_ranks import LabelRanks
from .moments import PairMoments, Single, TargetRange, WideMoments
from .pairs import ErrorSums
from .rows import EventCounts, RowScores
from .score_histogram import ScoreHistogram
from .scores import Scores
from .weighted_curves import WeightedAutoSamples, WeightedScoreHistogram, WeightedScores, WeightedScoreSamples
from .weighted_groups import WeightedGroupCounts, WeightedGroupDecisions
from .weighted_moments import WeightedPairMoments, WeightedTargetRange, WeightedWideMoments
from .weighted_pairs import WeightedErrorSums
from .weighted_rows import WeightedEventCounts, WeightedRowScores
from .weighted_scores import WeightedCalibrationBins, WeightedHingeSums, WeightedLabelRanks, WeightedScoreRows
from .weighted_whole_rows import WeightedDecisionRows, WeightedLabelRows, WeightedWholeRows
from .weights import (
    WeightedClassCounts,
    WeightedConfusion,
    WeightedDecisions,
    WeightedHits,
    WeightedLabelCounts,
    WeightedLabels,
)
from .whole_rows import DecisionRows, LabelRows, WholeRows


def _label_ranks(input: WeightedScores) -> WeightedLabelRanks:
    return WeightedLabelRanks(WeightedScoreRows(**{f.name: getattr(input, f.name) for f in fields(input)}))


_WEIGHTED: dict[type, Any] = {
    Labels: WeightedLabels,
    LabelRows: WeightedLabelRows,
    Decisions: WeightedDecisions,
    DecisionRows: WeightedDecisionRows,
    GroupDecisions: WeightedGroupDecisions,
    Scores: WeightedScores,
    Hits: WeightedHits,
    ClassCounts: WeightedClassCounts,
    LabelCounts: WeightedLabelCounts,
    Confusion: WeightedConfusion,
    WholeRows: WeightedWholeRows,
    GroupCounts: WeightedGroupCounts,
    ErrorSums: WeightedErrorSums,
    PairMoments: WeightedPairMoments,
    WideMoments: WeightedWideMoments,
    TargetRange: WeightedTargetRange,
    Single: Single,
    RowScores: WeightedRowScores,
    EventCounts: WeightedEventCounts,
    CalibrationBins: WeightedCalibrationBins,
    HingeSums: WeightedHingeSums,
    LabelRanks: _label_ranks,
    ScoreSamples: WeightedScoreSamples,
    AutoSamples: WeightedAutoSamples,
    ScoreHistogram: WeightedScoreHistogram,
}


def weighted(part: Any) -> Any:
    """The same statistic, or input, of weighted elements."""
    made = {f.name: getattr(part, f.name) for f in fields(part)}
    return _WEIGHTED[type(part)](**{name: weighted(x) if isinstance(x, Input | Statistic) else x for name, x in made.items()})
