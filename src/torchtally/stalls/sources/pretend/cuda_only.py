"""Operators that PyTorch has for CUDA alone, in terms of those it has for the host: the statistics of SyncBatchNorm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _others(x: Tensor) -> list[int]:
    """All dimensions but the channels."""
    return [d for d in range(x.dim()) if d != 1]


def _spread(value: Tensor, like: Tensor) -> Tensor:
    return value.view(1, -1, *[1] * (like.dim() - 2))


def batch_norm_stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(x.float(), _others(x), correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    x: Tensor, mean: Tensor, invstd: Tensor, running_mean: Any, running_var: Any, momentum: float, eps: float, counts: Tensor
) -> tuple[Tensor, Tensor]:
    weight = counts.view(-1, 1).to(mean.dtype)
    total = weight.sum()
    joint = (mean * weight).sum(0) / total
    variance = ((invstd.pow(-2) - eps + (mean - joint).square()) * weight).sum(0) / total
    if running_mean is not None:
        running_mean.lerp_(joint.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((variance * total / (total - 1)).to(running_var.dtype), momentum)
    return joint, (variance + eps).rsqrt()


def batch_norm_elemt(x: Tensor, weight: Any, bias: Any, mean: Tensor, invstd: Tensor, eps: float) -> Tensor:
    result = (x.float() - _spread(mean, x)) * _spread(invstd, x)
    if weight is not None:
        result = result * _spread(weight.float(), x)
    return (result if bias is None else result + _spread(bias.float(), x)).to(x.dtype)


def batch_norm_backward_reduce(
    gradient: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Any, input_g: bool, weight_g: bool, bias_g: bool
) -> tuple[Any, Any, Any, Any]:
    gradient = gradient.float()
    sums = gradient.sum(_others(x))
    products = (gradient * (x.float() - _spread(mean, x))).sum(_others(x))
    dtype = torch.float32 if weight is None else weight.dtype
    return sums, products, (products * invstd).to(dtype) if weight_g else None, sums.to(dtype) if bias_g else None


def batch_norm_backward_elemt(
    gradient: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Any, sums: Tensor, products: Tensor, count: Tensor
) -> Tensor:
    total = count.sum()
    centred = (x.float() - _spread(mean, x)) * _spread(products / total * invstd.square(), x)
    result = (gradient.float() - _spread(sums / total, x) - centred) * _spread(invstd if weight is None else invstd * weight.float(), x)
    return result.to(x.dtype)


KERNELS = {
    f.__name__: f
    for f in (batch_norm_stats, batch_norm_gather_stats_with_counts, batch_norm_elemt, batch_norm_backward_reduce, batch_norm_backward_elemt)
}
