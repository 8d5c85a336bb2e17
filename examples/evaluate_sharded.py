"""Evaluate on several processes and get what one process would: no sample twice, none left out.

    torchrun --standalone --nproc-per-node 2 examples/evaluate_sharded.py

A sampler for several processes repeats samples until all have equally many. `valid` keeps the repeated ones out. Each process also leaves a file of its own, as jobs
would that do not know of each other; `torchtally merge part0.pt part1.pt -o whole.pt` makes one of them.
"""

import argparse
from pathlib import Path

import torch
from torch import distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import torchtally as tt

ROWS, CLASSES = 1003, 4  # not a multiple of anything


def predictions() -> TensorDataset:
    """What some model gave for a test set, and the truth."""
    g = torch.Generator().manual_seed(0)
    target = torch.randint(0, CLASSES, (ROWS,), generator=g)
    return TensorDataset(torch.eye(CLASSES)[target] * 2 + torch.randn(ROWS, CLASSES, generator=g), target)


def tally() -> tt.MetricCollection:
    return tt.MetricCollection(
        {
            "accuracy": tt.Accuracy(task="multiclass", num_classes=CLASSES),
            "matrix": tt.ConfusionMatrix(task="multiclass", num_classes=CLASSES),
            "auroc": tt.AUROC(task="multiclass", num_classes=CLASSES),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="leave what each process counted here, as part0.pt, part1.pt …")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data, metrics = predictions(), tally()
    loader = DataLoader(data, batch_size=64, sampler=DistributedSampler(data, shuffle=False))
    mine = len(range(rank, ROWS, world))  # the sampler deals samples out like cards, and then some again
    for scores, target in loader:
        valid = min(mine, len(target))
        metrics.update(scores, target, valid=valid)
        mine -= valid
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        tt.save(metrics, options.folder / f"part{rank}.pt")

    values = metrics.compute()  # of all processes, the same on each
    if rank == 0:
        alone = tally()
        for m in alone.values():
            m.sync_on_compute = False
        alone.update(*data.tensors)
        print(f"{int(values['matrix'].sum())} samples, accuracy {values['accuracy']:.6f}, AUROC {values['auroc']:.6f}")
        print(f"one process alone: accuracy {alone.compute()['accuracy']:.6f}, AUROC {alone.compute()['auroc']:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
