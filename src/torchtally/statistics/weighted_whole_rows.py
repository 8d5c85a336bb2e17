"""The weight of samples that were predicted right in every position or label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..statistic import Slot, Slots
from .weights import WeighedAtOnce, floating
from .whole_rows import DecisionRows, LabelRows, WholeRows


@dataclass(frozen=True)
class WeightedLabelRows(WeighedAtOnce, LabelRows):
    """Predicted and true classes, a row for each sample, and the weight of the sample."""

    def rows(self, right: Tensor) -> tuple[int, ...]:
        return right.shape[:1]


@dataclass(frozen=True)
class WeightedDecisionRows(WeighedAtOnce, DecisionRows):
    """Decisions on the labels of each position, and the weight of the position."""

    def rows(self, right: Tensor) -> tuple[int, ...]:
        return (*right.shape[:1], *right.shape[2:])


@dataclass(frozen=True)
class WeightedWholeRows(WholeRows):
    """The weight of rows without a wrong element, and of all rows; with `listed` both for each sample."""

    def slots(self) -> dict[str, Slot]:
        return floating(super().slots())

    def lane(self) -> None:
        return None

    def update(self, slots: Slots, *normal: Any) -> None:
        *rows, weight = normal
        right = self.right(*rows)
        right = torch.from_numpy(right) if isinstance(right, np.ndarray) else right
        weight = weight.reshape(right.shape)
        hit = weight.where(right, 0.0)
        if self.listed:
            slots.rows.append(torch.stack([hit.sum(1), weight.sum(1)], 1))
        else:
            slots.hit.add_(hit.sum())
            slots.seen.add_(weight.sum())
