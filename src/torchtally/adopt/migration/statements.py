"""`from … import …` statements taken apart and put together again, with their comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field

from .text import Edit, Text

_MOST = 120  # characters of a line before names go into parentheses


@dataclass(slots=True)
class Entry:
    """One name of a statement: the comments on lines before it, its text, and the comment behind it."""

    text: str
    before: list[str] = field(default_factory=list)
    behind: str = ""


def rewritten(text: Text, node: ast.ImportFrom, targets: list[tuple[str, str]]) -> list[Edit]:
    """The edits that let each name of a statement come from a module under a text: `(module, "Accuracy as A")`, in the statement's order."""
    start, end = text.span(node)
    modules = list(dict.fromkeys(module for module, _ in targets))
    source = text.source[start:end]
    head = re.match(r"from[ \t]+([\w.]+)[ \t]+import\b", source)
    if len(modules) == 1 and head is not None:
        edits = [Edit(start + head.start(1), start + head.end(1), modules[0])]
        for alias, (_, new) in zip(node.names, targets):
            first, last = text.span(alias)
            edits.append(Edit(first, last, new))
        return [e for e in edits if text.source[e.start : e.end] != e.new]
    entries = _entries(source, len(targets))
    if entries is None:
        entries = [Entry("") for _ in targets]
    by_module: dict[str, list[Entry]] = {m: [] for m in sorted(modules)}
    for entry, (module, new) in zip(entries, targets):
        entry.text = new
        by_module[module].append(entry)
    newline, indent, alone = text.newline(start), _indent(text, start), stands_alone(text, start, end)
    listed = "(" in source and "\n" in source.replace("\r", "\n")
    made = [_statement(module, found, listed, indent, newline) for module, found in by_module.items()]
    return [Edit(start, end, (newline + indent if alone else "; ").join(made))]


def before(text: Text, node: ast.stmt, statement: str) -> Edit:
    """A statement put before another."""
    start, end = text.span(node)
    joint = text.newline(start) + _indent(text, start) if stands_alone(text, start, end) else "; "
    return Edit(start, start, statement + joint)


def _indent(text: Text, start: int) -> str:
    return re.match(r"[ \t\f]*", text.source[text.line_of(start)[0] : start]).group()  # type: ignore[union-attr]  # it always matches


def stands_alone(text: Text, start: int, end: int) -> bool:
    """Whether nothing but the statement, and a comment, is on its lines."""
    after = text.source[end : text.line_of(max(end - 1, start))[1]].strip()
    before = text.source[text.line_of(start)[0] : start]
    return not before.strip() and (not after or after.startswith("#"))


def _statement(module: str, entries: list[Entry], listed: bool, indent: str, newline: str) -> str:
    line = f"from {module} import {', '.join(e.text for e in entries)}"
    told = any(e.before or e.behind for e in entries)
    if not told and not (listed and len(entries) > 1) and len(indent + line) <= _MOST:
        return line
    lines = [f"from {module} import ("]
    for e in entries:
        lines += [f"{indent}    {comment}" for comment in e.before]
        lines.append(f"{indent}    {e.text},{'  ' + e.behind if e.behind else ''}")
    return newline.join([*lines, f"{indent})"])


def _entries(source: str, count: int) -> list[Entry] | None:
    """The names of a statement with their comments."""
    entries, waiting, seen = [Entry("")], [], False
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source.replace("\r\n", "\n").replace("\r", "\n")).readline):
        if token.type == tokenize.NAME and token.string == "import" and not seen:
            seen = True
        elif not seen:
            continue
        elif token.type == tokenize.COMMENT:
            if token.start[0] in lines:
                entries[-1 if entries[-1].text else -2].behind = token.string
            else:
                waiting.append(token.string)
        elif token.type == tokenize.OP and token.string == ",":
            entries.append(Entry(""))
        elif token.type == tokenize.NAME:
            entries[-1].before += waiting
            waiting.clear()
            entries[-1].text += f" {token.string}" if entries[-1].text else token.string
            lines.add(token.start[0])
    if not entries[-1].text:
        entries.pop()
    if waiting and entries:
        entries[-1].before += waiting
    return entries if len(entries) == count else None
