"""Predictions with their targets, and sums of what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, note
from ..refusal import check_plain
from ..statistic import Input, Piece, Slot, Slots, Statistic, host_visible, may_wait

SMALL_HOST = 2048
SMALL_DEVICE = 16384
"""Batches of up to this many elements wait as copies and are added many at a time."""

BLOCK = 8192
"""Elements the host works on at a time: few enough that their float64 copies stay in its cache."""

ONES = np.ones(BLOCK)


def check_pair(preds: Any, target: Any, names: tuple[str, str] = ("preds", "target")) -> None:
    """Raise unless these are two tensors of real numbers and of one shape."""
    for name, x in zip(names, (preds, target)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}; expected a tensor. Wrap it in torch.tensor.")
        if x.is_complex():
            raise ValueError(f"{name} has dtype {x.dtype}; expected real numbers. Pass its real part or its magnitude.")
        check_plain(name, x)
    if preds.shape != target.shape:
        raise ValueError(
            f"{names[1]} has shape {tuple(target.shape)} but {names[0]} has {tuple(preds.shape)}; expected equal shapes. "
            "Squeeze or flatten one of them."
        )


def in_double(x: Tensor) -> np.ndarray:
    """A CPU tensor in float64; without copying where it is."""
    values: np.ndarray = (x.float() if x.dtype is torch.bfloat16 else x).numpy().astype(np.float64, copy=False)
    return values


class HostPairs:
    """Pairs on the host, given out in float64 blocks: `(preds, target, preds - target)`, each `(n,)`, or `(n, outputs)`."""

    def __init__(self, preds: Tensor, target: Tensor) -> None:
        self.preds, self.target = preds, target
        self._only: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # a single block is made once for all statistics

    def __len__(self) -> int:
        return len(self.preds)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        if self._only is not None:
            yield self._only
            return
        length, size = len(self.preds), self.preds.numel()
        if size <= BLOCK:
            if size:
                p, t = in_double(self.preds), in_double(self.target)
                self._only = p, t, p - t
                yield self._only
            return
        rows = max(1, BLOCK * length // size)
        for start in range(0, length, rows):
            p, t = in_double(self.preds[start : start + rows]), in_double(self.target[start : start + rows])
            yield p, t, p - t


@dataclass(frozen=True)
class Pairs(Input):
    """Predictions and targets of one shape: any shape, flattened, for one output, `(N, outputs)` for several.

    The normal form is one `HostPairs`, or two device tensors in float64.
    """

    outputs: int = 1

    waiting_bytes: ClassVar[int] = 1 << 19  # several copies in float64 are made of it

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        check_pair(preds, target)
        if self.outputs > 1 and (preds.ndim != 2 or preds.shape[1] != self.outputs):
            raise ValueError(
                f"preds and target have shape {tuple(preds.shape)}; expected (N, {self.outputs}), as num_outputs={self.outputs} says."
            )
        if self.outputs == 1 and preds.ndim != 1:
            preds, target = preds.reshape(-1), target.reshape(-1)
        size = preds.numel()
        if size <= (SMALL_HOST if preds.is_cpu else SMALL_DEVICE) and may_wait(preds) and may_wait(target):
            return (preds.dtype, target.dtype), (preds.clone(), target.clone())
        return None, (preds, target)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        preds, target = pieces[0]
        if len(pieces) > 1:
            preds, target = torch.cat([p[0] for p in pieces]), torch.cat([p[1] for p in pieces])
        if host_visible(preds, target):
            return (HostPairs(preds, target),)
        return preds.double(), target.double()


@dataclass(frozen=True)
class DeviancePairs(Pairs):
    """Pairs that a Tweedie deviance of this power is defined for. The device form has a third tensor: which to leave out."""

    power: float = 1.0

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min")}

    @property
    def expected(self) -> str:
        target = {True: "targets at least 0", False: "targets above 0"}[1 <= self.power < 2]
        return "predictions above 0" + (f" and {target}" if self.power > 0 else "")

    def faults(self, slots: Slots) -> list[Fault]:
        return [Fault(slots.bad, slots.first_bad, f"impossible (expected {self.expected})", f"Check them, or power={self.power}.")]

    def outside(self, preds: Tensor, target: Tensor) -> Tensor:
        """Which pairs the deviance is not defined for."""
        bad = preds <= 0
        if self.power >= 2:
            bad = bad | (target <= 0)
        elif self.power >= 1:
            bad = bad | (target < 0)
        return bad

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        _, (preds, target) = super().take(strict, *batch)
        if strict and host_visible(preds, target):
            bad = int(self.outside(preds, target).sum())
            if bad:
                raise FaultError(f"{bad} pairs are impossible; expected {self.expected}. Check them, or power={self.power}.")
        return None, (preds, target)

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        normal = super().settle(slots, pieces, first)
        if len(normal) == 1:
            return normal
        preds, target = normal
        bad = self.outside(preds, target)
        note(slots, bad[None], first)
        return preds.masked_fill(bad, 1.0), target.masked_fill(bad, 1.0), bad


def _percentage(p: Tensor, t: Tensor, epsilon: float) -> Tensor:
    return (p - t).abs() / t.abs().clamp(min=epsilon)


def _symmetric(p: Tensor, t: Tensor, epsilon: float) -> Tensor:
    return 2 * (p - t).abs() / (t.abs() + p.abs()).clamp(min=epsilon)


def _log_cosh(p: Tensor, t: Tensor, _: float) -> Tensor:
    e = p - t
    size, small = e.abs(), e.clamp(-1.0, 1.0)
    # Near 0 the second form would be a difference of equals; far from it the first would overflow.
    return torch.where(size < 1, (2 * (small / 2).sinh().square()).log1p(), size + (-2 * size).exp().log1p() - log(2.0))


def _deviance(p: Tensor, t: Tensor, power: float) -> Tensor:
    if power == 1:
        zero = t == 0
        return 2 * (torch.where(zero, 0.0, t * (t.masked_fill(zero, 1.0) / p).log()) + p - t)
    if power == 2:
        return 2 * ((p / t).log() + t / p - 1)
    level = t.clamp(min=0.0).pow(2 - power) / ((1 - power) * (2 - power))
    return 2 * (level - t * p.pow(1 - power) / (1 - power) + p.pow(2 - power) / (2 - power))


ERRORS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "absolute": lambda p, t, _: (p - t).abs(),
    "squared": lambda p, t, _: (p - t).square(),
    "target": lambda p, t, _: t.abs(),
    "power": lambda p, t, exponent: (p - t).abs().pow(exponent),
    "percentage": _percentage,
    "symmetric": _symmetric,
    "squared log": lambda p, t, _: (p.log1p() - t.log1p()).square(),
    "log cosh": _log_cosh,
    "deviance": _deviance,
}
"""What is wrong with a pair, element by element in float64, by name."""


@dataclass(frozen=True)
class ErrorSums(Statistic):
    """How many pairs there are, and the sum of one of `ERRORS` over them, per output."""

    error: str
    parameter: float = 0.0
    outputs: int = 1

    @property
    def input(self) -> Pairs:  # type: ignore[override]  # a class attribute elsewhere; here it follows from the fields
        return DeviancePairs(self.outputs, self.parameter) if self.error == "deviance" else Pairs(self.outputs)

    @property
    def label(self) -> str:
        return f"{type(self).__name__}.{self.error}"

    def slots(self) -> dict[str, Slot]:
        shape = () if self.outputs == 1 else (self.outputs,)
        return {"total": Slot(shape, torch.float64), "count": Slot()}

    def update(self, slots: Slots, *normal: Any) -> None:
        if len(normal) == 1:
            (pairs,) = normal
            total, count = slots.total.numpy(), slots.count.numpy()
            with np.errstate(all="ignore"):
                for p, t, e in pairs.blocks():
                    total += self._on_host(p, t, e)
            count += len(pairs)
            return
        preds, target = normal[:2]
        errors = ERRORS[self.error](preds, target, self.parameter)
        slots.count.add_(len(preds))
        if len(normal) == 3:
            errors = errors.masked_fill(normal[2], 0.0)
            slots.count.sub_(normal[2].sum())
        slots.total.add_(errors.sum(0))

    def _on_host(self, p: np.ndarray, t: np.ndarray, e: np.ndarray) -> Any:
        if self.error == "absolute":
            size = np.abs(e)
            return np.dot(size, ONES[: len(size)]) if size.ndim == 1 else size.sum(0)
        return ERRORS[self.error](torch.from_numpy(p), torch.from_numpy(t), self.parameter).sum(0).numpy()
