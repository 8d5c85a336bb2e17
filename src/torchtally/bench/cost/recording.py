"""What a device was asked to do in a few like steps: recorded once, priced as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

from ...errors import TallyError
from ...stalls.price import Mark, Meter, Seen, calibrate
from ...stalls.sources.pretend import pretend_cuda
from ...stalls.sources.pretend.session import SESSIONS
from ...stalls.stall import Stall

Part = Sequence[Seen | Mark]


@dataclass(frozen=True)
class Recording:
    """Some like steps, and one reading of the metrics (`log`), of which there is one every `log_interval` steps."""

    steps: Sequence[Part]
    log: Part = ()
    log_interval: int = 100

    def sequence(self, steps: int) -> Iterator[Part]:
        """The recorded steps over and over, a reading at the end of each interval."""
        for number, step in enumerate(islice(cycle(self.steps), steps), 1):
            yield step
            if self.log and number % self.log_interval == 0:
                yield self.log

    def whole_intervals(self, steps: int) -> int:
        """`steps`, rounded up so that readings have their true share."""
        return -(-steps // self.log_interval) * self.log_interval if self.log else steps


@contextmanager
def device_on_shapes() -> Iterator[Any]:
    """A pretend CUDA device for models of any size: inside, build on "cuda" what is to be recorded, then call `record` or `predict`. Yields the recorder of stalls."""
    calibrate()  # before PyTorch is changed: what is measured must be the host
    with pretend_cuda(shapes=True, meter=Meter()) as recorder:
        yield recorder


def record(step: Callable[[], object], *, log: Callable[[], object] | None = None, log_interval: int = 100, warmup: int = 2, steps: int = 2) -> Recording:
    """Call `step` some times and keep what it asks of the device; `log` is what happens every `log_interval` steps, such as reading metrics."""
    session = SESSIONS[-1] if SESSIONS else None
    if session is None or session.meter is None:
        raise TallyError("There is no device to record on: call this inside `with device_on_shapes():`, with the model and the metrics made on \"cuda\" there.")
    meter = session.meter
    for _ in range(warmup):
        step()
    if log:
        log()  # a first reading may prepare something
        step()
    meter.seen.clear()
    read: Part = []
    with meter.counter:
        for _ in range(steps):
            meter(Mark("fetch"))
            step()
            meter(Mark("step"))
        parts = meter.steps()
        if log:
            meter.seen.clear()
            log()
            read = list(meter.seen)
    stalls = list(getattr(session.recorder, "stalls", []))
    return Recording([_blamed(part, stalls) for part in parts], _blamed(read, stalls), log_interval)


def _blamed(part: Part, stalls: Sequence[Stall]) -> list[Seen | Mark]:
    """Calls that wait know the stall that the recorder made of them."""
    return [replace(s, tag=stalls[s.tag], site=stalls[s.tag].site) if isinstance(s.tag, int) and s.tag < len(stalls) else s for s in part]

