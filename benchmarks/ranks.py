"""`python -m benchmarks.ranks`: what metrics cost many processes: collectives and bytes of a read, its time next to torchmetrics', and a million updates.

Processes are real and talk by gloo, except for the world of 1024, which is PyTorch's fake process group: there only what is sent is counted. `counts`, `times` or
`soak` as an argument runs only that part; `--updates N` makes the last one shorter.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed as dist

import torchtally as tt

CLASSES = 10
ROW = 10  # reads in a row: so that who comes first from a barrier matters little
NAMES = ("Accuracy", "Precision", "Recall", "F1Score", "Specificity", "HammingDistance", "NegativePredictiveValue", "StatScores")
TABLES = ("ConfusionMatrix", "JaccardIndex", "CohenKappa", "MatthewsCorrCoef")
CALLS = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "all_gather_object",
)


def twelve(library: Any, **options: Any) -> Any:
    """The collection of twelve: eight rates and four metrics of a confusion matrix, all of ten classes."""
    metrics = {name: getattr(library, name)(task="multiclass", num_classes=CLASSES) for name in NAMES + TABLES}
    return library.MetricCollection(metrics, **options)


def collections() -> dict[str, tuple[Callable[[], Any], Callable[[Any, torch.Tensor, torch.Tensor], object]]]:
    """Makers of collections, and how each is fed."""
    import torchmetrics

    def feed(metrics: Any, preds: torch.Tensor, target: torch.Tensor) -> object:
        return metrics.update(preds, target)

    def feed_more(metrics: Any, preds: torch.Tensor, target: torch.Tensor) -> object:
        return metrics.update(preds=preds, target=target, loss=1.0)

    more = {"loss": tt.MeanMetric().bind(value="loss"), "worst": tt.MaxMetric().bind(value="loss")}
    samples = {"losses": tt.CatMetric().bind(value="loss")}
    return {
        "torchtally, twelve": (lambda: twelve(tt), feed),
        "torchtally, twelve with the mean and the largest loss": (
            lambda: tt.MetricCollection(twelve(tt), tt.MetricCollection(more)),
            feed_more,
        ),
        "torchtally, twelve with every loss": (lambda: tt.MetricCollection(twelve(tt), tt.MetricCollection(samples)), feed_more),
        "torchmetrics, twelve, in groups": (lambda: twelve(torchmetrics), feed),
        "torchmetrics, twelve, no groups": (lambda: twelve(torchmetrics, compute_groups=False), feed),
    }


@contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Collectives of torch.distributed called within, whoever calls them, and the bytes this rank gives to them."""
    found = {"collectives": 0, "bytes": 0}
    before = {name: getattr(dist, name) for name in CALLS if hasattr(dist, name)}

    def watched(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
            given = tensors[-1] if tensors else None  # what is gathered comes after where it is gathered to
            found["collectives"] += 1
            found["bytes"] += 0 if given is None else given.numel() * given.element_size()
            return before[name](*args, **kwargs)

        return call

    for name in before:
        setattr(dist, name, watched(name))
    try:
        yield found
    finally:
        for name, function in before.items():
            setattr(dist, name, function)


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(rank * 1000 + step)
    return torch.randn(64, CLASSES, generator=g), torch.randint(0, CLASSES, (64,), generator=g)


# ---- in the processes
def count(rank: int) -> dict[str, dict[str, int]]:
    """What one read of each collection sends."""
    out = {}
    for name, (make, feed) in collections().items():
        if dist.get_backend() == "fake" and name.startswith("torchmetrics"):
            continue  # what it gathers from a fake group is not there
        metrics = make()
        feed(metrics, *batch(rank, 0))
        with counting() as found:
            metrics.compute()
        out[name] = dict(found)
    return out


def read_times(rank: int, rounds: int = 24) -> dict[str, tuple[float, float]]:
    """Milliseconds of a read in a row of ten, median and least over rounds in which the libraries take turns; and of asking with `fetch`."""
    ways = {name: (make(), feed) for name, (make, feed) in collections().items()}
    spans: dict[str, list[float]] = {name: [] for name in ways}
    spans["torchtally, twelve: to ask with fetch()"] = fetched = []
    for name, (metrics, _) in ways.items():
        for m in metrics.values() if name.startswith("torchmetrics") else ():
            m.compute_with_cache = False  # ours asks the other ranks whenever it is asked a second time
    for step in range(rounds):
        for name, (metrics, feed) in ways.items():
            feed(metrics, *batch(rank, step))
            dist.barrier()
            start = time.perf_counter()
            for _ in range(ROW):
                metrics.compute()
            spans[name].append((time.perf_counter() - start) / ROW)
        first = ways["torchtally, twelve"][0]
        dist.barrier()
        start = time.perf_counter()
        pending = [first.fetch() for _ in range(ROW)]
        fetched.append((time.perf_counter() - start) / ROW)
        for each in pending:
            each.result()
    return {name: (statistics.median(s[2:]) * 1e3, min(s[2:]) * 1e3) for name, s in spans.items()}


JOBS: dict[str, Callable[[int], Any]] = {"counts": count, "times": read_times}


def _process(rank: int, world: int, job: str, folder: str) -> None:
    torch.set_num_threads(1)
    timeout = datetime.timedelta(minutes=5)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world, timeout=timeout)
    Path(folder, f"{rank}.json").write_text(json.dumps(JOBS[job](rank)))
    dist.barrier()
    dist.destroy_process_group()


def in_processes(job: str, world: int) -> list[Any]:
    """What a job gives on each of `world` processes."""
    with tempfile.TemporaryDirectory() as folder:
        collections()  # imports once what the forks need
        torch.multiprocessing.start_processes(_process, (world, job, folder), nprocs=world, start_method="fork")
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(world)]


def in_fake_world(world: int) -> dict[str, dict[str, int]]:
    """What this process would send as the first of many."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    try:
        return count(0)
    finally:
        dist.destroy_process_group()


# ---- a long run
def soak(updates: int) -> dict[str, float]:
    """Many updates of a mean loss and four rates: memory, counts past 2³¹, and how far the sum of losses is from the exact one."""
    rows, numbers = 2200, np.random.default_rng(0)
    losses = numbers.standard_normal(updates) * 10.0 ** numbers.integers(-8, 8, updates)
    tally = tt.MetricCollection(
        {"loss": tt.MeanMetric().bind(value="loss"), **{n: getattr(tt, n)(task="multiclass", num_classes=CLASSES) for n in NAMES[:4]}}
    )
    labels, target = torch.arange(rows) % CLASSES, torch.arange(rows) % CLASSES
    target[: rows // 4] = 0
    hits = int((labels == target).sum())
    early, start = 0, time.perf_counter()
    for step in range(updates):
        tally.update(loss=float(losses[step]), preds=labels, target=target)
        if step == updates // 10:
            early = peak_bytes()
    took, late = time.perf_counter() - start, peak_bytes()
    counts = tally["Accuracy"].metric_state
    exact = math.fsum(losses)
    total = float(tally["loss"].metric_state["total"])
    return {
        "updates": updates,
        "microseconds": took / updates * 1e6,
        "growth_bytes": late - early,
        "labels": int(counts["seen"]),
        "labels_right": int(int(counts["seen"]) == updates * rows and int(counts["hit"]) == updates * hits),
        "relative_error": abs(total - exact) / abs(exact),
    }


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ---- what is printed
def print_counts() -> None:
    worlds = {"2": in_processes("counts", 2)[0], "8": in_processes("counts", 8)[0], "1024": in_fake_world(1024)}
    print("Collectives of one read, and bytes each rank gives to them.\n")
    print("| collection | " + " | ".join(f"{w} ranks" for w in worlds) + " |\n|---" + "|---" * len(worlds) + "|")
    for name in worlds["2"]:
        cells = [f"{found[name]['collectives']}, {found[name]['bytes']:,} B" if name in found else "not run" for found in worlds.values()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def print_times() -> None:
    found = in_processes("times", 2)
    slower = {name: [max(rank[name][i] for rank in found) for i in (0, 1)] for name in found[0]}
    ours = slower["torchtally, twelve"]
    print("\nMilliseconds of one read by two processes, the slower rank, and how many times those of the first line.\n")
    print("| | median | times | least | times |\n|---|---|---|---|---|")
    for name, (median, least) in slower.items():
        print(f"| {name} | {median:.2f} | {median / ours[0]:.1f} | {least:.2f} | {least / ours[1]:.1f} |", flush=True)


def print_soak(updates: int) -> None:
    found = soak(updates)
    print(
        f"\n{found['updates']:,} updates of five metrics: {found['microseconds']:.1f} µs each; memory grew by {found['growth_bytes'] / 1e6:.1f} MB after the first tenth; "
        f"{found['labels']:,} labels counted, {'each right' if found['labels_right'] else 'WRONG'} (2³¹ is {1 << 31:,}); the sum of losses of mixed sign and of sizes from 1e-8 to 1e8 "
        f"is off by {found['relative_error']:.1e} of the exact one."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["counts", "times", "soak", []], help="only these parts")
    parser.add_argument("--updates", type=int, default=1_000_000, help="of the soak")
    options = parser.parse_args()
    chosen = options.parts or ["counts", "times", "soak"]
    torch.set_num_threads(1)
    if "counts" in chosen:
        print_counts()
    if "times" in chosen:
        print_times()
    if "soak" in chosen:
        print_soak(options.updates)


if __name__ == "__main__":
    main()
