"""A report as comma-separated values: one line per site, the keys of docs/json.md as columns, unknown figures empty."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..stall import Report, Site, StallGroup, group
from ..timeline import Timeline

PLACE = ("file", "line", "function", "code")
COLUMNS = (
    *("kind", "operator", *PLACE, *(f"inner_{p}" for p in PLACE), "metric", "region"),
    *("count", "per_step", "host_wait_us", "device_idle_us", "inferred", "remedy"),
)


def render(report: Report, timelines: Sequence[Timeline] = ()) -> str:
    """Lines end in a bare newline. Text that a spreadsheet would run as a formula is led by an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in group(report.stalls, report.steps):
        values = {**_figures(row), **_place(row.site, ""), **_place(row.inner, "inner_")}
        writer.writerow([_cell(values[c]) for c in COLUMNS])
    return out.getvalue()


def _figures(row: StallGroup) -> dict[str, Any]:
    return {k: v for k, v in asdict(row).items() if k not in ("site", "inner")}


def _place(site: Site | None, prefix: str) -> dict[str, Any]:
    return {prefix + p: None if site is None else getattr(site, p) for p in PLACE}


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = value.encode("utf-8", "backslashreplace").decode()  # half a character cannot be written
        return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
    return value
