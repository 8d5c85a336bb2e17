"""The words and figures all views share, so that a stall reads the same in a terminal, a spreadsheet and a page."""

from __future__ import annotations

import os
import re
from pathlib import PurePath

from ..stall import Kind, Site, StallGroup

KINDS: dict[Kind, str] = {
    "read": "reads a device value",
    "host_to_device": "copies to the device from pageable memory",
    "device_to_host": "copies to the host",
    "shape_read": "needs a shape that depends on device values",
    "synchronize": "synchronises explicitly",
    "allocator": "waits for the memory allocator",
    "print": "prints a device tensor",
}
UNKNOWN = "unknown"
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def visible(text: str) -> str:
    """The text with what no one can see spelt out: a name from a trace must not steer a terminal or reverse a line, and half a character cannot be written."""
    return _INVISIBLE.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text.replace("\t", " ").replace("\n", " "))


def duration(us: float | None, predicted: object = None) -> str:
    """Three significant digits at most, in the unit a person would say; marked where it was predicted."""
    if us is None:
        return UNKNOWN
    if predicted:
        return f"≈ {duration(us)}"
    for unit, size in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if abs(us) >= 0.9995 * size or unit == "µs":
            return f"{number(us / size)} {unit}"
    raise AssertionError("µs always matches")


def number(value: float | None) -> str:
    """Three significant digits below a thousand, whole and grouped above."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.005:
        return "under 0.01"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 9.995 else 2}f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def plural(count: float, word: str) -> str:
    return f"{number(count)} {word}" if count == 1 else f"{number(count)} {word}s"


def short_path(file: str) -> str:
    """The part of a path that tells a reader something: inside the packages, the working folder or home."""
    parts = PurePath(file.replace("\\", "/")).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(folder) :])
    if os.path.isabs(file):
        for base, prefix in ((os.getcwd(), ""), (os.path.expanduser("~"), "~/")):
            if len(base) > 1 and file.startswith(base + os.sep):
                return prefix + file[len(base) + 1 :]
    return file


def place(site: Site | None) -> str:
    """`file:line in function`, or that it is unknown; fit to be printed."""
    if site is None:
        return "line unknown"
    text = f"{short_path(site.file)}:{site.line}"
    return visible(f"{text} in {site.function}" if site.function else text)


def cause_of(kind: Kind, operator: str) -> str:
    return f"{KINDS.get(kind, kind)} ({operator})"


def cause(row: StallGroup) -> str:
    """What the line does that waits, and within what."""
    parts = [cause_of(row.kind, row.operator)]
    parts += [f"metric {row.metric}"] if row.metric else []
    region = region_of(row)
    parts += [f"region {region}"] if region else []
    return visible(" · ".join(parts))


def region_of(row: StallGroup) -> str | None:
    """The region, unless it only says the metric once more."""
    return None if row.metric and row.region and row.metric in row.region else row.region
