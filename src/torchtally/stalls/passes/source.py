"""The source text of recorded lines, where the file is here, and the lines that read a tensor's value without calling a function."""

from __future__ import annotations

import ast
import os
import sys
from functools import lru_cache
from pathlib import Path

_LARGEST = 1 << 22
_READERS = frozenset({"float", "int", "bool", "complex", "range", "round", "max", "min", "sorted", "str", "print", "format"})


@lru_cache(maxsize=256)
def lines_of(file: str) -> tuple[str, ...]:
    """The file's lines; none if it is not here. Only Python files are opened, as plain text: a trace may name any path."""
    if not file.endswith(".py"):
        return ()
    places = [file] if os.path.isabs(file) else [os.path.join(entry, file) for entry in ("", *sys.path)]
    for place in map(Path, places):
        try:
            if place.is_file() and place.stat().st_size < _LARGEST:
                return tuple(place.read_text("utf-8", "replace").splitlines())
        except OSError:
            continue
    return ()


def code_at(file: str, line: int) -> str:
    """The text of one line, without indentation."""
    lines = lines_of(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


@lru_cache(maxsize=1024)
def reading_lines(file: str, first: int) -> tuple[int, ...]:
    """Lines of the function that begins at `first` where a value may be read by syntax alone: conditions, `float()`, subscripts, f-strings."""
    try:
        tree = ast.parse("\n".join(lines_of(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            begins = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            if first in (begins, node.lineno):
                return tuple(sorted({line for child in ast.walk(node) for line in _reads(child)}))
    return ()


def _reads(node: ast.AST) -> list[int]:
    if isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp):
        return [node.test.lineno]
    if isinstance(node, ast.BoolOp | ast.Subscript | ast.JoinedStr):
        return [node.lineno]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.lineno]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _READERS:
        return [node.lineno]
    return []
