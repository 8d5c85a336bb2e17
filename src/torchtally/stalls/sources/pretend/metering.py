"""What a call is worth to a meter: the bytes it copies over the bus, or the work it is for the device."""

from __future__ import annotations

from typing import Any

import torch

from ...price.meter import Bus
from ...price.work import NOTHING, copy_bytes, work_of
from .memory import HOST, NoFunctions, index_of, is_pinned
from .session import SESSIONS, STATE


def metered(function: Any, packet: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, waits: int) -> None:
    """Tell every meter of an operator that ran on the device."""
    meters = [(session.meter, session.tag if waits else None) for session in SESSIONS if session.meter is not None]
    if not meters or STATE.muted:
        return
    bus: Bus = ""
    moved = 0.0
    with NoFunctions():
        if packet in ("_to_copy", "copy_"):
            source, target = (args[0], result) if packet == "_to_copy" else (args[1], args[0])
            if (index_of(source) == HOST) != (index_of(target) == HOST):
                bus = "to_host" if index_of(source) != HOST else "pinned" if is_pinned(source) else "pageable"
                moved = copy_bytes(source)
        elif packet == "_local_scalar_dense":
            bus, moved = "to_host", float(args[0].element_size())
        work = NOTHING if bus else work_of(function, args, kwargs, result)
    for meter, tag in meters:
        meter.operator(f"aten::{packet}", work, waits, bus, moved, tag, backward=torch._C._current_autograd_node() is not None)


class held:
    """Inside, no meter counts function calls."""

    def __enter__(self) -> None:
        for session in SESSIONS:
            if session.meter is not None:
                session.meter.counter.held += 1

    def __exit__(self, *error: Any) -> None:
        for session in SESSIONS:
            if session.meter is not None:
                session.meter.counter.held -= 1
