"""`torch.cuda` and `torch.accelerator` while devices are pretended."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from . import streams
from .memory import HOST, class_of, where
from .session import STATE, Patches, devices, index_of_device, muted, note, tell

NAME = "torchtally pretend device"
MEMORY = 80 * 2**30
CAPABILITY = (8, 0)


class device:
    """Stands for `torch.cuda.device(index)`."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else index_of_device(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = STATE.index
        if self.idx >= 0:
            STATE.index = self.idx

    def __exit__(self, *error: Any) -> None:
        STATE.index = self.prev_idx


class device_of(device):
    """Stands for `torch.cuda.device_of(tensor)`."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


def set_device(device: Any) -> None:
    index = index_of_device(device)
    if index != HOST:
        STATE.index = index


def properties(device: Any = None) -> Any:
    index_of_device(device)
    return SimpleNamespace(
        name=NAME, major=CAPABILITY[0], minor=CAPABILITY[1], total_memory=MEMORY, multi_processor_count=108, is_integrated=False,
        is_multi_gpu_board=False, max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32, regs_per_multiprocessor=65536,
        shared_memory_per_block=49152, shared_memory_per_block_optin=166912, shared_memory_per_multiprocessor=167936, L2_cache_size=40 * 2**20,
        gcnArchName="", uuid="GPU-00000000-0000-0000-0000-000000000000", pci_bus_id=0, pci_device_id=0, pci_domain_id=0,
    )  # fmt: skip


def memory_in_use(device: Any = None) -> int:
    """Bytes of the storages of a device that Python can see."""
    index = index_of_device(device)
    seen: dict[int, int] = {}
    for item in gc.get_objects():
        if issubclass(type(item), Tensor) and where(item) == index and item.layout is torch.strided:
            storage = item.untyped_storage()
            seen[storage._cdata] = storage.nbytes()
    PEAK[index] = max(PEAK.get(index, 0), total := sum(seen.values()))
    return total


PEAK: dict[int, int] = {}


def peak_memory(device: Any = None) -> int:
    memory_in_use(device)
    return PEAK[index_of_device(device)]


def reset_peak(device: Any = None) -> None:
    PEAK.pop(index_of_device(device), None)


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    used, peak = memory_in_use(device), peak_memory(device)
    stats: OrderedDict[str, Any] = OrderedDict(num_alloc_retries=0, num_ooms=0, num_device_alloc=0, num_device_free=0, max_split_size=-1)
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "allocation", "segment", "active", "inactive_split_bytes"):
        for pool in ("all", "large_pool", "small_pool"):
            counted = name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes") and pool != "small_pool"
            stats.update({f"{name}.{pool}.current": used if counted else 0, f"{name}.{pool}.peak": peak if counted else 0})
            stats.update({f"{name}.{pool}.allocated": used if counted else 0, f"{name}.{pool}.freed": 0})
    return stats


def get_memory_info(device: Any = None) -> tuple[int, int]:
    return MEMORY - memory_in_use(device), MEMORY


_OwnGenerator: Any = torch._C.Generator


class Generator(_OwnGenerator):
    """Stands for `torch.Generator`, on the host or a device."""

    _index: int

    def __new__(cls, device: Any = "cpu") -> Any:
        made = _OwnGenerator.__new__(cls, "cpu")
        made._index = HOST if torch.device(device).type == "cpu" else index_of_device(device)
        return made

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self._index == HOST else class_of(self._index).device


def _seeded_all(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


def _synchronize(device: Any = None) -> None:
    tell("torch.cuda.synchronize", (), {"device": device})


def _empty_cache() -> None:
    tell("torch.cuda.empty_cache")


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _asks_driver(name: str, value: Any) -> Any:
    def query(device: Any = None) -> Any:
        note(f"torch.cuda.{name} asks the driver (pynvml): the pretend device answers {value}")
        return value

    return query


def _set_rng_state(state: Tensor, device: Any = "cuda") -> None:
    with muted():
        torch.default_generator.set_state(state.cpu())


def _set_rng_state_all(states: Any) -> None:
    for state in states:
        _set_rng_state(state)


def _get_rng_state(device: Any = "cuda") -> Tensor:
    return torch.default_generator.get_state()


def patch_cuda(patches: Patches) -> None:
    """Make `torch.cuda` answer for the pretend devices."""
    cuda: Any = torch.cuda
    wanted: dict[str, Any] = dict(
        is_available=lambda: True, device_count=devices, is_initialized=lambda: True, init=_nothing, _lazy_init=_nothing,
        _is_in_bad_fork=lambda: False, _lazy_call=lambda call, **kwargs: call(), _initialized=True,
        current_device=lambda: STATE.index, set_device=set_device, device=device, device_of=device_of, _DeviceGuard=device,
        _get_device_index=_get_index, get_device_name=lambda device=None: NAME, get_device_capability=lambda device=None: CAPABILITY,
        get_device_properties=properties, get_arch_list=lambda: ["sm_80"], get_gencode_flags=lambda: "",
        can_device_access_peer=lambda device, peer: True, is_bf16_supported=lambda including_emulation=True: True,
        is_tf32_supported=lambda: True, synchronize=_synchronize, ipc_collect=_nothing, empty_cache=_empty_cache,
        memory_allocated=memory_in_use, memory_reserved=memory_in_use, memory_cached=memory_in_use, max_memory_allocated=peak_memory,
        max_memory_reserved=peak_memory, max_memory_cached=peak_memory, memory_stats=memory_stats, mem_get_info=get_memory_info,
        reset_peak_memory_stats=reset_peak, reset_max_memory_allocated=reset_peak, reset_max_memory_cached=reset_peak,
        reset_accumulated_memory_stats=_nothing, set_per_process_memory_fraction=_nothing, memory_snapshot=lambda *args, **kwargs: [],
        memory_summary=lambda device=None, abbreviated=False: f"{NAME}: {memory_in_use(device)} bytes in use",
        list_gpu_processes=lambda device=None: "no processes are running",
        utilization=_asks_driver("utilization", 0), memory_usage=_asks_driver("memory_usage", 0), temperature=_asks_driver("temperature", 0),
        power_draw=_asks_driver("power_draw", 0), clock_rate=_asks_driver("clock_rate", 0),
        Stream=streams.Stream, ExternalStream=streams.ExternalStream, Event=streams.Event, StreamContext=streams.StreamContext,
        stream=streams.StreamContext, current_stream=streams.current_stream, default_stream=streams.default_stream,
        set_stream=streams.set_stream, is_current_stream_capturing=lambda: STATE.graph is not None,
        manual_seed=_seeded_all, manual_seed_all=_seeded_all, seed=lambda: torch.default_generator.seed(),
        seed_all=lambda: torch.default_generator.seed(), initial_seed=lambda: torch.default_generator.initial_seed(),
        get_rng_state=_get_rng_state, get_rng_state_all=lambda: [_get_rng_state() for _ in range(devices())],
        set_rng_state=_set_rng_state, set_rng_state_all=_set_rng_state_all,
        get_sync_debug_mode=lambda: 0, set_sync_debug_mode=_nothing, current_blas_handle=lambda: 0, _sleep=_nothing,
        default_generators=tuple(torch.default_generator for _ in range(devices())),
    )  # fmt: skip
    patches.add(cuda, **wanted)
    for module in (cuda.memory, cuda.random, cuda.streams):  # the same functions, under the name of their own module
        patches.add(module, **{name: value for name, value in wanted.items() if name in vars(module)})
    patches.add(cuda.nvtx, range_push=_nothing, range_pop=_nothing, mark=_nothing, range_start=lambda *args: 0, range_end=_nothing)
    patches.add(cuda.nccl, version=lambda: (2, 21, 5), is_available=lambda tensors: True)
    patches.set(torch, "Generator", Generator)
    patches.set(torch, "Stream", streams.Stream)
    patches.set(torch, "Event", streams.Event)
    patches.replace(torch.backends.cuda, "is_built", lambda own: lambda: True)
    patches.replace(torch.backends.cudnn, "is_available", lambda own: lambda: True)
    patches.replace(torch.backends.cudnn, "is_acceptable", lambda own: lambda tensor: False)  # only asked to lay out the weights of an RNN
    patches.replace(torch.backends.cudnn, "version", lambda own: lambda: 90100)
    patches.replace(torch._utils, "_get_device_index", _other_device_index)
    patches.replace(torch._utils, "_get_available_device_type", lambda own: lambda: "cuda")
    _patch_accelerator(patches)
    _patch_device(patches)


def _get_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    if device is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    index = index_of_device(device)
    if index == HOST and not allow_cpu:
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return index


def _other_device_index(own: Any) -> Any:
    def get(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device) and (device.type == "cpu" or (device.index is None and not optional)):
            return int(own(device, optional, allow_cpu))
        return _get_index(device, optional, allow_cpu)

    return get


class device_index(device):
    """Stands for `torch.accelerator.device_index(index)`."""


class _Devices(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _own_device)

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
        if len(args) == 1 and isinstance(args[0], int) and not kwargs:
            return _own_device("cuda", args[0])
        return _own_device(*args, **kwargs)


_own_device = torch.device


def _patch_device(patches: Patches) -> None:
    """`torch.device(0)` needs an accelerator in C++; there, a class stands before `torch.device` that knows better."""
    try:
        torch.device(0)
    except RuntimeError:
        patches.set(torch, "device", _Devices("device", (), {"__module__": "torch"}))


def _patch_accelerator(patches: Patches) -> None:
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is None:
        return

    def synchronize(device: Any = None) -> None:
        tell("torch.accelerator.synchronize", (), {"device": device})

    wanted = dict(
        is_available=lambda: True, device_count=devices, current_accelerator=lambda check_available=False: torch.device("cuda"),
        current_device_index=lambda: STATE.index, current_device_idx=lambda: STATE.index, set_device_index=set_device, set_device_idx=set_device,
        current_stream=lambda device=None: streams.current_stream(device), set_stream=lambda stream: streams.set_stream(stream),
        synchronize=synchronize, device_index=device_index,
        empty_cache=_empty_cache, empty_host_cache=_nothing, memory_stats=memory_stats, memory_allocated=memory_in_use,
        memory_reserved=memory_in_use, max_memory_allocated=peak_memory, max_memory_reserved=peak_memory,
        reset_accumulated_memory_stats=_nothing, reset_peak_memory_stats=reset_peak, get_memory_info=get_memory_info,
        get_device_capability=lambda device=None: {"supported_dtypes": {torch.float32, torch.float16, torch.bfloat16}},
    )  # fmt: skip
    for module in (accelerator, sys.modules.get("torch.accelerator.memory")):
        for name, value in wanted.items():
            if module is not None and name in vars(module):
                patches.set(module, name, value)
