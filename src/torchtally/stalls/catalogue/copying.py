"""Copies between host and device. A copy from or to pageable memory makes the host wait for all work queued before it."""

from __future__ import annotations

from typing import Any

import torch

from .row import Call, Row, any_on_device
from .shapes import MASKS, fills_by_mask

STAGED = 64 * 1024  # the driver returns at once from smaller asynchronous copies: it has already taken the bytes


def to_device(call: Call, source: Any, non_blocking: bool) -> bool:
    """Whether a copy of this host tensor to the device makes the host wait."""
    if not call.host(source) or source.numel() == 0:
        return False
    return not non_blocking or (not call.pinned(source) and source.numel() * source.element_size() > STAGED)


def target(call: Call) -> str | None:
    """Type of the device named by the call, if any."""
    device = call.kwargs.get("device")
    return None if device is None else torch.device(device).type


def new_on_device(call: Call) -> int:
    goal = target(call)
    return int(goal not in (None, "cpu", "meta") and to_device(call, call.arg(0, "self"), call.kwargs.get("non_blocking", False)))


def new_on_host(call: Call) -> int:
    x = call.arg(0, "self")
    return int(target(call) == "cpu" and call.device(x) and x.numel() > 0 and not call.kwargs.get("non_blocking", False))


def into_device(call: Call) -> int:
    to, source = call.arg(0, "self"), call.arg(1, "src")
    return int(call.device(to) and to_device(call, source, call.arg(2, "non_blocking", False)))


def into_host(call: Call) -> int:
    to, source = call.arg(0, "self"), call.arg(1, "src")
    if not (call.host(to) and call.device(source)) or source.numel() == 0:
        return 0
    return int(not (call.arg(2, "non_blocking", False) and call.pinned(to)))


def each_into_device(call: Call) -> int:
    later = call.arg(2, "non_blocking", False)
    return sum(call.device(to) and to_device(call, s, later) for to, s in zip(call.arg(0, "self"), call.arg(1, "src")))


def each_into_host(call: Call) -> int:
    later = call.arg(2, "non_blocking", False)
    return sum(call.host(to) and call.device(s) and not (later and call.pinned(to)) for to, s in zip(call.arg(0, "self"), call.arg(1, "src")))


def from_data(call: Call) -> int:
    """Tensors made from Python numbers or host arrays are built on the host, then copied."""
    return int(target(call) not in (None, "cpu", "meta") and not call.device(call.arg(0, "data")))


def host_indices(call: Call) -> int:
    """Indices in host memory are moved one by one."""
    if not call.device(call.arg(0, "self")):
        return 0
    return sum(i.dtype not in MASKS for i in call.arg(1, "indices") if call.host(i) and i.numel() > 0)


def host_masks(call: Call) -> int:
    """A host mask becomes one index per dimension, which were moved one by one."""
    if not call.device(call.arg(0, "self")):
        return 0
    return sum(i.dim() for i in call.arg(1, "indices") if call.host(i) and i.dtype in MASKS and i.numel() > 0)


def host_number(call: Call) -> int:
    """An assigned number travels as a tensor, unless the assignment becomes a `masked_fill_`."""
    value = call.arg(2, "values")
    return int(call.device(call.arg(0, "self")) and call.host(value) and value.dim() == 0 and not fills_by_mask(call))


def assigned(call: Call) -> int:
    return host_number(call) + (0 if fills_by_mask(call) else host_indices(call))


def assigned_by_mask(call: Call) -> int:
    return 0 if fills_by_mask(call) else host_masks(call)


def host_operands(call: Call) -> int:
    """`where` moves each 0-dimensional host operand to the device."""
    if not any_on_device(call):
        return 0
    return sum(call.host(x) and x.dim() == 0 for x in (call.arg(0, "condition"), call.arg(1, "self"), call.arg(2, "other")))


def lengths_on_device(call: Call) -> int:
    return sum(call.device(call.arg(p, n)) for p, n in ((2, "input_lengths"), (3, "target_lengths")))


def lengths_of_ctc(call: Call) -> int:
    return 3 * call.device(call.arg(0, "log_probs"))


def pickled(call: Call) -> int:
    x = call.arg(0, "self")
    return int(call.device(x) and x.numel() > 0)


PIN = "`pin_memory()` the source (or `DataLoader(pin_memory=True)`) and pass `non_blocking=True`, or make the tensor on the device"
FULL = "`torch.full((), value, device=...)`, `arange`, or a tensor made once"
NUMBER = "`x.index_fill_(0, index, number)`, `scatter_`, or a value tensor already on the device"
MEMORY = "A host copy waits for the stream, not only for itself."

ROWS = (
    Row("aten::_to_copy", "host_to_device", new_on_device, MEMORY, PIN,
        when="`.to('cuda')`, `.cuda()` from the host; with `non_blocking=True` only from pageable memory above 64 KiB"),
    Row("aten::_to_copy", "device_to_host", new_on_host, MEMORY, "`.to('cpu', non_blocking=True)`, and read after an event",
        when="`.cpu()`, `.to('cpu')`, `.numpy()` after it; not with `non_blocking=True`, whose result is pinned"),
    Row("aten::copy_", "host_to_device", into_device, MEMORY, PIN,
        when="`x.copy_(host)`, `load_state_dict` (once per entry), `x[...] = host tensor`; a 0-dimensional host tensor too"),
    Row("aten::copy_", "device_to_host", into_host, MEMORY, "copy into a pinned buffer with `non_blocking=True`, and read after an event",
        when="`host.copy_(x)`; with `non_blocking=True` only into pageable memory"),
    Row("aten::_foreach_copy_", "host_to_device", each_into_device, MEMORY, PIN, when="once per tensor"),
    Row("aten::_foreach_copy_", "device_to_host", each_into_host, MEMORY, "pinned targets and `non_blocking=True`", when="once per tensor"),
    *(
        Row(name, "host_to_device", from_data, "The numbers are put into a host tensor, which is then copied.", FULL,
            when="the data are Python numbers or host arrays and the target is the device")
        for name in ("torch.tensor", "torch.as_tensor", "torch.asarray", "Tensor.new_tensor")
    ),
    Row("aten::index", "host_to_device", host_indices, "Indices given as a list or host tensor are copied first.",
        "indices made on the device once, or a slice", when="`x[[0, 2]]`, `x[host_index]`; once per index"),
    Row("aten::index", "host_to_device", host_masks, "A host mask is turned into indices, which are copied.", "a mask made on the device, as weight or in `where`",
        when="`x[host_mask]`; once per dimension. From 2.11 on the indices go through pinned memory", until="2.11"),
    *(
        Row(f"aten::{name}", "host_to_device", assigned, "The assigned number becomes a tensor on the host and is copied; so are host indices.", NUMBER,
            when="`x[integer_index] = number`, `x[host_index] = value`; not `x[mask] = number`, `x[0] = number`")
        for name in ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
    ),
    *(
        Row(f"aten::{name}", "host_to_device", assigned_by_mask, "A host mask is turned into indices, which are copied.",
            "a mask made on the device", when="`x[host_mask] = value`, but for one host number", until="2.11")
        for name in ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
    ),
    Row("aten::where", "host_to_device", host_operands, "A 0-dimensional host tensor is copied before the kernel runs.",
        "a Python number: `torch.where(mask, x, 0.0)`", when="an operand is a 0-dimensional host tensor; once per operand",
        overloads=("self", "self_out")),
    Row("aten::_ctc_loss", "host_to_device", lengths_of_ctc, "The kernel builds its offsets and lengths on the host.",
        "the cuDNN form: int32 targets on the host, blank 0", when="the native CTC loss; twice as often in some versions", exact=False),
    Row("aten::_ctc_loss", "device_to_host", lengths_on_device, "Lengths are read on the host.", "keep lengths on the host",
        when="lengths on the device; once each", overloads=("Tensor",), exact=False),
    Row("Tensor.__reduce_ex__", "device_to_host", pickled, "Pickling copies the memory of the tensor to the host.",
        "copy asynchronously into pinned memory, save that from a thread", when="`torch.save`, pickle, `mp.Queue`; once per tensor"),
)
