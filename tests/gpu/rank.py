"""One rank: reads over all of them, for each backend and device named. `torchrun --nproc-per-node 1 tests/gpu/rank.py nccl/cuda nccl/cpu`.

A rank that is alone reads nobody's totals but its own; here it goes the way of many all the same, so that one GPU is enough to see NCCL carry them.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import torchtally as tt  # noqa: E402
from torchtally import classification as c  # noqa: E402
from torchtally import distributed, formula, metric, together, wire  # noqa: E402
from torchtally.stalls import pretend_cuda  # noqa: E402
from torchtally.testing import assert_no_stalls  # noqa: E402

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CHANNELS: dict[Any, distributed.Channel] = {}


def channel_of(group: Any) -> distributed.Channel:
    group = group or dist.group.WORLD
    return CHANNELS.setdefault(group, distributed.Channel(group))


def go_the_way_of_many() -> None:
    for module in (distributed, formula, metric):
        module.available = lambda: True
    together.channel_of = channel_of


def tally() -> tt.MetricCollection:
    return tt.MetricCollection(
        {
            "accuracy": c.MulticlassAccuracy(40),
            "matrix": c.MulticlassConfusionMatrix(40),
            "auroc": c.MulticlassAUROC(40, thresholds=20),
            "loss": tt.MeanMetric().bind(value="loss"),
            "largest": tt.MaxMetric().bind(value="loss"),
            "all": tt.CatMetric().bind(value="loss"),
        }
    )


def batch(rank: int, device: str) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(rank)
    preds, target = torch.randn(16, 40, generator=g), torch.randint(0, 40, (16,), generator=g)
    return {n: x.to(device) for n, x in {"loss": torch.tensor(1.0 + rank), "preds": preds, "target": target}.items()}


def check(backend: str, device: str, meeting: str) -> str:
    """Raise unless what is read is what one metric gives that saw the batches of all ranks."""
    dist.init_process_group(backend, store=dist.FileStore(meeting, WORLD), rank=RANK, world_size=WORLD)
    try:
        alone, metrics, mine = tally(), tally().to(device), batch(RANK, device)
        for name in alone:
            alone[name].sync_on_compute = False
        for rank in range(WORLD):
            alone.update(**batch(rank, "cpu"))
        want = alone.compute()
        metrics.update(**mine)
        with wire.counted() as traffic:
            values = metrics.compute()
        for name, value in values.items():
            assert value.device.type == device, name
            torch.testing.assert_close(value.cpu(), want[name])
        with assert_no_stalls():  # on this thread; the one that reads may wait
            pending = metrics.fetch(reset=True)
            metrics.update(**mine)
        for name, value in pending.result().items():
            torch.testing.assert_close(torch.as_tensor(value, dtype=want[name].dtype), want[name])
        return f"{backend}, totals on {device}, {WORLD} ranks: right, {traffic.collectives} collectives"
    finally:
        dist.destroy_process_group()
        CHANNELS.clear()


def main() -> None:
    pretended = "--pretend" in sys.argv
    with pretend_cuda() if pretended else nullcontext():
        go_the_way_of_many()
        for pair in (a for a in sys.argv[1:] if "/" in a):
            backend, _, device = pair.partition("/")
            print(check(backend, device, f"{os.environ['MEETING']}-{backend}-{device}"), flush=True)


if __name__ == "__main__":
    main()
