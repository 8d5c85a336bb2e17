"""What a device was asked to do in a few like steps: recorded once, priced as often as one likes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from ...stalls.price import Mark, Seen

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
