"""PyTorch's Python interface under the pretend device: what names a device, or moves between devices, before C++ sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _device as default_device

from ... import catalogue
from .amp import autocasting, run_autocast
from .conversions import convert, to_device
from .memory import HOST, class_of, is_pinned, pin, place, where
from .operators import device_of_call, put
from .refusals import refuse_generator
from .session import FAULTS, SESSIONS, STATE, TorchCall, asks_for_device, index_of_device, tell

Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class CallMode(TorchFunctionMode):
    """Sees every call of PyTorch's Python interface of a thread, and remembers the innermost."""

    def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if kwargs is None:
            kwargs = {}
        if default_device.CURRENT_DEVICE is not None and function in CONSTRUCTORS and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": default_device.CURRENT_DEVICE}
        handler = HANDLERS.get(function)
        if handler is not None:
            if types and (subclass := overriding(types)) is not None:  # it has the first say, and comes back here
                with self:
                    return subclass.__torch_function__(function, types, args, kwargs)
            return handler(function, args, kwargs)
        if kwargs and not NAMES_A_PLACE.isdisjoint(kwargs):
            return made_at(function, args, kwargs)
        outer = STATE.call
        STATE.call = TorchCall(function, args, kwargs)
        try:
            if autocasting() and device_of_call() != HOST:
                return run_autocast(function, args, kwargs)
            return function(*args, **kwargs)
        finally:
            STATE.call = outer


NAMES_A_PLACE = frozenset(("device", "pin_memory", "generator"))


def overriding(types: Any) -> Any:
    """The first of these types that overrides PyTorch's functions, where that is not switched off."""
    if not torch._C._is_torch_function_enabled():
        return None
    return next((t for t in types if t not in _PLAIN and t.__torch_function__ is not torch._C._disabled_torch_function_impl), None)


_PLAIN = (Tensor, torch.nn.Parameter)


def plainly(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: int | None = None) -> Any:
    """Call a function, its results to be put on `target`."""
    outer = STATE.call
    STATE.call = TorchCall(function, args, kwargs, target)
    try:
        if target is None and autocasting() and device_of_call() != HOST:
            return run_autocast(function, args, kwargs)
        return function(*args, **kwargs)
    finally:
        STATE.call = outer


def made_at(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call with `device=`, `pin_memory=True` or `generator=`."""
    device = kwargs.get("device")
    if kwargs.get("generator") is not None:
        index = where(args[0]) if device is None and args and isinstance(args[0], Tensor) else HOST if device is None else index_of_device(device)
        refuse_generator(kwargs["generator"], index)
    if device is not None and asks_for_device(device):
        if kwargs.get("pin_memory"):
            raise RuntimeError("Only dense CPU tensors can be pinned")
        index = index_of_device(device)
        result = plainly(function, args, {**kwargs, "device": "cpu"}, index)
        put(result, index)
        return result
    if device is None:
        target = None
    elif torch.device(device).type == "cpu":
        target = HOST
    else:
        return plainly(function, args, kwargs)
    if not kwargs.get("pin_memory"):
        return plainly(function, args, kwargs, target)
    result = plainly(function, args, {**kwargs, "pin_memory": False}, target)
    return pin(result) if isinstance(result, Tensor) and where(result) == HOST else result


def _tensor(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`torch.tensor` builds on the host and copies."""
    device = kwargs.get("device")
    if device is None or not asks_for_device(device):
        _tell_elements(args[0] if args else kwargs.get("data"))
        return made_at(function, args, kwargs) if kwargs else plainly(function, args, kwargs)
    return _built(function, args, kwargs, index_of_device(device))


def _new_tensor(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    device = kwargs.get("device")
    index = where(args[0]) if device is None else index_of_device(device)
    if index == HOST:
        return plainly(function, args, kwargs, HOST)
    return _built(function, args, kwargs, index)


def _built(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> Any:
    """Build a tensor on the host and copy it to a device."""
    own = function is Tensor.new_tensor
    data = args[1:] if own else args
    _tell_elements(data[0] if data else kwargs.get("data"))
    tell("Tensor.new_tensor" if own else f"torch.{function.__name__}", data, {**kwargs, "device": class_of(index).device})
    result = plainly(function, args, {**kwargs, "device": "cpu"}, HOST)
    place(result, index)
    return result


def _tell_elements(data: Any) -> None:
    """Numbers that are given as device tensors are read one by one."""
    if isinstance(data, (list, tuple)):
        for value in data:
            if isinstance(value, Tensor):
                if where(value) != HOST:
                    tell("aten::_local_scalar_dense", (value,))
            elif type(value) in (list, tuple):
                _tell_elements(value)


def _as_tensor(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`torch.as_tensor` and `torch.asarray`: the tensor itself where it is in place already, else a copy."""
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    device = kwargs.get("device")
    if isinstance(data, Tensor):
        index = where(data) if device is None else index_of_device(device) if asks_for_device(device) else HOST
        if kwargs.get("copy") is False and index != where(data):
            raise ValueError("can't alias tensor with arbitrary device: copy=False, and another device is asked for")
        result = convert(data, index, kwargs.get("dtype") or (args[1] if len(args) > 1 else None), copy=bool(kwargs.get("copy")))
        return result.requires_grad_() if kwargs.get("requires_grad") else result
    _tell_elements(data)
    if device is None or not asks_for_device(device):
        return plainly(function, args, kwargs)
    index = index_of_device(device)
    tell(f"torch.{function.__name__}", args, {**kwargs, "device": class_of(index).device})
    result = plainly(function, args, {**kwargs, "device": "cpu"}, HOST).clone()  # what shares an array's memory must not carry it along
    place(result, index)
    return result


def _to(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    names: tuple[str, ...] = ("device", "dtype", "non_blocking", "copy")
    if rest and isinstance(rest[0], torch.dtype):
        names = ("dtype", "non_blocking", "copy")
    elif rest and isinstance(rest[0], Tensor):
        names = ("other", "non_blocking", "copy")
    asked = {**dict(zip(names, rest)), **kwargs}
    other = asked.pop("other", None)
    if other is not None:
        asked.update(device=other.device, dtype=other.dtype)
    device = asked.pop("device", None)
    if device is None:
        return plainly(function, args, kwargs)
    return to_device(tensor, device, **asked)


def _parse_to(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `Module.to` was asked. A number names a device, of which a build without CUDA knows none."""
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):
        args = (torch.device("cuda", args[0]), *args[1:])
    if isinstance(device := kwargs.get("device"), int):
        kwargs = {**kwargs, "device": torch.device("cuda", device)}
    return plainly(function, args, kwargs)


def _cuda(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    asked = {**dict(zip(("device", "non_blocking", "memory_format"), args[1:])), **kwargs}
    device = asked.pop("device", None)
    return to_device(args[0], "cuda" if device is None else device, **asked)


def _cpu(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return to_device(args[0], "cpu", **kwargs)


def _type_as(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    other = args[1] if len(args) > 1 else kwargs["other"]
    return convert(args[0], where(other), other.dtype)


def _type(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.type()` names a type, `tensor.type("torch.cuda.HalfTensor")` converts to one."""
    asked = {**dict(zip(("dtype", "non_blocking"), args[1:])), **kwargs}
    dtype = asked.get("dtype")
    index = where(args[0])
    if dtype is None:
        name: str = function(args[0])
        return name if index == HOST else name.replace("torch.", "torch.cuda.", 1)
    if isinstance(dtype, torch.dtype):
        return convert(args[0], index, dtype)
    name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
    host_name = name.replace("torch.cuda.", "torch.")
    wanted = torch.empty(0).type(host_name).dtype
    return convert(args[0], HOST if host_name == name else STATE.index if index == HOST else index, wanted, bool(asked.get("non_blocking")))


def _pin_memory(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    if where(tensor) != HOST or tensor.layout is not torch.strided:
        raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
    if is_pinned(tensor):
        return tensor
    tell("Tensor.pin_memory", args, kwargs)
    return pin(tensor.detach().clone())


def _is_pinned(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return is_pinned(args[0])


def _tolist(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tell("Tensor.tolist", args)
    return plainly(function, args, kwargs)


def _one_hot(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Without a number of classes the largest label is read; a CPU would check the smallest as well."""
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    if classes == -1 and where(args[0]) != HOST:
        tell("aten::_local_scalar_dense", (args[0],))
    try:
        return plainly(function, args, kwargs)
    except RuntimeError as error:
        if "Class values must be" not in str(error) or where(args[0]) == HOST:
            raise
        FAULTS.setdefault(where(args[0]), f"one_hot: {error}")
        return args[0].new_zeros((*args[0].shape, classes))


def _cross_entropy(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Told here: under a dispatch mode C++ takes a branch that selects nothing by mask."""
    tell("torch.nn.functional.cross_entropy", args, kwargs)
    return plainly(function, args, kwargs)


def _backward_waits(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function whose gradient waits inside C++, on a branch not taken under a dispatch mode."""
    result = plainly(function, args, kwargs)
    node = result.grad_fn if isinstance(result, Tensor) else None
    operator = f"autograd::{node.name()}" if node is not None else ""
    if node is not None and operator in catalogue.WATCHED and where(result) != HOST:
        source = result.detach()
        for session in SESSIONS:
            if hasattr(session.recorder, "remember"):
                session.recorder.remember(node)

        def runs(gradients: Any) -> None:  # what it returned would take the place of the gradients
            tell(operator, (source,))

        node.register_prehook(runs)
    return result


CONSTRUCTORS = default_device._device_constructors()  # what takes `torch.set_default_device` into account

HANDLERS: dict[Any, Handler] = {
    torch.tensor: _tensor,
    torch.as_tensor: _as_tensor,
    torch.asarray: _as_tensor,
    Tensor.new_tensor: _new_tensor,
    Tensor.to: _to,
    torch._C._nn._parse_to: _parse_to,
    Tensor.cuda: _cuda,
    Tensor.cpu: _cpu,
    Tensor.type_as: _type_as,
    Tensor.type: _type,
    Tensor.pin_memory: _pin_memory,
    Tensor.is_pinned: _is_pinned,
    Tensor.tolist: _tolist,
    torch._C._nn.one_hot: _one_hot,
    torch._C._nn.cross_entropy_loss: _cross_entropy,
    **{f: _backward_waits for name in ("prod", "cumprod", "masked_fill") for f in (getattr(torch, name), getattr(Tensor, name))},
}
