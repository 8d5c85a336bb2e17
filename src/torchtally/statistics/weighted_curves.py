"""Curves of scores in which samples have weights."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..kernels import add_on_device
from ..lazy import Once
from ..statistic import Piece, Slot, Slots
from .auto_curves import AutoSamples
from .curves import Curve, Curves, ScoreSamples
from .score_histogram import ScoreHistogram
from .scores import Scores
from .weights import Weighed, like, of_device, of_host


@dataclass(frozen=True)
class WeightedScores(Weighed, Scores):
    """Scores, marks and weights: float64, one a row, or one for each label of a row."""

    @property
    def of_labels(self) -> bool:
        """Whether each label of a row has a weight."""
        return self.labels is not None and not self.exclusive

    @property
    def weights(self) -> int:
        """How many a row has."""
        return self.columns if self.of_labels else 1

    def rows(self, target: Tensor) -> tuple[int, ...] | None:
        """What there is a weight for each of: rows of the target, or (None) its elements."""
        return None

    def counted(self, mark: Any) -> Any:
        """Which weights count."""
        return mark[:, : self.weights] >= 0

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, weight = (*batch, None)[:3]
        key, piece = super().take(strict, preds, target)
        weight = like(weight, target, self.rows(target)).to(torch.float64)
        if isinstance(piece[0], np.ndarray):
            return key, (*piece, of_host(strict, self._rows(weight, self.of_labels).numpy(), self.counted(piece[1])))
        return key, (*piece, weight.clone() if key is not None else weight)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        if isinstance(pieces[0][0], np.ndarray):
            weight = torch.from_numpy(np.concatenate([piece[-1] for piece in pieces]))
            return (*super().settle(slots, [piece[:-1] for piece in pieces], first), weight)
        scores, mark = super().settle(slots, [piece[:-1] for piece in pieces], first)
        stacked = torch.stack([piece[-1] for piece in pieces])
        weight = self._rows(stacked, self.of_labels, 1).reshape(-1, self.weights)
        return scores, mark, of_device(slots, weight, self.counted(mark), len(pieces), first)


def ranked(scores: Tensor, mark: Tensor, weight: Tensor) -> Curve:
    """The exact curve of each column of `(N, K)` scores: one sort; ties are one point."""
    if scores.numel() == 0:
        nothing = torch.zeros(scores.shape[1], 0, dtype=torch.float64, device=scores.device)
        return Curve(nothing, nothing, nothing)
    live = mark.ge(0) & weight.gt(0)
    least = scores.where(live, inf).amin(0)
    ordered, order = scores.where(live, least).t().sort(1, descending=True)  # what is not counted is tied with the last
    end = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[:, 1:], ordered[:, :-1], out=end[:, :-1])
    tp, fp = (
        weight.where(mark.eq(kind), 0.0).t().gather(1, order).cumsum(1).where(end, inf).flip(1).cummin(1).values.flip(1) for kind in (1, 0)
    )
    return Curve(tp, fp, ordered, end & live.any(0)[:, None])


class WeightedCurves(Curves):
    """Curves whose positives are sums of weights."""

    def __init__(self, scores: Tensor, mark: Tensor, weight: Tensor, kind: Scores, logits: bool | Tensor | None = None) -> None:
        super().__init__(scores, mark, kind, logits)
        self._weight = weight.expand(mark.shape)

    @Once
    def each(self) -> Curve:
        return ranked(self._rankable, self._mark, self._weight)

    @Once
    def joined(self) -> Curve:
        return ranked(self._rankable.reshape(-1, 1), self._mark.reshape(-1, 1), self._weight.reshape(-1, 1))


@dataclass(frozen=True)
class WeightedScoreSamples(ScoreSamples):
    """Every score with its target and weight. Slots have other names than without, so that no state is taken for one of the other kind."""

    kept = ("scores", "marks", "weights")
    curves = WeightedCurves

    def slots(self) -> dict[str, Slot]:
        score, mark = super().slots().values()
        return {"scores": score, "marks": mark, "weights": Slot((self.weights,), torch.float64, "cat")}

    @property
    def weights(self) -> int:
        """How many a row has."""
        return 1 if self.input.exclusive else self.input.columns

    def update(self, slots: Slots, *normal: Any) -> None:
        for name, samples in zip(self.kept, normal):
            getattr(slots, name).append(samples)


@dataclass(frozen=True)
class WeightedAutoSamples(AutoSamples, WeightedScoreSamples):
    """The same until they need more than `budget` bytes; then how much weight is at or above each of many limits."""

    sums: ClassVar[torch.dtype] = torch.float64

    @property
    def row_bytes(self) -> int:
        return super().row_bytes + 8 * self.weights


@dataclass(frozen=True)
class WeightedScoreHistogram(ScoreHistogram):
    """The weight of the scores of each target that lie between ascending thresholds."""

    def slots(self) -> dict[str, Slot]:
        return {"counts": Slot((self._size + 1,), torch.float64)}

    def update(self, slots: Slots, *normal: Any) -> None:
        scores, mark, weight = normal
        add_on_device(slots.counts, self.bins_of(scores, mark), weight.expand(mark.shape).reshape(-1))
