"""The whole run as one page that needs no other file: the tables, the picture, and each variant's stalls and timeline."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.console import Console
from rich.table import Table

from ..stalls.renderers import html
from ..stalls.stall import Report
from . import picture
from .report import Account, advice, lines_table, measured_table, predicted_table, remarks
from .settings import describe
from .variants import BASELINE


def render(account: Account) -> str:
    """The page. Each variant's stalls are a page of their own inside it, opened on demand."""
    tables = [] if account.settings.device == "pretend" else [measured_table(account)]
    tables += [predicted_table(account, forecast) for forecast in account.forecasts]
    waiting = lines_table(account)
    compared = any(row.name == BASELINE for row in account.rows)
    environment = Environment(
        loader=PackageLoader("torchtally.bench", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("bench.html.jinja").render(
        job=describe(account.settings),
        picture=Markup(picture.svg(account)) if compared else "",
        tables=[cells(table) for table in tables],
        waiting=cells(waiting) if waiting else None,
        remarks=remarks(account),
        advice=advice(account),
        forecasts=account.forecasts,
        variants=[(row.name, row.variant.summary, stalls_page(account, row.name)) for row in account.rows],
    )


def stalls_page(account: Account, name: str) -> str:
    """One variant's stalls: with times and a timeline where they were predicted, else counted alone."""
    for forecast in account.forecasts:
        if name in forecast.predictions:
            return html.render(forecast.report(name), [forecast.timeline(name)])
    seen = account.counted.get(name)
    return html.render(Report("bench", name, seen.steps, seen.stalls)) if seen else ""


def cells(table: Table) -> tuple[str, list[str], list[list[str]]]:
    """A table's title, headings and rows as text."""
    console = Console(width=400)
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    headings = [console.render_str(str(column.header)).plain.replace("-\n", "").replace("\n", " ") for column in table.columns]
    return str(table.title), headings, [list(row) for row in zip(*columns)]
