"""What to change in one's own code so that its metrics stop waiting, in words and with the line."""

from __future__ import annotations

from dataclasses import dataclass

from ..stalls import Site

WEIGHTS = "Give weights as tensors"
NAN_CHECK = "Turn off or defer the NaN check"
SCALARS = "Turn scalars into tensors before updating a metric on the GPU"
DEVICE = "Choose the metric's device on purpose"
SYNC = "Switch off synchronisation across devices where it is not needed"
OWN_METRIC = "Do not read the device in update"
REPLACE = "Replace the metric, or defer its updates"
READING = "Read results less often"


@dataclass(frozen=True, slots=True)
class Advice:
    """One change. `site` is the line to change, `before` its text and `after` what to write; `per_step` is how often it waits now, None if that is not known."""

    what: str
    why: str
    metric: str = ""
    site: Site | None = None
    before: str = ""
    after: str = ""
    per_step: float | None = None

    def __str__(self) -> str:
        where = ": ".join(str(x) for x in (self.site, self.metric) if x)
        often = "" if self.per_step is None else f" ({self.per_step:g} wait{'s' * (self.per_step != 1)} a step)"
        lines = [f"{where + ': ' if where else ''}{self.what}{often}", f"  {self.why}"]
        lines += [f"  - {self.before}"] if self.before else []
        lines += [f"  + {self.after}"] if self.after else []
        return "\n".join(lines)
