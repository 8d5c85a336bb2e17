"""Flat buffers: where the slots of a ledger lie in them, how they are made, and how two of them combine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .statistic import Input, Statistic, neutral

Group = tuple[torch.dtype, str]
"""Slots of one dtype and combination lie in one buffer."""

IN_NUMPY = (torch.int64, torch.float64, torch.float32)
"""What NumPy reads and writes in a head, and hands to formulas."""

_NOTHING = nullcontext()

Place = tuple[Group, int, tuple[int, ...]]
"""The buffer of a slot, where it starts there, and its shape."""


def lay_out(parts: Sequence[Statistic | Input]) -> tuple[dict[tuple[int, str], Place], dict[Group, int], list[tuple[int, str]]]:
    """The place of every slot, by part and name; the size of each buffer; and the slots that hold samples, which lie in none.

    Scalars come first, then by statistic and slot name, so that equal statistics' scalars are neighbours.
    """
    places: dict[tuple[int, str], Place] = {}
    sizes: dict[Group, int] = {}
    sampled: list[tuple[int, str]] = []
    declared = [(i, name, slot) for i, part in enumerate(parts) for name, slot in part.slots().items()]
    declared.sort(key=lambda d: (d[2].shape != (), type(parts[d[0]]).__name__, d[1]))
    for i, name, slot in declared:
        if slot.combine == "cat":
            sampled.append((i, name))
            continue
        group = slot.dtype, slot.combine
        start = sizes.get(group, 0)
        places[i, name] = group, start, slot.shape
        sizes[group] = start + prod(slot.shape)
    return places, sizes, sampled


def buffer(size: int, group: Group, device: torch.device) -> Tensor:
    """A buffer of neutral numbers."""
    dtype, how = group
    fill = neutral(how, dtype)
    if device.type == "cpu" and size * dtype.itemsize >= 1 << 22 and dtype in (torch.int64, torch.float64):
        # NumPy asks for huge pages: scattered counts into a large table are then twice as fast.
        return torch.from_numpy(np.full(size, fill, dtype=np.int64 if dtype is torch.int64 else np.float64))
    return torch.full((size,), fill, dtype=dtype, device=device)


def ordinary() -> Any:
    """A context in which tensors are made that may be written to outside of inference mode."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else _NOTHING


@functools.cache
def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a contiguous tensor."""
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def combine(how: str, into: Tensor, other: Tensor) -> None:
    """Combine two accumulators in place: "sum", "max" or "min"."""
    if how == "sum":
        into.add_(other)
    else:
        torch.maximum(into, other, out=into) if how == "max" else torch.minimum(into, other, out=into)
