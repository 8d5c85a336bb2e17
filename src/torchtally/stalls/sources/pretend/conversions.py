"""Moving tensors between the host and devices, with gradients that find their way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .memory import HOST, NoFunctions, where
from .session import STATE, TorchCall, asks_for_device, index_of_device

_to_copy = torch.ops.aten._to_copy.default


def to_device(tensor: Tensor, device: Any, dtype: torch.dtype | None = None, non_blocking: bool = False, copy: bool = False, **rest: Any) -> Tensor:
    """`tensor.to(device, …)`."""
    if asks_for_device(device):
        index = index_of_device(device)
    elif torch.device(device).type == "cpu":
        index = HOST
    else:
        return tensor.to(device, dtype, non_blocking, copy, **rest)
    return convert(tensor, index, dtype, non_blocking, copy, **rest)


def convert(
    tensor: Tensor, index: int, dtype: torch.dtype | None = None, non_blocking: bool = False, copy: bool = False, memory_format: Any = None
) -> Tensor:
    """The tensor itself where nothing is to be done, else a copy on `cuda:index` or the host."""
    if tensor.is_meta:
        return tensor.to("cpu")  # which says that there are no data
    source = where(tensor)
    if source == index:
        return torch._C.TensorBase.to(tensor, dtype or tensor.dtype, non_blocking, copy, **_format(memory_format))
    if tensor.requires_grad and torch.is_grad_enabled():
        return Move.apply(tensor, source, index, dtype, non_blocking, memory_format)  # type: ignore[no-any-return, no-untyped-call]
    return _copy(tensor, index, dtype, non_blocking, memory_format)


def _format(memory_format: Any) -> dict[str, Any]:
    return {} if memory_format is None else {"memory_format": memory_format}


def _copy(tensor: Tensor, index: int, dtype: torch.dtype | None, non_blocking: bool, memory_format: Any) -> Tensor:
    asked = {"dtype": dtype or tensor.dtype, "non_blocking": non_blocking, **_format(memory_format)}
    outer = STATE.call
    STATE.call = TorchCall(_to_copy, (tensor,), asked, index)
    try:
        with NoFunctions():
            return _to_copy(tensor, **asked)  # type: ignore[no-any-return]
    finally:
        STATE.call = outer


class Move(torch.autograd.Function):
    """A copy to another device whose gradient is copied back; PyTorch's own would take both ends for the host."""

    @staticmethod
    def forward(tensor: Tensor, source: int, index: int, dtype: torch.dtype | None, non_blocking: bool, memory_format: Any) -> Tensor:  # type: ignore[override]
        return _copy(tensor, index, dtype, non_blocking, memory_format)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        tensor, ctx.source, ctx.index, *_ = inputs
        ctx.dtype = tensor.dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        return convert(gradient, ctx.source, ctx.dtype), None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *rest: Any) -> Tensor:
        return convert(tangent, ctx.index)
