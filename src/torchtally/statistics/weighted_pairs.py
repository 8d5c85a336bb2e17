"""Sums of what is wrong with pairs that have weights."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch

from ..statistic import Piece, Slot, Slots, host_visible
from .pairs import ERRORS, Block, DeviancePairs, ErrorSums, HostPairs, Pairs, check_pair
from .weights import Weighed, like, of_device, taken


@dataclass(frozen=True)
class WeightedPairs(Weighed, Pairs):
    """Predictions, targets and weights of one shape: `HostPairs` with weights, or three device tensors in float64."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, weight = (*batch, None)[:3]
        key, piece = super().take(strict, preds, target)
        given = like(weight, target)
        if given.shape != piece[1].shape:
            given = given.reshape(piece[1].shape)
        weight = taken(strict, given)
        if key is not None and weight is given:
            weight = weight.clone()
        return (None if key is None else (key, weight.shape)), (*piece, weight)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        normal = super().settle(slots, [piece[:-1] for piece in pieces], first)
        weight = pieces[0][-1] if len(pieces) == 1 else torch.cat([piece[-1] for piece in pieces])
        if isinstance(normal[0], HostPairs):
            pairs = normal[0]
            if host_visible(weight):  # and looked at when it was taken
                return (HostPairs(pairs.preds, pairs.target, weight),)
            normal = pairs.preds.double(), pairs.target.double()
        live = ~normal[2] if len(normal) == 3 else None  # but for pairs that are impossible
        return *normal[:2], of_device(slots, weight, live, len(pieces), first)


@dataclass(frozen=True)
class WeightedDeviancePairs(WeightedPairs, DeviancePairs):
    """The same of pairs that a Tweedie deviance is defined for, unless they have no weight."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, weight = (*batch, None)[:3]
        check_pair(preds, target)
        if weight is not None:
            weightless = like(weight, target) == 0
            preds, target = preds.masked_fill(weightless, 1), target.masked_fill(weightless, 1)
        return super().take(strict, preds, target, weight)


@dataclass(frozen=True)
class WeightedErrorSums(ErrorSums):
    """The weight of all pairs, and the weighted sum of one of `ERRORS` over them, per output. What has no weight has no say."""

    @property
    def input(self) -> Pairs:  # type: ignore[override]  # as of what it is made from
        return WeightedDeviancePairs(self.outputs, self.parameter) if self.error == "deviance" else WeightedPairs(self.outputs)

    def slots(self) -> dict[str, Slot]:
        shape = () if self.outputs == 1 else (self.outputs,)
        return {"total": Slot(shape, torch.float64), "count": Slot(shape, torch.float64)}

    def _on_host(self, block: Block) -> tuple[Any, Any]:
        return block.weighed(self._errors(block)), block.total(block.weight)

    def update(self, slots: Slots, *normal: Any) -> None:
        if len(normal) == 1:
            super().update(slots, *normal)
            return
        preds, target, weight = normal
        errors = ERRORS[self.error](preds, target, self.parameter).where(weight > 0, 0.0)
        slots.total.add_((errors * weight).sum(0))
        slots.count.add_(weight.sum(0))
