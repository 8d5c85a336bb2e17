"""`python -m benchmarks.counts`: operators an update asks of a device, and what importing costs. Counted, not timed.

Operators are those that reach the dispatcher on tensors that are not the host's to look into, views left out, with default arguments,
averaged over 1,000 updates, settling what waits included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import torchtally as tt

UPDATES = 1000

IMPORT = """
import json, os, sys, time
import torch, numpy
pages = lambda: int(open("/proc/self/statm").read().split()[1])  # in memory now; Linux only
before, loaded, start = pages(), set(sys.modules), time.process_time()
import torchtally
ms = (time.process_time() - start) * 1e3
print(json.dumps({"ms": ms, "mb": (pages() - before) * os.sysconf("SC_PAGE_SIZE") / 1e6, "modules": len(set(sys.modules) - loaded)}))
"""


class Elsewhere(Tensor):
    """Stands for a tensor on a device."""


class Counter(TorchDispatchMode):
    """Counts what is not a view."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        views = any(r.alias_info is not None and not r.alias_info.is_write for r in function._schema.returns)
        self.operators += not views and function is not torch.ops.aten.detach.default
        return function(*args, **(kwargs or {}))


def count(update: Callable[[], object]) -> float:
    """Operators of one update, on average."""
    with Counter() as counter:
        for _ in range(UPDATES):
            update()
    return counter.operators / UPDATES


def elsewhere(x: Tensor) -> Tensor:
    return x.as_subclass(Elsewhere)


def five(**options: Any) -> Callable[[], object]:
    names = ("Accuracy", "Precision", "Recall", "F1Score")
    rates = {n: getattr(tt, n)(task="multiclass", num_classes=10, average="macro", **options) for n in names}
    tally = tt.MetricCollection({**rates, "loss": tt.MeanMetric().bind(value="loss")})
    preds, target, loss = elsewhere(torch.randn(32, 10)), elsewhere(torch.randint(0, 10, (32,))), elsewhere(torch.tensor(1.0))
    return lambda: tally.update(loss=loss, preds=preds, target=target)


def mean(**options: Any) -> Callable[[], object]:
    metric, value = tt.MeanMetric(**options), elsewhere(torch.tensor(1.0))
    return lambda: metric.update(value)


def fifty() -> Callable[[], object]:
    tally = tt.MetricCollection({f"m{i}": tt.MeanMetric().bind(value=f"m{i}") for i in range(50)})
    batch = {f"m{i}": elsewhere(torch.tensor(float(i))) for i in range(50)}
    return lambda: tally.update(**batch)


def imports() -> list[dict[str, float]]:
    """What importing costs, five times, with the compiled files that an installation has."""
    with tempfile.TemporaryDirectory() as compiled:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": compiled}
        command = [sys.executable, "-c", IMPORT]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=environment) for _ in range(6)]
    return [json.loads(r.stdout) for r in runs[1:]]  # the first run compiles


def main() -> None:
    jobs = {
        "a mean without a look for NaN": mean(nan_strategy="disable"),
        "a mean": mean(),
        "mean loss and four macro rates": five(),
        "the same with ignore_index": five(ignore_index=0),
        "fifty means in one collection": fifty(),
    }
    print("| update | operators |\n|---|---|")
    for name, update in jobs.items():
        print(f"| {name} | {count(update):.2f} |")
    middle = sorted(imports(), key=lambda r: r["ms"])[2]
    print(
        f"\n`import torchtally` after `import torch`: {middle['ms']:.0f} ms of processor time, {middle['mb']:.1f} MB, {middle['modules']} modules (median of 5)."
    )


if __name__ == "__main__":
    main()
