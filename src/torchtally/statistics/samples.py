"""Everything that was seen, for metrics that cannot do with less."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..refusal import check_plain
from ..statistic import Piece, Slot, Slots, Statistic, host_visible
from .averages import NanRule, given, nan_on_host


@dataclass(frozen=True)
class Kept(NanRule):
    """Values in memory of their own, without NaN where the host can see it; on a device NaN is marked, since shapes are static."""

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        value = given(batch[0])
        if not isinstance(batch[0], Tensor):
            value = torch.as_tensor(value, dtype=torch.get_default_dtype())
        check_plain("value", value)
        if host_visible(value) and value.is_floating_point() and self.nan != "disable":
            bad = value.isnan()
            if bad.numpy().any():
                kept = nan_on_host(self.nan)
                return None, (value[~bad] if kept is None else value.masked_fill(bad, kept),)
        return None, (value.clone(),)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        ((value,),) = pieces
        if self.nan != "disable" and value.is_floating_point() and not host_visible(value):
            bad = value.isnan()
            self.found(slots, bad[None], first)
            if isinstance(self.nan, float):
                value = value.masked_fill(bad, self.nan)
        return (value,)


@dataclass(frozen=True)
class NumberSamples(Statistic):
    """All numbers, in order."""

    nan: str | float = "warn"

    @property
    def input(self) -> Kept:  # type: ignore[override]
        return Kept(self.nan)

    def slots(self) -> dict[str, Slot]:
        return {"value": Slot(dtype=torch.float32, combine="cat")}

    def update(self, slots: Slots, *normal: Any) -> None:
        slots.value.append(normal[0])

    def totals(self, slots: Slots) -> list[Tensor]:
        return list(slots.value)
