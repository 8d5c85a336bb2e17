"""Events that are not quite JSON, read as far as they make sense.

Profilers have written names with unescaped quotes and backslashes, `Infinity`, empty fragments between commas, control characters;
editors and converters add their own. Nothing here raises: an event is mended, or it is None.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

_BAD_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_STRAY_COMMA = re.compile(r",(?=\s*[,}\]])")
_NO_VALUE = re.compile(r":\s*(?=[,}\]])")
_ODD_NUMBER = re.compile(r"(?<=[:\[,])\s*[+-]?(?:nan|inf|1\.#\w+|-nan\(\w*\))(?=\s*[,}\]])", re.IGNORECASE)
_NOT_FINITE = re.compile(rb"(?<=[:\[,\s])[+-]?(?:NaN|Infinity|nan|inf)(?=[,\s\]}])")
_TEXT_FIELDS = {
    key: re.compile(rf'"{key}"\s*:\s*"(.*?)"\s*(?:,\s*"(?:ph|cat|name|pid|tid|ts|dur|id|bp|s|args)"\s*:|[,}}]\s*$|\}})', re.DOTALL)
    for key in ("ph", "cat", "name", "CallFrom", "Call stack")
}
_NUMBER_FIELDS = {
    key: re.compile(rf'"{key}"\s*:\s*"?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)')
    for key in (
        "pid",
        "tid",
        "ts",
        "dur",
        "id",
        "correlation",
        "External id",
        "external id",
        "stream",
        "device",
        "Sequence number",
        "Fwd thread id",
    )
}
_TOP = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id")


def finite(block: bytes) -> bytes:
    """The block with what JSON has no word for, NaN and Infinity, as null."""
    return _NOT_FINITE.sub(b"null", block)


def mend(event: bytes) -> dict[str, Any] | None:
    """The event, mended if need be; None where nothing certain is left of it."""
    text = event.decode("utf-8", "replace")
    for attempt in (_as_python_reads, _without_noise, _field_by_field):
        try:
            found = attempt(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None


def _as_python_reads(text: str) -> Any:
    return json.loads(text, strict=False)  # takes NaN, Infinity, control characters and integers of any length


def _without_noise(text: str) -> Any:
    text = _ODD_NUMBER.sub("null", _BAD_BACKSLASH.sub(r"\\\\", text))
    while (shorter := _STRAY_COMMA.sub("", text)) != text:
        text = shorter
    return json.loads(_NO_VALUE.sub(": null", text), strict=False)


def _field_by_field(text: str) -> dict[str, Any] | None:
    """The known fields by their names, which works whatever a name between them contains."""
    fields: dict[str, Any] = {}
    for key, pattern in _TEXT_FIELDS.items():
        if m := pattern.search(text):
            fields[key] = m[1].replace('\\"', '"')
    for key, pattern in _NUMBER_FIELDS.items():
        if m := pattern.search(text):
            fields[key] = orjson.loads(m[1]) if "." in m[1] or len(m[1]) < 19 else float(m[1])
    if "ph" not in fields or "ts" not in fields or (fields["ph"] == "X" and "dur" not in fields):
        return None
    return {k: fields.pop(k) for k in _TOP if k in fields} | {"args": fields}
