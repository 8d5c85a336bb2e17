"""`torchtally migrate`: imports of torchmetrics, torcheval and ignite rewritten to torchtally."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import TallyError

if TYPE_CHECKING:
    from ..adopt.migration import FileMigration, Remark

SETTINGS = {
    "epilog": "Examples: torchtally migrate src/ · torchtally migrate --write src/ train.py notebook.ipynb · torchtally migrate src/ > torchtally.patch",
}


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Scripts, notebooks, or folders of them.", show_default=False)],
    write: Annotated[bool, typer.Option("--write", help="Change the files. Without it only a diff is printed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead: files, diffs, and what is left.")] = False,
) -> None:
    """Rewrite imports of torchmetrics, torcheval and ignite to torchtally.

    Prints a diff, and on standard error what cannot be moved, by line and with the reason. Exit code 1: something is left to do by hand; 2: a file could not be read.
    """
    from ..adopt import migration

    found = list(migration.migrate_paths(paths))
    if write:
        for f in found:
            if f.changed:
                migration.write(f)
    if as_json:
        import orjson

        print(orjson.dumps([_row(f) for f in found], option=orjson.OPT_INDENT_2).decode())
    else:
        if not write:
            sys.stdout.write("".join(f.diff for f in found))
            sys.stdout.flush()
        print(told(found, write), file=sys.stdout if write else sys.stderr)
    unread = [f for f in found if f.problem]
    if unread:
        raise TallyError(f"{len(unread)} of {len(found)} files could not be read and were left as they are.")
    if any(f.kept for f in found):
        raise typer.Exit(1)


def told(found: Sequence[FileMigration], written: bool) -> str:
    """What was moved, what is left and why, and where values differ."""
    lines = [f"{f.path}: {f.problem}" for f in found if f.problem]
    kept = [(f, r) for f in found for r in f.kept]
    differ = [(f, r) for f in found for r in f.remarks if r not in f.kept]
    if kept:
        lines += ["Left to you:", *_grouped(kept)]
    if differ:
        lines.append("Moved, but values may differ (docs/differences.md):")
        lines += _grouped(differ)
    changed = [f for f in found if f.changed]
    names = sum(len(f.moved) for f in found)
    if not found:
        return "Nothing here names torchmetrics, torcheval or ignite."
    lines.append(
        f"{_many(names, 'name')} in {_many(len(changed), 'file')} {'moved' if written else 'to move (--write does it)'}, {_many(len(kept), 'place')} left to you."
    )
    return "\n".join(lines)


def _grouped(remarks: Sequence[tuple[FileMigration, Remark]]) -> list[str]:
    """What is said of several places is said once."""
    places: dict[str, list[str]] = {}
    for f, r in remarks:
        said = r.reason if r.kind == "differs" else f"{r.what}: {r.reason}"
        places.setdefault(said, []).append(_place(f, r))
    return [f"  {', '.join(where)}: {said}" for said, where in places.items()]


def _place(f: FileMigration, r: Remark) -> str:
    return f"{f.path}:{r.line}" if r.cell is None else f"{f.path}, cell {r.cell}, line {r.line}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _row(f: FileMigration) -> dict[str, Any]:
    remarks = [{"line": r.line, "cell": r.cell, "what": r.what, "reason": r.reason, "kind": r.kind} for r in f.remarks]
    return {"file": str(f.path), "moved": list(f.moved), "remarks": remarks, "diff": f.diff, "problem": f.problem or None}
