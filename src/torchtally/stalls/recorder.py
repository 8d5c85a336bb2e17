"""What a source tells of waits as they happen, turned into stalls with blame."""

from __future__ import annotations

from .catalogue import Row
from .stall import Stall


class Recorder:
    """Collects stalls. A source calls it with the row of the catalogue and the operator, once per wait, on the thread that waits."""

    def __init__(self) -> None:
        self.stalls: list[Stall] = []

    def __call__(self, row: Row, operator: str) -> None:
        self.stalls.append(Stall(kind=row.kind, operator=operator, remedy=row.remedy))
