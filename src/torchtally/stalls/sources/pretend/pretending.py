"""`pretend_cuda`: opens a session of the pretend device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _device as default_device

from ...price.host import calibrate
from ...price.meter import Meter, Tariff
from ...price.prices import price as price_list
from ...recorder import Recorder
from .amp import unregister
from .copies import patch_copies, patch_queues
from .cuda import patch_cuda
from .distributed import patch_distributed
from .engine import patch_engine
from .functions import CallMode
from .graphs import patch_graphs
from .memory import PLACED
from .operators import OPERATORS, DeviceMode
from .saving import patch_storage
from .session import FAULTS, ON, SESSIONS, STATE, Patches, Session
from .tensors import patch_tensor
from .types import patch_types
from .unseen import patch_unseen

PATCHES = (
    patch_tensor, patch_cuda, patch_graphs, patch_types, patch_engine, patch_storage, patch_copies, patch_queues, patch_distributed, patch_unseen,
)  # fmt: skip


@contextlib.contextmanager
def pretend_cuda(
    devices: int = 1, record: Any = None, fast: bool = False, shapes: bool = False, price: Any = None, meter: Meter | None = None
) -> Iterator[Any]:
    """Make `torch.cuda` work without a GPU, and record each time the host would wait for one.

    Inside, `device="cuda"` works wherever PyTorch takes it. Tensors have real values, kept in host memory, and report `cuda:0`; what a
    device refuses is refused. Yields the recorder: `record`, or a new `Recorder`. With `fast`, convolutions, matrix products and attention
    yield noise of the right shape. With `shapes`, whatever is large runs on shapes alone, so that a model of any size takes neither time nor
    memory. With the `price` of a device ("a40", "h200", a file: see docs/cost-model.md), stalls carry the times they would have there. A `meter` is told
    the work of every call. Sessions may be nested, and tensors of a session are plain host tensors once it is closed.

    >>> import torch
    >>> with pretend_cuda() as recorder:
    ...     total = torch.ones(3, device="cuda").sum()
    ...     value = total.item()
    >>> value, [stall.operator for stall in recorder.stalls]
    (3.0, ['aten::_local_scalar_dense'])
    """
    recorder = Recorder() if record is None else record
    if price is not None:
        meter = Meter(Tariff(price_list(price), calibrate()))
        recorder.meter = meter
    session = Session(devices, recorder, fast, meter, shapes)
    if shapes:
        session.note("shapes: large tensors have a shape but no values; losses and metrics mean nothing")
    if fast:
        session.note("fast: convolutions, matrix products and attention yield noise of the right shape; losses and metrics mean nothing")
    with contextlib.ExitStack() as stack:
        if hasattr(recorder, "__enter__"):
            stack.enter_context(recorder)
        first = not SESSIONS
        SESSIONS.append(session)
        stack.callback(_close, session)
        ON.update()
        if first:
            _open(stack)
        stack.callback(_tell_of_work, recorder, PLACED[0])
        if price is not None and meter is not None:
            stack.enter_context(meter.counter)
        yield recorder


def _close(session: Session) -> None:
    SESSIONS.remove(session)
    ON.update()


def _tell_of_work(recorder: Any, placed: int) -> None:
    """The recorder learns that something was on the device, though it may never have waited."""
    if PLACED[0] > placed:
        recorder.device_work = True


def _open(stack: contextlib.ExitStack) -> None:
    """Install everything; the stack takes it away again, whatever is raised."""
    OPERATORS.clear()
    FAULTS.clear()
    stack.callback(_forget)
    stack.callback(unregister)
    patches = Patches()
    stack.callback(patches.restore)
    for patch in PATCHES:
        patch(patches)
    stack.callback(_reset_default_device)
    stack.enter_context(DeviceMode())
    stack.enter_context(CallMode())


def _reset_default_device() -> None:
    """A program may end with a default device that is there no longer."""
    device = default_device.CURRENT_DEVICE
    if device is not None and device.type == "cuda":
        torch.set_default_device(None)


def _forget() -> None:
    FAULTS.clear()
    STATE.__dict__.clear()
    STATE.__init__()  # type: ignore[misc]
