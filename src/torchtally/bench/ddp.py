"""Process groups for the variants that need one: NCCL where there is a GPU, and elsewhere what behaves like it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist


@contextmanager
def process_group(device: str, rank: int = 0, world_size: int = 1, meeting: str = "") -> Iterator[None]:
    """A default process group while inside: of this process alone, or of `world_size` that meet at the file `meeting`. One that exists already is used as it is."""
    if dist.is_initialized():
        yield
        return
    backend = "nccl" if device == "cuda" else "gloo"
    store: Any = dist.FileStore(meeting, world_size) if meeting else dist.HashStore()
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def group_like_nccl() -> Any:
    """The default group where that is NCCL; elsewhere one that, like NCCL, has no way to move tensors of the CPU (gloo, registered for CUDA alone)."""
    if not dist.is_initialized() or dist.get_backend() == "nccl":
        return None
    return dist.new_group(list(range(dist.get_world_size())), backend="cuda:gloo")
