"""Waits that are not the program's own: the profiler's, those of the first step, and libraries trying out their kernels."""

from __future__ import annotations

import numpy as np

from ..sources.names import call_kind
from ..timeline import CallKind, Timeline
from .findings import Findings
from .nesting import Nesting

PROFILER = ("torch/profiler/", "torch/autograd/profiler.py")
SHORT_US = 1000.0


def drop_profiler_waits(timeline: Timeline, findings: Findings) -> Findings:
    """The synchronisations with which a profiler starts and ends, by the Python functions around them or by their place.

    Without stacks: a synchronisation with the device is the profiler's if it comes outside all steps though there are some, before anything
    was launched, or after everything.
    """
    frames = Nesting(timeline.frames)
    linked = np.isin(timeline.calls.kind, [CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.COPY, CallKind.BLOCKING_COPY])
    launches = timeline.calls.start_us[linked]
    first, last = (float(launches[0]), float(launches.max())) if len(launches) else (np.inf, -np.inf)
    dropped = set()
    for i, stall in enumerate(findings.stalls):
        if stall.start_us is None or stall.kind != "synchronize" or not _waits_for_the_device(stall.operator):
            continue
        around = [timeline.names[timeline.frames.name[f]] for f in frames.at(timeline.lane_of(stall.thread), stall.start_us)]
        by_name = any(part in name for name in around for part in PROFILER)
        early = stall.start_us < first and (stall.host_wait_us or 0.0) < SHORT_US
        outside = bool(timeline.steps) and stall.step is None and not around
        if by_name or early or outside or (stall.start_us > last and not around):
            dropped.add(i)
    return findings.without(dropped, "synchronisations are the profiler's own, at its start or end, and are left out")


def _waits_for_the_device(operator: str) -> bool:
    return operator == "Context Sync" or call_kind(operator) is CallKind.DEVICE_SYNC


def drop_warm_up(timeline: Timeline, findings: Findings) -> Findings:
    """Memory taken from the device while the program warms up: in the first of several steps, or where it soon ends for good."""
    allocations = [i for i, s in enumerate(findings.stalls) if s.kind == "allocator" and s.start_us is not None]
    starts = {i: findings.stalls[i].start_us or 0.0 for i in allocations}
    if len(timeline.steps) > 1:
        settled = timeline.steps[0].end_us
        dropped = {i for i in allocations if starts[i] < settled}
    else:
        half = timeline.end_us / 2
        dropped = set(allocations) if allocations and max(starts.values()) < half and not timeline.steps else set()
    return findings.without(dropped, "calls of the memory allocator belong to the warm-up and are left out")


def drop_autotuning(timeline: Timeline, findings: Findings) -> Findings:
    """Synchronisations inside a convolution: the library times its algorithms (`cudnn.benchmark`), once per shape."""
    calls = timeline.calls
    timing = calls.take(np.isin(calls.kind, [CallKind.EVENT_SYNC, CallKind.STREAM_SYNC]))
    moments = set(zip(timing.lane.tolist(), timing.start_us.tolist()))
    dropped = {
        i
        for i, s in enumerate(findings.stalls)
        if s.kind == "synchronize" and "convolution" in s.operator and (timeline.lane_of(s.thread), s.start_us) in moments
    }
    return findings.without(dropped, "synchronisations are a library choosing among its convolutions, once per shape, and are left out")
