"""A report as one page that needs nothing else: no network, no other file.

Everything that comes from a trace is escaped by the template; the timeline's data are JSON without a single `<`. The page's own policy allows its
own scripts, known by their hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ..comparison import Comparison
from ..stall import Report, StallGroup
from ..timeline import Timeline
from . import wording
from .comparison import headline
from .json import version_of_torchtally
from .scene import scene, steps_of
from .summary import summarise

SCRIPTS = ("theme.js", "table.js", "timeline.js")
ROWS = 1000
"""Rows of a table; a page with more is slow to read for anyone."""
BARS = 240
"""Steps drawn as bars; the rest are left to the timeline."""


def render(report: Report, timelines: Sequence[Timeline] = ()) -> str:
    """The page. Without timelines it has no timeline, and says nothing of steps."""
    summary = summarise(report, timelines)
    rows = summary.rows[:ROWS]
    drawn = scene(report, rows, timelines) if any(_shows(t) for t in timelines) else None
    ranks = [(t.rank, steps_of(t, report.stalls)) for t in sorted(timelines, key=lambda t: t.rank) if t.steps]
    return _page(
        "report.html.jinja",
        report=report,
        summary=summary,
        headline=_emphasised(summary.headline),
        rows=rows,
        left_out=len(summary.rows) - len(rows),
        most=_most(rows),
        order=next((f for f in ("device_idle_us", "host_wait_us") if any(getattr(r, f) for r in rows)), "count"),
        gain=max((g for g in report.gains if g.saved_us is not None), key=lambda g: g.stalls, default=None),
        drawn=drawn,
        data=None if drawn is None else _json(drawn),
        ranks=[_rank(number, steps) for number, steps in ranks if any(s["busy"] is not None or s["wait"] for s in steps)],
        device_seen=any(len(t.work) for t in timelines),
        devices=sorted({d for t in timelines for d in t.devices}),
    )


def render_comparison(comparison: Comparison) -> str:
    """The page of two reports side by side."""
    return _page("comparison.html.jinja", comparison=comparison, headline=re.sub(r"(\d) (?=\w)", "\\1\N{NO-BREAK SPACE}", headline(comparison)))


def _page(template: str, **values: Any) -> str:
    page = _environment().get_template(template)
    text: str = page.render(version=version_of_torchtally(), **values)
    return text


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("torchtally.stalls.renderers", "page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    parts = files("torchtally.stalls.renderers") / "page"
    style = (parts / "page.css").read_text(encoding="utf-8")
    scripts = {name: (parts / name).read_text(encoding="utf-8") for name in SCRIPTS}
    found.globals.update(
        style=Markup(style),
        scripts={name: Markup(text) for name, text in scripts.items()},
        style_hash=_hash(style),
        script_hashes=" ".join(_hash(text) for text in scripts.values()),
        kinds=wording.KINDS,
    )
    found.filters.update(
        duration=wording.duration,
        number=wording.number,
        percent=wording.percent,
        visible=lambda text: wording.visible(str(text)),
        path=lambda text: wording.visible(wording.short_path(text)),
        plural=wording.plural,
        region=wording.region_of,
        coded=_coded,
    )
    return found


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> Markup:
    """JSON that cannot end the element it stands in, nor start another."""
    return Markup(orjson.dumps(value).decode().replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _coded(text: str) -> Markup:
    """Text with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(wording.visible(text)))))


def _emphasised(text: str) -> Markup:
    """The figure of the headline stands out."""
    return Markup(re.sub(r"((?:at least |under )?[\d.,]+ %)", r"<em>\1</em>", str(escape(text))))


def _most(rows: Sequence[StallGroup]) -> dict[str, float]:
    """The largest figure of each column: the full length of its bars."""
    return {f: max((getattr(r, f) or 0.0 for r in rows), default=0.0) or 1.0 for f in ("count", "host_wait_us", "device_idle_us")}


def _shows(timeline: Timeline) -> bool:
    return timeline.end_us > 0 or bool(timeline.steps)


def _rank(number: int, steps: list[dict[str, Any]]) -> dict[str, Any]:
    length = sum(s["length"] for s in steps) or 1.0
    busy, wait, idle = ([s[what] for s in steps if s[what] is not None] for what in ("busy", "wait", "idle"))
    return {
        "rank": number,
        "steps": steps[:BARS],
        "left_out": len(steps) - len(steps[:BARS]),
        "longest": max(s["length"] for s in steps) or 1.0,
        "mean": length / len(steps),
        "busy": sum(busy) / length if busy else None,
        "wait": sum(wait) / length if wait else None,
        "idle": sum(idle) / length if busy and idle else None,
    }
