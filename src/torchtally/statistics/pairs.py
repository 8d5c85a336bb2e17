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
        said = f"{names[1]} has shape {tuple(target.shape)} but {names[0]} has {tuple(preds.shape)}; expected equal shapes."
        raise ValueError(f"{said} Squeeze or flatten one of them." if preds.numel() == target.numel() else said)


def array_of(x: Tensor) -> np.ndarray:
    """The numbers of a CPU tensor; without copying, where NumPy knows its dtype."""
    return (x.float() if x.dtype is torch.bfloat16 else x).numpy()


class Block:
    """Up to `BLOCK` pairs on the host, in float64, and what each is off by: `(n,)`.

    Of several outputs `(outputs, n)`, or `(n, outputs)` if there are more outputs than pairs: loops are fast along the longer.
    """

    def __init__(self, preds: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None) -> None:
        self.count = len(preds)
        self.outputs = 1 if preds.ndim == 1 else preds.shape[1]
        self.across = 1 < self.outputs < self.count
        self._given = target.T if self.across else target
        self.preds = _in_double(preds.T if self.across else preds)
        self._target: np.ndarray | None = _in_double(self._given)
        self.error = self.preds - self._target
        self.weighted = weight is not None
        self.ones = ONES[: self.count]
        self.weight = self.ones if weight is None else _in_double(weight.T if self.across else weight)

    @property
    def target(self) -> np.ndarray:
        if self._target is None:
            self._target = _in_double(self._given)
        return self._target

    def target_beyond(self, pivot: Any) -> np.ndarray:
        """Targets relative to a pivot, where they were, if that is no memory of the caller's: the cache is small."""
        target, self._target = self.target, None
        return np.subtract(target, pivot, out=target if target.flags.owndata else None)

    def part(self, which: np.ndarray) -> Block:
        """Some of the pairs of one output."""
        return Block(self.preds[which], self.target[which], self.weight[which])

    def total(self, x: np.ndarray) -> Any:
        """The sum over the pairs, of each output."""
        return x.dot(self.ones) if self.across else self.ones.dot(x)

    def each(self, x: Any) -> Any:
        """A number of each output, for all of its pairs."""
        return x[:, None] if self.across else x

    def weighed(self, x: np.ndarray) -> Any:
        """The weighted sum over the pairs, of each output; what has no weight has no say."""
        found = self._weighed(x)
        if not np.isfinite(found).all():
            found = self._weighed(np.where(self.weight > 0, x, 0.0))
        return found

    def _weighed(self, x: np.ndarray) -> Any:
        return x.dot(self.weight) if x.ndim == 1 else self.total(x * self.weight)


def _in_double(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64, order="C", copy=False)


class HostPairs:
    """Pairs on the host, of any number, with weights or without."""

    def __init__(self, preds: Tensor, target: Tensor, weight: Tensor | None = None) -> None:
        self.preds, self.target, self.weight = preds, target, weight

    def blocks(self) -> Iterable[Block]:
        """All of them; one empty block of none."""
        arrays = [array_of(self.preds), array_of(self.target)]
        if self.weight is not None:
            arrays.append(array_of(self.weight))
        size = arrays[0].size
        if size <= BLOCK:
            return (Block(*arrays),)
        length = len(arrays[0])
        rows = max(1, BLOCK * length // size)
        return (Block(*(x[start : start + rows] for x in arrays)) for start in range(0, length, rows))


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
                slots.host[0] += float(found[0])
                slots.host[1] += found[1]
            else:
                total, count = slots.total.numpy(), slots.count.numpy()
                total += found[0]
                count += found[1]
            return
        preds, target = normal[:2]
        errors = ERRORS[self.error](preds, target, self.parameter)
        slots.count.add_(len(preds))
        if len(normal) == 3:
            errors = errors.masked_fill(normal[2], 0.0)
            slots.count.sub_(normal[2].sum())
        slots.total.add_(errors.sum(0))

    def _on_host(self, block: Block) -> tuple[Any, Any]:
        return block.total(self._errors(block)), block.count

    def _errors(self, block: Block) -> np.ndarray:
        if self.error == "absolute":
            return np.abs(block.error)
        if self.error == "squared":
            return np.square(block.error)
        return ERRORS[self.error](torch.from_numpy(block.preds), torch.from_numpy(block.target), self.parameter).numpy()
