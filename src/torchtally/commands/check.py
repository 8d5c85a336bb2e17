"""`torchtally check`: find what stalls the GPU in a script, without a GPU."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import TallyError
from .options import Allow, RunsAScript, Warmup, writable

if TYPE_CHECKING:
    from ..stalls.recorder import Recorder
    from ..stalls.script import Outcome
    from ..stalls.stall import Report
    from ..stalls.timeline import Timeline

SETTINGS = {
    "cls": RunsAScript,
    "epilog": "Examples: torchtally check --steps 20 --budget 0 train.py --lr 0.1 · torchtally check --warmup 2 --json=stalls.json -m package.train",
}


def command(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="The script to run, or with -m the module.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Handed to the script as they are.", show_default=False)
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module, as for `python -m`.")] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="End the script after this many optimiser steps.", show_default=False)] = None,
    warmup: Warmup = 0,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Most stalls per step that are fine; more ends with exit code 1.", show_default=False)
    ] = None,
    allow: Allow = None,
    only_metrics: Annotated[bool, typer.Option("--only-metrics", help="Count only what waits in the code of metrics.")] = False,
    own: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE|PATH", help="Count this code as your own, though it is installed.", show_default=False),
    ] = None,
    devices: Annotated[int, typer.Option(min=1, help="How many GPUs to pretend.")] = 1,
    fast: Annotated[
        bool, typer.Option("--fast", help="Skip large computations: their results are noise of the right shape, so losses mean nothing.")
    ] = False,
    shapes: Annotated[
        bool,
        typer.Option("--shapes", help="Run large tensors on shapes alone, without memory: for models that this machine could not hold."),
    ] = False,
    price: Annotated[
        str | None,
        typer.Option(metavar="GPU|FILE", help="Predict times for this GPU (a40, h100, …; docs/cost-model.md).", show_default=False),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="[=FILE]",
            help="Print JSON (docs/json.md) instead of text; with =FILE print text and write JSON there.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with a timeline to this file.", show_default=False)
    ] = None,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a trace for ui.perfetto.dev to this file.", show_default=False)
    ] = None,
) -> None:
    """Run SCRIPT on a pretend GPU and list every place where the host would wait for a real one."""
    from ..stalls import script as running

    threads = set(threading.enumerate())

    for file in (html, perfetto, Path(json) if json not in (None, "-") else None):
        if file is not None:
            writable(file)
    with _stdout_kept_clean(json == "-"), _progress(steps) as on_step:
        outcome = running.check_script(
            script,
            arguments or (),
            module=module,
            steps=steps,
            warmup=warmup,
            devices=devices,
            fast=fast,
            shapes=shapes,
            price=price,
            own=own or (),
            on_step=on_step,
        )
    code = 3
    try:
        code = _tell(outcome, only_metrics, allow or (), budget, json, html, perfetto)
    finally:
        if outcome.left and any(t.is_alive() and not t.daemon for t in set(threading.enumerate()) - threads):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # as the script did: nobody waits for its threads
    if code:
        raise typer.Exit(code)


def _tell(
    outcome: Outcome, only_metrics: bool, allow: Sequence[str], budget: float | None, json: str | None, html: Path | None, perfetto: Path | None
) -> int:
    """Write what was found; the exit code."""
    from ..stalls import selection

    sys.stderr.write(outcome.traceback())
    if outcome.failed:
        sys.stderr.write(f"torchtally: {_how_it_ended(outcome)}; what was found until then follows.\n")
    report = outcome.report
    if only_metrics:
        report = selection.only_metrics(report)
    report = selection.with_way_out(selection.allow(report, allow))
    _write(report, outcome.timelines, json, html, perfetto)
    if outcome.failed:
        return 130 if isinstance(outcome.error, KeyboardInterrupt) else 3
    return 0 if budget is None else _judge(report, outcome, budget)


def _how_it_ended(outcome: Outcome) -> str:
    if isinstance(outcome.error, KeyboardInterrupt):
        return "the script was interrupted"
    if isinstance(outcome.error, SystemExit):
        code = outcome.error.code
        return f"the script ended itself with exit status {code}" if isinstance(code, int) else f"the script ended itself with {code!r}"
    return f"the script failed with {type(outcome.error).__name__}"


def _judge(report: Report, outcome: Outcome, budget: float) -> int:
    """The exit code: 1, with the lines that wait most, where there are more stalls than the budget has."""
    from ..stalls import selection
    from ..stalls.renderers.wording import number, place

    if not outcome.device_work:
        raise TallyError("the budget cannot be judged: the script did no device work.")
    found = selection.offenders(report, budget)
    if found:
        unit = "per step" if report.steps else "in all"
        print(f"torchtally: {number(selection.per_step(report))} stalls {unit}, over the budget of {number(budget)}:", file=sys.stderr)
        for row in found:
            print(
                f"  {number(row.per_step if report.steps else row.count):>6}  {place(row.site)}  {row.kind} ({row.operator})",
                file=sys.stderr,
            )
    return int(bool(found))


def _write(report: Report, timelines: Sequence[Timeline], json: str | None, html: Path | None, perfetto: Path | None) -> None:
    from ..stalls.renderers.json import render

    if json == "-":
        sys.stdout.write(render(report).decode() + "\n")
    else:
        _print(report)
        if json is not None:
            Path(json).write_bytes(render(report))
    if html is not None:
        from ..stalls.renderers.html import render as as_page

        html.write_text(as_page(report, timelines), encoding="utf-8")
    if perfetto is not None:
        from ..stalls.renderers.perfetto import render as as_trace

        perfetto.write_bytes(as_trace(report, timelines))


def _print(report: Report) -> None:
    from rich.console import Console

    from ..stalls import selection
    from ..stalls.renderers.text import table
    from ..stalls.renderers.wording import KINDS, place, visible

    console = Console(highlight=False, emoji=False, markup=False)
    console.print(table(selection.within_steps(report)))
    outside = Counter((place(s.site), KINDS[s.kind]) for s in selection.outside_steps(report).stalls)
    if outside:
        console.print("\nOutside the steps (setting up, after the last one), in all:")
    for (line, kind), count in outside.most_common():
        console.print(f"{count:>8}  {visible(line)}  {kind}", overflow="fold")


@contextmanager
def _stdout_kept_clean(needed: bool) -> Iterator[None]:
    """Send what the script and its children print to standard error, so that standard output is JSON and nothing else."""
    if not needed:
        yield
        return
    from ..stalls.borrowed import usable

    sys.stdout.flush()
    stdout, kept = sys.stdout, os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = stdout if usable(stdout) else sys.__stdout__
        os.dup2(kept, 1)
        os.close(kept)


_EVERY_S = 10.0


@contextmanager
def _progress(steps: int | None) -> Iterator[Callable[[int, Recorder], None]]:
    """Steps and stalls so far, on standard error: a bar in a terminal, elsewhere a line now and then. No thread, as the script may fork."""
    if not sys.stderr.isatty():
        yield _lines(steps)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns: list[Any] = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
    ]
    with Progress(
        *columns, console=Console(stderr=True), auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        task = bar.add_task("setting up", total=steps)
        last = 0.0

        def on_step(made: int, recorder: Recorder) -> None:
            nonlocal last
            if time.monotonic() - last > 0.1:
                last = time.monotonic()
                with suppress(Exception):  # the script may have closed the stream
                    bar.update(task, completed=made, description=f"{recorder.count} stalls")
                    bar.refresh()

        bar.refresh()
        yield on_step


def _lines(steps: int | None) -> Callable[[int, Recorder], None]:
    last = time.monotonic()

    def on_step(made: int, recorder: Recorder) -> None:
        nonlocal last
        if time.monotonic() - last > _EVERY_S:
            last = time.monotonic()
            with suppress(Exception):  # the script may have closed the stream
                sys.stderr.write(f"torchtally: step {made}{f' of {steps}' if steps else ''}, {recorder.count} stalls so far\n")

    return on_step
