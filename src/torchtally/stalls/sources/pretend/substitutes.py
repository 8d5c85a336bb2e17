"""Operators that run otherwise than asked: half precision through float32, as a host is slow at it; noise where that is wanted; what a host lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .cuda_only import KERNELS
from .session import ON

PRODUCTS = frozenset(
    ["mm", "addmm", "bmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "vdot", "addr", "convolution", "_convolution", "convolution_backward", "convolution_overrideable", "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward", "_scaled_dot_product_attention_math", "_addmm_activation", "linear", "linear_backward", "mkldnn_rnn_layer"]
)
HALF = (torch.float16, torch.bfloat16)

Run = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def substitute(packet: str) -> Run | None:
    """How an operator is run instead of by itself; None for the many that need nothing."""
    if packet in KERNELS:
        kernel = KERNELS[packet]
        return lambda function, args, kwargs: kernel(*args, **kwargs)
    return _product if packet in PRODUCTS else None


def _product(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A product. Half precision computes in float32 and rounds once, as tensor cores do; a CPU needs twenty times as long to do it in half."""
    if ON.fast:
        return _noise(function, args, kwargs)
    half = next((value.dtype for value in args if isinstance(value, Tensor) and value.dtype in HALF), None)
    if half is None or "out" in kwargs:
        return function(*args, **kwargs)
    result = function(*[_cast(value, half, torch.float32) for value in args], **kwargs)
    return tuple(_cast(r, torch.float32, half) for r in result) if isinstance(result, tuple) else _cast(result, torch.float32, half)


def _cast(value: Any, of: torch.dtype, to: torch.dtype) -> Any:
    return value.to(to) if isinstance(value, Tensor) and value.dtype is of else value


def _noise(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Small numbers of the right shape and type."""
    shapes = shapes_of(function, args, kwargs)
    if isinstance(shapes, tuple):
        return tuple(_numbers(shape) for shape in shapes)
    return _numbers(shapes)


def shapes_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results of an operator without their values."""
    return function(*[_on_meta(value) for value in args], **{key: _on_meta(value) for key, value in kwargs.items()})


def _on_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return [_on_meta(v) for v in value] if isinstance(value, (list, tuple)) else value


def _numbers(shape: Any) -> Any:
    if not isinstance(shape, Tensor):
        return shape
    result = torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype)
    return result.uniform_(-0.05, 0.05) if shape.dtype.is_floating_point else result.zero_()
