"""The rows of docs/differences.md that speak of a metric, and of some of its calls only."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

_CALL = re.compile(r"`([A-Z]\w*)(?:\(([^`]*)\))?`")
_OPTION = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`")
_ANY = ""
_TASKS = re.compile(r"^(Binary|Multiclass|Multilabel)")


@dataclass(frozen=True, slots=True)
class Difference:
    """Metrics by their names without the task, the options a call must have for the row to speak of it, and what the row says."""

    names: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    text: str

    def mentions(self, name: str) -> bool:
        return any(name == n or _TASKS.sub("", name) == n for n in self.names)

    def speaks_of(self, name: str, call: ast.Call | None) -> bool:
        if not self.mentions(name):
            return False
        given = {k.arg: _bare(ast.unparse(k.value)) for k in call.keywords if k.arg} if call is not None else {}
        return all(option in given and value in (_ANY, given[option]) for option, value in self.options)


@functools.cache
def differences() -> tuple[Difference, ...]:
    """All rows of the first table whose first column names metrics."""
    table = page().split("## Where behaviour differs")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("|")]
    found = []
    for where, theirs, ours, *_ in rows[2:]:
        calls = _CALL.findall(where)
        options = [_option(*part.partition("=")[::2]) for _, inside in calls for part in inside.split(",") if "=" in part]
        options += [_option(*pair) for pair in _OPTION.findall(where)]
        if calls:
            found.append(Difference(tuple(n for n, _ in calls), tuple(dict.fromkeys(options)), _plain(f"{where}: {theirs} → {ours}")))
    return tuple(found)


def _option(name: str, value: str) -> tuple[str, str]:
    """A placeholder stands for any value."""
    return name.strip(), _ANY if not value or len(value) == 1 or value == "…" else _bare(value)


def _bare(text: str) -> str:
    return text.strip().strip("'\"")


def _plain(cell: str) -> str:
    return cell.replace("`", "")


def page() -> str:
    """docs/differences.md: packaged with torchtally, or in the repository that this is."""
    packaged = resources.files("torchtally.adopt") / "differences.md"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[4] / "docs" / "differences.md").read_text(encoding="utf-8")
