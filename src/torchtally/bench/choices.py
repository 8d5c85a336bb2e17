"""What the command's options mean, checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import TallyError
from ..stalls.price import price as price_list
from .report import installed
from .settings import PUBLISHED, Settings, sized
from .variants import BASELINE, MAIN, VARIANTS, Variant, pick

DEFAULT_PRICE = "a40"  # the published account's device


def variants(names: Sequence[str] | None, everything: bool, metrics: bool) -> list[Variant]:
    """The variants to run. Without metrics that is only the baseline."""
    if names and (everything or not metrics):
        raise TallyError(f"--variant names what to run, {'--all' if everything else '--no-metrics'} does too: give one of them.")
    if not metrics:
        return pick([BASELINE])
    return pick(list(names or (VARIANTS if everything else MAIN)))


def prices(names: Sequence[str] | None, device: str) -> list[str]:
    """The price lists to predict with; each can be read."""
    if names is None:
        names = [] if device == "cuda" else [DEFAULT_PRICE]
    wanted = [name for name in dict.fromkeys(names) if name != "none"]
    for name in wanted:
        price_list(name)
    if device == "pretend" and not wanted:
        raise TallyError("--device pretend measures nothing, so it needs something to predict for: give --price a40, another device or a file.")
    return wanted


def predicted_sizes(chosen: Settings, prices: Sequence[str], **given: Any) -> Settings:
    """The job to predict: the published one where a cut-down one was measured on the CPU, with whatever sizes were given in place of its own."""
    if chosen.device != "cpu" or not prices:
        return chosen
    return sized(PUBLISHED, "pretend", **{**given, "ddp": False, "nproc": 1})


def need_version(package: str, wanted: str | None) -> None:
    """Refuse to run with another version than the one asked for."""
    have = installed(package)
    if wanted is not None and wanted != have:
        raise TallyError(f"--{package} {wanted}: {f'version {have} is installed' if have else 'it is not installed'}. Run: pip install '{package}=={wanted}'")


PICTURES = (".png", ".svg", ".pdf")


def need_picture(file: Path | None, chosen: Sequence[Variant]) -> None:
    """A picture compares with the baseline and is of a kind that can be drawn."""
    if file is None:
        return
    if file.suffix.lower() not in PICTURES:
        raise TallyError(f"--picture {file}: expected another kind of file. Give a file that ends in .png, .svg or .pdf.")
    if all(v.name != BASELINE for v in chosen):
        raise TallyError(f"--picture compares step times with those of the variant {BASELINE!r}: run that one too.")


def need_writable(file: Path | None) -> None:
    """Minutes of work should not end in a file that cannot be written."""
    if file is None:
        return
    if file.is_dir():
        raise TallyError(f"{file}: expected a file to write, got a folder.")
    if not file.absolute().parent.is_dir():
        raise TallyError(f"{file}: the folder {file.absolute().parent} does not exist. Create it, or give another file.")
