"""What one run of the experiment is made of, checked before anything is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ..errors import TallyError

DEVICES = ("cuda", "cpu", "pretend")
MODELS = ("resnet18", "small")
DATA = ("fake", "digits", "ready")
DIGITS = 10  # classes of scikit-learn's digits
SMALLEST_IMAGE = 8  # pixels; anything smaller leaves the last layers nothing to look at


@dataclass(frozen=True)
class Settings:
    """The knobs of the training job. `published` and `small` are the two sensible starting points."""

    device: str
    model: str
    data: str
    batch: int
    steps: int
    log_interval: int
    warmup: int
    image_size: int
    classes: int
    workers: int
    seed: int = 0
    ddp: bool = False
    nproc: int = 1

    def __post_init__(self) -> None:
        choose("--device", self.device, DEVICES)
        choose("--model", self.model, MODELS)
        choose("--data", self.data, DATA)
        # Batch normalisation in train mode needs two values per channel, which one small image does not give.
        for option, value, least in (
            ("--batch", self.batch, 2),
            ("--steps", self.steps, 1),
            ("--log-interval", self.log_interval, 1),
            ("--warmup", self.warmup, 0),
            ("--image-size", self.image_size, SMALLEST_IMAGE),
            ("--classes", self.classes, 2),
            ("--workers", self.workers, 0),
            ("--nproc", self.nproc, 1),
        ):
            if value < least:
                raise TallyError(f"{option}: expected {least} or more, got {value}.")
        if self.data == "digits" and self.classes < DIGITS:
            raise TallyError(f"--classes: scikit-learn's digits have {DIGITS} classes, got {self.classes}. Leave --classes out, or use --data fake.")
        if self.device == "pretend" and (self.ddp or self.nproc > 1):
            raise TallyError("--ddp and --nproc need real processes that train; use --device cuda or cpu with them.")

    @property
    def timed_steps(self) -> int:
        """`steps`, rounded up to whole log intervals."""
        return -(-self.steps // self.log_interval) * self.log_interval

    @property
    def turn(self) -> int:
        """Steps a variant runs before the next one's turn.

        On CUDA the work of many steps is queued, so a turn lasts until a reading drains the queue; on a CPU nothing outlives its step,
        and the shortest turns make the fairest comparison.
        """
        return self.log_interval if self.device == "cuda" else 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"turn": self.turn}


def choose(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise TallyError(f"{option}: expected one of {', '.join(allowed)}, got {value!r}.")


PUBLISHED = dict(model="resnet18", data="fake", batch=128, steps=200, log_interval=100, warmup=11, image_size=224, workers=12)
"""The sizes of the published account: ResNet-18 on 128 images of 224 by 224 and 1000 classes."""
SMALL = dict(model="resnet18", data="digits", batch=4, steps=120, log_interval=10, warmup=3, image_size=32, workers=0)
"""The same job cut down until a processor finishes it in minutes and metrics still show."""


def sized(base: Mapping[str, Any], device: str, **chosen: Any) -> Settings:
    """The settings `base` for a device, with what was chosen in place of its own; None is not chosen. Several processes need DistributedDataParallel."""
    sizes = {**base, **{name: value for name, value in chosen.items() if value is not None}}
    sizes.setdefault("classes", DIGITS if sizes["data"] == "digits" else 1000)
    sizes["ddp"] = sizes.get("ddp", False) or sizes.get("nproc", 1) > 1
    return Settings(device=device, **sizes)


def for_device(device: str | None, **chosen: Any) -> Settings:
    """Settings for a device, by default CUDA where there is one: small sizes on the CPU, published ones elsewhere."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    choose("--device", device, DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise TallyError("--device cuda: PyTorch sees no CUDA device here. Use --device cpu, or pretend to have one: --device pretend --price a40.")
    return sized(SMALL if device == "cpu" else PUBLISHED, device, **chosen)


def describe(settings: Settings) -> str:
    """The job in one sentence."""
    s = settings
    how = f", {s.nproc} processes under DistributedDataParallel" if s.nproc > 1 else ", under DistributedDataParallel" if s.ddp else ""
    source = {"fake": "random images", "digits": "scikit-learn's digits", "ready": "random images that lie ready,"}[s.data]
    return (
        f"{s.model} on {s.device}{how}: batches of {s.batch} {source} of {s.image_size} by {s.image_size} pixels, {s.classes} classes, "
        f"{s.timed_steps} steps per variant after {s.warmup} of warm-up, metrics read every {s.log_interval}."
    )
