"""`torchtally stalls`: what stalled the device in a recorded trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ..errors import TallyError
from .options import Allow, Warmup

if TYPE_CHECKING:
    from ..stalls.stall import Report
    from ..stalls.timeline import Timeline

STANDARD_OUTPUT = "-"


class OptionalFiles(TyperCommand):
    """A bare `--json` or `--csv` writes to standard output, `--json=FILE` to a file. `--json FILE` would take a trace for a result to write."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"{word}={STANDARD_OUTPUT}" if word in ("--json", "--csv") else word for word in args])


SETTINGS = {
    "cls": OptionalFiles,
    "epilog": "Examples: torchtally stalls trace.json.gz --html stalls.html · torchtally stalls traces/ --budget 1 --allow 'logger.py:*' --json=stalls.json",
}


def command(
    traces: Annotated[
        list[Path],
        typer.Argument(metavar="TRACE", help="Trace files of torch.profiler, or folders of them: one per rank.", show_default=False),
    ],
    json: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="[=FILE]", help="Print JSON (docs/json.md) instead of text, or write it to a file.", show_default=False
        ),
    ] = None,
    csv: Annotated[
        str | None,
        typer.Option("--csv", metavar="[=FILE]", help="Print a table for spreadsheets, or write it to a file.", show_default=False),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page to this file.", show_default=False)] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the trace with the stalls added, for ui.perfetto.dev.", show_default=False),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Most stalls per step that are fine; more ends with exit code 1.", show_default=False)
    ] = None,
    budget_ms: Annotated[
        float | None,
        typer.Option(
            "--budget-ms",
            min=0,
            help="Most host wait per step that is fine, in milliseconds; more ends with exit code 1.",
            show_default=False,
        ),
    ] = None,
    allow: Allow = None,
    warmup: Warmup = 0,
) -> None:
    """Read profiler traces and tell which lines made the host wait for the device, and what that cost."""
    from ..stalls import selection
    from ..stalls.analysis import report
    from ..stalls.sources.trace import read_traces

    outputs = [Path(f) for f in (json, csv, html, perfetto) if f is not None and f != STANDARD_OUTPUT]
    _check_outputs(outputs, traces)
    if json == STANDARD_OUTPUT and csv == STANDARD_OUTPUT:
        raise TallyError("--json and --csv cannot both be printed: write one to a file, as in --csv=stalls.csv.")
    with _progress(traces) as progress:
        timelines = read_traces(traces, progress)
    found = selection.with_way_out(selection.allow(selection.after_warmup(report(timelines), warmup), allow or ()))
    _write(found, timelines, json, csv, html, perfetto)
    _judge(found, timelines, budget, budget_ms)


def _check_outputs(outputs: Sequence[Path], traces: Sequence[Path]) -> None:
    """Learn before reading, not after it, that a result cannot be written or would overwrite a trace."""
    for file in outputs:
        if not file.absolute().parent.is_dir() or file.is_dir():
            raise TallyError(f"{file}: cannot be written; choose a file in a folder that exists.")
        if any(trace.exists() and file.exists() and trace.samefile(file) for trace in traces):
            raise TallyError(f"{file}: is one of the traces to read; choose another file for the result.")


def _write(
    found: Report, timelines: Sequence[Timeline], json: str | None, csv: str | None, html: Path | None, perfetto: Path | None
) -> None:
    from ..stalls.renderers import csv as tables
    from ..stalls.renderers import html as pages
    from ..stalls.renderers import json as data
    from ..stalls.renderers import perfetto as tracks

    if STANDARD_OUTPUT not in (json, csv):
        _print(found, timelines)
    if json is not None:
        _put(json, data.render(found, timelines) + b"\n")
    if csv is not None:
        _put(csv, tables.render(found, timelines).encode())
    if html is not None:
        _put(str(html), pages.render(found, timelines).encode())
    if perfetto is not None:
        _stream(perfetto, tracks.pieces(found, timelines, {t.rank: _events(t.source) for t in timelines}))


def _print(found: Report, timelines: Sequence[Timeline]) -> None:
    from rich.console import Console

    from ..stalls.renderers.text import table

    Console(highlight=False, emoji=False, markup=False).print(table(found, timelines))


def _events(source: str) -> Iterator[list[dict[str, Any]]]:
    """The file's events once more, as they are: they need not all fit in memory."""
    from ..stalls.sources.events import Damage, Events, unpacked

    path, damage = Path(source), Damage()
    return iter(Events(path, unpacked(path, damage), damage))


def _put(file: str, content: bytes) -> None:
    if file == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        _stream(Path(file), [content])


def _stream(file: Path, pieces: Any) -> None:
    try:
        with file.open("wb") as out:
            out.writelines(pieces)
    except OSError as error:
        raise TallyError(f"{file}: {error.strerror}; choose a file that can be written.") from None


def _judge(found: Report, timelines: Sequence[Timeline], budget: float | None, budget_ms: float | None) -> None:
    """End with exit code 1 and the offenders where a budget does not hold."""
    from ..stalls import selection
    from ..stalls.renderers.wording import duration, number, place
    from ..stalls.stall import group, total

    if budget is None and budget_ms is None:
        return
    if not any(len(t.calls) for t in timelines):
        raise TallyError("the budget cannot be judged: the traces show no calls into a device's runtime.")
    unit = "per step" if found.steps else "in all"
    offenders = []
    if budget is not None and (rows := selection.offenders(found, budget)):
        print(f"torchtally: {number(selection.per_step(found))} stalls {unit}, over the budget of {number(budget)}:", file=sys.stderr)
        offenders += rows
    if budget_ms is not None:
        inside = selection.within_steps(found)
        wait = total([s.host_wait_us for s in inside.stalls])
        if wait is None:
            raise TallyError(
                "the budget of milliseconds cannot be judged: how long the host waited is unknown for some stalls. Use --budget."
            )
        wait /= found.steps or 1
        if wait > budget_ms * 1000:
            print(f"torchtally: {duration(wait)} of host wait {unit}, over the budget of {number(budget_ms)} ms:", file=sys.stderr)
            rows = sorted(group(inside.stalls, found.steps), key=lambda r: -(r.host_wait_us or 0.0))
            offenders += [r for r in rows if r not in offenders]
    for row in offenders:
        often = number(row.per_step if found.steps else row.count)
        print(f"  {often:>6}  {duration(row.host_wait_us):>9}  {place(row.site)}  {row.kind} ({row.operator})", file=sys.stderr)
    if offenders:
        raise typer.Exit(1)


@contextmanager
def _progress(traces: Sequence[Path]) -> Iterator[Callable[[int], None] | None]:
    """A bar over the bytes to read, on standard error, in a terminal and where there is much to read."""
    from ..stalls.sources.trace import trace_files

    files = [f for path in traces for f in (trace_files(path) if path.is_dir() else [path])]
    size = sum(f.stat().st_size for f in files if f.is_file())
    if not sys.stderr.isatty() or size < 1 << 20:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=size)
        yield lambda count: bar.advance(task, count)
