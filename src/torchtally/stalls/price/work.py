"""How much work an ATen operator is for a device: bytes moved, operations done, pieces of work launched.

The default is that of an elementwise operator or a reduction: every input is read once, every result written once, by one kernel. The tables below
name the operators that differ. Shapes alone decide, so tensors may live on `meta`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import flop_registry

from .prices import Pace, Price


@dataclass(frozen=True, slots=True)
class Work:
    """`numbers` names the peak the operations run at; `library` is true where cuDNN or cuBLAS choose a kernel, which takes the host longer.

    `kind` is "convolution" or "batch_norm" where a price list knows what share of the peaks such kernels reach.
    """

    bytes: float
    operations: float
    kernels: int
    numbers: str = "float32"
    library: bool = False
    kind: str = ""

    def device_us(self, price: Price, pace: Pace = "typical") -> float:
        """The longer of moving the bytes and doing the operations, but no kernel is shorter than the shortest."""
        moving = self.bytes / price.memory_rate(pace, self.kind)
        doing = self.operations / price.rate(self.numbers, pace, self.kind)
        return max(self.kernels * price.device["kernel_us"].at(pace), 1e6 * max(moving, doing))


NOTHING = Work(0, 0, 0)
SHAPE_ONLY = {  # beside views: allocate, or change what a tensor says of itself
    *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "detach", "detach_", "alias", "lift_fresh", "lift"),
    *("_unsafe_view", "set_", "resize_", "resize_as_", "is_same_size", "_reshape_alias", "_version", "size", "stride", "is_pinned", "record_stream"),
}
CONVOLUTIONS = {"convolution", "_convolution", "cudnn_convolution", "mkldnn_convolution", "_slow_conv2d_forward", "convolution_overrideable"}
MATRIX = {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_addmm_activation", "addmv", "mv", "dot"}
PASSES = {  # operator: how often its largest tensor is moved, and by how many kernels
    "native_batch_norm": (3, 2), "_native_batch_norm_legit": (3, 2), "cudnn_batch_norm": (3, 1), "_batch_norm_with_update": (3, 2),
    "native_batch_norm_backward": (5, 2), "cudnn_batch_norm_backward": (5, 1), "batch_norm_backward": (5, 2),
    "native_group_norm": (3, 2), "native_group_norm_backward": (5, 3), "native_layer_norm_backward": (4, 2),
    "sort": (8, 6), "argsort": (8, 6), "topk": (5, 2), "kthvalue": (5, 1), "median": (5, 2), "mode": (8, 2), "msort": (8, 6),
    "_unique": (12, 8), "_unique2": (12, 8), "unique_dim": (16, 12), "unique_consecutive": (4, 4),
    "nonzero": (3, 3), "masked_select": (5, 5), "bincount": (3, 4), "histc": (3, 3), "cumsum": (2, 2), "cumprod": (2, 2),
    "_local_scalar_dense": (1, 1), "is_nonzero": (1, 1), "equal": (3, 2), "allclose": (6, 6),
}  # fmt: skip
GATHERS = {"index", "gather", "index_select", "embedding", "take", "take_along_dim", "nll_loss_forward", "nll_loss2d_forward"}
SCATTERS = {"scatter_", "scatter_add_", "index_add_", "index_put_", "_index_put_impl_", "_unsafe_index_put", "scatter_reduce_", "index_copy_", "put_"}
WRITES = {"fill_", "zero_", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_full", "new_ones", "arange", "scalar_tensor",
          "normal_", "uniform_", "bernoulli_", "random_", "randn", "rand", "randint", "linspace", "eye", "randperm"}  # fmt: skip
LARGEST_LAUNCH = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}  # tensors per multi-tensor kernel, by how many lists it walks
LONG_ROW = 1024  # softmax reads longer rows three times: for the largest, for the sum, for the result
CHUNK, CHUNKS = 65536, 320  # elements a block handles, and blocks a multi-tensor kernel may have


def work_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Work:
    """The work of one call, given its arguments and its result (a tensor, or a tuple or list of them)."""
    packet = func.overloadpacket
    name: str = packet.__name__
    if name in SHAPE_ONLY or getattr(func, "is_view", False):
        return NOTHING
    inputs, outputs = tensors((args, kwargs)), tensors(out)
    if not inputs and not outputs:
        return NOTHING
    numbers = _numbers(inputs or outputs)
    if name.startswith(("_foreach_", "_fused_")):
        return _multi_tensor(name, args, kwargs, out)
    if name in CONVOLUTIONS:
        return Work(_bytes(inputs) + _bytes(outputs), _operations(packet, args, kwargs, out), 1 + (args[2] is not None), _fast(numbers, convolution=True), True, "convolution")
    if name == "convolution_backward":
        return _convolution_backward(packet, args, kwargs, out, _fast(numbers, convolution=True))
    if name in MATRIX:
        operations = _operations(packet, args, kwargs, out) or 2.0 * max(t.numel() for t in inputs)  # the vector forms are not in the registry
        return Work(_bytes(inputs) + _bytes(outputs), operations, 1, _fast(numbers), True)
    if "scaled_dot_product" in name or name.startswith(("_flash_attention", "_efficient_attention")):
        return _attention(name, args, outputs, _fast(numbers))
    if name in PASSES:
        passes, kernels = PASSES[name]
        largest = max(_size(t) for t in inputs + outputs)
        elements = max(t.numel() for t in inputs + outputs)
        kind = "batch_norm" if "batch_norm" in name else ""
        return Work(passes * largest, float(passes * elements), kernels, numbers, library=bool(kind), kind=kind)
    if name in ("_softmax", "_log_softmax") and inputs[0].dim() and inputs[0].shape[args[1]] > LONG_ROW:
        return Work(3 * _size(inputs[0]) + _bytes(outputs), 4.0 * inputs[0].numel(), 1, numbers)
    if name in WRITES:
        return Work(_bytes(outputs), 0.0, 1, numbers)
    if name == "copy_":
        return Work(_size(args[0]) + _size(args[1]) * (args[0].numel() / max(1, args[1].numel())), 0.0, 1, numbers)
    if name in GATHERS:
        index = sum(_size(t) for t in inputs if not t.dtype.is_floating_point)
        return Work(2 * _bytes(outputs) + index, 0.0, 1, numbers)
    if name in SCATTERS:
        source = max((_size(t) for t in inputs[1:]), default=0.0)
        return Work(3 * source + source, 0.0, 1, numbers)
    elements = max(t.numel() for t in inputs + outputs)
    if name in ("cat", "stack"):
        return Work(_bytes(inputs) + _bytes(outputs), 0.0, max(1, math.ceil(len(inputs) / 128)), numbers)
    return Work(_bytes(inputs) + _bytes(outputs), float(elements), 1, numbers)


def copy_bytes(tensor: torch.Tensor) -> float:
    """What a copy over the bus moves."""
    return _size(tensor)


def tensors(tree: Any) -> list[torch.Tensor]:
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def _size(t: torch.Tensor) -> float:
    return float(t.numel() * t.element_size())


def _bytes(ts: Iterable[torch.Tensor]) -> float:
    return sum(_size(t) for t in ts)


def _numbers(ts: list[torch.Tensor]) -> str:
    """The type operations are done in: that of the first floating tensor."""
    for t in ts:
        if t.dtype.is_floating_point:
            return str(t.dtype).removeprefix("torch.")
    return "float32"


def _fast(numbers: str, convolution: bool = False) -> str:
    """float32 may run as tf32: for convolutions unless switched off, for matrices only if switched on (PyTorch's defaults)."""
    if numbers != "float32":
        return numbers
    allowed = torch.backends.cudnn.allow_tf32 if convolution else torch.get_float32_matmul_precision() != "highest"
    return "tf32" if allowed else numbers


def _operations(packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float:
    count: Callable[..., float] | None = flop_registry.get(packet)
    return float(count(*args, **kwargs, out_val=out)) if count else 0.0


def _convolution_backward(packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, numbers: str) -> Work:
    """One kernel a gradient asked for. Each of the two large ones reads the output's gradient and one more tensor, and writes its result."""
    grad, x, weight = args[:3]
    mask = args[10]
    moved = mask[0] * (_size(grad) + _size(weight) + _size(x)) + mask[1] * (_size(grad) + _size(x) + _size(weight)) + mask[2] * _size(grad)
    return Work(moved, _operations(packet, args, kwargs, out), sum(mask), numbers, True, "convolution")


def _attention(name: str, args: tuple[Any, ...], outputs: list[torch.Tensor], numbers: str) -> Work:
    """Scores and weighted values forward; five products of the same size backward. The scores themselves never reach memory."""
    backward = "backward" in name
    query, key, value = args[1:4] if backward else args[:3]
    rows = query.shape[:-1].numel()
    product = 2.0 * rows * key.shape[-2] * query.shape[-1]
    products = 5 if backward else 2
    moved = (3 if backward else 1) * (_size(query) + _size(key) + _size(value) + _size(outputs[0] if outputs else query))
    return Work(moved, products * product, 2 if backward else 1, numbers, True)


def _multi_tensor(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Work:
    """A multi-tensor kernel walks several lists at once; one launch takes only so many tensors and blocks."""
    fused, in_place = name.startswith("_fused_"), name.endswith("_")
    lists = [list(x) for x in (*args, *kwargs.values()) if isinstance(x, (list, tuple)) and x and isinstance(x[0], torch.Tensor)]
    if fused:  # the step counters, one number each, are arguments of the kernel
        lists = [x for x in lists if any(t.dim() for t in x)] or lists
    if not in_place:
        lists.append(tensors(out))
    if not lists or not lists[0]:
        return NOTHING
    first = lists[0]
    chunks = sum(math.ceil(t.numel() / CHUNK) for t in first)
    launches = max(math.ceil(len(first) / LARGEST_LAUNCH[min(5, len(lists))]), math.ceil(chunks / CHUNKS))
    moved = sum(_bytes(x) for x in lists)
    if in_place:  # a fused optimiser writes parameters and moments, not gradients; the others write their first list
        moved += sum(_bytes(x) for x in (lists[:1] + lists[2:] if fused else lists[:1]))
    return Work(moved, float(sum(t.numel() for t in first)) * (12 if fused else 1), launches, _numbers(first))
