"""How often a data loader could deliver a batch: its workers' work on one item, measured on the spot, spread over them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import default_collate

from ...stalls.price import Price

SAMPLE = 8


def loader_us(
    dataset: Any, batch: int, workers: int, price: Price, pin_memory: bool = True, collate: Callable[[list[Any]], Any] = default_collate
) -> tuple[float, float, float]:
    """Microseconds between two batches of a loader that has enough to do: on a slow, a typical and a fast host.

    Workers make and collate items side by side, each on a core of its own; one thread copies every batch to pinned memory. The slower of the two sets
    the pace. Without workers all of it happens in the training loop itself, which then has this much more to do per step.
    """
    items = [dataset[i] for i in range(2)]
    start = time.thread_time_ns()
    items = [dataset[i] for i in range(SAMPLE)]
    together = collate(items)
    made = (time.thread_time_ns() - start) / 1000 / SAMPLE * batch / max(1, workers)
    pinned = 0.0
    if pin_memory:
        tensors = [x for x in torch.utils._pytree.tree_leaves(together) if isinstance(x, torch.Tensor)]
        targets = [torch.empty_like(x).fill_(0) for x in tensors]  # written once: the system hands out memory at the first touch
        start = time.thread_time_ns()
        for target, source in zip(targets, tensors):
            target.copy_(source)
        pinned = (time.thread_time_ns() - start) / 1000 / SAMPLE * batch
    pace = max(made, pinned) if workers else made + pinned
    scale = price.host["scale"]
    return pace * scale.at("slow"), pace * scale.at("typical"), pace * scale.at("fast")
