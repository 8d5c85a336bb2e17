"""PyTorch's own machinery that asks C++ where tensors are: autograd's engine, grouping for fused optimisers, function overriding, threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _device as default_device

from .functions import CallMode
from .memory import HOST, device_of, where
from .operators import BACKWARD, DeviceMode
from .session import SESSIONS, STATE, Patches, TorchCall

_depth: Any = torch._C._len_torch_function_stack


def patch_engine(patches: Patches) -> None:
    _patch_overriding(patches)
    _patch_backward(patches)
    _patch_grouping(patches)
    _patch_threads(patches)


def _patch_overriding(patches: Patches) -> None:
    """Let functions written in Python run their body at once, so that what they call is seen: PyTorch would hide their body from the mode."""
    checks: dict[Any, Callable[..., Any]] = {
        torch._C._has_torch_function: _check_sequence(torch._C._has_torch_function),
        torch._C._has_torch_function_unary: _check_one(torch._C._has_torch_function_unary),
        torch._C._has_torch_function_variadic: _check_many(torch._C._has_torch_function_variadic),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.") and name != "torch.overrides" and module is not None:
            for key in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
                own = vars(module).get(key)
                if own in checks:
                    patches.set(module, key, checks[own])


_PLAIN = {Tensor, torch.nn.Parameter}


def _ours_only() -> bool:
    """Whether no function mode is on but ours, and PyTorch's own for the default device."""
    return bool(_depth() <= (1 if default_device.CURRENT_DEVICE is None else 2))


def _check_one(own: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: not (_ours_only() and _is_plain(value)) and own(value)


def _check_sequence(own: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda values: not (_ours_only() and all(_is_plain(value) for value in values)) and own(values)


def _check_many(own: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *values: not (_ours_only() and all(_is_plain(value) for value in values)) and own(*values)


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or not hasattr(type(value), "__torch_function__")


def _patch_backward(patches: Patches) -> None:
    """Helper tensors that the engine makes for itself belong to the device of what is differentiated."""
    own = torch.autograd.graph._engine_run_backward

    def _engine_run_backward(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = tuple(t for t in t_outputs if isinstance(t, Tensor))
        index = next((i for t in tensors if (i := where(t)) != HOST), HOST)
        if index == HOST:
            return own(t_outputs, *args, **kwargs)
        outer = STATE.call
        STATE.call = TorchCall(BACKWARD, tensors, {})
        try:
            return own(t_outputs, *args, **kwargs)
        finally:
            STATE.call = outer

    patches.set(torch.autograd.graph, "_engine_run_backward", _engine_run_backward)
    patches.set(torch.autograd, "_engine_run_backward", _engine_run_backward)


def _patch_grouping(patches: Patches) -> None:
    own = torch._C._group_tensors_by_device_and_dtype

    def _group_tensors_by_device_and_dtype(lists: Any, with_indices: bool = False) -> Any:
        by_device: dict[torch.device, list[int]] = {}
        for position, tensor in enumerate(lists[0]):
            by_device.setdefault(device_of(tensor), []).append(position)
        grouped: dict[Any, Any] = {}
        for device, positions in by_device.items():
            part = lists if len(by_device) == 1 else [[tensors[p] for p in positions] if tensors else tensors for tensors in lists]
            for (_, dtype), (tensors, indices) in own(part, with_indices).items():
                grouped[(device, dtype)] = (tensors, [positions[i] for i in indices] if with_indices else indices)
        return grouped

    patches.set(torch._C, "_group_tensors_by_device_and_dtype", _group_tensors_by_device_and_dtype)


def _patch_threads(patches: Patches) -> None:
    """Modes belong to a thread: give them to each thread that starts."""
    own = threading.Thread.start

    def start(self: threading.Thread) -> None:
        run = self.run
        index = STATE.index

        def run_pretending() -> None:
            if not SESSIONS:
                return run()
            STATE.index = index if _inherits(self) else 0
            with DeviceMode(), CallMode():
                run()

        self.run = run_pretending  # type: ignore[method-assign]
        try:
            own(self)
        except BaseException:
            self.__dict__.pop("run", None)
            raise

    patches.set(threading.Thread, "start", start)


def _inherits(thread: threading.Thread) -> bool:
    return False  # as for CUDA: a new thread starts on device 0
