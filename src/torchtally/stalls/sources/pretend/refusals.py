"""What a device refuses: operands that live in different places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .memory import HOST, device_of, index_of

ANY = frozenset(  # operators that take tensors from anywhere
    ["copy_", "_foreach_copy_", "_to_copy", "set_", "set_data", "resize_as_", "is_same_size", "is_set_to", "_pack_padded_sequence", "_pad_packed_sequence", "tensor_split", "_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_", "_ctc_loss", "ctc_loss", "lift_fresh", "record_stream", "_copy_from", "_has_compatible_shallow_copy_type", "_efficient_attention_forward", "_flash_attention_forward", "histogramdd"]
)
INDEXING = frozenset(["index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"])
SCALAR = frozenset(  # beside the pointwise ones: operators that take a number that lies in a host tensor
    ["fill_", "fill", "masked_fill", "masked_fill_", "index_fill", "index_fill_", "where", "clamp", "clamp_", "clamp_min", "clamp_max", "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "dist", "bernoulli", "bernoulli_", "normal", "normal_functional", "bucketize", "searchsorted", "isin"]
)


def may_mix(packet: str) -> bool:
    """Whether an operator takes host tensors of any shape together with device tensors."""
    return packet in ANY or packet in INDEXING


def refuse_mixed(function: Any, packet: str, tensors: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise as CUDA does where the operands of an operator live in different places, unless this operator takes them so."""
    if packet in ANY or packet.startswith("_nested"):
        return
    if packet in INDEXING:
        _refuse_indices(packet, args)
        return
    if packet in SCALAR or packet.startswith("_foreach_") or torch.Tag.pointwise in function.tags:
        written = args[0] if packet.endswith("_") and isinstance(args[0], Tensor) else kwargs.get("out")
        strangers = [t for t in tensors if index_of(t) == HOST and (t.dim() > 0 or t is written)]
        if not strangers and len({index_of(t) for t in tensors} - {HOST}) == 1:
            return
    if packet in ("convolution", "_convolution") and isinstance(args[1], Tensor):
        raise RuntimeError(
            f"Input type ({type_name(args[0])}) and weight type ({type_name(args[1])}) should be the same"
            + ("" if index_of(args[0]) != HOST else " or input should be a MKLDNN tensor and weight is a dense tensor")
        )
    if packet == "equal":
        raise RuntimeError(f"Cannot compare two tensors on different devices. Got: {device_of(args[0])} and {device_of(args[1])}")
    one, two = list(dict.fromkeys(str(device_of(t)) for t in sorted(tensors, key=index_of, reverse=True)))[:2]
    if one.startswith("cuda") and two.startswith("cuda"):
        one, two = two, one  # a mere matter of looks: the lower index first
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {one} and {two}! "
        f"(when checking arguments of method wrapper_CUDA_{packet})"
    )


def _refuse_indices(packet: str, args: tuple[Any, ...]) -> None:
    """Indices may lie on the host, or where the indexed tensor lies; a value that is one number may too."""
    home = index_of(args[0])
    for index in args[1]:
        if isinstance(index, Tensor) and index_of(index) not in (home, HOST):
            raise RuntimeError(
                f"indices should be either on {device_of(args[0])} or on the same device as the indexed tensor ({device_of(args[0])})"
                if home == HOST
                else f"indices should be either on cpu or on the same device as the indexed tensor ({device_of(args[0])})"
            )
    if "put" in packet and index_of(args[2]) != home and not (args[2].dim() == 0 and index_of(args[2]) == HOST):
        one, two = sorted((str(device_of(args[0])), str(device_of(args[2]))), reverse=True)
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {one} and {two}!")


def refuse_generator(generator: torch.Generator, index: int) -> None:
    """Raise where random numbers for one place are asked of a generator of another."""
    found, expected = generator.device.type, "cpu" if index == HOST else "cuda"
    if found != expected and generator is not torch.default_generator:  # which stands for those of the devices as well
        raise RuntimeError(f"Expected a '{expected}' device type for generator but found '{found}'")


def type_name(tensor: Tensor) -> str:
    """The name `tensor.type()` gives: torch.cuda.FloatTensor."""
    name: str = torch._C.TensorBase.type(tensor)  # type: ignore[assignment, call-overload]
    return name if index_of(tensor) == HOST else name.replace("torch.", "torch.cuda.", 1)
