"""What a kernel finds wrong with values is known to the host only when it waits: the error is kept until then."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from .session import FAULTS
from .substitutes import shapes_of

CHECKED = frozenset(
    ["index", "index_put", "index_put_", "_index_put_impl_", "index_select", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "take", "put_", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_", "embedding", "embedding_dense_backward", "_embedding_bag", "nll_loss_forward", "nll_loss2d_forward", "nll_loss_backward", "nll_loss2d_backward", "multi_margin_loss", "multilabel_margin_loss_forward", "binary_cross_entropy", "multinomial", "_assert_async", "gather_backward", "index_reduce_", "index_reduce"]
)
_FOUND = re.compile(r"out of (bounds|range)|between 0 and 1|`?inf`?, `?nan`? or element|nonzero value", re.IGNORECASE)


def keep_fault(packet: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: int, error: Exception) -> Any:
    """Keep the error, and give what the kernel leaves behind; raise what the host finds by itself, from shapes and dtypes."""
    if packet not in CHECKED or not _FOUND.search(str(error)):
        raise error
    if packet == "_assert_async":
        left: Any = None
    elif packet.endswith("_"):
        left = args[0]
    else:
        try:
            left = _zeros(shapes_of(function, args, kwargs))
        except (RuntimeError, NotImplementedError, IndexError):
            raise error from None
    FAULTS.setdefault(device, f"{packet}: {str(error).strip()}")
    return left


def _zeros(shapes: Any) -> Any:
    if isinstance(shapes, (tuple, list)):
        return type(shapes)(_zeros(shape) for shape in shapes)
    return torch.zeros(shapes.shape, dtype=shapes.dtype) if isinstance(shapes, Tensor) else shapes
