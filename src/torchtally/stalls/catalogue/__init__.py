"""Every way of waiting for a device, as data: what waits, when, why, and the form that does not."""

from __future__ import annotations

import torch

from . import copying, linear_algebra, reading, shapes, waiting
from .row import Call, Row, parse

__all__ = ["ROWS", "WATCHED", "Call", "Row", "rows_by_operator", "waits"]

ROWS: tuple[Row, ...] = (*reading.ROWS, *copying.ROWS, *shapes.ROWS, *linear_algebra.ROWS, *waiting.ROWS)
"""All rows, of all versions."""


def rows_by_operator(version: str) -> dict[str, tuple[Row, ...]]:
    """Rows that hold for this version of torch, by operator."""
    number, found = parse(version), dict[str, tuple[Row, ...]]()
    for row in ROWS:
        if row.holds_for(number):
            found[row.operator] = (*found.get(row.operator, ()), row)
    return found


WATCHED: dict[str, tuple[Row, ...]] = rows_by_operator(torch.__version__)
"""Rows of the installed torch by operator. A device asks `name in WATCHED` before it builds a `Call`: nothing else is done for operators that never wait."""


def waits(call: Call) -> list[tuple[Row, int]]:
    """The rows that apply to a call, and how often each waits."""
    return [
        (row, n)
        for row in WATCHED.get(call.operator, ())
        if (not row.overloads or call.overload in row.overloads) and (n := int(row.count(call)))
    ]
