"""`torchtally bench`: the published experiment, what collecting metrics costs a training loop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..bench import loop, report, settings, variants
from ..errors import TallyError

Option = typer.Option
WIDEST = 240


def command(
    variant: Annotated[list[str] | None, Option(help="A variant to run; may be given several times. Default: all.")] = None,
    device: Annotated[str | None, Option(help="cuda or cpu. Default: cuda where there is one.")] = None,
    model: Annotated[str | None, Option(help="resnet18 or small.")] = None,
    data: Annotated[str | None, Option(help="fake (random images) or digits (scikit-learn's real ones). Default: fake on CUDA, digits on the CPU.")] = None,
    batch: Annotated[int | None, Option(help="Images per step.")] = None,
    steps: Annotated[int | None, Option(help="Timed steps per variant, rounded up to whole log intervals.")] = None,
    log_interval: Annotated[int | None, Option(help="Steps between two readings of the metrics.")] = None,
    warmup: Annotated[int | None, Option(help="Steps left out at the start.")] = None,
    image_size: Annotated[int | None, Option(help="Height and width of the images, in pixels.")] = None,
    classes: Annotated[int | None, Option(help="Number of classes.")] = None,
    workers: Annotated[int | None, Option(help="Processes that load data; 0 loads between the steps.")] = None,
    seed: Annotated[int, Option(help="Seed of the weights.")] = 0,
    json: Annotated[Path | None, Option(help="Write the results to this file as JSON.")] = None,
    csv: Annotated[Path | None, Option(help="Write the results to this file as CSV.")] = None,
) -> None:
    """Train with and without metrics and show what they cost."""
    names = list(dict.fromkeys(variant or variants.VARIANTS))
    chosen = settings.for_device(
        device,
        model=model,
        data=data,
        batch=batch,
        steps=steps,
        log_interval=log_interval,
        warmup=warmup,
        image_size=image_size,
        classes=classes,
        workers=workers,
        seed=seed,
    )
    for name in names:
        settings.choose("--variant", name, tuple(variants.VARIANTS))
    for file in (json, csv):
        check_writable(file)
    out, progress = Console(), Console(stderr=True)
    out.print(settings.describe(chosen), soft_wrap=True)
    rows = run(names, chosen, progress)
    shown = report.table(rows)
    if not out.is_terminal:  # a file or pipe has no width to fit into
        out.width = max(out.width, out.measure(shown, options=out.options.update(max_width=WIDEST)).maximum)
    out.print(shown)
    for line in report.remarks(rows, chosen):
        out.print(line, soft_wrap=True)
    if json:
        json.write_bytes(report.json(rows, chosen))
    if csv:
        csv.write_text(report.as_csv(rows, chosen))


def run(names: list[str], chosen: settings.Settings, console: Console) -> list[loop.Result]:
    """The measurement, with a progress bar on the error stream."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=len(names) * (chosen.warmup + chosen.timed_steps))
        return loop.measure(names, chosen, lambda done, name: bar.update(task, advance=done, description=name))


def check_writable(file: Path | None) -> None:
    """Minutes of work should not end in a file that cannot be written."""
    if file and file.is_dir():
        raise TallyError(f"{file}: expected a file to write, got a folder.")
    if file and not file.absolute().parent.is_dir():
        raise TallyError(f"{file}: the folder {file.absolute().parent} does not exist. Create it, or give another file.")
