"""`torchtally list`: the metrics, and what they remember."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

import torchtally

from ..classification.tasks import ClassificationTask

SETTINGS = {"epilog": "Example: torchtally list accuracy"}


_FIRST = ("aggregation", "classification", "regression", "retrieval", "text")
_NO_FAMILIES = ("adopt", "bench", "commands", "functional", "stalls", "testing")
_NOT_METRICS = ("Metric", "Formula", "CompositionalMetric", "BaseAggregator", "WrapperMetric")


def families() -> dict[str, list[type]]:
    """Public metrics by the module of torchtally they are imported from, the well-known modules first; "" are those of none."""
    modules = [m.name for m in pkgutil.iter_modules(torchtally.__path__) if m.name not in _NO_FAMILIES and m.name[0] != "_"]
    found: dict[str, list[type]] = {}
    seen: set[type] = set()
    for name in sorted(modules, key=lambda n: (_FIRST.index(n) if n in _FIRST else len(_FIRST), n)):
        module = importlib.import_module(f"torchtally.{name}")
        own = [n for n, t in vars(module).items() if getattr(t, "__module__", "") == module.__name__ and n in torchtally.__all__]
        metrics = [t for t in (getattr(module, n) for n in getattr(module, "__all__", own)) if _is_metric(t) and t not in seen]
        seen |= set(metrics)
        if metrics:
            found[name] = metrics
    rest = [t for t in (getattr(torchtally, n) for n in torchtally.__all__) if _is_metric(t) and t not in seen]
    return {**found, **({"": rest} if rest else {})}


def _is_metric(thing: Any) -> bool:
    """Whether it is a class that batches are given to and values are read from, and none to derive others from."""
    return inspect.isclass(thing) and hasattr(thing, "update") and hasattr(thing, "compute") and thing.__name__ not in _NOT_METRICS


def first_line(thing: type) -> str:
    """What a metric is, without the full stop."""
    return inspect.cleandoc(thing.__doc__ or "").splitlines()[0].split("; see the class")[0].rstrip(".")


def rows(word: str = "") -> list[dict[str, Any]]:
    """Every public metric whose name contains the word: its name, what the number is, its tasks and where it is imported from.

    Without a word, classes that a `task=` makes are left out.
    """
    found = []
    for family, metrics in families().items():
        fronts = [t for t in metrics if issubclass(t, ClassificationTask)]
        behind = {made for front in fronts for made in front.tasks.values()}
        for t in sorted(metrics, key=lambda t: t.__name__.lower()):
            if (word and word.lower() in t.__name__.lower()) or (not word and t not in behind):
                tasks = list(t.tasks) if issubclass(t, ClassificationTask) else []
                module = f"torchtally.{family}" if family else "torchtally"
                found.append({"name": t.__name__, "what": first_line(t), "tasks": tasks, "module": module})
    return found


def command(
    word: Annotated[str, typer.Argument(metavar="WORD", help="Only metrics whose names contain this.", show_default=False)] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the metrics. docs/which-metric.md helps to choose."""
    found = rows(word)
    if as_json:
        import orjson

        print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    from rich.console import Console

    console = Console(highlight=False)
    if not found:
        console.print(f"No metric's name contains {word!r}.")
    for module in dict.fromkeys(row["module"] for row in found):
        console.print(f"from {module} import …", style="bold")
        console.print(_table([row for row in found if row["module"] == module]))


def _table(rows: Sequence[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, min_width=28)
    table.add_column()
    for row in rows:
        tasks = " [dim](task= " + ", ".join(row["tasks"]) + ")[/dim]" if row["tasks"] else ""
        table.add_row(f"  {row['name']}", escape(row["what"]) + tasks)
    return table
