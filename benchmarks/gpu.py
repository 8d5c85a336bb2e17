"""`python -m benchmarks.gpu`: what an update costs on a GPU, torchtally and its peers in turn; words pick jobs, `--json FILE` keeps the figures.

Host is the time until the call returns, waits included; pace that of one update among many in a row, by the device's own events; both are medians
of blocks of 128 calls that start with nothing queued, so that what torchtally settles every 64 updates is in them. Work is the time of the kernels and
copies of an update, and how many there are, by PyTorch's profiler; peak the memory that 128 updates need at once, besides what was held before.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

import torchtally as tt
from torchtally.stalls import watch

from .workloads import _ours, _scores, _torcheval, _torchmetrics

Ways = dict[str, Callable[[], object]]
BLOCK = 128
SLOW_BLOCK = 8
SLOW = 2e-3  # seconds from which a call is timed in short blocks


@dataclass
class Cost:
    """Of one update. Microseconds, megabytes, and counts."""

    host_us: float
    pace_us: float
    work_us: float
    kernels: float
    waits: float
    peak_mb: float
    blocks: int


# ---- jobs
def mean(device: str) -> Ways:
    """One number on the device into one mean."""
    import torchmetrics

    value, ours, theirs = torch.tensor(1.5).to(device), tt.MeanMetric().to(device), torchmetrics.MeanMetric().to(device)
    ways: Ways = {"torchtally": lambda: ours.update(value), "torchmetrics": lambda: theirs.update(value)}
    if evals := torcheval_mean(device):
        ways["torcheval"] = lambda: evals.update(value)
    return ways


def five(n: int, classes: int, average: str, dtype: torch.dtype = torch.float32, separate: bool = True) -> Callable[[str], Ways]:
    """Mean loss, accuracy, precision, recall and F1 of one batch."""

    def make(device: str) -> Ways:
        import torchmetrics

        preds, target, loss = (x.to(device) for x in _scores(n, classes, dtype))
        ours = _ours(classes, average).to(device)
        mean_loss, other_loss = (torchmetrics.MeanMetric().to(device) for _ in range(2))
        apart = {name: m.to(device) for name, m in _torchmetrics(classes, average).items()}
        together = torchmetrics.MetricCollection(_torchmetrics(classes, average)).to(device)
        together.update(preds, target)  # forms its compute groups

        def each() -> None:
            mean_loss.update(loss)
            for m in apart.values():
                m.update(preds, target)

        def collection() -> None:
            other_loss.update(loss)
            together.update(preds, target)

        ways: Ways = {"torchtally": lambda: ours.update(loss=loss, preds=preds, target=target)}
        if device == "cuda":
            ways["torchtally, captured"] = captured(_ours(classes, average).to(device), loss=loss, preds=preds, target=target)
        ways |= {"torchmetrics separate": each} if separate else {}
        ways["torchmetrics collection"] = collection
        if eval_loss := torcheval_mean(device):
            evals = [m.to(device) for m in _torcheval(classes, average)]

            def torcheval() -> None:
                eval_loss.update(loss)
                for m in evals:
                    m.update(preds, target)

            ways["torcheval"] = torcheval
        return ways

    return make


def confusion(device: str) -> Ways:
    """8192 labels into a confusion matrix of 1000 classes."""
    import torchmetrics.classification as k

    g = torch.Generator().manual_seed(2)
    preds, target = (torch.randint(0, 1000, (8192,), generator=g).to(device) for _ in range(2))
    return sides(tt.ConfusionMatrix(task="multiclass", num_classes=1000), k.MulticlassConfusionMatrix(1000), device, preds, target)


def fifty_means(device: str) -> Ways:
    """Fifty means, one value on the device each."""
    import torchmetrics

    batch = {f"m{i}": torch.tensor(float(i)).to(device) for i in range(50)}
    ours = tt.MetricCollection({name: tt.MeanMetric().bind(value=name) for name in batch}).to(device)
    theirs = [torchmetrics.MeanMetric().to(device) for _ in batch]

    def each() -> None:
        for m, x in zip(theirs, batch.values()):
            m.update(x)

    return {"torchtally": lambda: ours.update(**batch), "torchmetrics": each}


def regression(device: str) -> Ways:
    """Squared and absolute error, R², explained variance and correlation of 8192 pairs."""
    import torchmetrics

    names = ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "ExplainedVariance")
    g = torch.Generator().manual_seed(7)
    target = torch.randn(8192, generator=g)
    preds = target + 0.5 * torch.randn(8192, generator=g)
    ours, theirs = (kind.MetricCollection([getattr(kind, n)() for n in names]) for kind in (tt, torchmetrics))
    return sides(ours, theirs, device, preds.to(device), target.to(device))


def areas(device: str) -> Ways:
    """Area under the ROC curve and average precision at 100 thresholds of 4096 samples of 10 classes."""
    import torchmetrics

    preds, target, _ = _scores(4096, 10)
    ours, theirs = (
        kind.MetricCollection([getattr(kind, n)(task="multiclass", num_classes=10, thresholds=100) for n in ("AUROC", "AveragePrecision")])
        for kind in (tt, torchmetrics)
    )
    return sides(ours, theirs, device, preds.softmax(1).to(device), target.to(device))


def sides(ours: Any, theirs: Any, device: str, *batch: Tensor) -> Ways:
    ours, theirs = ours.to(device), theirs.to(device)
    theirs.update(*batch)  # forms its compute groups
    return {"torchtally": lambda: ours.update(*batch), "torchmetrics": lambda: theirs.update(*batch)}


def torcheval_mean(device: str) -> Any:
    """torcheval's mean; None where torcheval is not installed."""
    try:
        import torcheval.metrics as te
    except ImportError:
        return None
    return te.Mean().to(device)


def captured(tally: tt.MetricCollection, **batch: Tensor) -> Callable[[], object]:
    """The update as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        tally.update(**batch)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tally.update(**batch)
    return graph.replay


JOBS: dict[str, Callable[[str], Ways]] = {
    "mean of a tensor": mean,
    "five, micro, 128×1000": five(128, 1000, "micro"),
    "five, macro, 128×1000": five(128, 1000, "macro"),
    "five, macro, 32×10": five(32, 10, "macro"),
    "five, macro, bf16 4096×32000": five(4096, 32000, "macro", torch.bfloat16, separate=False),
    "confusion of 1000 classes": confusion,
    "fifty means of tensors": fifty_means,
    "regression of 8192 pairs": regression,
    "areas at 100 thresholds": areas,
}


# ---- measuring
def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def block(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Microseconds of one call for the host, and its pace."""
    cuda = torch.cuda.is_available()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if cuda else []
    synchronize()
    start = time.perf_counter()
    if cuda:
        events[0].record()
    for _ in range(calls):
        call()
    host = (time.perf_counter() - start) * 1e6 / calls
    if not cuda:
        return host, host
    events[1].record()
    synchronize()
    return host, events[0].elapsed_time(events[1]) * 1e3 / calls


def work(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Microseconds of kernels and copies of one call, and their number."""
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU] + [activity.CUDA] * torch.cuda.is_available()) as profiler:
        for _ in range(calls):
            call()
        synchronize()
    on_device = [e for e in profiler.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CUDA]
    return sum(e.duration_ns() for e in on_device) / 1e3 / calls, len(on_device) / calls


def peak_mb(call: Callable[[], object], calls: int) -> float:
    if not torch.cuda.is_available():
        return 0.0
    synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    for _ in range(calls):
        call()
    synchronize()
    return (torch.cuda.max_memory_allocated() - held) / 2**20


def waits(call: Callable[[], object], calls: int = 4) -> float:
    if not torch.cuda.is_available():
        return 0.0
    with watch() as recorder:
        for _ in range(calls):
            call()
    return len(recorder.stalls) / calls


def measure(ways: Ways, seconds: float) -> dict[str, Cost]:
    """All ways in turn, in an order that changes."""
    calls, taken = {}, {name: list[tuple[float, float]]() for name in ways}
    for name, call in ways.items():
        block(call, 2)  # what is loaded and compiled at first use
        calls[name] = SLOW_BLOCK if block(call, 2)[1] > SLOW * 1e6 else BLOCK
        block(call, calls[name])
    order, end = list(ways), time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, taken.values())) < 3:
        random.shuffle(order)
        for name in order:
            taken[name].append(block(ways[name], calls[name]))
    found = {}
    for name, call in ways.items():
        host, pace = (statistics.median(x) for x in zip(*taken[name]))
        found[name] = Cost(host, pace, *work(call, calls[name]), waits(call), peak_mb(call, calls[name]), len(taken[name]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("names", nargs="*", help="words in the names of jobs; all if none")
    parser.add_argument("--seconds", type=float, default=1.5, help="time for one job, all ways together")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    warnings.filterwarnings("ignore")
    print(
        f"{torch.cuda.get_device_name() if device == 'cuda' else 'No GPU here, so this is the CPU'}, PyTorch {torch.__version__}. Per update:\n"
    )
    print("| job | way | host µs | pace µs | work µs | kernels | waits | peak MB |")
    print("|---" * 8 + "|")
    kept: dict[str, Any] = {}
    for name in (n for n in JOBS if not options.names or any(w in n for w in options.names)):
        try:
            found = measure(JOBS[name](device), options.seconds)
        except Exception as error:
            kept[name] = f"{type(error).__name__}: {error}"
            print(f"| {name} | failed: {kept[name].splitlines()[0]} |", flush=True)
            continue
        kept[name] = {way: asdict(cost) for way, cost in found.items()}
        for way, c in found.items():
            print(
                f"| {name} | {way} | {c.host_us:.1f} | {c.pace_us:.1f} | {c.work_us:.1f} | {c.kernels:.1f} | {c.waits:.1f} | {c.peak_mb:.1f} |",
                flush=True,
            )
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"device": device, "torch": torch.__version__, "jobs": kept}, file, indent=1)


if __name__ == "__main__":
    main()
