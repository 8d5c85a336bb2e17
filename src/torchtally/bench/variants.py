"""All variants by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..errors import TallyError
from . import metrics, timers
from .meter import Meter

BASELINE = "none"


@dataclass(frozen=True)
class Variant:
    """One way to collect metrics. `section` is the published account's; `fails` explains the error that reading it ends in, where that is the point."""

    name: str
    make: Callable[[int, str], Meter]
    feeds: Literal["batch", "seconds"] = "batch"
    section: str = ""
    ddp: bool = False
    fails: str = ""

    @property
    def summary(self) -> str:
        return (self.make.__doc__ or "").strip().splitlines()[0]


NO_CPU_TENSORS = (
    "NCCL moves tensors between GPUs only, and reading a metric synchronises it over the processes, even over one. Ways out: "
    "sync_on_compute=False (variant cpu-ddp-nosync), the metric on the GPU fed with tensors (gpu-tensor), or torchtally (torchtally-time)."
)

VARIANTS = {
    v.name: v
    for v in (
        Variant(BASELINE, metrics.none, section="1"),
        Variant("naive", metrics.naive, section="2"),
        Variant("weights", metrics.weights, section="5"),
        Variant("no-nan-check", metrics.no_nan_check, section="6"),
        Variant("collection", metrics.collection),
        Variant("torchtally", metrics.torchtally),
        Variant("cpu", timers.cpu, "seconds", section="7a"),
        Variant("cpu-ddp", timers.cpu_ddp, "seconds", section="7b", ddp=True, fails=NO_CPU_TENSORS),
        Variant("cpu-ddp-nosync", timers.cpu_ddp_nosync, "seconds", section="7c", ddp=True),
        Variant("gpu-float", timers.gpu_float, "seconds", section="7d"),
        Variant("gpu-tensor", timers.gpu_tensor, "seconds", section="8"),
        Variant("torchtally-time", timers.torchtally_time, "seconds"),
    )
}
MAIN = (BASELINE, "naive", "collection", "torchtally")
"""What runs when nothing is chosen."""


def pick(names: list[str]) -> list[Variant]:
    """Those variants, each once, in the order given."""
    for name in names:
        if name not in VARIANTS:
            raise TallyError(f"--variant: expected one of {', '.join(VARIANTS)}, got {name!r}.")
    return [VARIANTS[name] for name in dict.fromkeys(names)]


def make(variant: Variant, classes: int, device: str) -> Meter:
    """The variant's functions, with its metrics on `device`."""
    try:
        return variant.make(classes, device)
    except ModuleNotFoundError as error:
        raise TallyError(f"Variant {variant.name!r} needs {error.name}: pip install 'torchtally[bench]'.") from None
