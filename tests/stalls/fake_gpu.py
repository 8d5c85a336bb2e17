"""A GPU that only gives signs: what torch tells of a wait, in the order in which a real device tells it."""

import warnings

import torch
from torch.cuda import _gpu_trace

from torchtally.stalls.sources.live import SIGN

MESSAGE = f"{SIGN} (Triggered internally at CUDAFunctions.cpp:122.)"


class FakeGpu:
    """Takes the place of the parts of torch that `watch` talks to, and gives signs as the C++ of an operator does: traces at once, warnings at its end."""

    def __init__(self, monkeypatch):
        self.debug_mode = 0
        self.trace = False
        self.warns = True
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "init", lambda: None)
        monkeypatch.setattr(torch._C, "_activate_gpu_trace", self.activate, raising=False)
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: self.debug_mode)
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", self.set_debug_mode)
        monkeypatch.setattr(torch.Tensor, "to", self.to, raising=False)
        monkeypatch.setattr(torch.Tensor, "copy_", self.copy_, raising=False)
        monkeypatch.setattr(torch.Tensor, "__repr__", self.repr)

    def activate(self):
        self.trace = True

    def set_debug_mode(self, mode):
        self.debug_mode = {"default": 0, "warn": 1}.get(mode, mode)

    def wait(self, times=1, traced=True, warned=True):
        for _ in range(times if traced and self.trace else 0):
            _gpu_trace.StreamSynchronizationCallbacks.fire_callbacks(0)
        for _ in range(times if warned and self.warns and self.debug_mode else 0):
            warnings.warn(MESSAGE, UserWarning, stacklevel=3)

    def to(self, source, device, non_blocking=False):
        """`Tensor.to` between the host and this device."""
        if not non_blocking:
            self.wait()
        moved = torch.zeros(source.shape, dtype=source.dtype)
        return moved if device == "cpu" else moved.as_subclass(OnDevice)

    def copy_(self, target, source, non_blocking=False):
        if not non_blocking:
            self.wait()
        return target

    def repr(self, tensor):
        self.wait(7)
        return "tensor(...)"


class OnDevice(torch.Tensor):
    device = property(lambda self: torch.device("cuda", 0))
    is_cpu = property(lambda self: False)
    is_cuda = property(lambda self: True)


class Value:
    """A device value as Python meets it."""

    def __init__(self, gpu):
        self.gpu = gpu

    def item(self):
        self.gpu.wait()
        return 1.0

    __float__ = item

    def __bool__(self):
        self.gpu.wait()
        return True

    def __getitem__(self, index):
        self.gpu.wait()
        return self

    def __setitem__(self, index, value):
        self.gpu.wait()

    def inv(self):
        self.gpu.wait()

    def svd(self):
        self.gpu.wait(2)

    def mode(self):
        self.gpu.wait(traced=False)

    def fused(self):
        self.gpu.wait(traced=False)
        self.gpu.wait(2)
