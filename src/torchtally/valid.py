"""Rows of a batch that count, where the rest is padding: `update(..., valid=mask or count)`.

What the host knows, a number or a mask in its memory, becomes a slice or an index of the batch. A mask that only a device knows is copied to the
host in the background, and the batch, copied too, is added when the mask has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .transfer import to_host

Valid = int | Sequence[bool] | np.ndarray | Tensor | None
"""How many rows of a batch count, or a mask of those that do; None: all."""


class Unseen:
    """A batch whose mask is on its way to the host."""

    def __init__(self, mask: Tensor, values: Sequence[Any], update: int) -> None:
        (self.mask,), self.events = to_host([mask])
        self.values = [x.detach().clone() if isinstance(x, Tensor) else x for x in values]
        self.update = update  # the number of the update that brought it

    @property
    def here(self) -> bool:
        return all(event.query() for event in self.events)

    def rows(self) -> list[Any]:
        """What counts of the batch; waits for the mask."""
        return _chosen(self.mask, self.whole())

    def whole(self) -> list[Any]:
        """The whole batch; waits for the mask, or whatever it is that came in its place."""
        for event in self.events:
            if not event.query():
                event.synchronize()
        return self.values


def rows_of(valid: Any, values: Sequence[Any], name: str) -> list[Any] | Tensor:
    """What counts of a batch, or the mask of its rows where only a device knows it."""
    rows = _rows(values)
    if rows is None:
        raise ValueError(f"{name}: valid is given, but no entry has rows; expected a tensor or list with one row a sample.")
    if isinstance(valid, Tensor) and valid.ndim == 0 and valid.dtype != torch.bool:
        valid = int(valid) if valid.is_cpu and not torch.compiler.is_compiling() else torch.arange(rows, device=valid.device) < valid
    if isinstance(valid, int) and not isinstance(valid, bool):
        if not 0 <= valid <= rows:
            raise ValueError(f"{name}: valid is {valid}; expected a number of rows, 0 to {rows}.")
        return [_sliced(x, rows, slice(valid)) for x in values]
    if not isinstance(valid, Tensor):
        try:
            valid = torch.as_tensor(valid)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"{name}: valid is a {type(valid).__name__}; expected a number of rows or a mask of {rows} rows.") from None
    if valid.dtype != torch.bool or tuple(valid.shape) != (rows,):
        raise ValueError(
            f"{name}: valid has dtype {valid.dtype} and shape {tuple(valid.shape)}; expected a number of rows or a boolean mask of shape ({rows},)."
        )
    if torch.compiler.is_compiling():
        raise ValueError(f"{name}: valid is a mask, whose number of rows a compiled update cannot know; pass the number of rows.")
    return _chosen(valid, values) if valid.is_cpu else valid


def valid_part(name: str, valid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an update with the rows that count. A mask on a device is waited for: only built-in metrics can add a batch later."""
    if isinstance(valid, Tensor):
        valid = valid.cpu()
    found = rows_of(valid, [*args, *kwargs.values()], name)
    return tuple(found[: len(args)]), dict(zip(kwargs, found[len(args) :]))


def rows_at(places: Tensor, rows: int, values: Sequence[Any], name: str) -> list[Any]:
    """The rows at some places, which the host knows, of a batch of so many."""
    found = _rows(values)
    if found is not None and found != rows:
        raise ValueError(f"{name}: the batch has {found} rows; expected {rows}, as many as the index has.")
    first, count = int(places[0]), len(places)
    if torch.equal(places, torch.arange(first, first + count)):
        return [_sliced(x, rows, slice(first, first + count)) for x in values]
    return [_indexed(x, rows, places) for x in values]


def runs_of(values: Sequence[Any], sizes: list[int]) -> list[tuple[Any, ...]]:
    """The entries of a batch in runs of so many rows; what has no rows is in each."""
    rows, ends = sum(sizes), list(accumulate(sizes))
    columns = []
    for x in values:
        if not _has_rows(x, rows):
            columns.append([x] * len(sizes))
        else:
            columns.append(x.split(sizes) if isinstance(x, Tensor) else [x[end - size : end] for end, size in zip(ends, sizes)])
    return list(zip(*columns))


def _rows(values: Sequence[Any]) -> int | None:
    for x in values:
        if isinstance(x, Tensor) and x.ndim:
            return x.shape[0]
        if isinstance(x, list | tuple):
            return len(x)
    return None


def _chosen(mask: Tensor, values: Sequence[Any]) -> list[Any]:
    """The rows of a mask in the host's memory."""
    rows, count = len(mask), int(mask.sum())
    if bool(mask[:count].all()):
        return [_sliced(x, rows, slice(count)) for x in values]
    places = mask.nonzero().flatten()
    return [_indexed(x, rows, places) for x in values]


def _sliced(x: Any, rows: int, part: slice) -> Any:
    return x[part] if _has_rows(x, rows) else x


def _indexed(x: Any, rows: int, places: Tensor) -> Any:
    if not _has_rows(x, rows):
        return x
    if not isinstance(x, Tensor):
        return type(x)(x[i] for i in places.tolist())
    if x.is_cuda:  # from pinned memory, so that nobody waits
        places = places.pin_memory().to(x.device, non_blocking=True)
    return x.index_select(0, places.to(x.device))


def _has_rows(x: Any, rows: int) -> bool:
    return bool(x.ndim and x.shape[0] == rows) if isinstance(x, Tensor) else isinstance(x, list | tuple) and len(x) == rows
