"""What a tensor says and refuses while devices are pretended: attributes and methods that take the place of `torch.Tensor`'s own."""

from __future__ import annotations

import copy
import sys
from typing import Any

import torch
from torch import Tensor

from .memory import HOST, device_of, where
from .session import Patches, muted, tell


def patch_tensor(patches: Patches) -> None:
    """Make `torch.Tensor` know of pretend devices."""
    bare: Any = torch._C.TensorBase
    is_cuda, is_cpu, get_device, numpy = bare.is_cuda.__get__, bare.is_cpu.__get__, bare.get_device, bare.numpy
    array, dlpack_device, reduce_ex = Tensor.__array__, Tensor.__dlpack_device__, Tensor.__reduce_ex__
    show: Any = Tensor.__repr__
    write: Any = Tensor.__format__

    def _get_device(self: Tensor) -> int:
        index = where(self)
        return int(get_device(self)) if index == HOST else index

    def _numpy(self: Tensor, *, force: bool = False) -> Any:
        if where(self) == HOST:
            return numpy(self, force=force)
        if force:
            return numpy(self.detach().cpu().resolve_conj().resolve_neg())
        raise _no_numpy(self)

    def _array(self: Tensor, dtype: Any = None) -> Any:
        if where(self) != HOST:
            raise _no_numpy(self)
        return array(self, dtype)

    def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
        if where(self) == HOST:
            return show(self, tensor_contents=tensor_contents)
        tell("Tensor.__repr__", (self,))
        with muted():
            return show(self, tensor_contents=tensor_contents)

    def _format(self: Tensor, specification: str) -> str:
        if where(self) == HOST or (self.dim() > 0 and type(self) is Tensor):
            return write(self, specification)  # the latter through __repr__
        tell("Tensor.__format__", (self, specification))
        with muted():
            return write(self, specification)

    def _reduce_ex(self: Tensor, protocol: Any) -> Any:
        if where(self) != HOST and sys._getframe(1).f_code is not copy.copy.__code__:  # a shallow copy shares the memory
            tell("Tensor.__reduce_ex__", (self, protocol))
        return reduce_ex(self, protocol)

    def _dlpack_device(self: Tensor) -> Any:
        index = where(self)
        if index == HOST:
            return dlpack_device(self)
        from torch.utils.dlpack import DLDeviceType

        return (DLDeviceType.kDLCUDA, index)

    def _from_dlpack(own: Any) -> Any:
        def from_dlpack(ext_tensor: Any, **kwargs: Any) -> Tensor:
            index = where(ext_tensor) if isinstance(ext_tensor, Tensor) else HOST
            if index == HOST:
                return own(ext_tensor, **kwargs)  # type: ignore[no-any-return]
            return ext_tensor.detach()  # type: ignore[no-any-return]  # both share the memory

        return from_dlpack

    patches.replace(torch, "from_dlpack", _from_dlpack)
    patches.replace(torch.utils.dlpack, "from_dlpack", _from_dlpack)
    patches.add(
        Tensor,
        device=property(device_of),
        is_cuda=property(lambda self: where(self) != HOST or is_cuda(self)),
        is_cpu=property(lambda self: where(self) == HOST and is_cpu(self)),
        get_device=_get_device,
        record_stream=lambda self, stream: None,  # memory is not reused behind the host's back here
        numpy=_numpy,
        __array__=_array,
        __repr__=_repr,
        __format__=_format,
        __reduce_ex__=_reduce_ex,
        __dlpack_device__=_dlpack_device,
    )


def _no_numpy(tensor: Tensor) -> TypeError:
    return TypeError(f"can't convert {device_of(tensor)} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.")
