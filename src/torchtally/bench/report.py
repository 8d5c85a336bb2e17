"""The experiment's results as a table for people, and as JSON and CSV for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import orjson
import torch
from rich import box
from rich.table import Table

from .loop import Result, disagreement
from .settings import Settings

UNKNOWN = "-"
HEADINGS = {"accuracy": "accu-\nracy", "precision": "preci-\nsion"}
AGREEMENT = 1e-5  # float32 averages of the same numbers, added in different orders, are closer than this


def device_name(settings: Settings) -> str:
    return torch.cuda.get_device_name() if settings.device == "cuda" else settings.device


def as_dict(rows: Sequence[Result], settings: Settings) -> dict[str, Any]:
    """The results in plain Python values; what is not known is None."""
    return {
        "device": device_name(settings),
        "settings": settings.as_dict() | {"torch": torch.__version__, "torchmetrics": torchmetrics_version(), "threads": torch.get_num_threads()},
        "variants": [
            {
                "name": row.name,
                "step_ms": row.step_ms,
                "images_per_s": row.images_per_s,
                "metric_ms": row.metric_ms,
                "stalls_per_step": row.stalls_per_step,
                "loss_percent": row.loss_percent,
                "predicted": None,
                "values": row.values,
            }
            for row in rows
        ],
    }


def torchmetrics_version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torchmetrics")
    except PackageNotFoundError:
        return None


def json(rows: Sequence[Result], settings: Settings) -> bytes:
    return orjson.dumps(as_dict(rows, settings), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_csv(rows: Sequence[Result], settings: Settings) -> str:
    """One line per variant; columns as the keys of the JSON, settings and values spread over columns of their own. Unknown is empty."""
    whole = as_dict(rows, settings)
    lines = []
    for variant in whole["variants"]:
        values = variant.pop("values")
        lines.append({"device": whole["device"]} | variant | {f"value_{k}": v for k, v in values.items()} | {f"setting_{k}": v for k, v in whole["settings"].items()})
    columns = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def table(rows: Sequence[Result]) -> Table:
    """One row per variant, one column per figure and per metric."""
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    out = Table(title="What collecting metrics costs", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    out.add_column("variant", no_wrap=True)
    for heading in ("metrics\nms/step", "step\nms", "images\n/s", "lost\n%", "stalls\n/step", *names):
        out.add_column(HEADINGS.get(heading, heading), justify="right", no_wrap=True)
    for row in rows:
        figures = [
            number(row.metric_ms, ".3f"),
            number(row.step_ms, ".1f"),
            number(row.images_per_s, ".1f"),
            number(row.loss_percent, ".1f"),
            number(row.stalls_per_step, ".3g"),
        ]
        out.add_row(row.name, *figures, *(number(row.values.get(name), ".3f") for name in names))
    return out


def number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def remarks(rows: Sequence[Result], settings: Settings) -> list[str]:
    """What a reader should know about the table: how sure the figures are, and whether the variants agree."""
    lines = []
    apart = disagreement(rows)
    if apart is not None and apart <= AGREEMENT:
        lines.append(f"All variants agree on the values (largest difference {apart:.1g}).")
    elif apart is not None:
        lines.append(f"[bold red]The variants' values differ by up to {apart:.3g}.[/] On CUDA training itself is not repeatable to the bit; on the CPU please report this.")
    if settings.device == "cpu":
        lines.append(
            "Image and batch are small so that metrics show beside the model. A processor has nothing to wait for: this is the metrics' bare work. "
            "Step times on a shared machine vary by some percent; the metrics' own column is the steady one."
        )
    else:
        lines.append("Times are the host's, without added synchronisation; metrics ms/step is the host's time in update.")
    return lines
