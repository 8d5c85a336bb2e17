"""The one sentence a reader takes away, and the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..stall import Report, Stall, StallGroup, group
from ..timeline import Timeline
from .wording import duration, number, percent, plural

NOTHING = 0.0005
"""A gain below this share of the time is none."""
MOST = 0.9
"""The lines named in the headline are the fewest that make up this share of the cost."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A time in all and per step; None where no part of it is known, `least` where only some parts are."""

    us: float | None
    per_step_us: float | None
    least: bool

    def said(self, predicted: str | None) -> str:
        return ("at least " if self.least else "") + duration(self.us, predicted)


@dataclass(frozen=True, slots=True)
class Summary:
    """`headline` fits on one line; `detail` adds the figures. `rows` are ordered by what they cost, the costliest first."""

    headline: str
    detail: str
    rows: tuple[StallGroup, ...]
    count: int = 0
    per_step: float | None = None
    wait: Figure = Figure(None, None, False)
    idle: Figure = Figure(None, None, False)


def cost(row: StallGroup) -> tuple[float, float, int]:
    """What orders rows: idle device time, then the host's wait, then how often. Unknown counts as none."""
    return (row.device_idle_us or 0.0, row.host_wait_us or 0.0, row.count)


def summarise(report: Report, timelines: Sequence[Timeline] = ()) -> Summary:
    """The timelines tell only whether stalls could have been seen at all: where not, finding none means nothing."""
    rows = sorted(group(report.stalls, report.steps), key=cost, reverse=True)
    if not rows:
        return Summary(*_nothing(report, timelines), rows=())
    within = within_steps(report)
    per_step = len(within) / report.steps if report.steps else None
    wait, idle = (_figure(report, within, name) for name in ("host_wait_us", "device_idle_us"))
    often = "" if per_step is None else f" ({number(per_step)} per step)"
    figures = [f"{plural(len(report.stalls), 'stall')}{often}"]
    figures += [f"the host waited {wait.said(report.predicted)}"] if wait.us is not None else []
    figures += [f"the device stood idle {idle.said(report.predicted)} because of them"] if idle.us is not None else []
    if wait.us is None and idle.us is None:
        figures.append("what they cost is unknown")
    detail = "; ".join(figures) + "."
    if report.predicted:
        detail += f" Times are predicted for {report.predicted}, not measured."
    return Summary(_headline(report, within), detail, tuple(rows), len(report.stalls), per_step, wait, idle)


def within_steps(report: Report) -> tuple[Stall, ...]:
    """The stalls that steps are charged with: where any knows its step, those that know none happened while setting up or after the last step."""
    marked = bool(report.steps) and any(s.step is not None for s in report.stalls)
    return tuple(s for s in report.stalls if s.step is not None or not marked)


def _figure(report: Report, within: tuple[Stall, ...], name: str) -> Figure:
    every, inside = ([getattr(s, name) for s in stalls] for stalls in (report.stalls, within))
    known = [v for v in every if v is not None]
    if not known:
        return Figure(None, None, False)
    per_step = sum(v for v in inside if v is not None) / report.steps if report.steps else None
    return Figure(sum(known), per_step, len(known) < len(every))


def _nothing(report: Report, timelines: Sequence[Timeline]) -> tuple[str, str]:
    if report.tool == "stalls" and timelines:  # a pretend device does no work that it could show
        if not any(len(t.work) for t in timelines):
            return "No device work was recorded, so no stall can be seen.", "Record with the device's activity switched on."
        if not any(len(t.calls) for t in timelines):
            return "No calls to the device were recorded, so no stall can be seen.", "Record with the host's activity switched on."
    steps = f" in {plural(report.steps, 'step')}" if report.steps else ""
    return "No stalls.", f"Nothing made the host wait for the device{steps}."


def _headline(report: Report, within: tuple[Stall, ...]) -> str:
    if not within:
        rows = group(report.stalls, report.steps)
        return f"{_lines(rows, _places(rows))} {_agree('make', _places(rows))} the host wait, outside the steps only."
    rows = group(within, report.steps)
    lines = _places(rows)
    often = f"{plural(len(within) / report.steps, 'time')} per step" if report.steps else plural(len(within), "time")
    counted = f"{_lines(rows, lines)} {_agree('make', lines)} the host wait {often}"
    if not report.duration_us:
        return f"{counted}."
    span = ("the step" if report.steps else "the run") + (f" on {report.predicted}" if report.predicted else "")
    saved = next((g.saved_us for g in report.gains if g.stalls == len(report.stalls) and g.saved_us is not None), None)
    if saved is not None and saved < NOTHING * report.duration_us:
        return f"{counted}, at no cost in time."
    for figure, verb in (("device_idle_us", "cost"), ("host_wait_us", "hold the host up for")):
        known = [s for s in within if getattr(s, figure) is not None]
        whole = sum(getattr(s, figure) for s in known)
        if whole <= 0 or _waits(known) < _waits(within) / 2:  # what is known of so little says nothing of the rest
            continue
        named, part = _fewest(within, figure, whole)
        if saved is not None and figure == "device_idle_us":  # replaying the run tells better than adding up upper bounds
            chiefly = "" if named == lines else f", {'chiefly' if named > 1 else 'above all'} {number(named)} of them,"
            return f"{_lines(rows, lines)}{chiefly} {_said(report, verb, lines)} {percent(min(1.0, saved / report.duration_us))} of {span}."
        subject = _lines(rows, lines) if named == lines else f"{number(named)} of {_lines(rows, lines)}"
        least = "at least " if len(known) < len(within) else ""
        return f"{subject} {_said(report, verb, named)} {least}{percent(min(1.0, part / report.duration_us))} of {span}."
    return f"{counted}."


def _waits(stalls: Sequence[Stall]) -> float:
    """How much of the trouble these are: by the host's wait, or by number where that is unknown."""
    return sum(1.0 if s.host_wait_us is None else s.host_wait_us for s in stalls)


def _said(report: Report, verb: str, n: int) -> str:
    return f"would {verb}" if report.predicted else _agree(verb, n)


def _fewest(within: tuple[Stall, ...], figure: str, whole: float) -> tuple[int, float]:
    """The fewest places that make up most of the whole, and what they make up."""
    by_place: dict[object, float] = {}
    for s in within:
        by_place[_place(s)] = by_place.get(_place(s), 0.0) + (getattr(s, figure) or 0.0)
    sum_so_far = 0.0
    for n, value in enumerate(sorted(by_place.values(), reverse=True), 1):
        sum_so_far += value
        if sum_so_far >= MOST * whole:
            return n, sum_so_far
    return len(by_place), sum_so_far


def _place(s: Stall | StallGroup) -> object:
    return (s.site.file, s.site.line) if s.site else (s.operator, s.region)


def _places(rows: list[StallGroup]) -> int:
    return len({_place(r) for r in rows})


def _lines(rows: list[StallGroup], n: int) -> str:
    return plural(n, "line" if all(r.site for r in rows) else "place")


def _agree(verb: str, n: int) -> str:
    first, _, rest = verb.partition(" ")
    return f"{first}s {rest}".rstrip() if n == 1 else verb
