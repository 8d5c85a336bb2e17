"""What every ATen operator does on the pretend device: run on host memory, put the results on the device, tell its waits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from ... import catalogue
from .asserts import keep_fault
from .memory import HOST, INDEX, NoFunctions, class_of, index_of, is_pinned, pin, place, storage_of
from .metering import held, metered
from .refusals import may_mix, refuse_mixed
from .session import ON, STATE, TorchCall, asks_for_device, index_of_device, tell
from .shapes import run_on_shapes
from .substitutes import substitute

_function_depth: Any = torch._C._len_torch_function_stack
BACKWARD = object()  # stands for the autograd engine as the function of a `TorchCall`


class Operator:
    """What is known of one overload of an ATen operator."""

    __slots__ = ("collective", "composite", "creates", "name", "overload", "packet", "substitute", "told")

    def __init__(self, function: Any) -> None:
        self.name: str = function._schema.name  # such as aten::index_put_
        self.overload: str = function._overloadname
        self.packet = self.name.partition("::")[2]
        self.told = self.name in catalogue.WATCHED
        self.creates = any(argument.name == "device" for argument in function._schema.arguments)
        self.composite = _is_composite(function)
        self.collective = self.name.startswith("c10d::")
        self.substitute = substitute(self.packet)


def _is_composite(function: Any) -> bool:
    """Whether an operator only calls others. In inference mode these arrive here whole, with the waits inside them."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if not torch._C._dispatch_has_kernel(function.name()):  # known to the JIT only, as `aten::dim`
        return False
    return has(function.name(), "CompositeImplicitAutograd") and not has(function.name(), "CPU")


OPERATORS: dict[int, Operator] = {}  # by id: overloads live as long as the process


def describe(function: Any) -> Operator:
    operator = OPERATORS[id(function)] = Operator(function)
    return operator


def _collect(values: Any, tensors: list[Tensor]) -> None:
    for value in values:
        kind = type(value)
        if kind is Tensor or kind is Parameter:
            tensors.append(value)
        elif kind is list or kind is tuple:
            _collect(value, tensors)
        elif isinstance(value, Tensor):
            tensors.append(value)


class DeviceMode(TorchDispatchMode):
    """Sees every operator of a thread."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch loads its compiler to wrap __torch_dispatch__

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        operator = OPERATORS.get(id(function)) or describe(function)
        if kwargs is None:
            kwargs = {}
        if operator.composite:
            with self:
                return function.decompose(*args, **kwargs)
        if ON.metered:
            with held():  # what is done here is no part of the program
                return self.without_functions(function, operator, args, kwargs)
        return self.without_functions(function, operator, args, kwargs)

    def without_functions(self, function: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator where what is done for it is not seen as a call of PyTorch's interface."""
        if _function_depth():
            with NoFunctions():
                return self.run(function, operator, args, kwargs)
        return self.run(function, operator, args, kwargs)

    def run(self, function: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors: list[Tensor] = []
        _collect(args, tensors)
        if kwargs:
            _collect(kwargs.values(), tensors)
        if operator.collective:
            return collective(function, operator, tensors, args, kwargs)
        device = HOST
        mixed = False
        first = None
        for tensor in tensors:
            try:
                index = INDEX[type(storage_of(tensor))]
            except (RuntimeError, NotImplementedError, KeyError):
                index = index_of(tensor)
            if index != first:
                if first is None:
                    first = index
                else:
                    mixed = True
                if device == HOST:
                    device = index
        if mixed:
            adopt_or_refuse(operator, function, tensors, args, kwargs)
        if operator.creates:
            return self.create(function, operator, args, kwargs, device, tensors)
        if device == HOST:
            if tensors or not made_inside(kwargs):
                return function(*args, **kwargs)
            device = device_of_call()
            if device == HOST:
                return function(*args, **kwargs)
        waits = 0
        if operator.told and not STATE.muted and not (operator.packet in ("_local_scalar_dense", "equal") and only_checked_by_cpu()):
            waits = tell(operator.name, args, kwargs, operator.overload)
        result = perform(function, operator, args, kwargs, device)
        if operator.packet != "copy_" or index_of(args[0]) != HOST:
            put(result[0] if operator.packet == "_pack_padded_sequence" else result, device)  # batch sizes stay on the host
        if STATE.graph is not None:
            STATE.graph.add(function, args, kwargs, result)
        if ON.metered:
            metered(function, operator.packet, args, kwargs, result, waits)
        return result

    def create(
        self, function: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], device: int, tensors: list[Tensor]
    ) -> Any:
        """Run an operator that is told where its result goes: a factory, or a conversion."""
        call = STATE.call
        asked = kwargs.get("device")
        if asked is not None and asks_for_device(asked):
            target = index_of_device(asked)
            kwargs = {**kwargs, "device": torch.device("cpu")}
        elif asked is not None and asked.type != "cpu":
            return function(*args, **kwargs)
        elif call is not None and call.target is not None:
            target = call.target
        elif tensors:
            target = device
        else:
            target = device_of_call() if made_inside(kwargs) else HOST
        pinned = kwargs.get("pin_memory")
        if pinned:
            kwargs = {**kwargs, "pin_memory": False}
        waits = 0
        if operator.told and not STATE.muted and (target != HOST or device != HOST):
            told = {**kwargs, "device": class_of(target).device if target != HOST else torch.device("cpu")}
            waits = tell(operator.name, args, told, operator.overload)
        result = function(*args, **kwargs) if target == device == HOST else perform(function, operator, args, kwargs, device)
        if target != HOST:
            put(result, target)
            if STATE.graph is not None:
                STATE.graph.add(function, args, kwargs, result)
        elif pinned or (device != HOST and kwargs.get("non_blocking")):
            pin(result)
        if ON.metered and (target != HOST or device != HOST):
            metered(function, operator.packet, args, kwargs, result, waits)
        return result


def collective(function: Any, operator: Operator, tensors: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator of a process group: it fills the tensors it is given."""
    from .distributed import refuse_host_tensors  # which knows this module

    refuse_host_tensors(operator.packet, tensors, args)
    return function(*args, **kwargs)


def perform(function: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], device: int) -> Any:
    """Run an operator's kernel: on shapes alone, otherwise than asked, or as it is."""
    if ON.shapes:
        return run_on_shapes(function, args, kwargs)
    try:
        return operator.substitute(function, args, kwargs) if operator.substitute else function(*args, **kwargs)
    except (IndexError, RuntimeError) as error:
        return keep_fault(operator.packet, function, args, kwargs, device, error)


def made_inside(kwargs: dict[str, Any]) -> bool:
    """Whether C++ made this tensor for itself: Python always says whether the memory is to be pinned."""
    return kwargs.get("pin_memory") is None


def only_checked_by_cpu() -> bool:
    """Whether a value is read only because C++ takes this for a CPU, and checks its range."""
    call = STATE.call
    return call is not None and call.function in CHECKED_BY_CPU


CHECKED_BY_CPU = {torch.quantile, torch.nanquantile, Tensor.quantile, Tensor.nanquantile, torch._C._nn.one_hot}


def device_of_call() -> int:
    """The device of the innermost call of PyTorch's interface: where its helper tensors belong."""
    call = STATE.call
    if call is None:
        return HOST
    if call.target is not None:
        return call.target
    tensors: list[Tensor] = []
    _collect(call.args, tensors)
    _collect(call.kwargs.values(), tensors)
    return next((index for tensor in tensors if (index := index_of(tensor)) != HOST), HOST)


def put(result: Any, index: int) -> None:
    """Put results on a device."""
    if isinstance(result, Tensor):
        place(result, index)
    elif type(result) is tuple or type(result) is list:
        for value in result:
            put(value, index)


def adopt_or_refuse(operator: Operator, function: Any, tensors: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Tensors of several devices meet: refuse it as a device does, unless PyTorch itself made the one on the host, inside a composite."""
    call = STATE.call
    backward = call is not None and call.function is BACKWARD
    if (may_mix(operator.packet) and not backward) or len({index_of(tensor) for tensor in tensors} - {HOST}) > 1:
        refuse_mixed(function, operator.packet, tensors, args, kwargs)
        return
    if backward or (call is not None and call.target is None and (call.function in MIXES_INSIDE or not _has_host_tensor(call))):
        device = next(index for tensor in tensors if (index := index_of(tensor)) != HOST)
        for tensor in tensors:
            if index_of(tensor) == HOST and not is_pinned(tensor) and (backward or tensor.dim() > 0):
                place(tensor, device)
        return
    refuse_mixed(function, operator.packet, tensors, args, kwargs)


MIXES_INSIDE = {torch.ctc_loss}  # functions that move host arguments to the device themselves


def _has_host_tensor(call: TorchCall) -> bool:
    tensors: list[Tensor] = []
    _collect(call.args, tensors)
    _collect(call.kwargs.values(), tensors)
    return any(index_of(tensor) == HOST for tensor in tensors)

