"""The few hot primitives. Each has a device form (static shapes, no host read) and a CPU form (NumPy on the same memory).

A CPU form takes and returns NumPy arrays, a device form tensors; `tests/test_kernel_forms.py` holds them equal.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from .statistic import in_functorch

# As uint16, the patterns above this are NaN with the sign bit set.
_NEGATIVE_INFINITY = {torch.bfloat16: 0xFF80, torch.float16: 0xFC00}


@functools.lru_cache(64)
def _row_starts(rows: int, columns: int) -> np.ndarray:
    return np.arange(0, rows * columns, columns)


def row_argmax(scores: Tensor) -> tuple[np.ndarray, int | None]:
    """Index of the largest of each row of `(N, C)`, the first of ties, a NaN before all, as torch.argmax; and the first row with NaN.

    On CPU tensors. Two to fifty times as fast as torch.argmax there.
    """
    if scores.dtype is not torch.float32 and scores.dtype is not torch.float64:
        if scores.dtype in _NEGATIVE_INFINITY and scores.stride(1) == 1:
            return _row_argmax_half(scores)
        scores = scores.float()
    values = scores.numpy()
    best = values.argmax(1)
    if values.size <= 4096:
        flat = values.ravel()
        square = flat.dot(flat)  # NaN exactly when there is one: the cheapest look
        return best, None if square == square else int(np.isnan(values).any(1).argmax())
    if values.flags.c_contiguous:
        top = values.reshape(-1).take(best + _row_starts(*values.shape))
    else:
        top = values[np.arange(len(best)), best]
    square = top.dot(top)
    return best, None if square == square else int(np.isnan(top).argmax())


def _row_argmax_half(scores: Tensor) -> tuple[np.ndarray, int | None]:
    """Without converting: for positive maxima the order of the bits, read as int16, is the order of the floats."""
    lowest = _NEGATIVE_INFINITY[scores.dtype]
    bits = scores.view(torch.int16).numpy()
    rows, columns = bits.shape
    best, top, unsigned = np.empty(rows, np.int64), 0, bits.view(np.uint16)
    step = max(1, (1 << 18) // columns)  # 512 KB: the second look, for NaN with the sign bit set, comes from the cache
    for i in range(0, rows, step):
        np.argmax(bits[i : i + step], 1, out=best[i : i + step])
        top = max(top, int(unsigned[i : i + step].max()))
    if top > lowest:
        slow = np.flatnonzero((unsigned > lowest).any(1))
        best[slow] = scores[torch.from_numpy(slow)].float().numpy().argmax(1)
    largest = bits[np.arange(rows), best]
    if rows and largest.min() <= 0:  # no positive element in some row: negative floats order the other way round
        slow = np.flatnonzero(largest <= 0)
        if len(slow) == rows and top <= lowest and largest.max() < 0:
            best = bits.argmin(1)
        else:
            best[slow] = scores[torch.from_numpy(slow)].float().numpy().argmax(1)
        largest = bits[np.arange(rows), best]
    nan = (largest & 0x7FFF) > (lowest & 0x7FFF)
    return best, int(nan.argmax()) if nan.any() else None


_PIXELS = 1 << 15
"""Pixels in a block: what is read and written for one class fits the second cache."""


def channel_argmax(scores: Tensor) -> np.ndarray | None:
    """Index of the largest over dimension 1 of images `(N, C, ...)`, in one row: a running maximum over blocks that stay in the cache.

    On CPU tensors. Ten times as fast as torch.argmax. None where it is no use: other layouts, small images, more classes than a byte can
    count; and where there is NaN.
    """
    n, classes = scores.shape[:2]
    pixels = scores[0, 0].numel() if n and classes else 0
    if pixels < 1024 or classes > 256 or not scores.is_contiguous():
        return None
    images = scores.view(n, classes, pixels)
    plain = scores.dtype in (torch.float32, torch.float64)
    best = np.empty((n, pixels), np.uint8)
    width = min(pixels, _PIXELS)
    top, above, place = (
        np.empty(width, np.float64 if scores.dtype is torch.float64 else np.float32),
        np.empty(width, bool),
        np.empty(width, np.uint8),
    )
    with np.errstate(invalid="ignore"):
        for i in range(n):
            for start in range(0, pixels, width):
                block = images[i, :, start : start + width]
                if not _running_argmax((block if plain else block.float()).numpy(), best[i, start : start + width], top, above, place):
                    return None
    return best.reshape(-1)


def _running_argmax(block: np.ndarray, best: np.ndarray, top: np.ndarray, above: np.ndarray, place: np.ndarray) -> bool:
    """Index of the largest of each column into `best`, with room to work in; whether there is no NaN."""
    width = block.shape[1]
    top, above, place = top[:width], above[:width], place[:width]
    np.copyto(top, block[0])
    best.fill(0)
    holds = above.view(np.uint8)
    for k in range(1, len(block)):
        np.greater(block[k], top, out=above)
        np.maximum(top, block[k], out=top)
        np.multiply(holds, k, out=place)
        np.maximum(best, place, out=best)  # a later class has the greater index
    square = top.dot(top)  # NaN exactly when there is one
    return bool(square == square)


def in_top_k(scores: Tensor, target: Tensor, k: int) -> Tensor:
    """Whether the target of each row of `(N, C)` is among its `k` largest scores, the lower index first of ties. Device form.

    Targets must be in range; a NaN score ranks above all numbers.
    """
    own = scores.gather(1, target[:, None])
    above = scores.gt(own) | (scores.isnan() & ~own.isnan())
    tied_before = (scores.eq(own) | (scores.isnan() & own.isnan())) & (
        torch.arange(scores.shape[1], device=scores.device) < target[:, None]
    )
    return (above.sum(1) + tied_before.sum(1)).lt(k)


def in_top_k_on_host(scores: np.ndarray, target: np.ndarray, k: int) -> np.ndarray:
    """The same without NaN, counting ranks instead of sorting. CPU form."""
    rows = np.arange(len(target))
    own = scores[rows, target][:, None]
    above, at_least = _count_rows(np.greater, scores, own), _count_rows(np.greater_equal, scores, own)
    hit = at_least <= k  # in k-th place or better, whatever the ties
    for i in np.flatnonzero((above < k) & (at_least > k)):  # tied across the k-th place
        hit[i] = above[i] + np.count_nonzero(scores[i, : target[i]] == own[i, 0]) < k
    return hit


def _count_rows(compare: np.ufunc, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """How often the comparison holds in each row: bytes added eight lanes at a time, far faster than counting booleans."""
    n, columns = scores.shape
    width = -(-columns // 8) * 8
    if width > 8 * 255:  # a lane would overflow
        return np.count_nonzero(compare(scores, own), axis=1)
    holds = np.zeros((n, width), bool)
    compare(scores, own, out=holds[:, :columns])
    return np.add.reduce(holds.view(np.uint64), axis=1).view(np.uint8).reshape(n, 8).sum(1, dtype=np.int64)


def count_on_host(counts: np.ndarray, bins: np.ndarray) -> None:
    """Add one to `counts[b]` for every `b` of `bins`. CPU form of `Tensor.scatter_add_`."""
    if len(bins) * 4 > len(counts):
        counts += np.bincount(bins, minlength=len(counts))
    else:
        np.add.at(counts, bins, 1)


def add_on_host(sums: np.ndarray, bins: np.ndarray, weight: np.ndarray) -> None:
    """Add each weight to the bin it belongs to. CPU form of `Tensor.scatter_add_`."""
    if len(bins) * 4 > len(sums):
        sums += np.bincount(bins, weight, len(sums))
    else:
        np.add.at(sums, bins, weight)


def add_on_device(sums: Tensor, bins: Tensor, weight: Tensor) -> None:
    """Add each weight to the bin it belongs to; all bins must be in range."""
    if not torch.compiler.is_compiling() and in_functorch():  # where torch before 2.9 has no rule for the form in place, and says so
        sums.copy_(sums.scatter_add(0, bins, weight))
    else:
        sums.scatter_add_(0, bins, weight)


def count_pairs_on_host(first: np.ndarray, second: np.ndarray, size: int) -> np.ndarray:
    """How often each pair of numbers below `size` occurs: a table of `size` by `size`, the first numbers in its rows."""
    key = np.multiply(first, size, dtype=np.intp)
    key += second
    return np.bincount(key, minlength=size * size).reshape(size, size)


def count_on_device(counts: Tensor, bins: Tensor) -> None:
    """Add one to `counts[b]` for every `b` of `bins`; all must be in range."""
    add_on_device(counts, bins, counts.new_ones(()).expand(bins.shape))


def runs_on_host(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each place of sorted numbers, the first and the last place with an equal number. CPU form."""
    n = len(values)
    equal = values[1:] == values[:-1]  # to the next
    first = np.flatnonzero(equal)
    if 8 * len(first) > n:
        begin = np.concatenate([[0], np.flatnonzero(~equal) + 1])
        lengths = np.diff(begin, append=n)
        return np.repeat(begin, lengths), np.repeat(begin + lengths - 1, lengths)
    begin = np.arange(n)
    if not len(first):
        return begin, begin
    end = begin.copy()
    cut = np.flatnonzero(np.diff(first) > 1)  # one run ends here and the next begins
    last = first[np.append(cut, len(first) - 1)] + 1
    first = first[np.append(0, cut + 1)]
    tied = np.zeros(n, bool)
    tied[:-1] = equal
    tied[1:] |= equal
    begin[tied], end[tied] = np.repeat(first, last - first + 1), np.repeat(last, last - first + 1)
    return begin, end


def runs_on_device(values: Tensor) -> tuple[Tensor, Tensor]:
    """The same. Device form."""
    n = len(values)
    places = torch.arange(n, device=values.device)
    if not n:
        return places, places
    new, last = torch.ones(2, n, dtype=torch.bool, device=values.device)
    new[1:] = values[1:] != values[:-1]
    last[:-1] = new[1:]
    # Of an end, the nearest at or after each place.
    return torch.where(new, places, 0).cummax(0).values, torch.where(last, places, n).flip(0).cummin(0).values.flip(0)
