"""The command line: one file per subcommand, each with a function `command`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from ..errors import TallyError

COMMANDS: dict[str, str] = {
    "bench": "Measure what collecting metrics costs a training loop. Example: torchtally bench --steps 50 --json bench.json",
    "check": "Run a script on a pretend GPU and list every place where the host would wait for a real one.",
    "stalls": "Read profiler traces: which lines stalled the device, and what that cost.",
    "list": "List the metrics and what they are.",
    "migrate": "Rewrite imports of torchmetrics, torcheval and ignite to torchtally, or print the diff, and list what cannot be moved.",
    "diff": "Compare two reports: which stalls appeared, went or changed.",
    "merge": "Add up the totals in several files, for an evaluation that was split over jobs.",
    "show": "Show the metrics in a file of torchtally.save, and their values.",
}
"""Subcommand → what it does; its file here has the same name. Files are imported only when their command is called or helped with."""


class LazyGroup(TyperGroup):
    """Subcommands imported when asked for: `torchtally --help` need not load them all."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode="rich")
        module = importlib.import_module(f"{__name__}.{name}")
        app.command(name, help=COMMANDS[name], **getattr(module, "SETTINGS", {}))(module.command)
        return typer.main.get_command(app)


app = typer.Typer(
    cls=LazyGroup, add_completion=False, no_args_is_help=True, help="Metrics that never wait for the GPU, and what does wait."
)


@app.callback()
def _root() -> None: ...


def main() -> None:
    """Entry point. A user's mistake ends with one line and its exit code; anything else shows its traceback."""
    try:
        app()
    except TallyError as error:
        print(f"torchtally: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
