"""Small traces like those of every era and vendor, and every way they break.

All show the same run: two steps of 1,000 µs. In each, the main thread launches a matrix product that takes the device 400 µs, calls
`loss.item()`, which therefore waits, works alone for 100 µs, and launches an update of 50 µs. The truth in microseconds:

    host    launch 100-110   item 120-530: copy 130-140, synchronise 140-520   (host work)   launch 630-640
    device                   product 115-515, copy 515-517                                  update 645-695

So the host waits 390 µs (130 to 520) per step, and the device then idles from 517 to 645: 128 µs.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEPS = 2
STEP_US = 1000
EPOCH_US = 1_700_000_000_000_000
BASE_NS = 1_699_999_000_000_000_000

MAIN, PROCESS, STREAM = 4242, 4242, 7


@dataclass(frozen=True)
class Era:
    """How the traces of one time and vendor look."""

    name: str
    operator: str = "cpu_op"
    runtime: str = "cuda_runtime"
    kernel: str = "kernel"
    memcpy: str = "gpu_memcpy"
    region: str = "user_annotation"
    external: str = "External id"
    launch: str = "cudaLaunchKernel"
    copy: str = "cudaMemcpyAsync"
    synchronize: str | None = "cudaStreamSynchronize"
    copied: str = "Memcpy DtoH (Device -> Pageable)"
    time: str = "relative"
    bare: bool = False
    metadata_first: bool = True
    words_for_threads: bool = False
    stacks: str = ""
    sync_records: bool = False
    only_flows: bool = False


ERAS = [
    Era(
        "2020: a bare list",
        "Operator",
        "Runtime",
        "Kernel",
        "Memcpy",
        "Operator",
        "external id",
        time="epoch",
        bare=True,
        words_for_threads=True,
    ),
    Era(
        "2021: Call stack",
        "Operator",
        "Runtime",
        "Kernel",
        "Memcpy",
        "Operator",
        "external id",
        time="epoch",
        words_for_threads=True,
        stacks="Call stack",
    ),
    Era("2022: cpu_op", time="epoch", stacks="frames"),
    Era("2024 spring: nanoseconds", time="epoch with nanoseconds", sync_records=True),
    Era("2024: times relative to a base", stacks="frames", sync_records=True, metadata_first=False),
    Era("2025: metadata first, pinned reads", copied="Memcpy DtoH (Device -> Pinned)", stacks="frames"),
    Era("2026: CallFrom", stacks="CallFrom", copied="Memcpy DtoH (Device -> Pinned)", sync_records=True),
    Era("ROCm", launch="hipLaunchKernel", copy="hipMemcpyWithStream", synchronize=None, copied="Memcpy DtoH (Device -> Host)"),
    Era(
        "XPU",
        runtime="xpu_runtime",
        launch="urEnqueueKernelLaunch",
        copy="urEnqueueUSMMemcpy",
        synchronize="urQueueFinish",
        copied="Memcpy D2H",
    ),
    Era("filtered: flows for links", only_flows=True),
    Era("times as text", time="text"),
]


def events(era: Era) -> list[dict[str, Any]]:
    """The run's events as that era wrote them."""
    found: list[dict[str, Any]] = []
    link = 0

    def add(category: str, name: str, start: float, end: float, *, device: bool = False, **args: Any) -> None:
        pid, tid = (0, STREAM) if device else (PROCESS, MAIN)
        words = f"stream {tid}" if device else str(tid)
        found.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": words if era.words_for_threads else tid,
                "ts": moment(era, start),
                "dur": str(end - start) if era.time == "text" else end - start,
                "args": {key: value for key, value in args.items() if not (era.only_flows and key == "correlation")},
            }
        )

    def flow(start: float, device_start: float, identity: int) -> None:
        found.append({"ph": "s", "id": identity, "pid": PROCESS, "tid": MAIN, "ts": moment(era, start), "cat": "ac2g", "name": "ac2g"})
        found.append(
            {"ph": "f", "id": identity, "pid": 0, "tid": STREAM, "ts": moment(era, device_start), "cat": "ac2g", "name": "ac2g", "bp": "e"}
        )

    def launched(call: str, start: float, end: float, work: str, category: str, work_start: float, work_end: float, external: int) -> None:
        nonlocal link
        link += 1
        add(era.runtime, call, start, end, correlation=link, **{era.external: external})
        add(category, work, work_start, work_end, device=True, correlation=link, stream=STREAM, device_=0, **{era.external: external})
        flow(start, work_start, link)

    for step in range(STEPS):
        at = STEP_US * step
        product, item = 10 * step + 1, 10 * step + 2
        add(era.region, f"ProfilerStep#{step + 3}", at, at + STEP_US)
        add(era.operator, "aten::mm", at + 95, at + 112, **{"External id": product})
        launched(era.launch, at + 100, at + 110, "gemm", era.kernel, at + 115, at + 515, product)
        stack = {"Call stack": "train.py(31): step;train.py(40): <module>"} if era.stacks == "Call stack" else {}
        add(era.operator, "aten::item", at + 120, at + 530, **{"External id": item}, **stack)
        add(era.operator, "aten::_local_scalar_dense", at + 125, at + 525, **{"External id": item}, **stack)
        launched(era.copy, at + 130, at + (140 if era.synchronize else 520), era.copied, era.memcpy, at + 515, at + 517, item)
        if era.synchronize:
            link += 1
            add(era.runtime, era.synchronize, at + 140, at + 520, correlation=link, **{era.external: item})
            if era.sync_records:
                add(
                    "cuda_sync",
                    "Stream Sync",
                    at + 141,
                    at + 519,
                    device=True,
                    correlation=link,
                    cuda_sync_kind="Stream Sync",
                    stream=STREAM,
                )
        launched(era.launch, at + 630, at + 640, "update", era.kernel, at + 645, at + 695, 10 * step + 3)
        if era.stacks in ("frames", "CallFrom"):
            caller = era.stacks == "CallFrom"
            add("python_function", "train.py(28): step", at + 90, at + 700, **({"CallFrom": "train.py:40"} if caller else {}))
            builtin = f"<built-in method item of Tensor object at 0x7f00{step}>"
            add("python_function", builtin, at + 119, at + 531, **({"CallFrom": "train.py:31"} if caller else {}))
    add(era.runtime, "cudaDeviceSynchronize", STEPS * STEP_US + 5, STEPS * STEP_US + 25, correlation=link + 1)
    found.append({"name": "process_name", "ph": "M", "ts": 0, "pid": PROCESS, "tid": 0, "args": {"name": "python"}})
    found.append({"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": moment(era, STEPS * STEP_US)})
    return found


def moment(era: Era, us: float) -> Any:
    if era.time == "relative":
        return 1_000_000_000 + us + 0.125
    if era.time == "text":
        return str(1_000_000_000 + us)
    return EPOCH_US + us + (0.25 if era.time == "epoch with nanoseconds" else 0)


def document(era: Era, rank: int = 0) -> Any:
    """The whole file as Python values."""
    if era.bare:
        return events(era)
    metadata: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Device X", "totalGlobalMem": 1}, {"id": 1, "name": "Device X", "totalGlobalMem": 1}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2, "pg_config": [{"pg_name": "0"}, {"pg_name": "1"}]},
        "environment": {"API_TOKEN": "hunter2"},
    }
    if era.time == "relative":
        metadata["baseTimeNanoseconds"] = BASE_NS
    listed = {"traceEvents": events(era)}
    return {**metadata, **listed, "traceName": "t.json"} if era.metadata_first else {**listed, **metadata}


def text(era: Era, indent: int | None = None, rank: int = 0) -> str:
    return json.dumps(document(era, rank), indent=indent)


def write(folder: Path, era: Era, rank: int = 0) -> Path:
    path = folder / f"trace{rank}.json"
    path.write_text(text(era, rank=rank))
    return path


MODERN = ERAS[5]


def defects() -> dict[str, tuple[bytes, int]]:
    """Broken files by what is wrong with them, and how many runtime calls can still be read of the nine."""
    whole = text(MODERN)
    assert whole.count('"cat": "cuda_runtime"') == 9
    half = whole.index("ProfilerStep#4")
    replaced = whole.replace
    return {
        "cut in the middle of an event": (whole[:half].encode(), 4),
        "list not closed": (whole[: whole.rindex("]")].encode(), 9),
        "cut gzip": (gzip.compress(whole.encode())[:-9], 9),
        "unescaped quotes in a name": (replaced('"gemm"', '"gemm<"fast", "x\\y">"').encode(), 9),
        "backslashes of a path": (replaced('"gemm"', r'"C:\Users\kernel.cu"').encode(), 9),
        "NaN and Infinity": (replaced('"stream": 7', '"stream": 7, "memory bandwidth (GB/s)": Infinity, "x": NaN').encode(), 9),
        "minus nan": (replaced('"stream": 7', '"stream": 7, "x": -nan').encode(), 9),
        "trailing commas": (replaced('"stream": 7', '"stream": 7,').replace("}]", "},]").encode(), 9),
        "an empty fragment": (replaced('"stream": 7,', '"stream": 7,,').encode(), 9),
        "a value missing": (replaced('"stream": 7', '"stream": ').encode(), 9),
        "integers above 64 bits": (
            replaced('"stream": 7', '"stream": 7, "Comms Id": 10159970886766084423, "y": 123456789012345678901234567890').encode(),
            9,
        ),
        "a correlation above 64 bits": (replaced('"correlation": 1,', '"correlation": 99999999999999999999,').encode(), 9),
        "a time above 64 bits": (replaced('"dur": 400', '"dur": 1e300').encode(), 9),
        "negative durations": (replaced('"dur": 400', '"dur": -400').encode(), 9),
        "missing ends": (replaced('"dur": 400, ', "").encode(), 9),
        "control characters": (replaced("train.py", "tr\tain\n.py").encode(), 9),
        "bytes that are not text": (whole.encode().replace(b"train.py", b"tr\xff\xfe.py"), 9),
        "every event twice": (
            replaced(
                '"traceEvents": [', '"traceEvents": [' + whole[whole.index('"traceEvents": [') + 16 : whole.rindex("], ")] + ", "
            ).encode(),
            9,
        ),
        "a byte order mark": (b"\xef\xbb\xbf" + whole.encode(), 9),
        "commas lost between events": (replaced("}}, {", "}} {").encode(), 9),
        "junk between events": (replaced("}}, {", '}}, INFO: "x" {1}, {', 3).encode(), 9),
    }
