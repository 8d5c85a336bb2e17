"""The one sentence a reader takes away, and the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..stall import Report, StallGroup, group, total
from ..timeline import Timeline
from .wording import duration, number, percent, plural

MOST = 0.9
"""The lines named in the headline are the fewest that make up this share of the cost."""


@dataclass(frozen=True, slots=True)
class Summary:
    """`headline` fits on one line; `detail` adds the figures. `rows` are ordered by what they cost, the costliest first."""

    headline: str
    detail: str
    rows: tuple[StallGroup, ...]
    count: int = 0
    per_step: float | None = None
    host_wait_us: float | None = None
    device_idle_us: float | None = None


def cost(row: StallGroup) -> tuple[float, float, int]:
    """What orders rows: idle device time, then the host's wait, then how often. Unknown counts as none."""
    return (row.device_idle_us or 0.0, row.host_wait_us or 0.0, row.count)


def summarise(report: Report, timelines: Sequence[Timeline] = ()) -> Summary:
    """The timelines tell only whether the device did anything at all: where it did not, finding no stall means nothing."""
    rows = sorted(group(report.stalls, report.steps), key=cost, reverse=True)
    if not rows:
        return Summary(*_nothing(report, not timelines or any(len(t.work) for t in timelines)), rows=())
    count = sum(r.count for r in rows)
    per_step = sum(r.per_step or 0.0 for r in rows) if report.steps else None
    often = "" if per_step is None else f" ({number(per_step)} per step)"
    wait, idle = total([r.host_wait_us for r in rows]), total([r.device_idle_us for r in rows])
    figures = [f"{plural(count, 'stall')}{often}"]
    figures += [f"the host waited {duration(wait, report.predicted)}"] if wait is not None else []
    figures += [f"the device stood idle {duration(idle, report.predicted)} because of them"] if idle is not None else []
    if wait is None and idle is None:
        figures.append("what they cost is unknown")
    detail = "; ".join(figures) + "."
    if report.predicted:
        detail += f" Times are predicted for {report.predicted}, not measured."
    return Summary(_headline(report, rows, count, per_step), detail, tuple(rows), count, per_step, wait, idle)


def _nothing(report: Report, device_seen: bool) -> tuple[str, str]:
    if not device_seen:
        return "No device work was recorded, so no stall can be seen.", "Record with the device's activity switched on."
    steps = f" in {plural(report.steps, 'step')}" if report.steps else ""
    return "No stalls.", f"Nothing made the host wait for the device{steps}."


def _headline(report: Report, rows: list[StallGroup], count: int, per_step: float | None) -> str:
    lines = _places(rows)
    for figure, verb in (("device_idle_us", "cost"), ("host_wait_us", "hold the host up for")):
        costs = [getattr(r, figure) for r in rows]
        known = [c for c in costs if c is not None]
        whole = sum(known)
        if not report.duration_us or whole <= 0:
            continue
        named, part = _fewest(rows, figure, whole)
        subject = _lines(rows, lines) if named == lines else f"{number(named)} of {_lines(rows, lines)}"
        least = "at least " if len(known) < len(costs) else ""
        share = percent(min(1.0, part / report.duration_us))
        said = f"would {verb}" if report.predicted else _agree(verb, named)
        return f"{subject} {said} {least}{share} of {'the step' if report.steps else 'the run'}{f' on {report.predicted}' if report.predicted else ''}."
    often = f"{plural(per_step, 'time')} per step" if per_step is not None else plural(count, "time")
    return f"{_lines(rows, lines)} {_agree('make', lines)} the host wait {often}."


def _fewest(rows: list[StallGroup], figure: str, whole: float) -> tuple[int, float]:
    """The fewest places that make up most of the whole, and what they make up."""
    by_place: dict[object, float] = {}
    for r in rows:
        by_place[_place(r)] = by_place.get(_place(r), 0.0) + (getattr(r, figure) or 0.0)
    sum_so_far = 0.0
    for n, value in enumerate(sorted(by_place.values(), reverse=True), 1):
        sum_so_far += value
        if sum_so_far >= MOST * whole:
            return n, sum_so_far
    return len(by_place), sum_so_far


def _place(row: StallGroup) -> object:
    return (row.site.file, row.site.line) if row.site else (row.operator, row.region)


def _places(rows: list[StallGroup]) -> int:
    return len({_place(r) for r in rows})


def _lines(rows: list[StallGroup], n: int) -> str:
    return plural(n, "line" if all(r.site for r in rows) else "place")


def _agree(verb: str, n: int) -> str:
    first, _, rest = verb.partition(" ")
    return f"{first}s {rest}".rstrip() if n == 1 else verb
