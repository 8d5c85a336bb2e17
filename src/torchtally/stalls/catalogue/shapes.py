"""Operators whose result's shape depends on device values: the host must read a count before it can allocate."""

from __future__ import annotations

from typing import Any

import torch

from .row import Call, Row, argument_on_device, once

MASKS = (torch.bool, torch.uint8)


def masks(call: Call) -> int:
    """Masks on the device among the indices: each is turned into indices by `nonzero`."""
    if not call.device(call.arg(0, "self")):
        return 0
    return sum(call.device(i) and i.dtype in MASKS for i in call.arg(1, "indices"))


def fills_by_mask(call: Call) -> bool:
    """Whether an assignment is rewritten to `masked_fill_`: one host number, one mask, and nothing else indexed."""
    value, given = call.arg(2, "values"), [i for i in call.arg(1, "indices") if i is not None]
    return not call.arg(3, "accumulate", False) and call.host(value) and value.numel() == 1 and len(given) == 1 and given[0].dtype in MASKS


def masks_assigned(call: Call) -> int:
    return 0 if fills_by_mask(call) else masks(call)


def bincount(call: Call) -> int:
    x = call.arg(0, "self")
    if not call.device(x) or x.numel() == 0:
        return 0
    return 1 if x.dtype == torch.uint8 else 2


def repeats(call: Call) -> int:
    counts = call.arg(0, "repeats")
    return 2 * (call.device(counts) and call.kwargs.get("output_size") is None and counts.numel() > 0)


def sorted_membership(call: Call) -> int:
    elements, tests = call.arg(0, "elements"), call.arg(1, "test_elements")
    if not call.device(elements) or not elements.numel() or tests.numel() < int(10.0 * elements.numel() ** 0.145):
        return 0
    return 1 if call.kwargs.get("assume_unique", False) else 3


def sparse(call: Call) -> int:
    x: Any = call.arg(0, "self")
    return int(call.device(x) and x.layout is not torch.strided)


COUNT = "The number of results must reach the host before they can be stored."
WHERE = "`torch.where(mask, x, 0)`, the mask as weight, or `nonzero_static(size=...)`"

ROWS = (
    Row("aten::index", "shape_read", masks, COUNT, WHERE, when="`x[mask]` with a mask on the device; once per mask"),
    *(
        Row(f"aten::{name}", "shape_read", masks_assigned, "The mask is first turned into indices, and their number is read.",
            "`x.masked_fill_(mask, number)`, or `torch.where(mask, value, x)`",
            when="`x[mask] = value` with a device value or `accumulate`, a mask mixed with other indices; not for one host number")
        for name in ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
    ),
    Row("aten::nonzero", "shape_read", once, COUNT, "`torch.nonzero_static(mask, size=...)`, or three-argument `torch.where`",
        when="`nonzero`, `argwhere`, `torch.where(mask)`"),
    Row("aten::masked_select", "shape_read", argument_on_device(1, "mask"), COUNT, WHERE, when="the mask is on the device"),
    *(
        Row(f"aten::{name}", "shape_read", once, COUNT, "with a known range: `zeros(K).scatter_add_(0, x, ones)`", when=f"`{front}`")
        for name, front in (("_unique", "torch._unique"), ("_unique2", "torch.unique"), ("unique_dim", "torch.unique(dim=...)"),
                            ("unique_consecutive", "torch.unique_consecutive"), ("unique_dim_consecutive", "torch.unique_consecutive(dim=...)"))
    ),
    Row("aten::bincount", "shape_read", bincount, "The smallest and the largest label are read, with `minlength` too.",
        "`x.new_zeros(K).scatter_add_(0, x, torch.ones_like(x))` with K known", when="always, but for an empty input (uint8: the largest only)"),
    Row("aten::repeat_interleave", "shape_read", repeats, "The sum of the repeats is read, and that none is negative.", "give `output_size`",
        when="the repeats are a tensor and `output_size` is not given", overloads=("Tensor",)),
    Row("aten::isin", "shape_read", sorted_membership, "A large test set is sorted, after both sides went through `unique`.",
        "a look-up table; `assume_unique=True` waits once instead of three times", when="`test_elements` has at least about ten elements", overloads=("Tensor_Tensor", "Tensor_Tensor_out")),
    Row("aten::_to_sparse", "shape_read", once, "The number of nonzero elements must reach the host.", "stay dense", when="`x.to_sparse()`", exact=False),
    Row("aten::_coalesce", "shape_read", once, "Equal indices are merged, and the host waits for their number.", "coalesce once, outside the loop",
        when="`x.coalesce()`"),
    *(
        Row(f"aten::{name}", "shape_read", sparse, "How much memory the result needs is read on the host.", "stay dense",
            when="sparse tensors", exact=False)
        for name in ("_sparse_softmax", "_sparse_log_softmax", "_sparse_sparse_matmul", "hspmm")
    ),
)
