"""`torchtally diff`: what appeared, went and changed between two reports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import TallyError

SETTINGS = {
    "epilog": "Example: torchtally check train.py --json > before.json; edit; torchtally check train.py --json > after.json; torchtally diff before.json after.json"
}


def command(
    before: Annotated[
        Path,
        typer.Argument(
            metavar="BEFORE", help="The JSON of `torchtally check` or `torchtally stalls` before the change.", show_default=False
        ),
    ],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The same after it.", show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/json.md) instead of text.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page to this file.", show_default=False)] = None,
) -> None:
    """Compare two reports. The exit code is 1 if a stall appeared or grew."""
    from ..stalls.comparison import compare, read_account
    from ..stalls.renderers import comparison as renderer

    found = compare(*(read_account(_read(path), str(path)) for path in (before, after)))
    if html:
        from ..stalls.renderers.html import render_comparison

        _write(html, render_comparison(found))
    if json:
        sys.stdout.write(renderer.render_json(found).decode() + "\n")
    else:
        from rich.console import Console

        Console(highlight=False, emoji=False, markup=False).print(renderer.table(found))
    if found.worse:
        raise typer.Exit(1)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TallyError(
            f"{path}: {error.strerror}; expected a report written by `torchtally check --json` or `torchtally stalls --json`."
        ) from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TallyError(f"{path}: {error.strerror}; choose a file that can be written.") from None
