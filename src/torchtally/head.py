"""The row of numbers with which a read over ranks starts, and how counts and sums travel in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .buffers import IN_NUMPY

HEAD = 2048
"""Numbers in a head, in float64: 16 KB cost a network hardly more than 16 bytes."""

_LOW = (1 << 32) - 1


class Head:
    """`HEAD` numbers of a rank, and once they are reduced of all ranks. On the host NumPy writes and reads them, in a third of the time."""

    def __init__(self, numbers: Tensor | np.ndarray) -> None:
        self._numbers = numbers if isinstance(numbers, np.ndarray) else None
        self.tensor = torch.from_numpy(numbers) if isinstance(numbers, np.ndarray) else numbers

    def put(self, place: int, number: float) -> None:
        if self._numbers is None:
            self.tensor[place].fill_(number)
        else:
            self._numbers[place] = number

    def put_flat(self, place: int, flat: Tensor, in_numpy: np.ndarray | None) -> None:
        """Sums or, exact up to two million ranks, counts: two halves of 32 bits, each a sum below 2 ** 53."""
        into: Any = self.tensor
        numbers: Any = in_numpy
        if self._numbers is not None and numbers is not None:
            into = self._numbers
        else:
            numbers = flat.to(self.tensor.device)
        size = len(numbers)
        if flat.dtype.is_floating_point:
            into[place : place + size] = numbers
        else:
            into[place : place + size] = numbers & _LOW
            into[place + size : place + 2 * size] = numbers >> 32

    def flat(self, place: int, size: int, dtype: torch.dtype) -> Tensor:
        """What `put_flat` put there, of all ranks, in memory of its own."""
        end = place + (size if dtype.is_floating_point else 2 * size)
        if self._numbers is None or dtype not in IN_NUMPY:
            return from_floats(self.tensor[place:end], dtype)
        if dtype.is_floating_point:
            return torch.from_numpy(self._numbers[place:end].astype(np.float32 if dtype is torch.float32 else np.float64))
        whole = self._numbers[place + size : end].astype(np.int64)
        whole <<= 32
        whole += self._numbers[place : place + size].astype(np.int64)
        return torch.from_numpy(whole)

    def known(self, places: int) -> list[float]:
        """The first numbers, on the host."""
        found: list[float] = (self.tensor if self._numbers is None else self._numbers)[:places].tolist()
        return found


def as_floats(x: Tensor) -> Tensor:
    """Numbers in float64 without loss: integers as two halves of 32 bits."""
    x = x.detach().reshape(-1)
    return x.double() if x.dtype.is_floating_point else torch.cat([x & _LOW, x >> 32]).double()


def from_floats(x: Tensor, dtype: torch.dtype) -> Tensor:
    """What `as_floats` made them of, or the sum of several such, in memory of its own."""
    if dtype.is_floating_point:
        return x.to(dtype, copy=True)
    low, high = x.long().tensor_split(2, dim=-1)
    return ((high << 32) + low).to(dtype)
