"""What a run used that reaches a device past PyTorch, so that no pretend device can see it."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .ownership import Owner, Ownership

UNSEEN: dict[str, str] = {
    "apex": "its CUDA extensions",
    "bitsandbytes": "its CUDA kernels",
    "cudf": "its device work",
    "cupy": "its device work",
    "deepspeed": "its CUDA extensions",
    "flash_attn": "its CUDA kernels",
    "jax": "its device work",
    "nvidia.dali": "its pipelines",
    "pycuda": "its device work",
    "pynvml": "what it reads from the driver",
    "tensorrt": "its engines",
    "transformer_engine": "its CUDA kernels",
    "xformers": "its CUDA kernels",
}
"""Packages → what of them cannot be pretended."""

_SEEN = ("torch", "torchvision", "torchaudio", "triton")  # triton as torch loads it; kernels of one's own are looked for
_CUDA_LIBRARIES = (b"libcudart", b"libc10_cuda", b"libcuda.so")


def notes(loaded_before: Iterable[str], ownership: Ownership) -> list[str]:
    """One note for each such package that was loaded since."""
    before = set(loaded_before)
    loaded = {name: module for name, module in list(sys.modules.items()) if name not in before and isinstance(module, ModuleType)}
    found = {name: f"{name} was imported: {what} cannot be pretended and is not in this report" for name, what in UNSEEN.items() if name in loaded}
    for name, module in loaded.items():
        package = name.partition(".")[0]
        file = getattr(module, "__file__", None) or ""
        if package in found or package in _SEEN or not file:
            continue
        if file.endswith((".so", ".pyd")) and _links_to_cuda(file):
            found[package] = f"{package} has a CUDA extension: what it does cannot be pretended and is not in this report"
        elif ownership(file) is Owner.USER and any(_is_triton_kernel(value) for value in vars(module).values()):
            found[package] = f"{name} has Triton kernels: they cannot be pretended, and their waits are not in this report"
    return list(found.values())


def _is_triton_kernel(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "triton"


def _links_to_cuda(file: str) -> bool:
    try:
        with open(file, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(name) >= 0 for name in _CUDA_LIBRARIES)
    except (OSError, ValueError):
        return False
