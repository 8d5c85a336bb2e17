"""The command line: one file per subcommand, each with a function `command`."""

from __future__ import annotations

import importlib
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import TallyError

STALLS, METRICS, EXPERIMENT = "Find what makes the host wait for the GPU", "Work with metrics", "Repeat the experiment"
COMMANDS: dict[str, tuple[str, str]] = {
    "check": (STALLS, "Run a script on a pretend GPU, none needed, and list every line where the host would wait for a real one."),
    "stalls": (STALLS, "Read profiler traces of real runs: which lines stalled the device, and what that cost."),
    "diff": (STALLS, "Compare two reports of check or stalls: what appeared, went or changed."),
    "list": (METRICS, "List the metrics and what they are."),
    "migrate": (
        METRICS,
        "Rewrite imports of torchmetrics, torcheval and ignite to torchtally, or print the diff; list what cannot be moved.",
    ),
    "show": (METRICS, "Show the metrics in a file of torchtally.save, and their values."),
    "merge": (METRICS, "Add up the totals in several files of torchtally.save, for an evaluation that was split over jobs."),
    "bench": (
        EXPERIMENT,
        "Train with and without metrics and tell what they cost: measured here, and predicted for GPUs that are not here.",
    ),
}
"""Subcommand → the group it is helped with under, and what it does; its file here has the same name. Files are imported only when asked for."""
HELP = "Metrics that never make the host wait for the GPU, and a stall finder that shows what does wait."
EPILOG = (
    "Start with: torchtally check train.py · torchtally migrate src/ · torchtally COMMAND --help. "
    "Exit codes: 0 fine, 1 over a budget or something left to do, 2 wrong usage or unreadable input, 3 your script failed."
)


class LazyGroup(TyperGroup):
    """Subcommands imported when asked for: `torchtally --help` need not load them all."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]  # `list` is a module here once it was asked for

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode="rich")
        module = importlib.import_module(f"{__name__}.{name}")
        group, text = COMMANDS[name]
        app.command(name, help=text, rich_help_panel=group, **getattr(module, "SETTINGS", {}))(module.command)
        return typer.main.get_command(app)


app = typer.Typer(cls=LazyGroup, add_completion=False, no_args_is_help=True, rich_markup_mode="rich", help=HELP, epilog=EPILOG)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"torchtally {version('torchtally')}")
        except PackageNotFoundError:
            print("torchtally, not installed but run from its source")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")] = False,
) -> None: ...


def main() -> None:
    """Entry point. A user's mistake ends with one line and its exit code; anything else shows its traceback."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.encoding.lower().replace("-", "") != "utf8":
        sys.stdout.reconfigure(errors="replace")  # an old terminal, or a file on Windows, has no arrows
    try:
        app(prog_name="torchtally")
    except TallyError as error:
        print(f"torchtally: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
