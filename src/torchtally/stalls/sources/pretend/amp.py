"""`torch.autocast("cuda")`: the host's autocast, switched on for calls that take device tensors, with CUDA's lists of operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

FLOAT32 = ["acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh", "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm", "group_norm", "cosine_similarity", "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm", "logsumexp", "nll_loss_nd", "norm.Scalar", "norm.ScalarOpt_dim", "norm.names_ScalarOpt_dim"]
RESULT_FLOAT32 = ["prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "sum", "sum.dim_IntList"]  # where no dtype is asked for
LOWER = ["addmv", "addr", "mv", "prelu", "chain_matmul", "linalg_multi_dot", "_thnn_fused_lstm_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"]
WIDEST = ["addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "tensordot", "scatter_add", "index_put"]

_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
)

_library: Any = None


def autocasting() -> bool:
    """Whether this thread autocasts, for the device or the host."""
    return torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")


def run_autocast(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that takes device tensors, with the device's autocast in place of the host's."""
    global _library
    wanted = torch.is_autocast_enabled("cuda")
    if wanted and _library is None:
        _library = _register()
    if wanted and function is torch._C._nn.binary_cross_entropy:
        raise RuntimeError(_BANNED)
    enabled, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    torch.set_autocast_enabled("cpu", wanted)
    torch.set_autocast_dtype("cpu", torch.get_autocast_dtype("cuda"))
    try:
        return function(*args, **kwargs)
    finally:
        torch.set_autocast_enabled("cpu", enabled)
        torch.set_autocast_dtype("cpu", dtype)


def unregister() -> None:
    """Take CUDA's lists away again."""
    global _library
    if _library is not None:
        _library._destroy()
        _library = None


def _register() -> Any:
    """CUDA's lists, for the operators that the host's autocast leaves alone."""
    library = torch.library.Library("aten", "IMPL")
    taken = torch._C._dispatch_has_kernel_for_dispatch_key
    for names, rule in ((FLOAT32, _in_float32), (RESULT_FLOAT32, _to_float32), (LOWER, _in_lower), (WIDEST, _in_widest)):
        for name in names:
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if operator is not None and not taken(operator.name(), "AutocastCPU"):
                library.impl(name, rule(operator), "AutocastCPU")
    return library


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype is not torch.float64 else value
    return type(value)(_cast(v, dtype) for v in value) if isinstance(value, (list, tuple)) else value


def _with(operator: Any, dtype: Any) -> Any:
    """An operator whose tensors are first cast to what `dtype(tensors)` says."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            wanted = dtype([a for a in args if isinstance(a, Tensor) and a.is_floating_point()])
            return operator(*[_cast(a, wanted) for a in args], **{k: _cast(v, wanted) for k, v in kwargs.items()})

    return kernel


def _in_float32(operator: Any) -> Any:
    return _with(operator, lambda tensors: torch.float32)


def _in_lower(operator: Any) -> Any:
    return _with(operator, lambda tensors: torch.get_autocast_dtype("cpu"))


def _in_widest(operator: Any) -> Any:
    def widest(tensors: list[Tensor]) -> torch.dtype:
        lower = torch.get_autocast_dtype("cpu")
        return torch.float32 if any(t.dtype is torch.float32 for t in tensors) else lower

    return _with(operator, widest)


def _to_float32(operator: Any) -> Any:
    """An operator that takes the dtype of its result: float32 where a half precision tensor comes and none is asked for."""
    position = next(i for i, a in enumerate(operator._schema.arguments) if a.name == "dtype")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            asked = args[position] if len(args) > position else kwargs.get("dtype")
            if asked is None and args[0].is_floating_point() and args[0].dtype is not torch.float64:
                args, kwargs = args[:position], {**kwargs, "dtype": torch.float32}
            return operator(*args, **kwargs)

    return kernel
