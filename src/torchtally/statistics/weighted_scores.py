"""Sums over scores in which samples have weights: calibration bins, hinge losses, ranks of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..kernels import add_on_device
from ..statistic import Slot, Slots
from .calibration import CalibrationBins
from .hinge import HingeSums
from .label_ranks import LabelRanks
from .weighted_curves import WeightedScores
from .weights import floating


@dataclass(frozen=True)
class WeightedCalibrationBins(CalibrationBins):
    """The weight of the confidences in each bin, of those that were right, and the weighted sum of all."""

    def slots(self) -> dict[str, Slot]:
        return floating(super().slots())

    def update(self, slots: Slots, *normal: Any) -> None:
        *scores, weight = normal
        confidence, right = self.confidences(*scores)
        weight = weight[:, 0]
        place = torch.bucketize(confidence, self.edges(confidence.device)).where(right.ge(0), self.bins)
        seen, hit = slots.counts.unbind()
        for into, x in ((seen, weight), (hit, weight.where(right.eq(1), 0.0)), (slots.confidence, confidence * weight)):
            add_on_device(into, place, x)


@dataclass(frozen=True)
class WeightedHingeSums(HingeSums):
    """The weighted sum of the losses of each column, and the weight of all rows. What has no weight has no say."""

    def slots(self) -> dict[str, Slot]:
        return floating(super().slots())

    def update(self, slots: Slots, *normal: Any) -> None:
        *scores, weight = normal
        losses = self.losses(*scores)
        by_row = weight[:, 0] if losses.ndim == 1 else weight
        slots.total.add_((losses.where(by_row > 0, 0.0) * by_row).sum(0))
        slots.count.add_(weight.sum())


@dataclass(frozen=True)
class WeightedScoreRows(WeightedScores):
    """Scores, marks and the weight of each row of labels."""

    @property
    def of_labels(self) -> bool:
        return False

    def rows(self, target: Tensor) -> tuple[int, ...]:
        return (*target.shape[:1], *target.shape[2:])

    def counted(self, mark: Any) -> Any:
        return (mark >= 0).any(1)[:, None]


@dataclass(frozen=True)
class WeightedLabelRanks(LabelRanks):
    """Weighted sums over samples of coverage, ranking average precision and ranking loss; and the weight of those that have a label at all."""

    def slots(self) -> dict[str, Slot]:
        return floating(super().slots())

    def update(self, slots: Slots, *normal: Any) -> None:
        *scores, weight = normal
        for name, values in self.of_rows(*scores).items():
            getattr(slots, name).add_((values * weight[:, 0]).sum())
        slots.count.add_(weight.sum())
