"""`torchtally list`: the metrics, and what they remember."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

SETTINGS = {"epilog": "Example: torchtally list accuracy"}


def rows(word: str = "") -> list[dict[str, Any]]:
    """Every public metric whose name contains the word: its name, what the number is, and its tasks."""
    import torchtally as tt
    from torchtally.classification.options import ClassificationTask

    found = []
    for name in sorted(tt.__all__):
        cls = getattr(tt, name)
        if not (inspect.isclass(cls) and issubclass(cls, tt.Metric)) or cls in (tt.Metric, tt.Formula, tt.CompositionalMetric):
            continue
        if word.lower() in name.lower():
            tasks = list(cls.tasks) if issubclass(cls, ClassificationTask) else []
            first = inspect.cleandoc(cls.__doc__ or "").splitlines()[0].split("; see the class")[0]
            found.append({"name": name, "what": first, "tasks": tasks, "module": cls.__module__})
    return found


def command(
    word: Annotated[str, typer.Argument(help="Only metrics whose names contain this.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the metrics."""
    found = rows(word)
    if as_json:
        import orjson

        print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in ("metric", "what it is", "task="):
        table.add_column(heading)
    for row in found:
        table.add_row(row["name"], row["what"], " ".join(row["tasks"]))
    Console().print(table if found else f"No metric's name contains {word!r}.")
