"""The records every source of stalls produces and every renderer shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["read", "host_to_device", "device_to_host", "shape_read", "synchronize", "allocator", "print"]
"""How the host came to wait: a device value was read; a copy from pageable memory; a copy to the host; the shape of a result
depends on device values; an explicit synchronisation; the allocator; a device tensor was printed or formatted."""


@dataclass(frozen=True, slots=True)
class Site:
    """One source line: `code` is its text, without indentation, where the file can be read."""

    file: str
    line: int
    function: str = ""
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Stall:
    """The host waiting for the device once, or a copy that makes it wait once.

    `site` is the innermost line that is the user's own; `inner` the innermost line at all (the same where the user's own line waits).
    `step` counts from 0; None is outside the steps, or no steps known.
    Times are microseconds since the start of the run; None is unknown. `host_wait_us` is how long the host was blocked, `device_idle_us`
    how long the device had nothing to do because of it, `launch_lag_us` the time from the end of the wait to the device's next work.
    """

    kind: Kind
    operator: str
    site: Site | None = None
    inner: Site | None = None
    metric: str | None = None
    region: str | None = None
    step: int | None = None
    start_us: float | None = None
    host_wait_us: float | None = None
    device_idle_us: float | None = None
    launch_lag_us: float | None = None
    inferred: bool = False
    remedy: str = ""
    rank: int = 0
    thread: str = ""


@dataclass(frozen=True, slots=True)
class StallGroup:
    """All stalls of one site, kind and operator. Sums of times are None where any part is unknown."""

    kind: Kind
    operator: str
    site: Site | None
    inner: Site | None
    metric: str | None
    region: str | None
    count: int
    per_step: float | None
    host_wait_us: float | None
    device_idle_us: float | None
    inferred: bool
    remedy: str


@dataclass(frozen=True, slots=True)
class Gain:
    """What the run would save if a set of stalls went. The run is replayed without them: removing one wait often only moves it to the next."""

    what: str
    stalls: int
    saved_us: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """What one run or trace showed: the input of every renderer and of `torchtally diff`.

    `steps` is None where none were marked. Over several ranks, `steps` and `duration_us` (the time of the steps, or of the run where there
    are none) are sums over ranks, so that counts per step and shares of time stay right. `predicted` names the device whose times a cost
    model predicted; None where times were measured, or are unknown.
    """

    tool: str
    source: str
    steps: int | None
    stalls: tuple[Stall, ...]
    notes: tuple[str, ...] = field(default=())
    duration_us: float | None = None
    gains: tuple[Gain, ...] = ()
    predicted: str | None = None


def total(values: list[float | None]) -> float | None:
    """Their sum, or None where any of them is unknown."""
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def group(stalls: tuple[Stall, ...], steps: int | None) -> list[StallGroup]:
    """Stalls by site, kind, operator, metric and region, the most frequent first.

    `steps` is the sum over ranks, so `per_step` is that of the average rank. Where any stall knows its step, those that know none happened outside the steps
    (setting up, after the last step) and do not count.
    """
    marked = any(s.step is not None for s in stalls)
    groups: dict[tuple[object, ...], list[Stall]] = {}
    for s in stalls:
        groups.setdefault((s.kind, s.operator, s.site, s.inner, s.metric, s.region), []).append(s)
    rows = []
    for members in groups.values():
        s = members[0]
        rows.append(
            StallGroup(
                kind=s.kind,
                operator=s.operator,
                site=s.site,
                inner=s.inner,
                metric=s.metric,
                region=s.region,
                count=len(members),
                per_step=sum(m.step is not None or not marked for m in members) / steps if steps else None,
                host_wait_us=total([m.host_wait_us for m in members]),
                device_idle_us=total([m.device_idle_us for m in members]),
                inferred=any(m.inferred for m in members),
                remedy=s.remedy,
            )
        )
    return sorted(rows, key=lambda r: -r.count)
