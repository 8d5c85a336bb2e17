"""`python -m benchmarks`: torchtally and its peers side by side, one process a workload, one thread; ratios, not promises.

`python -m benchmarks NAME…` runs the workloads whose names contain one of the words; `--list` names them; `--json FILE` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

COLUMNS = ("floor", "torchtally", "torchmetrics separate", "torchmetrics collection", "torchmetrics", "torcheval", "ignite")


def child(name: str, seconds: float) -> None:
    """Time one workload and print its figures as JSON."""
    import torch

    torch.set_num_threads(1)
    from .timing import interleaved
    from .workloads import WORKLOADS

    times = interleaved(WORKLOADS[name](), seconds)
    print(json.dumps({way: {"median_us": t.median * 1e6, "least_us": t.least * 1e6, "calls": t.calls} for way, t in times.items()}))


def measure(name: str, seconds: float) -> dict[str, dict[str, float]] | str:
    """One workload in a process of its own; what went wrong, if it failed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks", "--child", name, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no output"])[-1]
    found: dict[str, dict[str, float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def row(name: str, found: dict[str, dict[str, float]]) -> str:
    """A line of the table: our time, how many floors that is, and how many times faster than each peer."""
    ours = found["torchtally"]["median_us"]
    floor = f"{ours / found['floor']['median_us']:.2f}" if "floor" in found else "–"
    faster = " ".join(f"| {found[c]['median_us'] / ours:.1f}" if c in found else "| –" for c in COLUMNS[2:])
    return f"| {name} | {ours:.2f} | {floor} {faster} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="words in the names of workloads; all if none")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for one workload, all columns together")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--list", action="store_true", help="only name the workloads")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.seconds)
        return
    from .workloads import WORKLOADS

    chosen = [n for n in WORKLOADS if not options.names or any(w in n for w in options.names)]
    if options.list:
        print("\n".join(chosen))
        return
    print("Microseconds of one call (median), as a multiple of the floor, and how many times faster than each peer.\n")
    print("| workload | torchtally µs | × floor | " + " | ".join(COLUMNS[2:]) + " |")
    print("|---" * (3 + len(COLUMNS[2:])) + "|")
    kept = {}
    for name in chosen:
        found = measure(name, options.seconds)
        kept[name] = found
        print(row(name, found) if isinstance(found, dict) else f"| {name} | failed: {found} |", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(kept, file, indent=1)


if __name__ == "__main__":
    main()
