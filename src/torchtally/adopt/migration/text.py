"""Places in a source text, and edits of it that leave everything else as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Put `new` where characters `start` to `end` are."""

    start: int
    end: int
    new: str


class Text:
    """A source text with the places of its syntax tree in characters."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self.lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", source.replace("\f", " "))
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """Where a line and a column of UTF-8 bytes are, as the syntax tree counts them."""
        if line > len(self.lines):
            return len(self.source)
        text = self.lines[line - 1]
        return self._starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode()))

    def span(self, node: ast.expr | ast.stmt | ast.alias | ast.keyword) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def of(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.source[start:end]

    def line_of(self, start: int) -> tuple[int, int]:
        """The first and the last character, line end included, of the line a place is on."""
        i = next(i for i, s in enumerate(self._starts[1:], 1) if s > start or i == len(self.lines))
        return self._starts[i - 1], self._starts[i]

    def newline(self, start: int) -> str:
        """How the line a place is on ends; as the first line does where it is the last and does not."""
        first, last = self.line_of(start)
        return next((found[0] for line in (self.source[first:last], *self.lines[:1]) if (found := re.search(r"\r\n|\r|\n", line))), "\n")


def edited(source: str, edits: Iterable[Edit]) -> str:
    """The source with all edits made; they must not overlap."""
    parts, place = [], 0
    for edit in sorted(set(edits)):
        if edit.start < place:
            raise ValueError(f"edits overlap at character {edit.start}")
        parts += [source[place : edit.start], edit.new]
        place = edit.end
    return "".join([*parts, source[place:]])
