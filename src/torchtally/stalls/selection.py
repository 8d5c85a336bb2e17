"""Which stalls of a report count: those left after the warm-up, in metrics only, and not allowed by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ..errors import TallyError
from .stall import Report, Site, Stall, StallGroup, group


@dataclass(frozen=True, slots=True)
class Allowance:
    """Stalls that are accepted: at `FILE:LINE` or in `FILE` (any end of the path will do), or where a shell pattern matches one of the words about a stall.

    Words are the site's and the inner site's path, function and `path:line`, the operator, kind, region, metric, and the metric's class and name.
    """

    pattern: str

    def matches(self, stall: Stall) -> bool:
        return any(_matches(site, self.pattern) for site in (stall.site, stall.inner)) or any(
            fnmatchcase(word, self.pattern)
            for word in (stall.operator, stall.kind, stall.region, stall.metric, *(stall.metric or "").split())
            if word is not None
        )


def _matches(site: Site | None, pattern: str) -> bool:
    if site is None:
        return False
    path = site.file.replace("\\", "/")
    pattern = pattern.replace("\\", "/")
    words = (path, f"{path}:{site.line}")
    return fnmatchcase(site.function, pattern) or any(fnmatchcase(w, pattern) or fnmatchcase(w, f"*/{pattern}") for w in words)


def allow(report: Report, patterns: Sequence[str]) -> Report:
    """Without what the patterns allow. How many each allowed, and which allowed nothing, is noted."""
    left = list(report.stalls)
    notes = list(report.notes)
    for pattern in patterns:
        allowance = Allowance(pattern)
        kept = [s for s in left if not allowance.matches(s)]
        number = len(left) - len(kept)
        notes.append(f"allowed by {pattern!r}: {number} stall{'s' * (number != 1)}" if number else f"allowing {pattern!r} matched no stall: remove it, or mend it")
        left = kept
    return replace(report, stalls=tuple(left), notes=tuple(notes))


def after_warmup(report: Report, steps: int) -> Report:
    """Without the first steps. Stalls outside the steps stay: they do not count per step."""
    if not steps:
        return report
    if report.steps is None:
        if not report.stalls:
            return report
        return replace(report, notes=(*report.notes, "no steps were seen, so none was left out as warm-up"))
    if steps >= report.steps:
        raise TallyError(f"the warm-up of {steps} steps leaves nothing of the {report.steps} that were made; run more steps, or warm up fewer.")
    kept = tuple(s for s in report.stalls if s.step is None or s.step >= steps)
    return replace(report, stalls=kept, steps=report.steps - steps)


def only_metrics(report: Report) -> Report:
    """Only what waits within a metric's own code."""
    return replace(report, stalls=tuple(s for s in report.stalls if s.metric is not None))


def with_way_out(report: Report) -> Report:
    """With a note where metrics of another library wait in its own code, which its users cannot change."""
    found = [(s, _library(s)) for s in within_steps(report).stalls if s.metric is not None]
    libraries = sorted({library for _, library in found if library})
    if not libraries:
        return report
    number = len([s for s, library in found if library]) / (report.steps or 1)
    note = (
        f"{number:.3g} stall{'s' * (number != 1)}{' per step' if report.steps else ''} inside {' and '.join(libraries)}: "
        "torchtally's metrics wait in neither update nor forward; `torchtally migrate` moves a script to them"
    )
    return replace(report, notes=(*report.notes, note))


def _library(stall: Stall) -> str | None:
    """The library of metrics in whose code it waited, if in one."""
    parts = () if stall.inner is None else re.split(r"[/\\]", stall.inner.file)
    return next((part for part in parts if part in ("torchmetrics", "torcheval", "ignite")), None)


def outside_steps(report: Report) -> Report:
    """What happened while setting up or after the last step, as a report without steps; empty where no steps are known."""
    return replace(report, steps=None, stalls=tuple(s for s in report.stalls if s.step is None) if report.steps else (), notes=())


def within_steps(report: Report) -> Report:
    """What happened in the steps; everything where none are known."""
    return replace(report, stalls=tuple(s for s in report.stalls if s.step is not None)) if report.steps else report


def per_step(report: Report) -> float:
    """Stalls per step in all; all stalls where no steps are known."""
    rows = group(report.stalls, report.steps)
    return float(sum(r.count for r in rows)) if report.steps is None else sum(r.per_step or 0.0 for r in rows)


def offenders(report: Report, budget: float) -> list[StallGroup]:
    """The groups that make up a total over the budget per step, the most frequent first; none if the budget holds."""
    if per_step(report) <= budget:
        return []
    return [row for row in group(report.stalls, report.steps) if report.steps is None or row.per_step]


