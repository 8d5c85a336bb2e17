"""How `record_function` regions are named, so that whatever reads a run can blame a line or a metric by the name alone.

Two forms, matched by their prefix:

* `line: FILE:LINE CODE` is one statement (`probe_lines` opens them). FILE is percent-encoded; CODE is for people and may be cut.
* `metric: NAME.METHOD` is `update`, `forward` or `compute` of one metric (`profile` opens them). NAME is the metric's class, or its name in the
  collection or module it was found in, and may contain dots.

Names are printable ASCII without `"` and backslash: the profiler of torch before 2.14 writes others into its JSON unescaped, which breaks the
whole trace, and every version replaces names that are not ASCII by "unknown".
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from .stall import Site

LINE_PREFIX = "line: "
METRIC_PREFIX = "metric: "
CODE_LENGTH = 120

_PLAIN = "".join(chr(c) for c in range(33, 127) if chr(c) not in '"\\%')
_LINE = re.compile(r"line: (?P<file>\S+?):(?P<line>\d+)(?: (?P<code>.*))?\Z")
_METRIC = re.compile(r"metric: (?P<name>.+)\.(?P<method>\w+)\Z")


def _readable(text: str) -> str:
    """On one line, in the characters that every version of the profiler writes rightly."""
    text = " ".join(text.split()).replace('"', "'").replace("\\", "/")
    return "".join(c if " " <= c <= "~" else "?" for c in text)


def line_region(site: Site) -> str:
    """The region of one source line.

    >>> line_region(Site("/home/a b/train.py", 7, code='total += loss["x"].item()'))
    "line: /home/a%20b/train.py:7 total += loss['x'].item()"
    """
    code = _readable(site.code)
    if len(code) > CODE_LENGTH:
        code = code[: CODE_LENGTH - 3] + "..."
    return f"{LINE_PREFIX}{quote(site.file, safe=_PLAIN)}:{site.line} {code}".rstrip()


def line_of(region: str) -> Site | None:
    """The line a region stands for; None where it is a region of another kind.

    >>> line_of("line: /home/a%20b/train.py:7 total += 1")
    Site(file='/home/a b/train.py', line=7, function='', code='total += 1')
    """
    found = _LINE.match(region)
    return Site(unquote(found["file"]), int(found["line"]), code=found["code"] or "") if found else None


def metric_region(name: str, method: str) -> str:
    """The region of one method of a metric.

    >>> metric_region("val.accuracy", "update")
    'metric: val.accuracy.update'
    """
    return f"{METRIC_PREFIX}{_readable(name)}.{method}"


def metric_of(region: str) -> tuple[str, str] | None:
    """Name and method of the metric a region stands for; None where it is a region of another kind.

    >>> metric_of("metric: val.accuracy.update")
    ('val.accuracy', 'update')
    """
    found = _METRIC.match(region)
    return (found["name"], found["method"]) if found else None
