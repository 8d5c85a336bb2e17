"""`torchtally bench`: the published experiment, what collecting metrics costs a training loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..bench import choices, counting, measure, predict, report, settings
from ..bench.variants import Variant
from ..errors import TallyError

WIDEST = 240
SETTINGS = {"epilog": "Example: torchtally bench --all --price a40 --html bench.html --picture bench.png"}


TRAINED, PROFILED, WRITTEN = "What is trained", "Profiles", "Results in files"


def option(text: str, *names: str, group: str | None = None) -> Any:
    return typer.Option(*names, help=text, show_default=False, rich_help_panel=group)


def command(
    variant: Annotated[
        list[str] | None, option("A variant to run; may be given several times. Default: none, naive, collection, torchtally.")
    ] = None,
    all: Annotated[bool, option("Run every variant.", "--all")] = False,
    metrics: Annotated[bool, option("Collect metrics, or only train.", "--metrics/--no-metrics")] = True,
    device: Annotated[
        str | None, option("cuda, cpu, or pretend: measure nothing, predict all. Default: cuda where there is one, else cpu.")
    ] = None,
    price: Annotated[
        list[str] | None,
        option(
            "Predict for this device: a40, a100, h100, h200, l4, t4, v100, rtx4090 or a file (docs/cost-model.md); may be given several times. Default: a40 without CUDA. none: do not."
        ),
    ] = None,
    model: Annotated[str | None, option("resnet18 or small.", group=TRAINED)] = None,
    data: Annotated[
        str | None,
        option(
            "fake (random images), digits (scikit-learn's real ones) or ready (a few batches that lie ready: no loader). Default: digits where the CPU is measured.",
            group=TRAINED,
        ),
    ] = None,
    batch: Annotated[int | None, option("Images per step and process.", group=TRAINED)] = None,
    steps: Annotated[int | None, option("Timed steps per variant, rounded up to whole log intervals.", group=TRAINED)] = None,
    log_interval: Annotated[int | None, option("Steps between two readings of the metrics.", group=TRAINED)] = None,
    warmup: Annotated[int | None, option("Steps left out at the start.", group=TRAINED)] = None,
    image_size: Annotated[int | None, option("Height and width of the images, in pixels.", group=TRAINED)] = None,
    classes: Annotated[int | None, option("Number of classes.", group=TRAINED)] = None,
    workers: Annotated[int | None, option("Processes that load data; 0 loads between the steps.", group=TRAINED)] = None,
    seed: Annotated[int, option("Seed of the weights. Default: 0.", group=TRAINED)] = 0,
    ddp: Annotated[bool, option("Train under DistributedDataParallel, in one process.", "--ddp", group=TRAINED)] = False,
    nproc: Annotated[int, option("Train in this many processes under DistributedDataParallel.", group=TRAINED)] = 1,
    profile: Annotated[
        bool, option("Also run each variant under PyTorch's profiler and write its trace.", "--profile", group=PROFILED)
    ] = False,
    probe_lines: Annotated[
        bool, option("Profile with a region around every line of the metrics' update.", "--probe-lines", group=PROFILED)
    ] = False,
    logdir: Annotated[
        Path, option("Where the traces go; TensorBoard and Perfetto open them. Default: torchtally-traces.", group=PROFILED)
    ] = Path("torchtally-traces"),
    torchmetrics: Annotated[
        str | None, option("The version of torchmetrics this run is meant for; another one installed is an error.")
    ] = None,
    json: Annotated[Path | None, option("Write the results to this file as JSON (docs/experiment.md).", group=WRITTEN)] = None,
    csv: Annotated[Path | None, option("Write the results to this file as CSV.", group=WRITTEN)] = None,
    html: Annotated[Path | None, option("Write a page with tables, picture, stalls and timelines to this file.", group=WRITTEN)] = None,
    picture: Annotated[Path | None, option("Draw step time against no metrics into this file: .png, .svg or .pdf.", group=WRITTEN)] = None,
) -> None:
    """Train with and without metrics and show what they cost."""
    choices.need_version("torchmetrics", torchmetrics)
    variants = choices.variants(variant, everything=all, metrics=metrics)
    sizes = dict(model=model, data=data, batch=batch, steps=steps, log_interval=log_interval, warmup=warmup)
    sizes |= dict(image_size=image_size, classes=classes, workers=workers, seed=seed, ddp=ddp, nproc=nproc)
    chosen = settings.for_device(device, **sizes)
    prices = choices.prices(price, chosen.device)
    if (profile or probe_lines) and chosen.device == "pretend":
        raise TallyError("--profile and --probe-lines record a run that trains; use --device cuda or cpu with them.")
    for file in (json, csv, html, picture):
        choices.need_writable(file)
    choices.need_picture(picture, variants)

    out = Console(highlight=False, emoji=False, markup=False)
    out.print(settings.describe(chosen), soft_wrap=True)
    account = run(variants, chosen, choices.predicted_sizes(chosen, prices, **sizes), prices)
    show(out, account)
    if json:
        json.write_bytes(report.json(account))
    if csv:
        csv.write_text(report.as_csv(account), encoding="utf-8")
    if html:
        from ..bench import page

        html.write_text(page.render(account), encoding="utf-8")
    if picture:
        from ..bench import picture as drawing

        drawing.save(account, picture)
    if profile or probe_lines:
        show_profiles(out, variants, chosen, logdir, probe_lines)


def run(variants: Sequence[Variant], chosen: settings.Settings, sizes: settings.Settings, prices: Sequence[str]) -> report.Account:
    """Measure, count and predict, with a progress bar on the error stream."""
    measured = chosen.device != "pretend"
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        rows = [report.Result(v) for v in variants]
        if measured:
            task = bar.add_task("training", total=measure.total_steps(variants, chosen))
            rows = measure.measure(variants, chosen, lambda done, name: bar.update(task, advance=done, description=f"training: {name}"))
        task = bar.add_task("counting stalls", total=len(variants))
        counted, recorded = {}, {}
        for variant in variants:
            bar.update(task, description=f"counting stalls: {variant.name}")
            if prices or chosen.device != "cuda":
                recorded[variant.name] = counting.pretended(variant, sizes)
            counted[variant.name] = counting.live(variant, chosen) if chosen.device == "cuda" else recorded[variant.name]
            bar.advance(task)
        task = bar.add_task("predicting", total=len(prices))
        forecasts = []
        for price in prices:
            forecasts.append(predict.forecast(list(recorded.values()), sizes, price))
            bar.advance(task)
    return report.Account(chosen, report.complete(rows, counted, forecasts, pretended=not measured), counted, forecasts)


def show(out: Console, account: report.Account) -> None:
    tables = [report.measured_table(account)] if account.settings.device != "pretend" else []
    tables += [report.predicted_table(account, forecast) for forecast in account.forecasts]
    lines = report.lines_table(account)
    for table in [*tables, *([lines] if lines else [])]:
        if not out.is_terminal:  # a file or pipe has no width to fit into
            out.width = max(out.width, out.measure(table, options=out.options.update(max_width=WIDEST)).maximum)
        out.print()
        out.print(table)
    out.print()
    for line in report.remarks(account):
        out.print(line, soft_wrap=True)
    if advice := report.advice(account):
        out.print("\nFor your own code")
        for line in advice:
            out.print(f"- {line}", soft_wrap=True)


def show_profiles(out: Console, variants: Sequence[Variant], chosen: settings.Settings, logdir: Path, probe: bool) -> None:
    from ..bench import profiling
    from ..stalls.analysis import report as stall_report
    from ..stalls.renderers import text

    for variant in variants:
        found = profiling.profile_variant(variant, chosen, logdir, probe)
        out.print(f"{variant.name}: {found.file}", soft_wrap=True)
        if len(found.timeline.work):
            out.print(text.table(stall_report([found.timeline], "bench"), [found.timeline]))
        for site, spent_us in found.lines:
            out.print(f"  {spent_us:8.1f} us/step  {report.short(site.file)}:{site.line}  {site.code}", soft_wrap=True)
    out.print(f"Look at them with: tensorboard --logdir {logdir}, or open a file at https://ui.perfetto.dev", soft_wrap=True)
