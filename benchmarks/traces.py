"""Time and memory of reading traces, on generated files and on those given, beside HolisticTraceAnalysis.

    python -m benchmarks.traces                            files of 10, 100 and 1000 MB, made for the purpose
    python -m benchmarks.traces --sizes 10 --repeat 5 --peer /path/to/venv/bin/python FILE…

Each reading is a process of its own, the two programs in turn, so that a busy machine disturbs both alike. Memory is the peak of the process
less what it holds before it reads.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

OURS = """
import json, resource, sys, time
from torchtally.stalls import analysis
from torchtally.stalls.sources.trace import read_trace
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
start, cpu = time.perf_counter(), time.process_time()
timeline = read_trace(sys.argv[1])
read = time.process_time() - cpu
held = peak() - before
stalls = len(analysis.report([timeline]).stalls)
print(json.dumps({"seconds": read, "all": time.process_time() - cpu, "memory": held, "memory_all": peak() - before, "stalls": stalls}))
"""

PEER = """
import json, logging, resource, sys, time
logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
cpu = time.process_time()
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="/tmp")
trace.parse_traces(use_multiprocessing=False)
print(json.dumps({"seconds": time.process_time() - cpu, "memory": peak() - before, "events": len(trace.get_trace(0))}))
"""


def make_trace(path: Path, megabytes: int) -> None:
    """A trace like those of a training job with Python stacks: per step 60 operators with nested functions, launches, kernels, flows, one read."""
    step = 0
    with path.open("w") as file:
        written = file.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1751410836000000000, "distributedInfo": {"rank": 0}, "traceEvents": [\n')
        link = 0
        while written < megabytes * 1_000_000:
            events: list[dict[str, object]] = []
            at = 1_000_000_000.0 + step * 10_000
            events.append(event("user_annotation", f"ProfilerStep#{step}", 77, at, 9_990))
            events.append(event("python_function", "train.py(28): step", 77, at + 10, 9_970))
            for i in range(60):
                link += 1
                t = at + 100 + 100 * i
                parent = {"Python parent id": link, "Python id": link + 1, "Ev Idx": link}
                events.append(event("python_function", f"torch/nn/modules/module.py({1500 + i}): _call_impl", 77, t, 90.25, **parent))
                events.append(event("python_function", f"model/layer{i}.py({20 + i}): forward", 77, t + 1, 85.5, **parent))
                events.append(event("python_function", f"<built-in method linear of type object at 0x7f{link:010x}>", 77, t + 2, 80.125, **parent))
                shapes = {"External id": link, "Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": ["c10::BFloat16"] * 3,
                          "Input Strides": [[4096, 1], [4096, 1], [1]], "Input Dims": [[512, 4096], [4096, 4096], [4096]], "Ev Idx": link}
                events.append(event("cpu_op", "aten::linear", 77, t + 5, 60.5, **shapes))
                events.append(event("cpu_op", "aten::addmm", 77, t + 10, 50.75, **shapes))
                events.append(event("cuda_runtime", "cudaLaunchKernel", 77, t + 40, 6.25, **{"External id": link, "cbid": 211, "correlation": link}))
                events.append({"ph": "s", "id": link, "pid": 77, "tid": 77, "ts": t + 40, "cat": "ac2g", "name": "ac2g"})
                kernel = {"External id": link, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": link, "registers per thread": 254,
                          "shared memory": 213248, "blocks per SM": 0.9, "grid": [16, 4, 1], "block": [384, 1, 1], "est. achieved occupancy %": 0}
                events.append(event("kernel", f"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_{i}_relu_bf16_128x256_64x3_tn_align8>", 7, t + 50, 88.5, pid=0, **kernel))
                events.append({"ph": "f", "id": link, "pid": 0, "tid": 7, "ts": t + 50, "cat": "ac2g", "name": "ac2g", "bp": "e"})
            link += 2
            t = at + 7_000
            read = {"External id": link, "Ev Idx": link}
            events.append(event("python_function", "<built-in method item of Tensor object at 0x7f0000000000>", 77, t, 2_000, **read))
            events.append(event("cpu_op", "aten::_local_scalar_dense", 77, t + 1, 1_990, **read))
            events.append(event("cuda_runtime", "cudaMemcpyAsync", 77, t + 2, 8, **{"External id": link, "correlation": link}))
            copy = {"device": 0, "stream": 7, "correlation": link, "bytes": 4}
            events.append(event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 7, t + 1_950, 2, pid=0, **copy))
            events.append(event("cuda_runtime", "cudaStreamSynchronize", 77, t + 12, 1_960, **{"External id": link, "correlation": link - 1}))
            written += file.write((",\n" if step else "") + ",\n".join(map(json.dumps, events)))
            step += 1
        file.write('\n], "traceName": "made.json"}\n')


def event(category: str, name: str, tid: int, start: float, length: float, pid: int = 77, **args: object) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length, "args": args}


def measure(python: str, program: str, file: Path) -> dict[str, float] | None:
    """One reading in a process of its own; None where the program fails."""
    done = subprocess.run([python, "-c", program, str(file)], capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None


def size_of(file: Path) -> int:
    if file.suffix != ".gz":
        return file.stat().st_size
    with gzip.open(file) as unpacked:
        total = 0
        while piece := unpacked.read(1 << 22):
            total += len(piece)
    return total


def compare(file: Path, repeat: int, peer: str | None) -> str:
    """One row: medians of the readings of each program."""
    ours, theirs = [], []
    for _ in range(repeat):
        ours.append(measure(sys.executable, OURS, file))
        if peer:
            theirs.append(measure(peer, PEER, file))
    size = size_of(file) / 1e6
    good = [o for o in ours if o]
    if not good:
        return f"| {file.name} | {size:.0f} MB | failed | | | |"
    seconds, whole = (statistics.median(o[k] for o in good) for k in ("seconds", "all"))
    memory, memory_all = (statistics.median(o[k] for o in good) / 1e6 for k in ("memory", "memory_all"))
    row = f"| {file.name} | {size:.0f} MB | {seconds:.2f} s | {whole:.2f} s | {memory:.0f} MB | {memory_all:.0f} MB |"
    if peer:
        others = [t for t in theirs if t]
        if others:
            other = statistics.median(t["seconds"] for t in others)
            held = statistics.median(t["memory"] for t in others) / 1e6
            row += f" {other:.2f} s, {held:.0f} MB | {other / seconds:.1f} |"
        else:
            row += " fails | |"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 100, 1000], help="megabytes of the files to make")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peer", help="the Python of an environment with HolisticTraceAnalysis")
    chosen = parser.parse_args()
    print("| file | size | read | and analysed | memory read | memory analysed |" + (" peer | times faster |" if chosen.peer else ""))
    print("|---|---|---|---|---|---|" + ("---|---|" if chosen.peer else ""))
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in chosen.sizes:
            file = Path(folder) / f"made{megabytes}.json"
            make_trace(file, megabytes)
            print(compare(file, chosen.repeat, chosen.peer), flush=True)
            file.unlink()
        for file in chosen.files:
            print(compare(file, chosen.repeat, chosen.peer), flush=True)


if __name__ == "__main__":
    main()
