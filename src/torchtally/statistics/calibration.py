"""Confidences against what came true, in bins of equal width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kernels import add_on_device, count_on_device, count_on_host
from ..statistic import Slot, Slots, Statistic, host_visible
from .scores import Scores, constant


@dataclass(frozen=True)
class CalibrationBins(Statistic):
    """How many confidences lie in each bin, how many of these were right, and their sum.

    The confidence is the probability of the one column, right where its target is yes; of classes that of the most probable one, right
    where it is the target. Bin `i` of `n` is `(i / n, (i + 1) / n]`, and the first has 0, too.
    """

    input: Scores
    bins: int = 15

    def slots(self) -> dict[str, Slot]:
        size = self.bins + 1  # a spare bin, for what does not count
        return {"counts": Slot((2, size)), "confidence": Slot((size,), torch.float64)}

    def update(self, slots: Slots, *normal: Any) -> None:
        confidence, right = self.confidences(*normal)
        edges = self.edges(confidence.device)
        if host_visible(confidence, right, slots.counts):
            self._count_on_host(slots, confidence.numpy(), right.numpy(), edges.numpy())
            return
        place = torch.bucketize(confidence, edges).where(right.ge(0), self.bins)
        seen, hit = slots.counts.unbind()
        count_on_device(seen, place)
        add_on_device(hit, place, right.eq(1).long())
        add_on_device(slots.confidence, place, confidence)

    def edges(self, device: torch.device) -> Tensor:
        """Between the bins."""
        return constant(tuple(i / self.bins for i in range(1, self.bins)), device)

    def confidences(self, scores: Tensor, mark: Tensor) -> tuple[Tensor, Tensor]:
        """Of each row in float64, and 1 if right, 0 if wrong, -1 if not counted."""
        if not self.input.exclusive:
            return scores[:, 0].double().contiguous(), mark[:, 0]
        best, at = scores.max(1, keepdim=True)
        return best[:, 0].double(), mark.gather(1, at)[:, 0]

    @staticmethod
    def _count_on_host(slots: Slots, confidence: np.ndarray, right: np.ndarray, edges: np.ndarray) -> None:
        if right.size and right.min() < 0:
            live = right >= 0
            confidence, right = confidence[live], right[live]
        place = edges.searchsorted(confidence)
        seen, hit = slots.counts.numpy()
        count_on_host(seen, place)
        count_on_host(hit, place[right == 1])
        total = slots.confidence.numpy()
        total += np.bincount(place, confidence, len(total))

    def totals(self, slots: Slots) -> tuple[Tensor, Tensor, Tensor]:
        seen, hit = slots.counts[:, : self.bins].double().unbind()
        return seen, hit, slots.confidence[: self.bins]
