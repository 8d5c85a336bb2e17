"""Which statistic remembers the same of weighted elements."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..statistic import Input, Statistic
from .class_counts import ClassCounts, Hits, Labels
from .confusion import Confusion
from .curves import ScoreSamples
from .decisions import Decisions, LabelCounts
from .moments import PairMoments, Single, TargetRange, WideMoments
from .pairs import ErrorSums
from .rows import EventCounts, RowScores
from .score_histogram import ScoreHistogram
from .scores import Scores
from .weighted_curves import WeightedScoreHistogram, WeightedScores, WeightedScoreSamples
from .weighted_moments import WeightedPairMoments, WeightedTargetRange, WeightedWideMoments
from .weighted_pairs import WeightedErrorSums
from .weighted_rows import WeightedEventCounts, WeightedRowScores
from .weights import (
    WeightedClassCounts,
    WeightedConfusion,
    WeightedDecisions,
    WeightedHits,
    WeightedLabelCounts,
    WeightedLabels,
)

_WEIGHTED: dict[type, Any] = {
    Labels: WeightedLabels,
    Decisions: WeightedDecisions,
    Scores: WeightedScores,
    Hits: WeightedHits,
    ClassCounts: WeightedClassCounts,
    LabelCounts: WeightedLabelCounts,
    Confusion: WeightedConfusion,
    ErrorSums: WeightedErrorSums,
    PairMoments: WeightedPairMoments,
    WideMoments: WeightedWideMoments,
    TargetRange: WeightedTargetRange,
    Single: Single,
    RowScores: WeightedRowScores,
    EventCounts: WeightedEventCounts,
    ScoreSamples: WeightedScoreSamples,
    ScoreHistogram: WeightedScoreHistogram,
}


def weighted(part: Any) -> Any:
    """The same statistic, or input, of weighted elements."""
    made = {f.name: getattr(part, f.name) for f in fields(part)}
    return _WEIGHTED[type(part)](**{name: weighted(x) if isinstance(x, Input | Statistic) else x for name, x in made.items()})
