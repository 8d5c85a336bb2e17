"""What there is to say about a place in a file."""

from __future__ import annotations

from dataclasses import dataclass

KEPT = "kept"
"""Left as it is: there is something to do by hand."""
DIFFERS = "differs"
"""Moved; the value may be another one, by definition."""


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """A line, what stands there, and what became of it and why. In a notebook `cell` counts from 1, and lines are those of the cell."""

    line: int
    what: str
    reason: str
    kind: str = KEPT
    cell: int | None = None
