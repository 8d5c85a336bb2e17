"""What pretending costs: a training step, a suite of metrics, and one operator, side by side with the plain CPU in one run.

    python benchmarks/pretend.py [--rounds 7]

Prints medians of interleaved rounds, their ratio, and the target.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from statistics import median

import torch

from torchtally.stalls import pretend_cuda


def resnet(device: str) -> Callable[[], object]:
    """One training step of ResNet-18 on 8x3x64x64."""
    import torchvision

    model = torchvision.models.resnet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data, target = torch.randn(8, 3, 64, 64).to(device), torch.randint(0, 1000, (8,)).to(device)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()

    return step


def metrics(device: str) -> Callable[[], object]:
    """One update of five torchmetrics metrics, and their values."""
    from torchmetrics import Accuracy, F1Score, MeanMetric, Precision, Recall

    options = {"task": "multiclass", "num_classes": 10}
    suite = [kind(**options).to(device) for kind in (Accuracy, Precision, Recall, F1Score)]
    loss_metric = MeanMetric().to(device)
    scores, target = torch.randn(256, 10).to(device), torch.randint(0, 10, (256,)).to(device)
    loss = torch.ones((), device=device)

    def step() -> None:
        loss_metric.update(loss)
        for metric in suite:
            metric.update(scores, target)
        for metric in (loss_metric, *suite):
            metric.compute()
            metric.reset()

    return step


def operator(device: str) -> Callable[[], object]:
    """A thousand additions of four elements."""
    x, y = torch.ones(4).to(device), torch.ones(4).to(device)

    def step() -> None:
        for _ in range(1000):
            torch.add(x, y)

    return step


def timed(step: Callable[[], object], times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        step()
    return (time.thread_time() - start) / times


def compare(make: Callable[[str], Callable[[], object]], rounds: int, times: int) -> tuple[float, float]:
    """Median CPU seconds of a step (others may use the machine too) on the CPU and pretending, round by round in turn."""
    plain = make("cpu")
    with pretend_cuda():
        pretending = make("cuda")
        pretending()
    plain()
    seconds: dict[str, list[float]] = {"cpu": [], "cuda": []}
    for _ in range(rounds):
        seconds["cpu"].append(timed(plain, times))
        with pretend_cuda():
            pretending()
            seconds["cuda"].append(timed(pretending, times))
    return median(seconds["cpu"]), median(seconds["cuda"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"{'':24}{'CPU':>12}{'pretending':>12}{'':>12}  target")
    for name, make, times, limit in (("ResNet-18, 8x3x64x64", resnet, 1, 3.0), ("five metrics", metrics, 3, 10.0)):
        cpu, cuda = compare(make, rounds, times)
        print(f"{name:24}{cpu * 1e3:9.2f} ms{cuda * 1e3:9.2f} ms{cuda / cpu:10.2f} x  at most {limit:g} x")
    cpu, cuda = compare(operator, rounds, 1)
    print(f"{'one operator':24}{cpu * 1e3:9.2f} us{cuda * 1e3:9.2f} us{(cuda - cpu) * 1e3:7.2f} us more  under 30 us")


if __name__ == "__main__":
    main()
