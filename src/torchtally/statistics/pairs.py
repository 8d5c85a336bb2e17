"""Predictions with their targets, and sums of what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, note
from ..refusal import NUMBERS, check_plain
from ..statistic import Input, Number, Piece, Slot, Slots, Statistic, host_visible, may_wait

SMALL_HOST = 2048
SMALL_DEVICE = 16384
"""Batches of up to this many elements wait as copies and are added many at a time."""

BLOCK = 8192
"""Elements the host works on at a time: few enough that their float64 copies stay in its cache."""

ONES = np.ones(BLOCK)

_USUAL = frozenset(NUMBERS)


def check_pair(preds: Any, target: Any, names: tuple[str, str] = ("preds", "target")) -> None:
    """Raise unless these are two tensors of real numbers and of one shape."""
    if type(preds) is Tensor and type(target) is Tensor:
        usual = preds.dtype in _USUAL and target.dtype in _USUAL and preds.layout is torch.strided and target.layout is torch.strided
        if usual and preds.shape == target.shape:
            return
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


def array_of(x: Tensor) -> np.ndarray:
    """The numbers of a CPU tensor; without copying, where NumPy knows its dtype."""
    return (x.float() if x.dtype is torch.bfloat16 else x).numpy()


class Block:
    """Up to `BLOCK` pairs on the host, in float64, and what each is off by: `(n,)`, or `(n, outputs)`."""

    def __init__(self, preds: np.ndarray, target: np.ndarray) -> None:
        self._given = preds, target
        self.preds = preds.astype(np.float64, copy=False)
        self._target: np.ndarray | None = target.astype(np.float64, copy=False)
        self.error = self.preds - self._target
        self.count = len(preds)

    @property
    def target(self) -> np.ndarray:
        if self._target is None:
            self._target = self._given[1].astype(np.float64, copy=False)
        return self._target

    def target_beyond(self, pivot: Any) -> np.ndarray:
        """Targets relative to a pivot, where they were, if that is no memory of the caller's: the cache is small."""
        target, self._target = self.target, None
        return np.subtract(target, pivot, out=None if target is self._given[1] else target)


class HostPairs:
    """Pairs on the host, of any number."""

    def __init__(self, preds: Tensor, target: Tensor) -> None:
        self.preds, self.target = preds, target

    def blocks(self) -> Iterable[Block]:
        """All of them; one empty block of none."""
        preds, target = array_of(self.preds), array_of(self.target)
        size = preds.size
        if size <= BLOCK:
            return (Block(preds, target),)
        length = len(preds)
        rows = max(1, BLOCK * length // size)
        return (Block(preds[start : start + rows], target[start : start + rows]) for start in range(0, length, rows))


@np.errstate(all="ignore")  # at half the price of a with statement
def feed_blocks(pairs: HostPairs, receivers: list[tuple[Statistic, Slots]]) -> None:
    for block in pairs.blocks():
        for statistic, slots in receivers:
            statistic.update(slots, block)


@dataclass(frozen=True)
class Paired(Input):
    """Predictions and targets of one shape.

    The normal form is one `HostPairs`, of which statistics are fed a `Block` at a time, or two device tensors in float64.
    """

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        preds, target = pieces[0]
        if len(pieces) > 1:
            preds, target = torch.cat([p[0] for p in pieces]), torch.cat([p[1] for p in pieces])
        if host_visible(preds, target):
            return (HostPairs(preds, target),)
        return preds.double(), target.double()

    def feed(self, normal: Piece, receivers: list[tuple[Statistic, Slots]]) -> None:
        """On the host block by block, so that each is cast once and read from the cache by all."""
        if not isinstance(normal[0], HostPairs):
            super().feed(normal, receivers)
            return
        feed_blocks(normal[0], receivers)


@dataclass(frozen=True)
class Pairs(Paired):
    """Predictions and targets of any shape, flattened, for one output; `(N, outputs)` for several."""

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
            bad = int(self.outside(preds, target).numpy().sum())
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

    def lane(self) -> list[float] | None:
        return [0.0, 0] if self.outputs == 1 else None

    def drain(self, host: list[float]) -> dict[str, Number]:
        drained: dict[str, Number] = {"total": host[0], "count": host[1]} if host[1] else {}
        host[:] = 0.0, 0
        return drained

    def update(self, slots: Slots, *normal: Any) -> None:
        if len(normal) == 1:
            block = normal[0]
            found = self._on_host(block)
            if slots.host is not None:
                slots.host[0] += found
                slots.host[1] += block.count
            else:
                total, count = slots.total.numpy(), slots.count.numpy()
                total += found
                count += block.count
            return
        preds, target = normal[:2]
        errors = ERRORS[self.error](preds, target, self.parameter)
        slots.count.add_(len(preds))
        if len(normal) == 3:
            errors = errors.masked_fill(normal[2], 0.0)
            slots.count.sub_(normal[2].sum())
        slots.total.add_(errors.sum(0))

    def _on_host(self, block: Block) -> Any:
        if self.error == "absolute":
            size = np.abs(block.error)
            return float(size.dot(ONES[: block.count])) if size.ndim == 1 else size.sum(0)
        found = ERRORS[self.error](torch.from_numpy(block.preds), torch.from_numpy(block.target), self.parameter).sum(0)
        return float(found.numpy()) if found.ndim == 0 else found.numpy()
