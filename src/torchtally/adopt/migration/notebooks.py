"""Notebooks: the code of all cells moved as one source, and put back into the cells' JSON as it was laid out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from typing import Any

from .migrating import Migration, migrate_source
from .text import Edit, edited

_MAGIC = re.compile(r"^[ \t]*[%!?].*$|^[^\n#'\"]*=[ \t]*[%!].*$", re.M)


def migrate_notebook(source: str) -> Migration:
    """Move a notebook. Raises ValueError where its JSON is laid out in a way that could not be written again."""
    book = json.loads(source)
    layout = _layout(source, book)
    cells = [(i, c, _text(c)) for i, c in enumerate(book.get("cells", []), 1) if c.get("cell_type") == "code"]
    cells = [(i, c, text) for i, c, text in cells if not text.lstrip().startswith("%%") or re.match(r"\s*%%(time|capture|timeit)\b", text)]
    starts, place = [], 0
    for _, _, text in cells:
        starts.append(place)
        place += len(text) + 1
    found = migrate_source("\n".join(_plain(text) for _, _, text in cells))
    lines = [sum(t.count("\n") + 1 for _, _, t in cells[:k]) for k in range(len(cells))]
    for k, (_, cell, text) in enumerate(cells):
        own = [e for e in found.edits if starts[k] <= e.start <= e.end <= starts[k] + len(text)]
        own = [Edit(e.start - starts[k], e.end - starts[k], e.new) for e in own]
        if own:
            new = edited(text, own)
            cell["source"] = new if isinstance(cell["source"], str) else re.findall(r"[^\n]*\n|[^\n]+", new)
    remarks = []
    for r in found.remarks:
        k = max(k for k, first in enumerate(lines) if first < r.line)
        remarks.append(replace(r, cell=cells[k][0], line=r.line - lines[k]))
    after = _written(book, *layout)
    return Migration(source, after if found.edits else source, found.moved, tuple(remarks))


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _plain(text: str) -> str:
    """The code of a cell with what only Jupyter understands blanked out, character for character."""

    def blank(found: re.Match[str]) -> str:
        line = found.group()
        indent = len(line) - len(line.lstrip())
        return line[:indent] + "pass"[: len(line) - indent].ljust(len(line) - indent) if len(line) - indent >= 4 else " " * len(line)

    return _MAGIC.sub(blank, text)


def _layout(source: str, book: Any) -> tuple[int | str | None, bool, str]:
    """How the JSON is indented, whether it is ASCII, and how it ends."""
    end = source[len(source.rstrip()) :]
    for indent, ascii_only in product((1, 2, 4, "\t", None), (False, True)):
        if _written(book, indent, ascii_only, end) == source:
            return indent, ascii_only, end
    raise ValueError("the notebook's JSON is laid out in an unusual way; open and save it in Jupyter first")


def _written(book: Any, indent: int | str | None, ascii_only: bool, end: str) -> str:
    return json.dumps(book, indent=indent, ensure_ascii=ascii_only) + end
