"""Storages that are copied, saved and loaded: the files are those a real device would write, and read the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.storage import TypedStorage

from .memory import HOST, DeviceStorage, class_of
from .session import Patches, asks_for_device, index_of_device, muted, tell


def patch_storage(patches: Patches) -> None:
    wrap = TypedStorage._new_wrapped_storage
    to, cuda = UntypedStorage.to, UntypedStorage.cuda

    def _new_wrapped_storage(self: TypedStorage, untyped_storage: Any) -> TypedStorage:
        if isinstance(untyped_storage, DeviceStorage):
            return TypedStorage(wrap_storage=untyped_storage, dtype=self.dtype, _internal=True)
        return wrap(self, untyped_storage)

    def _to(self: UntypedStorage, *, device: Any, non_blocking: bool = False) -> Any:
        if not asks_for_device(device):
            return to(self, device=device, non_blocking=non_blocking)
        return _on_device(self, index_of_device(device), non_blocking)

    def _cuda(self: UntypedStorage, device: Any = None, non_blocking: bool = False) -> Any:
        return _on_device(self, index_of_device(device), non_blocking) if not self.is_cuda else cuda(self, device, non_blocking)

    patches.set(TypedStorage, "_new_wrapped_storage", _new_wrapped_storage)
    patches.add(UntypedStorage, to=_to, cuda=_cuda)


def _on_device(storage: UntypedStorage, index: int, non_blocking: bool) -> UntypedStorage:
    if index == HOST:
        return storage
    with muted():
        data: Tensor = torch.empty(0, dtype=torch.uint8).set_(storage)  # type: ignore[call-overload]
    tell("aten::_to_copy", (data,), {"device": class_of(index).device, "non_blocking": non_blocking})
    with muted():
        return class_of(index)(storage.nbytes()).copy_(storage, non_blocking)
