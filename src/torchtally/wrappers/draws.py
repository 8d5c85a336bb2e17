"""Random draws that follow from where they are used: no generator has a state that a device, a rank or a compiled update could not share.

Device and host form give the same numbers; a test holds them equal.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, factorial
from typing import Any

import numpy as np
import torch
from torch import Tensor

WORD = (1 << 32) - 1
FACTORS = 0x21F0AAAD, 0x735A2D97


def _times(x: Any, factor: int) -> Any:
    """Product modulo 2^32 of numbers below 2^32; no step leaves 63 bits."""
    return (((x * (factor >> 1)) & WORD) * 2 + x * (factor & 1)) & WORD


def mixed(x: Any) -> Any:
    """A hash of 32 bits to 32 bits in which every bit of the one tells on every bit of the other (Wellons' lowbias32, with better factors)."""
    x = x ^ (x >> 16)
    x = _times(x, FACTORS[0])
    x = x ^ (x >> 15)
    x = _times(x, FACTORS[1])
    return x ^ (x >> 15)


def _mixed_on_host(x: np.ndarray) -> np.ndarray:
    """The same of uint32 numbers, in place: their products wrap by themselves."""
    for shift, factor in zip((16, 15), FACTORS):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    x ^= x >> np.uint32(15)
    return x


def words(seed: int, rank: int, update: Any, replicates: int, rows: int, device: torch.device | None) -> Any:
    """A random number below 2^32 for each replicate and row `(replicates, rows)` of an update, whose number may be a device tensor.

    An int64 tensor, or without a device a uint32 array.
    """
    key = 0
    for part in (seed & WORD, (seed >> 32) & WORD, rank & WORD):
        key = mixed((key + part + 0x9E3779B9) & WORD)
    of_update, of_rows = mixed((update + key) & WORD), mixed(key ^ 0x5BD1E995)
    if device is None:
        of_row = _mixed_on_host(np.arange(rows, dtype=np.uint32) ^ np.uint32(of_rows))
        of_replicate = _mixed_on_host(_mixed_on_host(np.arange(1, replicates + 1, dtype=np.uint32)) ^ np.uint32(of_update))[:, None]
        return _mixed_on_host(_mixed_on_host(of_replicate + of_row) ^ of_replicate)
    of_row = mixed(torch.arange(rows, device=device) ^ of_rows)
    of_replicate = mixed(mixed(torch.arange(1, replicates + 1, device=device)) ^ of_update)[:, None]
    return mixed(mixed((of_replicate + of_row) & WORD) ^ of_replicate)


def _poisson_limits() -> list[int]:
    """From which word on a Poisson number of mean 1 is above 0, above 1, and so on."""
    limits, below = [], 0.0
    for k in range(13):
        below += exp(-1) / factorial(k)
        limits.append(round(below * (WORD + 1)))
    return [x for x in limits if x <= WORD]


LIMITS = _poisson_limits()


def poisson(seed: int, rank: int, update: Any, replicates: int, rows: int, device: torch.device | None) -> Any:
    """Poisson numbers of mean 1 `(replicates, rows)`: a tensor, or without a device an array, of int64."""
    drawn = words(seed, rank, update, replicates, rows, device)
    if device is None:
        few = np.zeros(drawn.shape, dtype=np.uint8)
        for limit in LIMITS:
            few += drawn >= np.uint32(limit)
        return few.astype(np.int64)
    times = torch.zeros_like(drawn)
    for limit in LIMITS:
        times += drawn >= limit
    return times


def multinomial(seed: int, rank: int, update: Any, replicates: int, rows: int, device: torch.device | None) -> Any:
    """How often each row comes among as many as there are, drawn with replacement; as `poisson` gives it."""
    drawn = words(seed, rank, update, replicates, rows, device)
    if device is None:
        chosen = (drawn.astype(np.int64) * rows) >> 32
        flat = (chosen + np.arange(replicates)[:, None] * rows).reshape(-1)
        return np.bincount(flat, minlength=replicates * rows).reshape(replicates, rows)
    chosen = (drawn * rows) >> 32
    return torch.zeros_like(chosen).scatter_add_(1, chosen, torch.ones_like(chosen))


STRATEGIES: dict[str, Callable[..., Any]] = {"poisson": poisson, "multinomial": multinomial}


def times_drawn(strategy: str, seed: int, rank: int, update: Any, replicates: int, rows: int, device: torch.device) -> Tensor:
    """How often each replicate takes each row `(replicates, rows)`, drawn where that is cheapest."""
    if device.type == "cpu" and not isinstance(update, Tensor):
        return torch.from_numpy(STRATEGIES[strategy](seed, rank, update, replicates, rows, None))
    drawn: Tensor = STRATEGIES[strategy](seed, rank, update, replicates, rows, device)
    return drawn
