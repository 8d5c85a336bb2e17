"""Sums of what is wrong with pairs that have weights."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch

from ..faults import Fault
from ..statistic import Piece, Slot, Slots, host_visible
from .pairs import ERRORS, ErrorSums, HostPairs, Pairs, check_pair
from .weights import FAULTS, fault_of, like, of_device, of_host


@dataclass(frozen=True)
class WeightedPairs(Pairs):
    """Predictions, targets and weights of one shape, in float64."""

    def slots(self) -> dict[str, Slot]:
        return {**super().slots(), **FAULTS}

    def faults(self, slots: Slots) -> list[Fault]:
        return [*super().faults(slots), fault_of(slots)]

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target, weight = (*batch, None)[:3]
        check_pair(preds, target)
        key, piece = super().take(strict, preds, target)
        weight = like(weight, target).to(torch.float64).reshape(piece[1].shape)
        if host_visible(weight):
            weight = torch.from_numpy(of_host(strict, weight.numpy(), None))
        elif key is not None:
            weight = weight.clone()
        return (None if key is None else (key, weight.shape)), (*piece, weight)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        normal = super().settle(slots, [piece[:-1] for piece in pieces], first)
        preds, target = (normal[0].preds.double(), normal[0].target.double()) if isinstance(normal[0], HostPairs) else normal
        weight = torch.cat([piece[-1] for piece in pieces])
        return preds, target, of_device(slots, weight, torch.ones_like(weight, dtype=torch.bool), len(pieces), first)


@dataclass(frozen=True)
class WeightedErrorSums(ErrorSums):
    """The weight of all pairs, and the weighted sum of one of `ERRORS` over them, per output. What has no weight has no say."""

    @property
    def input(self) -> Pairs:  # type: ignore[override]  # as of what it is made from
        return WeightedPairs(self.outputs)

    def slots(self) -> dict[str, Slot]:
        shape = () if self.outputs == 1 else (self.outputs,)
        return {"total": Slot(shape, torch.float64), "count": Slot(shape, torch.float64)}

    def update(self, slots: Slots, *normal: Any) -> None:
        preds, target, weight = normal
        errors = ERRORS[self.error](preds, target, self.parameter).where(weight > 0, 0.0)
        slots.total.add_((errors * weight).sum(0))
        slots.count.add_(weight.sum(0))
