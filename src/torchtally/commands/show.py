"""`torchtally show`: the metrics in a file, and their values."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

SETTINGS = {"epilog": "Example: torchtally show tally.pt"}


def rows(path: Path) -> list[dict[str, Any]]:
    """Of each metric in a file: name, class, options, number of updates, states, and the value where it can be computed from the file alone."""
    from ..checkpoint import read

    saved = read(path)
    if not saved.metrics:  # a plain state_dict says no more than names
        return [{"name": n, "states": {n: _state(x)}} for n, x in saved.state.items()]
    out = []
    for name, about in saved.metrics.items():
        states = {n: _state(x) for n, x in saved.of(name).items() if n != "updates"}
        row = {"name": name, "metric": about["class"].partition(":")[2], "updates": about["updates"], "states": states}
        out.append({**row, "options": {k: _plain(x) for k, x in (about["options"] or {}).items()}, "value": _value(saved, name)})
    return out


def _value(saved: Any, name: str) -> Any:
    metric = saved.rebuilt(name)
    if metric is None:
        return None
    metric.sync_on_compute = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _plain(metric.fetch().result())
        except (RuntimeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"


def _state(x: Any) -> str:
    if hasattr(x, "shape"):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    return f"{len(x)} pieces" if isinstance(x, list) else type(x).__name__


def _plain(x: Any) -> Any:
    if hasattr(x, "tolist"):
        return x.tolist()
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return [_plain(v) for v in x] if isinstance(x, list | tuple) else x


def show(path: Path, as_json: bool) -> None:
    """Print what is in a file."""
    found = rows(path)
    if as_json:
        import orjson

        print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in ("name", "metric", "updates", "value", "states"):
        table.add_column(heading)
    for row in found:
        options = ", ".join(f"{k}={v!r}" for k, v in row.get("options", {}).items())
        metric = f"{row['metric']}({options})" if "metric" in row else ""
        states = ", ".join(f"{n} {x}" for n, x in row["states"].items())
        table.add_row(row["name"] or "(itself)", metric, str(row.get("updates", "")), _short(row.get("value")), states)
    Console().print(table)


def _short(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of torchtally.save.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the metrics in a file and their values."""
    show(file, as_json)
