"""Advice from scripts, from reports of stalls, and from living objects."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import TallyError
from ..stalls import Report
from ..stalls.script import check_script
from ..stalls.selection import within_steps
from ..stalls.stall import StallGroup, group
from . import rewriting
from .advice import NAN_CHECK, OWN_METRIC, READING, REPLACE, SCALARS, WEIGHTS, Advice
from .equivalents import has_equivalent
from .inspection import from_objects


def advise(thing: Any, arguments: Sequence[str] = (), steps: int | None = 20) -> list[Advice]:
    """Advice for the metrics of a script, of a report of stalls, or of living objects, the most frequent waits first.

    `thing` is the path of a script (it is run with `arguments` on a pretend device for up to `steps` optimiser steps), a `Report`, or a metric, a
    collection, or a dict, list or `nn.Module` that holds some. From a script or report the advice follows from the waits that were found; from objects
    from what they are: their options, device and the source of `update`. An empty list means that nothing was found.

    >>> import torchmetrics
    >>> print(*advise({"loss": torchmetrics.MeanMetric()})[:1])
    MeanMetric loss: Turn off or defer the NaN check
      Each update reads on the host whether a value or a weight is NaN.
      - MeanMetric()
      + suppress_nan_check(MeanMetric)()  # or torchtally.MeanMetric()
    """
    if isinstance(thing, (str, os.PathLike)):
        outcome = check_script(str(Path(thing)), arguments, steps=steps)
        if outcome.failed and not outcome.report.stalls:
            raise TallyError(f"advise: {thing} failed before it showed anything:\n{outcome.traceback()}", exit_code=3)
        thing = outcome.report
    if isinstance(thing, Report):
        return from_report(thing)
    return from_objects(thing)


def from_report(report: Report) -> list[Advice]:
    """One piece of advice for each line, metric and cause; what several waits of a line have in common is said once."""
    within = within_steps(report) if report.steps else report
    found: dict[tuple[object, ...], Advice] = {}
    for row in group(within.stalls, report.steps):
        if row.site is None or (row.metric is None and ".compute(" not in row.site.code):
            continue
        rule = next((advice for matches, advice in _RULES if matches(row)), None)
        if rule is None:
            continue
        advice = rule(row)
        key = (advice.what, advice.site, advice.metric)
        if key in found and advice.per_step is not None:
            advice = replace(found[key], per_step=(found[key].per_step or 0) + advice.per_step)
        found[key] = advice
    return sorted(_merged(found.values()), key=lambda a: -(a.per_step or 0))


def _merged(found: Iterable[Advice]) -> list[Advice]:
    """A line that gives a number has its weight mended by the same change."""
    found = list(found)
    scalars = {(a.site, a.metric) for a in found if a.what == SCALARS}
    return [a for a in found if not (a.what == WEIGHTS and (a.site, a.metric) in scalars)]


def _inside(row: StallGroup, package: str = "torchmetrics") -> bool:
    return row.inner is not None and package in re.split(r"[/\\]", row.inner.file)


def _in_aggregation(row: StallGroup, *words: str) -> bool:
    return _inside(row) and row.inner is not None and row.inner.file.endswith("aggregation.py") and any(w in row.inner.code for w in words)


def _weights(row: StallGroup) -> Advice:
    return Advice(
        WEIGHTS,
        "The weight is a Python number (1.0 where none is given); making a tensor of it on the GPU is a copy that waits.",
        row.metric or "",
        row.site,
        row.site.code if row.site else "",
        (rewriting.with_weight(row.site.code) if row.site else None) or "metric.update(value, torch.ones_like(value))",
        row.per_step,
    )


def _scalars(row: StallGroup) -> Advice:
    return Advice(
        SCALARS,
        "The value is a Python number; making a tensor of it on the metric's device is a copy that waits. A tensor of one element on the CPU goes along "
        "with the kernel. Or leave the metric on the CPU, with sync_on_compute=False if the job runs under NCCL.",
        row.metric or "",
        row.site,
        row.site.code if row.site else "",
        (rewriting.with_tensor(row.site.code) if row.site else None)
        or "value = torch.as_tensor(x); metric.update(value, torch.ones_like(value))",
        row.per_step,
    )


def _nan_check(row: StallGroup) -> Advice:
    kind, made = _making(row)
    return Advice(
        NAN_CHECK,
        "Each update reads on the host whether a value or a weight is NaN."
        + ("" if made else " Change the line that makes the metric.")
        + " Without the check NaN makes the result NaN; torchtally leaves it out and says so when the result is read.",
        row.metric or "",
        made.site if made else row.site,
        made.site.code if made else f"{kind}(…)",
        f"{made.with_maker(f'suppress_nan_check({made.maker})') if made else f'suppress_nan_check({kind})(…)'}  # or torchtally.{kind}",
        row.per_step,
    )


def _making(row: StallGroup) -> tuple[str, rewriting.Making | None]:
    """The metric's class, and the line that makes it."""
    kind, _, name = (row.metric or "").partition(" ")
    return kind, rewriting.made_at(row.site.file, name, kind) if row.site and name else None


def _own_metric(row: StallGroup) -> Advice:
    inner = row.inner or row.site
    return Advice(
        OWN_METRIC,
        f"{row.operator} waits for the device in your own metric.",
        row.metric or "",
        inner,
        inner.code if inner else "",
        row.remedy,
        row.per_step,
    )


def _reading(row: StallGroup) -> Advice:
    return Advice(
        READING,
        "The result is computed and read on the host. Do so every many steps, or fetch() torchtally's metrics, which does not wait.",
        site=row.site,
        before=row.site.code if row.site else "",
        per_step=row.per_step,
    )


def _replace(row: StallGroup) -> Advice:
    kind, made = _making(row)
    where = f"{row.inner.function or 'line'} {row.inner.line} of {os.path.basename(row.inner.file)}" if row.inner else "its code"
    if has_equivalent(kind):
        words, before, after = "torchtally has the same metric; adopt() also takes over what it has seen.", "adopt(", ")"
    else:
        words = "torchtally has no such metric: feed it in blocks, joined ones (concatenate=True) if a larger batch means the same to it."
        before, after = "Deferred(", ", every=50)"
    return Advice(
        REPLACE,
        f"{row.operator} waits inside torchmetrics ({where}). {words}" + ("" if made else " Change the line that makes the metric."),
        row.metric or "",
        made.site if made else row.site,
        made.site.code if made else f"{kind}(…)",
        made.wrapped(before, after) if made else f"{before}{kind}(…){after}",
        row.per_step,
    )


_RULES: tuple[tuple[Callable[[StallGroup], bool], Callable[[StallGroup], Advice]], ...] = (
    (lambda row: _in_aggregation(row, "as_tensor(weight"), _weights),
    (lambda row: _in_aggregation(row, "as_tensor(value", "as_tensor(x"), _scalars),
    (lambda row: _in_aggregation(row, "nans"), _nan_check),
    (lambda row: row.site is not None and ".compute(" in row.site.code, _reading),
    (lambda row: _inside(row), _replace),
    (lambda row: row.site is not None and row.site.function in ("update", "forward") and not _inside(row, "torchtally"), _own_metric),
)
