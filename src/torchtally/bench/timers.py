"""Ways to average a value that the host knows, the seconds a step took: copy the one you like.

The same shape as the metrics beside it, but `update` takes the seconds. All but the last use torchmetrics' MeanMetric without its NaN check.
"""

from __future__ import annotations

from typing import Any

import torch

from .ddp import group_like_nccl
from .meter import Meter


def cpu(classes: int, device: str) -> Meter:
    """The metric stays on the CPU, where its values are: nothing to copy, nothing to wait for."""
    from torchmetrics import MeanMetric

    from torchtally.adopt import suppress_nan_check

    average = suppress_nan_check(MeanMetric)()

    def update(seconds: float) -> None:
        average.update(seconds)

    return Meter(update, lambda: read(average))


def cpu_ddp(classes: int, device: str) -> Meter:
    """The same under DistributedDataParallel with NCCL: reading fails, since NCCL moves nothing that lies on the CPU."""
    from torchmetrics import MeanMetric

    from torchtally.adopt import suppress_nan_check

    average = suppress_nan_check(MeanMetric)(process_group=group_like_nccl())

    def update(seconds: float) -> None:
        average.update(seconds)

    return Meter(update, lambda: read(average))


def cpu_ddp_nosync(classes: int, device: str) -> Meter:
    """The same without synchronising across processes: each reads its own average."""
    from torchmetrics import MeanMetric

    from torchtally.adopt import suppress_nan_check

    average = suppress_nan_check(MeanMetric)(sync_on_compute=False, process_group=group_like_nccl())

    def update(seconds: float) -> None:
        average.update(seconds)

    return Meter(update, lambda: read(average))


def gpu_float(classes: int, device: str) -> Meter:
    """The metric on the device, fed with Python floats: each must be copied there, and the copy waits."""
    from torchmetrics import MeanMetric

    from torchtally.adopt import suppress_nan_check

    average = suppress_nan_check(MeanMetric)().to(device)

    def update(seconds: float) -> None:
        average.update(seconds)

    return Meter(update, lambda: read(average))


def gpu_tensor(classes: int, device: str) -> Meter:
    """The third cure: make it a tensor on the CPU first. Adding that to a total on the device passes it as a kernel's argument."""
    from torchmetrics import MeanMetric

    from torchtally.adopt import suppress_nan_check

    average = suppress_nan_check(MeanMetric)().to(device)

    def update(seconds: float) -> None:
        value = torch.as_tensor(seconds)
        average.update(value, torch.ones_like(value))

    return Meter(update, lambda: read(average))


def torchtally_time(classes: int, device: str) -> Meter:
    """torchtally's MeanMetric on the device, fed with Python floats: they are added up on the host and join the total when it is read."""
    from torchtally import MeanMetric

    average = MeanMetric().to(device)

    def update(seconds: float) -> None:
        average.update(seconds)

    return Meter(update, lambda: {"step_s": average.fetch(reset=True).result()})


def read(average: Any) -> dict[str, float]:
    value = average.compute().item()
    average.reset()
    return {"step_s": value}
