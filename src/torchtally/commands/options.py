"""What subcommands share in how they read and check their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..errors import TallyError

Warmup = Annotated[int, typer.Option(min=0, help="Leave this many steps at the start out of the count.")]

Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE:LINE|PATTERN",
        help="Accept these stalls: a line, a file, or a pattern for a function, metric or operator.",
        show_default=False,
    ),
]


def writable(file: Path) -> None:
    """Learn before a long run, not after it, that its result cannot be written."""
    if not file.absolute().parent.is_dir() or file.is_dir():
        raise TallyError(f"{file}: cannot be written; choose a file in a folder that exists.")


class RunsAScript(TyperCommand):
    """Options end at the first word that is none: all that follows belongs to the user's script. A bare `--json` means `--json=-`, standard output."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = False
        takes_value = {name for p in self.params if not getattr(p, "is_flag", True) for name in p.opts} - {"--json"}
        words = list(args)
        position = 0
        while position < len(words) and words[position].startswith("-") and words[position] != "--":
            if words[position] == "--json":
                words[position] = "--json=-"
            position += 1 + (words[position] in takes_value)
        return super().parse_args(ctx, words)
