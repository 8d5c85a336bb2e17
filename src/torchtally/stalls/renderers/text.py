"""A report as text: what stalls, where, what it costs and what to write instead."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..stall import Report, StallGroup
from ..timeline import Timeline
from .summary import summarise
from .wording import cause, duration, number, place, plural, visible

WIDTH = 100
TIMES = {"host_wait_us": "host wait", "device_idle_us": "device idle"}


def render(report: Report, timelines: Sequence[Timeline] = (), width: int = WIDTH) -> str:
    """Plain text of `width` columns; `table` gives the same to a rich console, in colour."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False, emoji=False, markup=False, legacy_windows=False).print(table(report, timelines))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def table(report: Report, timelines: Sequence[Timeline] = ()) -> RenderableType:
    """The report for a rich console."""
    summary = summarise(report, timelines)
    parts: list[RenderableType] = [
        Text(visible(report.source), "dim"),
        Text(visible(summary.headline), "bold" if summary.rows else "bold green"),
        Text(visible(summary.detail)),
    ]
    if summary.rows:
        parts += [Text(), _rows(report, summary.rows)]
    if report.gains:
        parts += [Text(), Text("What removing them would save", "bold")]
        parts += [Text(f"  {duration(g.saved_us, report.predicted):>9}  {visible(g.what)} ({plural(g.stalls, 'stall')})") for g in report.gains]
    if report.notes:
        parts += [Text()] + [Text(f"Note: {visible(note)}", "yellow") for note in report.notes]
    return Group(*parts)


def _rows(report: Report, rows: tuple[StallGroup, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="dim", show_edge=False, expand=True)
    times = [name for name in TIMES if any(getattr(r, name) is not None for r in rows)]  # a column of "unknown" says nothing the summary does not
    for heading in ("per step" if report.steps else "times", *(TIMES[name] for name in times)):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("line", ratio=1, overflow="fold")
    for row in rows:
        often = row.per_step if report.steps else row.count
        table.add_row(number(often), *(duration(getattr(row, name), report.predicted) for name in times), _line(row))
    return table


def _line(row: StallGroup) -> Text:
    text = Text(place(row.site), "bold")
    if row.inferred:
        text.append(" (line inferred)", "dim")
    if row.site and row.site.code:
        text.append("\n" + visible(row.site.code), "cyan")
    text.append("\n" + cause(row), "not bold")
    if row.inner and row.inner != row.site:
        text.append("\nwaits inside " + place(row.inner), "dim not bold")
    if row.remedy:
        text.append("\n→ " + visible(row.remedy), "green not bold")
    return text
