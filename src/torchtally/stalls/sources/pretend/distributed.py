"""`torch.distributed` with the backend "nccl" carried by gloo: collectives of device tensors work, those of host tensors are refused as NCCL does."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .memory import HOST, where
from .operators import BACKWARD
from .session import STATE, Patches, TorchCall, note, tell

NCCL: set[str] = set()  # names of the groups whose only backend is said to be NCCL
CONTROL = frozenset(("barrier", "monitored_barrier_"))


def patch_distributed(patches: Patches) -> None:
    if not torch.distributed.is_available():
        return
    NCCL.clear()
    import torch.distributed.distributed_c10d as c10d

    c10d_: Any = c10d
    dist: Any = torch.distributed
    _patch_groups(patches, c10d_)
    own_barrier, own_device, own_timeout = c10d_.barrier, c10d_._get_object_coll_device, c10d_._get_default_timeout
    on_host = False

    def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, **rest: Any) -> Any:
        nonlocal on_host
        if not is_nccl(group or c10d_._get_default_group()):
            return own_barrier(group, async_op, device_ids, **rest)
        tell("torch.distributed.barrier", (group,), {"backend": "nccl"})
        on_host = True
        try:
            return own_barrier(group, async_op, **rest)
        finally:
            on_host = False

    def _get_object_coll_device(group: Any = None) -> str:
        return "cuda" if not on_host and is_nccl(group or c10d_._get_default_group()) else own_device(group)

    def _get_default_timeout(backend: Any) -> Any:
        return c10d_.default_pg_timeout if str(backend) == "nccl" else own_timeout(backend)

    for module in (c10d_, dist):
        patches.set(module, "barrier", barrier)
        patches.set(module, "is_nccl_available", lambda: True)
    patches.add(c10d_, _get_object_coll_device=_get_object_coll_device, _get_default_timeout=_get_default_timeout, _NCCL_AVAILABLE=True)
    if hasattr(c10d_, "_get_pg_default_device"):
        patches.set(c10d_, "_get_pg_default_device", lambda group=None: torch.device(_get_object_coll_device(group)))
    if not hasattr(c10d_, "ProcessGroupNCCL"):
        patches.set(c10d_, "ProcessGroupNCCL", ProcessGroupNCCL)
    patches.replace(dist, "Reducer", _reducer)
    for name in ("_broadcast_coalesced", "_verify_params_across_processes"):
        patches.replace(dist, name, _with_helpers_on_device)


class ProcessGroupNCCL:
    """Stands for the class that builds of PyTorch without NCCL do not have."""

    class Options:
        def __init__(self, **options: Any) -> None:
            self.__dict__.update(options)


def _patch_groups(patches: Patches, c10d: Any) -> None:
    own = c10d._new_process_group_helper
    signature = inspect.signature(own)
    options = "backend_options" if "backend_options" in signature.parameters else "pg_options"

    def _new_process_group_helper(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        asked = str(call.arguments["backend"]).lower()
        if "nccl" not in asked and asked != "undefined":
            made = own(*args, **kwargs)
            NCCL.discard(getattr(made[0], "group_name", ""))  # of a group that is gone
            return made
        call.arguments.update(backend=c10d.Backend("gloo"), device_id=None)
        call.arguments[options] = None
        made = own(*call.args, **call.kwargs)
        group = made[0]
        if group is not None and group is not c10d.GroupMember.NON_GROUP_MEMBER:
            (NCCL.discard if "cpu" in asked or asked == "undefined" else NCCL.add)(group.group_name)
            said = c10d.Backend("nccl") if asked == "nccl" else c10d.Backend(asked) if ":" in asked else c10d.Backend("cpu:gloo,cuda:nccl")
            c10d._world.pg_map[group] = (said, c10d._world.pg_map[group][1])
            note("torch.distributed: gloo carries what is meant for NCCL; collectives give the same results, on the host")
        return made

    patches.set(c10d, "_new_process_group_helper", _new_process_group_helper)


def is_nccl(group: Any) -> bool:
    return getattr(group, "group_name", None) in NCCL


def _with_helpers_on_device(own: Any) -> Any:
    """A C++ function whose own buffers belong where the tensors it is given are."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with _helpers_on_device(_tensors((*args, *kwargs.values()))):
            return own(*args, **kwargs)

    return call


def _reducer(own: Any) -> Any:
    class Reducer(own):  # type: ignore[misc]
        """DistributedDataParallel's reducer, whose buckets are on the device of its parameters."""

        def __init__(self, params: Any, *args: Any, **kwargs: Any) -> None:
            self._params = _tensors([params])
            with _helpers_on_device(self._params):
                super().__init__(params, *args, **kwargs)

        def _rebuild_buckets(self) -> Any:
            with _helpers_on_device(self._params):
                return super()._rebuild_buckets()

    return Reducer


@contextlib.contextmanager
def _helpers_on_device(tensors: list[Tensor]) -> Iterator[None]:
    outer = STATE.call
    if any(where(t) != HOST for t in tensors):
        STATE.call = TorchCall(BACKWARD, tuple(tensors), {})
    try:
        yield
    finally:
        STATE.call = outer


def _tensors(values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


def refuse_host_tensors(packet: str, tensors: list[Tensor], args: tuple[Any, ...]) -> None:
    """Raise as NCCL does where a collective is given host tensors."""
    if not NCCL or packet in CONTROL or all(where(t) != HOST for t in tensors):
        return
    if STATE.call is not None and STATE.call.function is BACKWARD:
        return
    group = next((a for a in args if isinstance(a, torch.ScriptObject)), None)
    if group is not None and is_nccl(torch.distributed.ProcessGroup.unbox(group)):
        raise RuntimeError("No backend type associated with device type cpu")
