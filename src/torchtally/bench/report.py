"""The experiment's results as tables for people, and as JSON and CSV for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import orjson
import torch
from rich import box
from rich.table import Table

from .counting import Counted
from .predict import Forecast
from .result import Result, disagreement
from .settings import Settings

UNKNOWN = "-"
HEADINGS = {"accuracy": "accu-\nracy", "precision": "preci-\nsion", "step_s": "step s"}
AGREEMENT = 1e-5  # float32 averages of the same numbers, added in different orders, are closer than this


ADVICE = (  # what to do in one's own code, and the variants before and after doing it
    ("Give weights as tensors that live where the values live.", "naive", "weights"),
    ("Turn the NaN check off (torchtally.adopt.suppress_nan_check) or have it deferred (torchtally does).", "weights", "no-nan-check"),
    ("Choose each metric's device on purpose: what the host knows can stay on the CPU.", "gpu-float", "cpu"),
    ("Where every process may keep its own value, switch synchronisation off: sync_on_compute=False.", "cpu-ddp", "cpu-ddp-nosync"),
    ("Turn numbers into tensors before a metric on the GPU is updated with them.", "gpu-float", "gpu-tensor"),
    ("Import metrics from torchtally, with which neither weights nor NaN wait.", "naive", "torchtally"),
    ("The same, where a metric on the GPU is given numbers of the host.", "gpu-float", "torchtally-time"),
)


@dataclass(frozen=True)
class Account:
    """One whole run of the experiment: what was measured, what was counted, what was predicted."""

    settings: Settings
    rows: Sequence[Result]
    counted: Mapping[str, Counted]
    forecasts: Sequence[Forecast]

    @property
    def device(self) -> str:
        """The device the top-level figures are of; one that is pretended says so."""
        if self.settings.device == "pretend":
            return f"{self.forecasts[0].price} (pretended, predicted)"
        return torch.cuda.get_device_name() if self.settings.device == "cuda" else self.settings.device

    @property
    def errors(self) -> dict[str, str]:
        """Variants whose metrics could not be read, as is their point, with the error and its explanation."""
        return {row.name: f"{row.error}. {row.variant.fails}" for row in self.rows if row.error}


def complete(rows: Sequence[Result], counted: Mapping[str, Counted], forecasts: Sequence[Forecast], pretended: bool) -> list[Result]:
    """The rows with counted stalls and predictions. Where nothing was measured, the first forecast's figures take the place of measured ones."""
    filled = []
    for row in rows:
        seen = counted.get(row.name)
        predicted = {f.price: f.figures(row.name) for f in forecasts if row.name in f.predictions} or None
        row = replace(row, predicted=predicted, stalls_per_step=seen.stalls_per_step if seen else None, error=row.error or (seen.error if seen else ""))
        if pretended and predicted:
            first = next(iter(predicted.values()))
            row = replace(row, step_ms=first["step_ms"], images_per_s=first["images_per_s"], loss_percent=first["loss_percent"])
        filled.append(row)
    return filled


def as_dict(account: Account) -> dict[str, Any]:
    """The results in plain Python values, as docs/experiment.md describes them; what is not known is None."""
    forecasts = account.forecasts
    return {
        "device": account.device,
        "settings": account.settings.as_dict()
        | {
            "torch": torch.__version__,
            "torchmetrics": installed("torchmetrics"),
            "threads": torch.get_num_threads(),
            "prices": {f.price: {"note": f.note, "constants": f.constants()} for f in forecasts} or None,
            "predicted_for": forecasts[0].sizes.as_dict() if forecasts else None,
            "errors": account.errors,
        },
        "variants": [
            {
                "name": row.name,
                "step_ms": row.step_ms,
                "images_per_s": row.images_per_s,
                "metric_ms": row.metric_ms,
                "stalls_per_step": row.stalls_per_step,
                "loss_percent": row.loss_percent,
                "predicted": row.predicted,
                "values": row.values,
            }
            for row in account.rows
        ],
    }


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def json(account: Account) -> bytes:
    return orjson.dumps(as_dict(account), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_csv(account: Account) -> str:
    """One line per variant; columns as the keys of the JSON, nested ones with dots between. Unknown is empty."""
    whole = as_dict(account)
    settings = dict(flat("settings", whole["settings"]))
    lines = [{"device": whole["device"]} | {k.removeprefix("variant."): v for k, v in flat("variant", variant)} | settings for variant in whole["variants"]]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def flat(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in flat(f"{name}.{key}", inner)]
    return [(name, value)]


def measured_table(account: Account) -> Table:
    """One row per variant, one column per figure and per metric."""
    names = list(dict.fromkeys(name for row in account.rows for name in row.values))
    out = new_table(f"Measured on {account.device}: what collecting metrics costs")
    for heading in ("metrics\nms/step", "step\nms", "images\n/s", "lost\n%", "stalls\n/step", *names):
        out.add_column(HEADINGS.get(heading, heading), justify="right", no_wrap=True)
    for row in account.rows:
        figures = [
            number(row.metric_ms, ".3f"),
            number(row.step_ms, ".1f"),
            number(row.images_per_s, ".1f"),
            number(row.loss_percent, ".1f"),
            number(row.stalls_per_step, ".3g"),
        ]
        out.add_row(row.name, *figures, *(number(row.values.get(name), ".3f") for name in names))
    return out


def predicted_table(account: Account, forecast: Forecast) -> Table:
    """One row per variant: figures with the interval of what is plausible."""
    s = forecast.sizes
    out = new_table(f"Predicted, not measured: {s.model} on {forecast.price}, {s.batch} images of {s.image_size} by {s.image_size}, {s.classes} classes")
    for heading in ("stalls\n/step", "step\nms", "plausible", "images\n/s", "lost\n%", "plausible", "device\nidle ms"):
        out.add_column(heading, justify="right", no_wrap=True)
    for row in account.rows:
        if row.name in forecast.predictions:
            f = forecast.figures(row.name)
            out.add_row(
                row.name,
                number(row.stalls_per_step, ".3g"),
                number(f["step_ms"], ".1f"),
                span(f["step_ms_low"], f["step_ms_high"]),
                number(f["images_per_s"], ".0f"),
                number(f["loss_percent"], ".1f"),
                span(f["loss_percent_low"], f["loss_percent_high"]),
                number(f["device_idle_ms"], ".1f"),
            )
    return out


def lines_table(account: Account) -> Table | None:
    """The lines that wait, per variant, counted; None where nothing was counted or nothing waits."""
    where = "on the GPU" if account.settings.device == "cuda" else "on a pretend GPU"
    out = new_table(f"Lines that wait for the device, counted {where} between the readings")
    out.add_column("times\n/step", justify="right", no_wrap=True)
    out.add_column("in this line")
    out.add_column("waits inside")
    for name, seen in account.counted.items():
        for row in seen.lines:
            site, inner = (f"{short(s.file)}:{s.line}\n{s.code}" if s else UNKNOWN for s in (row.site, row.inner))
            out.add_row(name, number(row.per_step, ".3g"), site, inner if row.inner != row.site else "")
    return out if out.row_count else None


def new_table(title: str) -> Table:
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    out.add_column("variant", no_wrap=True)
    return out


def short(file: str) -> str:
    """A path's last two parts: enough to find the file by."""
    return "/".join(file.replace("\\", "/").split("/")[-2:])


def number(value: float | None, form: str) -> str:
    """The figure, without a sign where it rounds to zero."""
    if value is None:
        return UNKNOWN
    text = format(value, form)
    return text.lstrip("-") if float(text) == 0 else text


def span(low: float | None, high: float | None) -> str:
    return UNKNOWN if low is None or high is None else f"{number(low, '.1f')} to {number(high, '.1f')}"


def advice(account: Account) -> list[str]:
    """What to do in one's own code, each piece with the waits per step before and after, as counted in this run."""
    counts = {row.name: row.stalls_per_step for row in account.rows if row.stalls_per_step is not None}
    errors = account.errors
    lines = []
    for text, before, after in ADVICE:
        if before in counts and after in counts:
            told = f"{before} {counts[before]:.3g}, {after} {counts[after]:.3g} waits a step"
            if before in errors and after not in errors:
                told = f"{before} cannot be read, {after} can"
            lines.append(f"{text} ({told})")
    return lines


def remarks(account: Account) -> list[str]:
    """What a reader should know about the tables: how sure the figures are, and whether the variants agree."""
    lines = [f"{name}: {error}" for name, error in account.errors.items()]
    apart = disagreement(account.rows)
    if apart is not None and apart <= AGREEMENT:
        lines.append(f"All variants agree on the values (largest difference {apart:.1g}).")
    elif apart is not None:
        lines.append(f"The variants' values differ by up to {apart:.3g}. On CUDA training itself is not repeatable to the bit; on the CPU please report this.")
    if account.settings.device == "cpu":
        lines.append(
            "Measured: image and batch are small so that metrics show beside the model. A processor waits for nobody, so this is the metrics' bare work; "
            "step times on a shared machine vary by some percent, the metrics' own column is the steady one."
        )
    elif account.settings.device == "cuda":
        lines.append("Measured: times are the host's, without added synchronisation; metrics ms/step is the host's time in update.")
    lines += [f.note for f in account.forecasts]
    return lines
