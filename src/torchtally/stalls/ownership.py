"""Whose code a line is: the user's own, a library's, or plumbing that nobody asked for."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

import torch


class Owner(IntEnum):
    """Plumbing carries calls and is never blamed; libraries and metric libraries may hold the innermost line; the rest is the user's own."""

    PLUMBING = 0
    LIBRARY = 1
    METRICS = 2
    USER = 3


METRIC_PACKAGES = ("torchmetrics", "torcheval", "ignite", "torchtally")
LIBRARY_PACKAGES = ("torchvision", "torchaudio", "lightning", "pytorch_lightning", "lightning_fabric", "accelerate", "transformers", "typer", "click", "hydra", "fire", "absl")
TORCH_THAT_DECIDES = ("amp", "distributed", "distributions", "nn/modules", "nn/parallel", "nn/utils", "optim", "utils/data")
"""Parts of torch whose Python code chooses to wait (a gradient scaler, a scheduler, a distribution's check): worth naming as the innermost line."""
TORCH_THAT_CARRIES = ("nn/modules/module.py", "nn/modules/container.py", "optim/optimizer.py")

_STALLS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STANDARD_LIBRARY = tuple({os.path.realpath(sysconfig.get_path(p)) + os.sep for p in ("stdlib", "platstdlib")})
_INSTALLED = tuple(os.sep + folder + os.sep for folder in ("site-packages", "dist-packages"))


class Ownership:
    """Tells the owner of a file. `own` and `libraries` are packages or paths to count as the user's own, or as not, whatever the rules say."""

    def __init__(self, own: Sequence[str] = (), libraries: Sequence[str] = ()) -> None:
        self.own = tuple(own)
        self.libraries = tuple(libraries)
        self._known: dict[str, Owner] = {}

    def __call__(self, file: str) -> Owner:
        owner = self._known.get(file)
        if owner is None:
            owner = self._known[file] = self._decide(file)
        return owner

    def _decide(self, file: str) -> Owner:
        if file.startswith("<"):  # generated code is carried by whoever calls it; a line typed by hand is the user's own
            return Owner.USER if file == "<stdin>" or file.startswith("<ipython-input") else Owner.PLUMBING
        path = os.path.abspath(file)
        if _within(path, self.own):
            return Owner.USER
        if _within(path, self.libraries):
            return Owner.LIBRARY
        if path.startswith(_STALLS):
            return Owner.PLUMBING
        if path.startswith(_TORCH):
            part = path[len(_TORCH) :].replace(os.sep, "/")
            decides = part.startswith(tuple(p + "/" for p in TORCH_THAT_DECIDES)) and part not in TORCH_THAT_CARRIES
            return Owner.LIBRARY if decides else Owner.PLUMBING
        if _within(path, METRIC_PACKAGES):
            return Owner.METRICS
        if any(folder in path for folder in _INSTALLED) or _within(path, LIBRARY_PACKAGES):
            return Owner.LIBRARY
        if os.path.realpath(path).startswith(_STANDARD_LIBRARY):
            return Owner.PLUMBING
        return Owner.USER


def _within(path: str, places: Sequence[str]) -> bool:
    """Whether the file lies in one of the places: a path, or the name of a package that is loaded (editable installs lie anywhere)."""
    for place in places:
        if os.sep in place or place.endswith(".py"):
            if path == os.path.abspath(place) or path.startswith(os.path.abspath(place) + os.sep):
                return True
        elif any(path.startswith(folder + os.sep) for folder in _folders(place)):
            return True
    return False


def _folders(package: str) -> list[str]:
    module = sys.modules.get(package)
    paths = [str(p) for p in getattr(module, "__path__", ())]
    # several copies of one package may be loaded over a session (an editable one beside an installed one): names below site-packages always count
    return paths + [str(Path(p) / package) for p in sysconfig.get_paths().values() if p.endswith(("site-packages", "dist-packages"))]
