"""Reading across ranks."""

from __future__ import annotations

from typing import Any

from torch import distributed as dist

from .ledger import Ledger


def available() -> bool:
    """Whether there are other ranks to read from."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gather(value: Any, group: Any = None) -> list[Any]:
    """The same value of every rank, in order."""
    out: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(out, value, group=group)
    return out


def reduce_ledger(ledger: Ledger, group: Any = None) -> Ledger:
    """The totals of all ranks, in memory of their own."""
    device = ledger.device
    ledger.fold()
    host = ledger.copy()
    host.to(_cpu())
    parts = gather(host, group)
    total: Ledger = parts[0]
    for part in parts[1:]:
        if part.keys != total.keys:
            raise RuntimeError(f"ranks hold different metrics: {total.keys} and {part.keys}; construct them alike on every rank.")
        total.absorb(part)
    total.strict = ledger.strict
    total.to(device)
    return total


def _cpu() -> Any:
    import torch

    return torch.device("cpu")
