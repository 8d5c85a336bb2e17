"""What cannot be pretended is named: compilers, kernels of one's own, and libraries that talk to the driver."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable
from typing import Any

import torch

from .session import SESSIONS, Patches, note

LIBRARIES = {
    "triton": "launches kernels of its own: they cannot run here",
    "pynvml": "asks the driver: there is none for the pretend device",
    "cupy": "has its own way to the device: it does not see the pretend device",
    "numba.cuda": "has its own way to the device: it does not see the pretend device",
    "pycuda": "has its own way to the device: it does not see the pretend device",
    "flash_attn": "is a CUDA extension: its kernels cannot run here",
    "xformers": "is a CUDA extension: its kernels may not run here",
    "apex": "is a CUDA extension: its kernels may not run here",
    "bitsandbytes": "is a CUDA extension: its kernels may not run here",
    "transformer_engine": "is a CUDA extension: its kernels cannot run here",
    "deepspeed": "builds CUDA extensions: their kernels may not run here",
}


class ImportWatch(importlib.abc.MetaPathFinder):
    """Finds no module, but sees which are asked for, and whether PyTorch itself asks."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in LIBRARIES and SESSIONS and not _asked_by_torch():
            note(f"{name} {LIBRARIES[name]}")
        return None


def _asked_by_torch() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("importlib", "_frozen_importlib", "_frozen_importlib_external"):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("torch", "torchvision", "torchaudio", "torchmetrics")


def patch_unseen(patches: Patches) -> None:
    def compile(model: Any = None, **options: Any) -> Any:
        note("torch.compile: what was to be compiled ran operator by operator")
        return (lambda function: function) if model is None else model

    patches.set(torch, "compile", compile)
    patches.set(torch.nn.Module, "compile", lambda self, *args, **kwargs: compile(self) and None)
    patches.replace(torch.ops, "load_library", _noted("torch.ops.load_library: operators of a library of one's own ran as they do on the CPU"))
    if "torch.export" in sys.modules:
        patches.set(torch.export, "export", _no_export)
    extension = sys.modules.get("torch.utils.cpp_extension")
    for name in ("load", "load_inline"):
        if extension is not None:
            patches.replace(extension, name, _noted(f"torch.utils.cpp_extension.{name}: kernels of one's own cannot run here"))
    watch = ImportWatch()
    patches.put_first(sys.meta_path, watch)


def _no_export(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.export.export: expected a program on the CPU or a real device, but devices are pretended, and its tracer takes no pretend tensors; "
        "export outside of pretend_cuda."
    )


def _noted(text: str) -> Callable[[Any], Any]:
    def make(own: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not _asked_by_torch():
                note(text)
            return own(*args, **kwargs)

        return call

    return make
