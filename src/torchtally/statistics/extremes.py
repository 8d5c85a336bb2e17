"""The largest and the smallest number."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..statistic import Number, Piece, Slot, Slots, Statistic, host_visible
from .averages import NanRule, given, nan_on_host


@dataclass(frozen=True)
class Extremal(NanRule):
    """The largest (or smallest) of a batch: a Python number, or a float64 scalar on the device. An empty batch gives the worst."""

    largest: bool = True

    @property
    def worst(self) -> float:
        return -inf if self.largest else inf

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        value = given(batch[0])
        if isinstance(value, Tensor):
            if not host_visible(value):
                return None, (value,)
            if value.numel() != 1:
                return None, (self._of_array(value),)
            value = value.item()
        value = float(value)
        if value != value and self.nan != "disable":
            kept = nan_on_host(self.nan)
            value = self.worst if kept is None else kept
        return None, (value,)

    def _of_array(self, value: Tensor) -> float:
        if value.numel() == 0:
            return self.worst
        v = (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
        best = float(v.max() if self.largest else v.min())  # NaN where there is one
        if best == best or self.nan == "disable":
            return best
        kept = nan_on_host(self.nan)
        v = v[~np.isnan(v)] if kept is None else np.where(np.isnan(v), kept, v)
        if not v.size:
            return self.worst
        return float(v.max() if self.largest else v.min())

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        ((value,),) = pieces
        if not isinstance(value, Tensor):
            return (value,)
        if value.is_floating_point() and self.nan != "disable":
            bad = value.isnan()
            value = value.masked_fill(bad, self.nan if isinstance(self.nan, float) else self.worst)
            self.found(slots, bad[None], first)
        if value.numel() == 0:
            return (value.new_full((), self.worst, dtype=torch.float64),)
        return ((value.amax() if self.largest else value.amin()).double(),)


@dataclass(frozen=True)
class Extreme(Statistic):
    """The largest or smallest element."""

    largest: bool = True
    nan: str | float = "warn"

    @property
    def input(self) -> Extremal:  # type: ignore[override]
        return Extremal(self.nan, self.largest)

    def slots(self) -> dict[str, Slot]:
        return {"best": Slot(dtype=torch.float64, combine="max" if self.largest else "min")}

    def lane(self) -> list[float]:
        return []

    def drain(self, host: list[float]) -> dict[str, Number]:
        if not host:
            return {}
        best = host[0]
        host.clear()
        return {"best": best}

    def update(self, slots: Slots, *normal: Any) -> None:
        (value,) = normal
        if isinstance(value, Tensor):
            (slots.best.clamp_min_ if self.largest else slots.best.clamp_max_)(value)
        elif not slots.host:
            slots.host.append(value)
        elif value != value or (value > slots.host[0] if self.largest else value < slots.host[0]):
            slots.host[0] = value  # NaN wins, as in torch.amax, and stays: nothing compares with it
