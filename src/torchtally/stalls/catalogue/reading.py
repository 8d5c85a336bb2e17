"""Operators that read a value of the device, openly or inside a kernel that checks its input."""

from __future__ import annotations

from typing import Any

from .row import Call, Row, argument_on_device, once


def scalar_tensors(call: Call) -> int:
    """`linspace` and `logspace` read each bound that is a tensor on the device."""
    return sum(call.device(x) for x in (call.arg(0, "start"), call.arg(1, "end")))


def equal(call: Call) -> int:
    a, b = call.arg(0, "self"), call.arg(1, "other")
    return int(call.device(a) and bool(a.shape == b.shape and a.numel()))


def std_tensor(call: Call) -> int:
    std = call.arg(1, "std")
    return 2 * (call.device(std) and bool(std.numel()))


def histc(call: Call) -> int:
    x, low, high = call.arg(0, "self"), call.arg(2, "min", 0), call.arg(3, "max", 0)
    return 2 * (call.device(x) and low == high and x.numel() > 0)


def sorter(call: Call) -> int:
    given: Any = call.kwargs.get("sorter")
    return 2 * (call.device(given) and given.numel() > 0)


def mode(call: Call) -> int:
    x, dim = call.arg(0, "self"), call.arg(1, "dim", -1)
    if not call.device(x) or x.dim() == 0 or x.shape[dim] <= 2048:
        return 0
    return x.numel() // x.shape[dim]


def lengths(call: Call) -> int:
    return 2 * (call.device(call.kwargs.get("lengths")) and not call.kwargs.get("unsafe", False))


def smoothed_with_weight(call: Call) -> int:
    """`cross_entropy_loss` and its Python front: mean reduction, class weights, label smoothing, and labels rather than probabilities."""
    target, weight = call.arg(1, "target"), call.arg(2, "weight")
    front = len(call.args) > 3 and (isinstance(call.args[3], bool) or call.args[3] is None)  # F.cross_entropy has size_average in fourth place
    smoothing = call.arg(7 if front else 5, "label_smoothing", 0.0)
    reduction = call.arg(6 if front else 3, "reduction", "mean")
    labels = call.device(target) and not target.is_floating_point()
    return int(labels and call.device(weight) and smoothing > 0 and reduction in ("mean", 1))


def quantisation(call: Call) -> int:
    return sum(call.device(call.arg(p, n)) for p, n in ((1, "scale"), (2, "zero_point")))


KEEP = "keep it on the device and read once per many steps, or `.to('cpu', non_blocking=True)` and read after an event"

ROWS = (
    Row("aten::_local_scalar_dense", "read", once, "One number is copied to the host, which waits for the stream.", KEEP,
        when="`.item()`, `float(x)`, `int(x)`, `bool(x)`, `if x`, `range(x)`, `math.sqrt(x)`, an index or size given as a device tensor"),
    Row("Tensor.tolist", "read", once, "The whole tensor is copied to the host.", "read once, after the epoch"),
    Row("aten::equal", "read", equal, "Compares on the device, then reads the answer.", "`(a == b).all()`, kept on the device",
        when="both on the device, same shape; `torch.equal`, `cov`, `corrcoef`, `istft`"),
    Row("aten::allclose", "read", once, "Compares on the device, then reads the answer.", "`torch.isclose(a, b).all()`, kept on the device"),
    Row("aten::masked_fill", "read", argument_on_device(2, "value"), "The kernel takes a number: a device value is read first.",
        "`torch.where(mask, value, x)`, or a Python number", when="the value is a tensor on the device", overloads=("Tensor",)),
    Row("aten::masked_fill_", "read", argument_on_device(2, "value"), "The kernel takes a number: a device value is read first.",
        "`torch.where(mask, value, x)`, or a Python number", when="the value is a tensor on the device", overloads=("Tensor",)),
    Row("aten::index_fill", "read", argument_on_device(3, "value"), "The kernel takes a number: a device value is read first.",
        "a Python number, or `index_copy_`", when="the value is a tensor on the device", overloads=("int_Tensor",)),
    Row("aten::index_fill_", "read", argument_on_device(3, "value"), "The kernel takes a number: a device value is read first.",
        "a Python number, or `index_copy_`", when="the value is a tensor on the device", overloads=("int_Tensor",)),
    Row("aten::linspace", "read", scalar_tensors, "Bounds that are device tensors are read.", "Python numbers, or `start + (end - start) * steps`",
        when="a bound is a tensor on the device"),
    Row("aten::logspace", "read", scalar_tensors, "Bounds that are device tensors are read.", "Python numbers",
        when="a bound is a tensor on the device"),
    Row("aten::normal", "read", std_tensor, "Checks on the host, twice, that no standard deviation is negative.", "`mean + std * torch.randn_like(std)`",
        when="`std` is a tensor on the device", overloads=("Tensor_Tensor", "float_Tensor")),
    Row("aten::histc", "read", histc, "Without a range, the smallest and largest value are read.", "give `min` and `max`",
        when="`min` equals `max` (the default)"),
    Row("aten::searchsorted", "read", sorter, "The range of `sorter` is checked on the host.", "sort first, then search without `sorter`",
        when="`sorter` is given"),
    Row("aten::mode", "read", mode, "Slices too long for the fused kernel are sorted one by one, each with a wait.",
        "count with `scatter_add_`, then `argmax`", when="slices of more than 2048 elements; once per slice"),
    Row("aten::segment_reduce", "read", lengths, "The lengths are checked on the host.", "`unsafe=True`", when="`lengths` without `unsafe=True`"),
    Row("torch.nn.functional.cross_entropy", "read", smoothed_with_weight, "The mean over smoothed labels selects the weights of the valid labels by mask.",
        "no class weights, or smooth the labels by hand", when="`weight` and `label_smoothing` together, mean reduction, labels as classes"),
    Row("aten::multinomial", "read", lambda c: 2 * (c.device(c.arg(0, "self")) and (not c.arg(2, "replacement", False) or c.arg(1, "num_samples") == 1)),
        "Older versions check the probabilities on the host.", "`(p / torch.empty_like(p).exponential_()).argmax()`", since="1.7", until="2.6",
        when="without replacement, or one sample"),
    Row("aten::quantize_per_tensor", "read", quantisation, "The kernel takes numbers.", "Python numbers for `scale` and `zero_point`",
        when="scale or zero point on the device", overloads=("tensor_qparams",)),
    Row("aten::_fused_moving_avg_obs_fq_helper", "read", once, "The switches of the observer are read.", "freeze observers while training",
        when="quantisation-aware training", exact=False),
    Row("aten::_nested_tensor_from_mask_left_aligned", "read", once, "Whether the mask is left-aligned decides the path taken.",
        "`enable_nested_tensor=False`", when="`TransformerEncoder` in evaluation with `src_key_padding_mask`"),
    Row("autograd::ProdBackward0", "shape_read", once, "The gradient of a product counts the zeros of its input.", "`exp(log(x).sum())`",
        when="backward of `x.prod()`"),
    Row("autograd::ProdBackward1", "read", once, "The gradient of a product counts the zeros of its input.", "`exp(log(x).sum(dim))`",
        when="backward of `x.prod(dim)`"),
    Row("autograd::CumprodBackward0", "read", once, "The gradient asks whether the input has zeros.", "`exp(log(x).cumsum(dim))`",
        when="backward of `x.cumprod(dim)`"),
    Row("autograd::MaskedFillBackward1", "shape_read", once, "The gradient of the value selects by mask.", "`torch.where(mask, value, x)`",
        when="backward of `masked_fill` with a value that needs a gradient"),
)

