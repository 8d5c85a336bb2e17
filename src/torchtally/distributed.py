"""Talking to the other ranks: groups, the devices they can carry, waiting with a limit, and what to say when a rank does not come."""

from __future__ import annotations

import atexit
import datetime
import queue
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import Any, NoReturn

import torch
from torch import distributed as dist

from .wire import PrivateWire, Wire

READY: Any = object()

BROKEN = "a read was broken off on this rank while the others were in it, so none can follow in this group"

Steps = Generator[Any, None, Callable[[], Any]]
"""A read under way: yields READY when all that it sends is taken, then each collective it has to wait for; returns what makes the result."""


class RankError(RuntimeError):
    """The totals of all ranks could not be read: ranks hold different metrics, or one is gone. This rank's own totals are intact."""


class RankTimeout(RankError, TimeoutError):
    """A rank did not come in time. This rank's own totals are intact; reading again goes on waiting for the same collective."""


def available() -> bool:
    """Whether there are other ranks to read from."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


class Channel:
    """What is known of a group: its ranks, the devices it carries, and the read that is not finished."""

    def __init__(self, group: Any) -> None:
        self.world, self.rank = dist.get_world_size(group), dist.get_rank(group)
        self.name = group.group_name
        self.backends = _backends(group)
        self._patience = _patience(group, next(iter(self.backends)))
        self.wire = Wire(group, self.world, self.backends.get("cpu") == "gloo")
        self._on_host = "cpu" in self.backends
        self._unfinished: Flight | None = None
        self._thread: _Thread | None = None
        self._lock = threading.Lock()

    @property
    def fake(self) -> bool:
        """Whether there are no other processes: torch's stand-in for a large world."""
        return "fake" in self.backends.values()

    def store(self) -> Any:
        """The key-value store that the ranks met at: reachable when collectives are not."""
        from torch.distributed import distributed_c10d

        return distributed_c10d._get_default_store()

    def device_for(self, device: torch.device) -> torch.device:
        """Where collectives about totals on a device take place; equal on all ranks that hold the same metrics.

        One backend for all devices means the host, so that ranks may hold their totals on different devices. A group that carries no host
        tensors (NCCL) is given the rank's own device.
        """
        if self._on_host and device.type == "cpu":
            return device
        backends = self.backends
        if backends.get("cpu") is not None and backends.get(device.type) in (None, backends["cpu"]):
            return torch.device("cpu")
        if device.type in backends:
            return device
        kind = next(iter(backends))
        return torch.device(kind, torch.get_device_module(kind).current_device())

    def run(self, begin: Callable[[], Flight], timeout: float | None, late: Flight | None = None) -> Any:
        """The result of a read: that of `late`, left unfinished by an earlier time-out, or of a new one, for which `begin` is called.

        Another that was left unfinished is finished first, as it is on the other ranks.
        """
        with self._lock:
            deadline = None if timeout is None else time.monotonic() + timeout
            before = self._unfinished
            if before is not None and before.broken:
                raise before.told(before.failed or "interrupted", BROKEN)
            if before is not None and before is not late and before.failed is None:
                before.limit = timeout
                try:
                    before.finish(deadline)
                except RankTimeout:
                    raise
                except Exception:  # the others have it behind them, too, and are at this read now
                    pass
            flight = begin() if late is None else late
            flight.limit = timeout
            result = flight.finish(deadline)
            self._unfinished = None
            return result

    def launch(self, flight: Flight) -> None:
        """Start a read, within `run`."""
        self._unfinished = flight
        flight.start()

    def in_thread(self, flight: Flight) -> None:
        """Carry a read out in a thread, in the order in which reads were started."""
        if self._thread is None:
            self._thread = _Thread(dist.PrefixStore(f"torchtally/{self.name}", self.store()), self.rank, self.world, self._patience)
            weakref.finalize(self, self._thread.jobs.put, None)
        flight.background, flight.arrived = self._thread.stopping, threading.Event()
        self._thread.jobs.put(flight)


class Background(threading.Event):
    """Set when the process ends: who waits in a thread gives up. A wait is in Python, since a thread that ends within gloo aborts the process."""

    def until(self, done: Callable[[], bool], limit: datetime.timedelta | None = None, pauses: float = 0.01) -> None:
        pause, began = 0.0002, time.monotonic()
        while not done():
            if self.wait(pause):
                raise RuntimeError("this process ended before the others came")
            if limit is not None and time.monotonic() - began > limit.total_seconds():
                raise RuntimeError(f"a rank did not come within {limit.total_seconds():g} s, the time-out of the group")
            pause = min(2 * pause, pauses)


class _Thread:
    """Carries out reads while the caller goes on."""

    def __init__(self, store: Any, rank: int, world: int, patience: datetime.timedelta) -> None:
        self.jobs: queue.SimpleQueue[Flight | None] = queue.SimpleQueue()
        self.stopping = Background()
        self._store, self._rank, self._world, self._patience = store, rank, world, patience
        self._here = False
        self.thread = threading.Thread(target=self._work, name="torchtally", daemon=True)
        self.thread.start()
        _threads.add(self)

    def _met(self) -> None:
        """Wait until all ranks are about to connect."""
        if not self._here:  # once, or others would be counted who are not here
            self._store.add("here", 1)
            self._here = True
        # Many ranks ask the store less often, which is one process.
        self.stopping.until(lambda: int(self._store.add("here", 0)) >= self._world, self._patience, max(0.01, self._world * 1e-4))

    def _work(self) -> None:
        wire: Wire | None = None
        broken = False
        while (flight := self.jobs.get()) is not None:
            try:
                if broken:
                    raise flight.told("an earlier one", BROKEN)
                if wire is None:
                    wire = self._reached(flight)
                flight.wire = wire
                flight.start()
                flight.finish(None)
            except BaseException as error:  # handed to whoever asks for the result
                flight.failed = flight.failed or error
                broken = broken or flight.broken
            finally:
                if flight.arrived is not None:
                    flight.arrived.set()
                del flight

    def _reached(self, flight: Flight) -> Wire:
        try:
            self._met()
        except Exception as error:
            raise flight.lost(error) from error
        try:
            return PrivateWire(self._store, self._rank, self._world, self._patience)
        except Exception as error:
            raise flight.lost(error, "the other ranks cannot be reached by gloo; GLOO_SOCKET_IFNAME names the network to use") from error


_threads: weakref.WeakSet[_Thread] = weakref.WeakSet()


@atexit.register
def _end(grace: float = 5.0) -> None:
    """Let reads that are under way come to their end, and no thread be within gloo when the process ends."""
    end = time.monotonic() + grace
    for each in list(_threads):
        each.jobs.put(None)
    for each in list(_threads):
        each.thread.join(max(end - time.monotonic(), 0.0))
        each.stopping.set()
        each.thread.join(1.0)


class Flight:
    """A read under way. `steps(wire)` yields each collective to wait for and returns the result; `explain` completes what is raised."""

    def __init__(self, wire: Wire, steps: Callable[[Wire], Steps], explain: Callable[[str], str]) -> None:
        self.wire, self._steps, self._explain = wire, steps, explain
        self._left: Steps | None = None
        self._work: Any = None
        self._make: Callable[[], Any] | None = None
        self._result: Any = None
        self._sent, self._whole = False, True
        self.failed: BaseException | None = None
        self.limit: float | None = None
        self.started = self.done = False
        self.background: Background | None = None  # of a read in a thread
        self.arrived: threading.Event | None = None  # such a read is over, well or badly

    def start(self) -> None:
        """Call the first collective."""
        self.started = True
        self._left = self._steps(self.wire)
        self._advance()

    def _advance(self) -> None:
        assert self._left is not None
        self._whole = False
        try:
            self._work = next(self._left)
            if self._work is READY:
                self._sent = True
                self._work = next(self._left)
            self._sent = True
        except StopIteration as stop:
            self._make, self._left, self._work = stop.value, None, None
        except BaseException as error:
            self._whole = isinstance(error, RankError)  # then all ranks have it
            self._failed_with(error)
        self._whole = True

    def _failed_with(self, error: BaseException) -> NoReturn:
        self.failed = error
        if isinstance(error, RuntimeError) and not isinstance(error, RankError):
            raise self.lost(error) from error
        raise error

    @property
    def broken(self) -> bool:
        """Whether other ranks may be at a collective that this one will not call: what is called next would not be the same."""
        return self._sent and not self._whole

    def _limit(self) -> str:
        return "in time" if self.limit is None else f"within {self.limit:g} s"

    def told(self, error: BaseException | str, what: str) -> RankError:
        """An error that says which read it was, and why."""
        reason = str(error).strip().splitlines() or [repr(error)]
        return RankError(self._explain(f"{what} ({reason[0]})"))

    def lost(self, error: Exception, what: str = "a collective failed") -> RankError:
        """What to raise, here and whenever the result is asked for."""
        self.failed = self.told(error, what)
        return self.failed

    @property
    def ready(self) -> bool:
        """Whether `finish` would not wait; asking does not wait."""
        if self.arrived is not None:
            return self.arrived.is_set()
        return self.done or self.failed is not None or self._work is None or bool(self._work.is_completed())

    def outcome(self, deadline: float | None) -> Any:
        """The result, for whoever asks, whether or not a thread works on it."""
        if self.arrived is None:
            return self.finish(deadline)
        if not self.arrived.wait(None if deadline is None else max(deadline - time.monotonic(), 0.0)):
            raise RankTimeout(self._explain("a rank did not come in time; asking again goes on waiting for it"))
        return self.finish(None)

    def finish(self, deadline: float | None) -> Any:
        """The result. Waits for each collective until `deadline` (of `time.monotonic`), then raises RankTimeout; may be called again."""
        if self.failed is not None:
            raise self.failed
        while self._make is None:
            self._wait(deadline)
            self._advance()
        if not self.done:
            try:
                self._result, self.done = self._make(), True
            except Exception as error:
                self._failed_with(error)
        return self._result

    def _wait(self, deadline: float | None) -> None:
        work = self._work
        if work is None:  # a collective that is over when it returns
            return
        try:
            if self.background is not None:
                self.background.until(work.is_completed)
            while deadline is not None and not work.is_completed():
                if (left := deadline - time.monotonic()) <= 0:
                    raise RankTimeout(self._explain(f"a rank did not come {self._limit()}; reading again goes on waiting for it"))
                time.sleep(min(left, 0.0002))
            work.wait()
        except RankTimeout:
            raise
        except RuntimeError as error:
            raise self.lost(error) from error


class Flights:
    """Several reads under way, over different ranks."""

    def __init__(self, flights: list[Flight]) -> None:
        self.flights = flights

    @property
    def ready(self) -> bool:
        return all(flight.ready for flight in self.flights)

    @property
    def failed(self) -> BaseException | None:
        return next((flight.failed for flight in self.flights if flight.failed is not None), None)

    def outcome(self, deadline: float | None) -> list[Any]:
        """All results, waited for."""
        return [flight.outcome(deadline) for flight in self.flights]


_channels: weakref.WeakKeyDictionary[Any, Channel] = weakref.WeakKeyDictionary()


def _group_of(process_group: Any) -> Any:
    """What torch.distributed calls a group; its NON_GROUP_MEMBER where this rank is outside."""
    if process_group is None:
        return dist.group.WORLD
    if not hasattr(process_group, "get_group"):
        return process_group
    if process_group.ndim != 1:
        raise ValueError(
            f"process_group is a DeviceMesh of {process_group.ndim} dimensions, {process_group.mesh_dim_names}; expected one. Pass "
            "mesh['name'] of the dimension over which data differs."
        )
    return dist.GroupMember.NON_GROUP_MEMBER if process_group.get_coordinate() is None else process_group.get_group()


def channel_of(process_group: Any) -> Channel | None:
    """The channel of a group, a one-dimensional DeviceMesh, or all ranks (None); None where this rank is alone or not of the group."""
    if not dist.is_available() or not dist.is_initialized():
        return None
    group = _group_of(process_group)
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        return None
    channel = _channels.get(group)
    if channel is None:
        if dist.get_rank(group) < 0:
            return None
        channel = _channels[group] = Channel(group)
    return channel if channel.world > 1 else None


def rank_of() -> int:
    """The number of this process among all, 0 where it is alone."""
    return dist.get_rank() if available() else 0


def is_first(process_group: Any) -> bool:
    """Whether this rank is the first of a group, or reads nobody else's totals."""
    channel = channel_of(process_group)
    return channel is None or channel.rank == 0


def is_outside(process_group: Any) -> bool:
    """Whether a group is one of other ranks."""
    return available() and _group_of(process_group) is dist.GroupMember.NON_GROUP_MEMBER


def _patience(group: Any, device: str) -> datetime.timedelta:
    """For how long the collectives of a group wait for a rank."""
    options = getattr(group._get_backend(torch.device(device)), "options", None)
    found: datetime.timedelta = getattr(options, "_timeout", datetime.timedelta(minutes=30))
    return found


def _backends(group: Any) -> dict[str, str]:
    """Device type → backend."""
    name = str(dist.get_backend(group))
    if ":" not in name:
        if name == "nccl":
            return {"cuda": "nccl"}
        name = dist.get_backend_config(group)
    return {device: backend for device, _, backend in (pair.partition(":") for pair in str(name).split(","))}
