"""Every way of waiting for a device, as data: what waits, when, why, and the form that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .stall import Kind


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a device sees: an ATen operator (`aten::index_put_`, overload `default`) or a Python-level function (`Tensor.tolist`).

    `on_device(x)` tells whether a tensor lives on the device, `pinned(x)` whether a host tensor lies in pinned memory.
    """

    operator: str
    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    on_device: Callable[[Any], bool]
    pinned: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Row:
    """One way of waiting. `count(call)` says how many times the call waits (0: not in this case)."""

    operator: str
    kind: Kind
    count: Callable[[Call], int]
    why: str
    remedy: str
    since: str = "2.6"
    until: str | None = None


ROWS: tuple[Row, ...] = ()


def waits(call: Call) -> list[tuple[Row, int]]:
    """The rows that apply to a call, and how often each waits."""
    return [(row, n) for row in ROWS if row.operator == call.operator and (n := row.count(call))]
