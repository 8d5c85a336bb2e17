"""Copies to several devices, and to other processes: DataParallel, and tensors sent through queues."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.nn.parallel.comm as comm
from torch import Tensor

from .memory import HOST, place, where
from .session import Patches, index_of_device, muted, note, tell


def patch_copies(patches: Patches) -> None:
    patches.add(
        comm,
        broadcast=broadcast,
        broadcast_coalesced=broadcast_coalesced,
        reduce_add=reduce_add,
        reduce_add_coalesced=reduce_add_coalesced,
        scatter=scatter,
        gather=gather,
    )


def _on(tensor: Tensor, device: Any) -> Tensor:
    """A tensor on a device, without a wait: these copies run on the devices' own streams."""
    index = index_of_device(device)
    return tensor.to("cpu" if index == HOST else f"cuda:{index}", non_blocking=True)


def broadcast(tensor: Tensor, devices: Any = None, *, out: Any = None) -> Any:
    if out is not None:
        for target in out:
            target.copy_(tensor, non_blocking=True)
        return tuple(out)
    return tuple(_on(tensor, device) for device in devices)


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Any, buffer_size: int = 0) -> Any:
    return [[_on(tensor, device) for tensor in tensors] for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    first, *rest = (_on(tensor, destination) for tensor in inputs)
    total = first.clone()
    for tensor in rest:
        total += tensor
    return total


def reduce_add_coalesced(inputs: Any, destination: Any = None, buffer_size: int = 0) -> Any:
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs))


def scatter(
    tensor: Tensor, devices: Any = None, chunk_sizes: Any = None, dim: int = 0, streams: Any = None, *, out: Any = None
) -> tuple[Tensor, ...]:
    goals = [t.device for t in out] if out is not None else list(devices)
    chunks = tensor.split(list(chunk_sizes), dim) if chunk_sizes else tensor.chunk(len(goals), dim)
    if out is None:
        return tuple(_on(chunk, goal) for chunk, goal in zip(chunks, goals))
    for target, chunk in zip(out, chunks):
        target.copy_(chunk, non_blocking=True)
    return tuple(out)


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Any = None) -> Tensor:
    goal = out.device if out is not None else destination
    joined = torch.cat([_on(tensor, goal) for tensor in tensors], dim)
    return joined if out is None else out.copy_(joined)


def patch_queues(patches: Patches) -> None:
    """Tensors sent through queues: real devices share their memory, here it is copied."""
    import torch.multiprocessing.reductions as reductions

    own = reductions.reduce_tensor

    def reduce_tensor(tensor: Tensor) -> Any:
        index = where(tensor)
        if index == HOST:
            return own(tensor)
        tell("torch.multiprocessing.reduce_tensor", (tensor,))
        note("a device tensor was sent to another process: it receives a copy")
        with muted():
            return (_rebuild, (index, *own(tensor.detach().cpu())))

    reducers: dict[Any, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    for kind in (Tensor, torch.nn.Parameter):
        if reducers.get(kind) is own:
            patches.put(reducers, kind, reduce_tensor)
    patches.set(reductions, "reduce_tensor", reduce_tensor)


def _rebuild(index: int, function: Any, args: tuple[Any, ...]) -> Tensor:
    tensor: Tensor = function(*args)
    with torch._C.DisableTorchFunction():
        place(tensor, index)
    return tensor
