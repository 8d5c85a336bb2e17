"""What to do instead, from the catalogue."""

from __future__ import annotations

from dataclasses import replace

from ..catalogue import ROWS
from ..stall import Kind, Stall
from ..timeline import Timeline
from .findings import Findings

BY_KIND: dict[Kind, str] = {
    "read": "keep it on the device and read once per many steps, or `.to('cpu', non_blocking=True)` and read after an event",
    "host_to_device": "create the tensor on the device, or copy from pinned memory with `non_blocking=True`",
    "device_to_host": "`.to('cpu', non_blocking=True)`, and read after an event",
    "shape_read": "a form of fixed shape: `torch.where` and masks instead of indexing by a mask",
    "synchronize": "remove it; to measure time, use events of the device",
    "allocator": "keep shapes fixed and do not empty the cache in the loop; `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`",
    "print": "print a value that was read on purpose, every N steps",
}


def propose_remedies(timeline: Timeline, findings: Findings) -> Findings:
    """The catalogue's remedy for the operator and kind; where it has none, the kind's."""
    by_both = {(row.operator, row.kind): row.remedy for row in reversed(ROWS)}
    by_operator = {row.operator: row.remedy for row in reversed(ROWS)}

    def with_remedy(stall: Stall) -> Stall:
        if stall.remedy:
            return stall
        found = by_both.get((stall.operator, stall.kind))
        if found is None and stall.kind in ("read", "shape_read"):
            found = by_operator.get(stall.operator)
        return replace(stall, remedy=found or BY_KIND[stall.kind])

    return findings.changed(with_remedy)
