"""What a run would cost on a device that is not here: price lists, two clocks, and the work of each operator. See docs/cost-model.md."""

from .clocks import Clocks, Latencies, Loader, Span, Task, Wait
from .host import CallCounter, HostSpeed, calibrate
from .meter import Mark, Meter, Seen, Tariff, play
from .prices import PACES, Constant, Pace, Price, names, price
from .work import Work, work_of

__all__ = [
    "PACES",
    "CallCounter",
    "Clocks",
    "Constant",
    "HostSpeed",
    "Latencies",
    "Loader",
    "Mark",
    "Meter",
    "Pace",
    "Price",
    "Seen",
    "Span",
    "Tariff",
    "Task",
    "Wait",
    "Work",
    "calibrate",
    "names",
    "play",
    "price",
    "work_of",
]
