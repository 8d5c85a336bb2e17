"""Real processes joined by gloo: what each rank returned, or raised, comes back."""

from __future__ import annotations

import datetime
import gc
import os
import pickle
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist


class Raised:
    """An error a rank raised."""

    def __init__(self, error: BaseException) -> None:
        self.kind, self.text = type(error).__name__, str(error)
        self.kinds = [c.__name__ for c in type(error).__mro__]
        self.trace = "".join(traceback.format_exception(error))

    def __repr__(self) -> str:
        return f"Raised({self.trace})"


HANGS = "hangs"
DIED = "died"


def run_ranks(
    work: Callable[[int], Any],
    world: int = 2,
    limit: float = 40.0,
    backend: str | None = "gloo",
    within: Callable[[], Any] = nullcontext,
) -> list[Any]:
    """What `work(rank)` gives on each of `world` processes; `hangs` for a rank that has not come back after `limit` seconds.

    All of a rank's life is spent `within` a context, such as a pretend device.
    """
    folder = tempfile.mkdtemp()
    meeting = Path(folder, "store")
    children = [_start(work, rank, world, backend, meeting, within) for rank in range(world)]
    out, end = [], time.monotonic() + limit
    for _, pipe in children:
        out.append(_result(pipe, end))
    for pid, pipe in children:
        os.close(pipe)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(pid, 0)
    meeting.unlink(missing_ok=True)
    os.rmdir(folder)
    return out


def _start(
    work: Callable[[int], Any], rank: int, world: int, backend: str | None, meeting: Path, within: Callable[[], Any]
) -> tuple[int, int]:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        os.close(read)
        gc.freeze()  # what other tests left is the parent's to let go: it may hold threads that are not here
        torch.set_num_threads(1)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            timeout = datetime.timedelta(seconds=60)
            with within():
                dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=world, timeout=timeout)
                result = plain(work(rank))
        except BaseException as error:
            result = Raised(error)
        os.write(write, pickle.dumps(result))
        os.close(write)
        while True:  # as a rank that goes on training: leaving would break the others' connections
            time.sleep(1)
    finally:
        os._exit(0)


def _result(pipe: int, end: float) -> Any:
    data = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return HANGS
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            return DIED if not data else pickle.loads(data)
        data += chunk
        try:
            return pickle.loads(data)
        except (EOFError, pickle.UnpicklingError):
            continue


def plain(value: Any) -> Any:
    """Numbers and lists, which need no shared memory to travel."""
    if isinstance(value, Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value
