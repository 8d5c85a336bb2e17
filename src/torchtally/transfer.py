"""Copies to the host that nobody waits for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def to_host(leaves: list[Any]) -> tuple[list[Any], list[Any]]:
    """The same values with device tensors on their way to pinned memory, one copy per device and dtype, and events that say when they are there.

    CPU tensors are cloned, so that nothing changes later; what is no tensor stays.
    """
    out = list(leaves)
    packs: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for i, x in enumerate(leaves):
        if isinstance(x, Tensor):
            if x.is_cpu:
                out[i] = x.detach().clone()
            else:
                packs.setdefault((x.device, x.dtype), []).append(i)
    for (_, dtype), places in packs.items():
        flat = torch.cat([leaves[i].detach().reshape(-1) for i in places])
        host = torch.empty(flat.shape, dtype=dtype, pin_memory=True).copy_(flat, non_blocking=True)
        for i, part in zip(places, host.split([leaves[i].numel() for i in places])):
            out[i] = part.view(leaves[i].shape)
    events = []
    for device in dict.fromkeys(device for device, _ in packs if device.type == "cuda"):
        events.append(torch.cuda.Event())
        events[-1].record(torch.cuda.current_stream(device))
    return out, events
