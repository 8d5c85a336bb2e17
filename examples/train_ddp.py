"""Train on several processes and log what all of them saw, without ever waiting for it.

    torchrun --standalone --nproc-per-node 2 examples/train_ddp.py

runs on two CPU processes, or on two GPUs where there are. Stop it and start it again, with as many processes as you like: it goes on from its checkpoint. So it does where
torchrun starts it again, on one machine or several (`--max-restarts=1`), after a process has died.
"""

import argparse
import os
from pathlib import Path

import torch
from torch import distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import torchtally as tt

CLASSES = 4


def blobs(rows: int) -> TensorDataset:
    """Points around four centres; one in ten has a wrong label."""
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(0, CLASSES, (rows,), generator=g)
    points = torch.eye(CLASSES)[labels] * 3 + torch.randn(rows, CLASSES, generator=g)
    wrong = torch.rand(rows, generator=g) < 0.1
    return TensorDataset(points, torch.where(wrong, torch.randint(0, CLASSES, (rows,), generator=g), labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("train_ddp"), help="of the checkpoint")
    options = parser.parse_args()

    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)

    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(CLASSES, 32), nn.ReLU(), nn.Linear(32, CLASSES)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    epoch_tally = tt.MetricCollection(
        {
            "loss": tt.MeanMetric().bind(value="loss"),
            "accuracy": tt.Accuracy(task="multiclass", num_classes=CLASSES),
            "f1": tt.F1Score(task="multiclass", num_classes=CLASSES, average="macro"),
        }
    ).to(device)
    whole_run = tt.MetricCollection({"samples": tt.SumMetric().bind(value="samples"), "worst": tt.MaxMetric().bind(value="loss")}).to(
        device
    )

    checkpoint = options.folder / "checkpoint.pt"
    start = 0
    if checkpoint.exists():
        found = torch.load(checkpoint, map_location=device, weights_only=True)
        start = found["epoch"]
        model.module.load_state_dict(found["model"])
        # The file holds the totals of the whole job: the first rank takes them, the others start empty, so that all counts once.
        whole_run.load_state_dict(found["tally"], spread=True)

    data = blobs(2000)
    sampler: DistributedSampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=50, sampler=sampler)
    for epoch in range(start, options.epochs):
        sampler.set_epoch(epoch)
        for points, labels in loader:
            points, labels = points.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            scores = model(points)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch_tally.update(loss=loss, preds=scores, target=labels)
            whole_run.update(loss=loss, samples=len(labels))
        # Read over all ranks in the background and start afresh: the next epoch does not wait for it.
        epoch_tally.fetch(reset=True).then(lambda values, epoch=epoch: log(rank, epoch, values)).result()
        found = {"epoch": epoch + 1, "model": model.module.state_dict(), "tally": whole_run.state_dict(reduce=True)}  # all ranks must call
        if rank == 0:  # one file, under its name when it is whole: whoever dies now leaves model and totals of the same epoch
            options.folder.mkdir(exist_ok=True)
            torch.save(found, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)

    totals = whole_run.compute()
    if rank == 0:
        print(f"{totals['samples']:.0f} samples in all, the worst loss of a batch {totals['worst']:.3f}")
    dist.destroy_process_group()


def log(rank: int, epoch: int, values: dict[str, float]) -> None:
    if rank == 0:
        print(f"epoch {epoch}: " + ", ".join(f"{name} {value:.3f}" for name, value in values.items()), flush=True)


if __name__ == "__main__":
    main()
