"""A comparison of two reports as text and as JSON."""

from __future__ import annotations

import io

import orjson
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..comparison import Change, Comparison, counts
from .json import dumps, row_as_dict, version_of_torchtally
from .text import WIDTH
from .wording import cause, duration, number, place, plural, visible

SIGNS = {"appeared": "+", "grew": "▲", "shrank": "▼", "went": "-", "same": "="}
COLOURS = {"appeared": "red", "grew": "red", "shrank": "green", "went": "green", "same": "dim"}


def headline(comparison: Comparison) -> str:
    """What appeared, grew, shrank and went, in one sentence."""
    found = counts(comparison.changes)
    said = [f"{plural(n, 'stall') if not i else number(n)} {what}" for i, (what, n) in enumerate((w, n) for w, n in found.items() if n and w != "same")]
    same = found["same"]
    if not said:
        return f"Nothing changed: {plural(same, 'stall')} in both." if same else "No stalls in either report."
    return ", ".join(said) + (f"; {number(same)} as before." if same else ".")


def as_dict(comparison: Comparison) -> dict[str, object]:
    return {
        "version": version_of_torchtally(),
        "before": {"name": comparison.before.name, "source": comparison.before.source, "steps": comparison.before.steps},
        "after": {"name": comparison.after.name, "source": comparison.after.source, "steps": comparison.after.steps},
        "compared": "per_step" if comparison.per_step else "count",
        "worse": comparison.worse,
        "changes": [
            {"what": c.what, "before": c.before and row_as_dict(c.before), "after": c.after and row_as_dict(c.after)} for c in comparison.changes
        ],
    }


def render_json(comparison: Comparison) -> bytes:
    return dumps(as_dict(comparison), orjson.OPT_INDENT_2)


def render_text(comparison: Comparison, width: int = WIDTH) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False, emoji=False, markup=False, legacy_windows=False).print(table(comparison))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def table(comparison: Comparison) -> RenderableType:
    """The comparison for a rich console; what did not change is left out."""
    sources = Text(f"{visible(comparison.before.name)} → {visible(comparison.after.name)}", "dim")
    parts: list[RenderableType] = [sources, Text(headline(comparison), "bold red" if comparison.worse else "bold green")]
    changed = [c for c in comparison.changes if c.what != "same"]
    if changed:
        parts += [Text(), _rows(comparison, changed)]
    return Group(*parts)


def _rows(comparison: Comparison, changed: list[Change]) -> Table:
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="dim", show_edge=False, expand=True)
    table.add_column("", no_wrap=True)
    unit = "per step" if comparison.per_step else "times"
    table.add_column(unit, justify="right", no_wrap=True)
    table.add_column("host wait", justify="right", no_wrap=True)
    table.add_column("device idle", justify="right", no_wrap=True)
    table.add_column("line", ratio=1, overflow="fold")
    for c in changed:
        figures = (
            arrow(*(number(comparison.often(r)) if r else "0" for r in (c.before, c.after))),
            arrow(*(duration(r.host_wait_us) if r else "0" for r in (c.before, c.after))),
            arrow(*(duration(r.device_idle_us) if r else "0" for r in (c.before, c.after))),
        )
        line = Text(place(c.row.site), "bold")
        if c.row.site and c.row.site.code:
            line.append("\n" + visible(c.row.site.code), "cyan not bold")
        line.append("\n" + cause(c.row), "not bold")
        table.add_row(Text(f"{SIGNS[c.what]} {c.what}", COLOURS[c.what]), *figures, line)
    return table


def arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"
