"""From timelines to a report: the passes, in order."""

from __future__ import annotations

from collections.abc import Sequence

from .passes.artefacts import drop_autotuning, drop_profiler_waits, drop_warm_up
from .passes.blame import blame_stalls
from .passes.find import find_waits
from .passes.findings import Findings, Pass
from .passes.gain import gains
from .passes.price import price_stalls
from .passes.remedy import propose_remedies
from .stall import Report, Stall
from .timeline import Timeline

PASSES: tuple[Pass, ...] = (find_waits, drop_profiler_waits, drop_warm_up, drop_autotuning, blame_stalls, price_stalls, propose_remedies)


def analyse(timeline: Timeline, passes: Sequence[Pass] = PASSES) -> Findings:
    """The stalls of one rank."""
    findings = Findings()
    for apply in passes:
        findings = apply(timeline, findings)
    return findings


def report(timelines: Sequence[Timeline], tool: str = "stalls") -> Report:
    """What the traces of one job show, over all its ranks."""
    stalls: list[Stall] = []
    notes: list[str] = []
    for timeline in timelines:
        prefix = f"rank {timeline.rank}: " if len(timelines) > 1 else ""
        findings = analyse(timeline)
        stalls.extend(findings.stalls)
        found = [*timeline.notes, *findings.notes]
        if missing := what_is_missing(timeline):
            found.append(missing)
        notes.extend(prefix + note for note in found)
    steps = sum(len(t.steps) for t in timelines)
    return Report(
        tool=tool,
        source=", ".join(t.source for t in timelines),
        steps=steps or None,
        stalls=tuple(stalls),
        notes=tuple(notes),
        duration_us=sum(duration_us(t) for t in timelines),
        gains=gains(timelines, stalls),
    )


def duration_us(timeline: Timeline) -> float:
    """The time of all steps, or of the whole run where none are marked."""
    return sum(s.end_us - s.start_us for s in timeline.steps) or timeline.end_us


def what_is_missing(timeline: Timeline) -> str:
    """What to say of a file that shows no device at work, or no calls that could wait: that is not the same as no stalls."""
    if len(timeline.calls) and len(timeline.work):
        return ""
    if len(timeline.work):
        return "the file shows device work but none of the calls that started it, so it cannot show stalls: record with ProfilerActivity.CPU too"
    if len(timeline.calls):
        return (
            "the file shows calls into the device's runtime but no device work, so idle time is unknown: "
            "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] and without filters"
        )
    return (
        "the file shows no device work at all, so it cannot show stalls: it was recorded on a machine without a device, or without "
        "ProfilerActivity.CUDA (or XPU) among the activities"
    )
