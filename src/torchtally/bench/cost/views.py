"""A prediction in the forms that renderers show: a report, and a timeline of a few steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from ...stalls.price import Loader, Tariff, Wait
from ...stalls.stall import Gain, Report, Site, Stall
from ...stalls.timeline import CallKind, Draft, Timeline, WorkKind
from .prediction import Prediction
from .simulation import SETTLE, simulate

SHOWN = 10
"""Steps a report and a timeline show: the same ones, so that a page can lay one over the other."""


def report(prediction: Prediction, tool: str, source: str, steps: int = SHOWN) -> Report:
    """The stalls of the typical run's first steps with their times, and what those steps would gain without them. Times and steps are those of `timeline`."""
    p = prediction
    steps = min(steps, p.steps)
    origin = p.clocks.steps[SETTLE - 1]
    end = p.clocks.steps[SETTLE - 1 + steps]
    shown = [w for w in p.clocks.waits if w.step < SETTLE + steps and w.start_us < end]
    stalls = tuple(stall(w, SETTLE, origin) for w in shown)
    gains = [Gain("all waits", len(stalls), (p.step_ms - p.without_waits_ms) * 1000 * steps)] if stalls else []
    for w in p.waiting:
        count = sum(s.site == w.site and s.operator == w.operator for s in stalls)
        if count:
            gains.append(Gain(f"{w.operator} at {w.site}" if w.site else w.operator, count, w.saved_us * steps))
    notes = [p.note()]
    if len(stalls) < round(p.waits * steps, 6):
        notes.append(f"Metrics are read every {p.recording.log_interval} steps, after those shown: with these readings there are {p.waits:.2f} waits a step.")
    return Report(tool, source, steps, stalls, notes=tuple(notes), duration_us=end - origin, gains=tuple(gains), predicted=p.price.name)


def stall(wait: Wait, first_step: int = 0, origin_us: float = 0.0) -> Stall:
    """A wait as a stall. A tag that is one already keeps its kind, site, metric and remedy; a row of the catalogue gives kind and remedy."""
    note = wait.task.note
    tag, site = getattr(note, "tag", None), getattr(note, "site", None)
    if not isinstance(tag, Stall):
        kind: Any = getattr(tag, "kind", "synchronize" if wait.task.operator == "synchronize" else "read")
        tag = Stall(kind, wait.task.operator, site, site, remedy=getattr(tag, "remedy", ""))
    return replace(
        tag,
        step=wait.step - first_step,
        start_us=wait.start_us - origin_us,
        host_wait_us=wait.end_us - wait.start_us,
        device_idle_us=wait.idle_us,
        launch_lag_us=None if wait.next_us is None else max(0.0, wait.next_us - wait.end_us),
    )


def timeline(prediction: Prediction, source: str, steps: int = SHOWN) -> Timeline:
    """The first steps of the typical run in its steady state, as a trace of them would read."""
    p = prediction
    tariff = Tariff(p.price, p.speed)
    loader = Loader(p.loader_us[1] if p.loader_us else 0.0, p.price.host["fetch_us"].at("typical"))
    steps = min(steps, p.steps)
    clocks = simulate(p.recording, tariff, steps, loader, keep=True)[1]
    draft = Draft(source)
    draft.devices = (p.price.name,)
    draft.notes.append(p.note())
    main = draft.lane("host (predicted)")
    bounds = clocks.steps[SETTLE - 1 :]
    for number, (start, end) in enumerate(pairwise(bounds)):
        draft.step(number, start, end)
    for span in clocks.host:
        if span.start_us >= bounds[0]:
            draft.operator(span.operator, main, span.start_us, span.end_us)
    for link, span in enumerate(clocks.device):
        if span.end_us >= bounds[0]:
            lane = draft.lane(f"stream {span.stream} (predicted)", device=0, stream=span.stream)
            draft.work(span.operator, lane, max(span.start_us, bounds[0]), span.end_us, WorkKind.KERNEL, link)
    for wait in clocks.waits:
        draft.call("cudaStreamSynchronize", main, wait.start_us, wait.end_us, CallKind.STREAM_SYNC)
    return draft.timeline()


def blame(site: Site | None) -> str:
    """A site as people read it."""
    return "" if site is None else f"{site} {site.code}".rstrip()
