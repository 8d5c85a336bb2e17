"""`torchtally merge`: the totals of several files as one, for an evaluation that was split over jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import TallyError
from .options import writable

SETTINGS = {"epilog": "Example: torchtally merge part0.pt part1.pt -o whole.pt"}


def command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Two or more files of torchtally.save, of the same metrics.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the total.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print what `torchtally show --json` prints of the total.")] = False,
) -> None:
    """Add up the totals of files."""
    from ..checkpoint import merge, write
    from .show import show

    if len(files) < 2:
        raise TallyError("merge needs at least two files; to look at one, use torchtally show.")
    places = [f.resolve() for f in files]
    for f, place in zip(files, places):
        if places.count(place) > 1:
            raise TallyError(f"{f} is given {places.count(place)} times, and its totals would count as often. Name each file once.")
    if output.resolve() in places:
        raise TallyError(f"-o {output} is one of the files to add up. Choose another, so that the parts stay as they are.")
    writable(output)
    write(merge(files), output)
    show(output, as_json)
