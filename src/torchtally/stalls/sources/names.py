"""What the names in a profiler trace mean: calls into CUDA, HIP and Level Zero, copies, categories of every era."""

from __future__ import annotations

import re
from functools import lru_cache

from ..timeline import CallKind, WorkKind

OPERATORS = frozenset({"cpu_op", "Operator"})
REGIONS = frozenset({"user_annotation"})
FRAMES = frozenset({"python_function", "Python"})
CALLS = frozenset(
    {
        "cuda_runtime",  # for HIP too
        "cuda_driver",
        "Runtime",
        "hip_runtime",
        "xpu_runtime",
        "xpu_driver",
        "mtia_runtime",
        "privateuse1_runtime",
        "privateuse1_driver",
    }
)
WORK = frozenset({"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset", "privateuse1_kernel", "mtia_ccp_events"})
SYNCS = frozenset({"cuda_sync", "xpu_sync"})
LAUNCH_FLOWS = frozenset({"ac2g", "async", "async_gpu", "async_cpu_to_gpu"})
BACKWARD_FLOWS = frozenset({"fwdbwd", "forward_backward"})

OLD_REGION = re.compile(r"ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)|metric: ")
"""Until 2021 `record_function` regions had the category of operators."""

_SUFFIX = re.compile(r"(_v\d{4,})?(_ptsz|_ptds)?(_v\d{4,})?$")
_KINDS = (
    (CallKind.GRAPH_LAUNCH, r"(cuda|cu|hip)GraphLaunch"),
    (CallKind.STREAM_SYNC, r"\w*(StreamSynchronize|SynchronizeStream|CommandQueueSynchronize|CommandListHostSynchronize|QueueFinish)"),
    (CallKind.EVENT_SYNC, r"\w*(EventSynchronize|SynchronizeEvent|EventHostSynchronize|FenceHostSynchronize)|(ur|pi)Events?Wait"),
    (CallKind.DEVICE_SYNC, r"\w*(DeviceSynchronize|CtxSynchronize|SynchronizeDevice|ThreadSynchronize)"),
    (
        CallKind.COPY,
        r"(cuda|cu|hip)Memcpy\w*Async(_v\d)?|(ur|pi)Enqueue(USM|Mem)\w*(Memcpy|Copy|Read|Write)\w*|zeCommandListAppendMemoryCopy",
    ),
    (CallKind.BLOCKING_COPY, r"(cuda|cu|hip)Memcpy\w*"),
    (CallKind.OTHER, r"(cuda|hip)(Malloc|Free)(FromPool)?Async|cuMem(Alloc|Free)\w*Async"),
    (
        CallKind.ALLOCATE,
        r"(cuda|hip)(Malloc|HostAlloc|HostMalloc|ExtMalloc)\w*|cuMem(Alloc|HostAlloc|Create|Map)\w*|zeMemAlloc\w+|(ur|pi)\w*USM\w*Alloc",
    ),
    (CallKind.FREE, r"(cuda|hip)(Free|HostFree)\w*|cuMem(Free|Unmap|Release)\w*|zeMemFree|(ur|pi)\w*USMFree"),
    (CallKind.LAUNCH, r"(cuda|cu|hip)\w*Launch\w*|(cuda|cu|hip)Memset\w*|(ur|pi)Enqueue(Kernel\w*|USM\w*)|zeCommandListAppendLaunchKernel"),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)

SYNC_RECORDS = {"Stream Sync": CallKind.STREAM_SYNC, "Event Sync": CallKind.EVENT_SYNC, "Context Sync": CallKind.DEVICE_SYNC}
"""Names of second records that stand for the host waiting; `Stream Wait Event` is the device's own affair."""


@lru_cache(maxsize=4096)
def call_kind(name: str) -> CallKind:
    """What a runtime call does, by its name, with the version and per-thread-stream suffixes of the driver left off."""
    bare = _SUFFIX.sub("", name)
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(bare)), CallKind.OTHER)


@lru_cache(maxsize=4096)
def work_kind(category: str, name: str) -> WorkKind:
    """What a record of device work is. ROCm and XPU do not tell pageable memory from pinned: both are then `Host`."""
    if "mem" not in category.lower():
        return WorkKind.KERNEL
    if "set" in category.lower():
        return WorkKind.MEMSET
    if "Pageable -> Device" in name:
        return WorkKind.PAGEABLE_TO_DEVICE
    if "Pinned -> Device" in name:
        return WorkKind.PINNED_TO_DEVICE
    if "Device -> Pageable" in name:
        return WorkKind.DEVICE_TO_PAGEABLE
    if "Device -> Pinned" in name:
        return WorkKind.DEVICE_TO_PINNED
    if re.search(r"HtoD|H2D|M2D|HostToDevice", name):
        return WorkKind.HOST_TO_DEVICE
    if re.search(r"DtoH|D2H|D2M|DeviceToHost", name):
        return WorkKind.DEVICE_TO_HOST
    return WorkKind.COPY
