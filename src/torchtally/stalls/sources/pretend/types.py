"""The old constructors: `torch.cuda.FloatTensor(3)`, `isinstance(x, torch.cuda.LongTensor)`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .memory import HOST, where
from .session import Patches

_NAMES = {
    "FloatTensor": torch.float32, "DoubleTensor": torch.float64, "HalfTensor": torch.float16, "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8, "CharTensor": torch.int8, "ShortTensor": torch.int16, "IntTensor": torch.int32, "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}  # fmt: skip


class _DeviceType(type):
    dtype: torch.dtype

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and where(value) != HOST

    def __call__(cls, *args: Any, device: Any = "cuda") -> Tensor:
        if len(args) == 1 and isinstance(args[0], (list, tuple)) and not isinstance(args[0], torch.Size):
            return torch.tensor(args[0], dtype=cls.dtype, device=device)
        if len(args) == 1 and isinstance(args[0], Tensor):
            return args[0].to(device=device, dtype=cls.dtype)
        if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
            return torch.as_tensor(args[0], dtype=cls.dtype, device=device)
        return torch.empty(*args or (0,), dtype=cls.dtype, device=device)


def patch_types(patches: Patches) -> None:
    for name, dtype in _NAMES.items():
        patches.set(torch.cuda, name, _DeviceType(name, (), {"dtype": dtype, "is_cuda": True, "__module__": "torch.cuda"}))
