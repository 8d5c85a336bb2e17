"""A report as JSON: the schema of docs/json.md."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import orjson

from ..stall import Report, Site, StallGroup, group
from ..timeline import Timeline


def version_of_torchtally() -> str:
    try:
        return version("torchtally")
    except PackageNotFoundError:  # run from a source tree
        return "0"


def site(s: Site | None) -> dict[str, Any] | None:
    return None if s is None else {"file": s.file, "line": s.line, "function": s.function, "code": s.code}


def row_as_dict(g: StallGroup) -> dict[str, Any]:
    """One entry of `stalls`."""
    return {
        "kind": g.kind,
        "operator": g.operator,
        "site": site(g.site),
        "inner": site(g.inner),
        "metric": g.metric,
        "region": g.region,
        "count": g.count,
        "per_step": g.per_step,
        "host_wait_us": g.host_wait_us,
        "device_idle_us": g.device_idle_us,
        "inferred": g.inferred,
        "remedy": g.remedy,
    }


def as_dict(report: Report) -> dict[str, Any]:
    """The report in plain Python values, stalls grouped by site."""
    return {
        "tool": report.tool,
        "version": version_of_torchtally(),
        "source": report.source,
        "steps": report.steps,
        "duration_us": report.duration_us,
        "predicted": report.predicted,
        "stalls": [row_as_dict(g) for g in group(report.stalls, report.steps)],
        "gains": [{"what": g.what, "stalls": g.stalls, "saved_us": g.saved_us} for g in report.gains],
        "notes": list(report.notes),
    }


def render(report: Report, timelines: Sequence[Timeline] = ()) -> bytes:
    return dumps(as_dict(report), orjson.OPT_INDENT_2)


def dumps(value: Any, option: int | None = None) -> bytes:
    """JSON, whatever a file's names and numbers are: half a character is spelt out, a number beyond 64 bits becomes text."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        return orjson.dumps(_writable(value), option=option)


def _writable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_writable(str(k)): _writable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_writable(v) for v in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63 else value
