"""Where a tensor lives: the class of its storage says so.

A pretend tensor is a plain `torch.Tensor` in host memory. Its storage object has a class of its own per device, and PyTorch keeps that
object alive as long as the memory, so that views, `.data`, saved activations and whatever C++ makes of them live on the device as well.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import torch
from torch import Tensor, UntypedStorage

HOST = -1  # the index of no device

NoFunctions: Any = torch._C.DisableTorchFunction
storage_of: Any = torch._C.TensorBase.untyped_storage
_function_depth: Any = torch._C._len_torch_function_stack
_real_device: Any = torch._C.TensorBase.device.__get__  # type: ignore[attr-defined]


FREED_TWICE = torch.__version__ < "2.10" and sys.version_info < (3, 12)
"""Whether PyTorch asks for the class of a storage that is being freed, and CPython may collect garbage meanwhile and free it again."""


def hidden(storage: Any) -> Any:
    """A storage that the garbage collector does not see, where it would free it twice."""
    if FREED_TWICE:
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(storage))
    return storage


class PinnedStorage(UntypedStorage):
    """Host memory that a copy engine reads directly."""

    index = HOST

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return UntypedStorage.__new__(UntypedStorage, *args, **kwargs)  # copies are pageable

    def is_pinned(self, device: Any = "cuda") -> bool:
        return True


class DeviceStorage(UntypedStorage):
    """Memory of one pretend device; `class_of(index)` makes the class of a device."""

    index = 0
    is_cuda = True
    device: torch.device = torch.device("cuda", 0)  # type: ignore[assignment]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device", None)
        return hidden(UntypedStorage.__new__(cls, *args, **kwargs))

    def get_device(self) -> int:
        return self.index

    def cpu(self) -> UntypedStorage:
        from .session import muted, tell  # the session knows this module

        tell("UntypedStorage.cpu", (self,))
        with muted():
            return UntypedStorage(self.nbytes()).copy_(self, False)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        from .session import index_of_device, muted

        cls = class_of(index_of_device("cuda" if device is None else device))
        with muted():
            return self if type(self) is cls else cls(self.nbytes()).copy_(self, non_blocking)

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:  # type: ignore[override]
        return self.cpu() if torch.device(device).type == "cpu" else self.cuda(device, non_blocking)

    def tolist(self) -> list[Any]:
        return self.cpu().tolist()

    def pin_memory(self, device: Any = "cuda") -> Any:
        raise TypeError(f"cannot pin 'torch.storage.UntypedStorage' on {self.device}: only CPU memory can be pinned")

    def is_pinned(self, device: Any = "cuda") -> bool:
        return False


_CLASSES: dict[int, type[DeviceStorage]] = {}
INDEX: dict[type, int] = {UntypedStorage: HOST, PinnedStorage: HOST}
"""The device of a storage, by its class."""



def class_of(index: int) -> type[DeviceStorage]:
    """The class of the storages of `cuda:index`."""
    cls = _CLASSES.get(index)
    if cls is None:
        cls = type(f"DeviceStorage{index}", (DeviceStorage,), {"index": index, "device": torch.device("cuda", index), "__module__": __name__})
        _CLASSES[index] = cls
        INDEX[cls] = index
    return cls


def index_of(tensor: Tensor) -> int:
    """The index of the device a tensor lives on, `HOST` for none. For use where no torch function mode is on; else `where`."""
    try:
        index = INDEX.get(type(storage_of(tensor)), HOST)
    except (RuntimeError, NotImplementedError):
        return _index_without_storage(tensor)
    if index == HOST and type(tensor) is not Tensor and hasattr(tensor, "__tensor_flatten__"):
        return _index_without_storage(tensor)  # a wrapper, whose own storage is a dummy
    return index


def where(tensor: Any) -> int:
    """The index of the device a tensor lives on, whatever mode is on."""
    if _function_depth():
        with NoFunctions():
            return index_of(tensor)
    return index_of(tensor)


def parts(tensor: Tensor) -> list[Tensor]:
    """The tensors with memory that make up one without a storage of its own: a sparse, nested, batched or wrapped tensor."""
    functorch = torch._C._functorch
    with NoFunctions(), torch._C._DisableTorchDispatch():
        if functorch.is_functorch_wrapped_tensor(tensor):
            return [functorch.get_unwrapped(tensor)]
        if hasattr(tensor, "__tensor_flatten__"):
            names, _ = tensor.__tensor_flatten__()
            return [getattr(tensor, name) for name in names]
        if tensor.layout is torch.sparse_coo:
            return [tensor._indices(), tensor._values()]
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
        return []


def _index_without_storage(tensor: Tensor) -> int:
    return next((index for part in parts(tensor) if (index := index_of(part)) != HOST), HOST)


def place(tensor: Tensor, index: int) -> None:
    """Declare a tensor's memory to be on `cuda:index`."""
    cls = _CLASSES.get(index) or class_of(index)
    try:
        storage = storage_of(tensor)
    except (RuntimeError, NotImplementedError):
        for part in parts(tensor):
            place(part, index)
        return
    if type(storage) is not cls and not tensor.is_meta:
        hidden(storage).__class__ = cls
        PLACED[0] += 1


PLACED = [0]
"""How many storages were put on a device so far: whether a program used one at all."""


def pin(tensor: Tensor) -> Tensor:
    """Declare a host tensor's memory to be pinned."""
    with NoFunctions():
        hidden(storage_of(tensor)).__class__ = PinnedStorage
    return tensor


def is_pinned(tensor: Any) -> bool:
    """Whether a tensor lies in pinned host memory."""
    with NoFunctions():
        try:
            return type(storage_of(tensor)) is PinnedStorage
        except (RuntimeError, NotImplementedError):
            return False


def device_of(tensor: Any) -> torch.device:
    """What `tensor.device` says."""
    if _function_depth():
        with NoFunctions():
            index = index_of(tensor)
            return _real_device(tensor) if index == HOST else class_of(index).device
    index = index_of(tensor)
    return _real_device(tensor) if index == HOST else class_of(index).device
