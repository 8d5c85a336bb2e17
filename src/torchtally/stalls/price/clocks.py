"""Two clocks, a host's and a device's: what a stream of operators does to both. Pure arithmetic; nothing here knows torch.

The host runs ahead of the device through a queue of limited depth; the device starts a piece of work when it has been queued and the work before
it on the same stream is done. A wait sets the host's clock to the moment its stream is empty: the host is not ahead any more, and whenever it then
is slower than the device, before the next kernel or between the small ones after it, the device has nothing to do. Those gaps are the idle time a
wait costs, up to the time the host stood still: it could not have been further ahead than that.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """One call on the host: the time it takes there, the device work it queues, and how often it then waits for its stream to be empty.

    `launches` is how many pieces of work `device_us` consists of (they share it evenly); 0 with `device_us` 0 is a call that only the host sees.
    `note` is passed through to whatever reads the result, e.g. the row of the catalogue and the source line of a wait.
    """

    operator: str
    host_us: float
    device_us: float = 0.0
    launches: int = 0
    waits: int = 0
    stream: int = 0
    note: Any = None


@dataclass(frozen=True, slots=True)
class Latencies:
    """What does not depend on the work: `start_us` from a launch to the first instruction on an idle device, `return_us` from the end of the
    awaited work to the host's next instruction, `queue_depth` launches a stream holds before the next launch blocks."""

    start_us: float = 3.0
    return_us: float = 8.0
    queue_depth: int = 1024


@dataclass(slots=True)
class Wait:
    """The host stood still from `start_us` to `end_us`; its stream was empty from `drained_us`. `idle_us` is how long the device had nothing to do because
    of it, None until work follows; `next_us` is when that starts."""

    task: Task
    step: int
    start_us: float
    end_us: float
    drained_us: float
    idle_us: float | None = None
    next_us: float | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time on the host or on one stream of the device."""

    operator: str
    start_us: float
    end_us: float
    stream: int = 0
    step: int = 0


@dataclass
class Loader:
    """Batches made ahead by others: one every `batch_us` (0: always ready), at most `prefetch` of them unclaimed; claiming one takes the host `fetch_us`."""

    batch_us: float = 0.0
    fetch_us: float = 0.0
    prefetch: int = 24
    _ready_us: float = 0.0
    _claimed: deque[float] = field(default_factory=deque)

    def claim(self, now_us: float) -> float:
        """When the host that asks at `now_us` has its batch. A batch is begun when the one before it is done and a place is free."""
        begun = self._ready_us
        if len(self._claimed) >= self.prefetch:
            begun = max(begun, self._claimed.popleft())
        self._ready_us = begun + self.batch_us
        got = max(now_us, self._ready_us)
        self._claimed.append(got)
        return got + self.fetch_us


class Clocks:
    """Run tasks one after the other with `run`; `step` marks the end of a step. With `keep`, every span is kept for a timeline."""

    def __init__(self, latencies: Latencies = Latencies(), keep: bool = False) -> None:
        self.latencies = latencies
        self.keep = keep
        self.host_us = 0.0
        self.busy_us = 0.0
        self.starved_us = 0.0
        self.blocked_us = 0.0
        self.launches = 0
        self.waits: list[Wait] = []
        self.steps: list[float] = []
        self.done: list[float] = []
        self.host: list[Span] = []
        self.device: list[Span] = []
        self._end: dict[int, float] = {}
        self._queued: dict[int, deque[float]] = {}
        self._last: dict[int, Wait] = {}  # by stream, as are these: how far ahead the host could be but for waits, and up to when gaps are accounted for
        self._debt: dict[int, float] = {}
        self._accounted: dict[int, float] = {}

    def run(self, task: Task) -> None:
        """Advance both clocks by one call."""
        start = self.host_us
        self.host_us += task.host_us
        if task.launches:
            self._launch(task)
        for _ in range(task.waits):
            self.wait(task)
        if self.keep:
            self.host.append(Span(task.operator, start, self.host_us, step=len(self.steps)))

    def _launch(self, task: Task) -> None:
        """Queue the task's work. A full queue holds the host until its oldest entry has begun to run: that is no stall, the device has plenty to do."""
        queue = self._queued.setdefault(task.stream, deque())
        end = self._end.get(task.stream, 0.0)
        for _ in range(task.launches):
            while queue and queue[0] <= self.host_us:
                queue.popleft()
            if len(queue) >= self.latencies.queue_depth:
                freed = queue.popleft()
                self.blocked_us += freed - self.host_us
                self.host_us = freed
            start = max(self.host_us + self.latencies.start_us, end)
            self._idle(task.stream, end, start)
            last = self._last.get(task.stream)
            if last and last.next_us is None:
                last.next_us = start
            end = start + task.device_us / task.launches
            queue.append(start)
            if self.keep:
                self.device.append(Span(task.operator, start, end, task.stream, len(self.steps)))
        self.busy_us += task.device_us
        self.launches += task.launches
        self._end[task.stream] = end

    def _idle(self, stream: int, end: float, until: float) -> None:
        """A stream whose work ended at `end` has had nothing to do until now: its last wait is to blame, as far as waits kept the host from being ahead."""
        wait = self._last.get(stream)
        if wait is None:
            return
        blamed = max(0.0, min(until - max(end, self._accounted[stream]), self._debt[stream]))
        wait.idle_us = (wait.idle_us or 0.0) + blamed
        self._debt[stream] -= blamed

    def end_us(self, stream: int | None = None) -> float:
        """When all that is queued so far, on one stream or on all, is done. With `wait_until` this is an event."""
        ends = self._end.values() if stream is None else [self._end.get(stream, 0.0)]
        return max(ends, default=0.0)

    def wait(self, task: Task) -> None:
        """The host stands still until the task's stream is empty."""
        self.wait_until(task, self.end_us(task.stream))

    def wait_until(self, task: Task, moment_us: float) -> None:
        """The host stands still until a moment of the device's clock, e.g. an event recorded earlier: work queued behind it keeps the device busy."""
        stream, start = task.stream, self.host_us
        end = self._end.get(stream, 0.0)
        self.host_us = max(start, moment_us) + self.latencies.return_us
        drained = max(start, end)
        self._idle(stream, end, drained)
        self._accounted[stream] = drained
        self._debt[stream] = self._debt.get(stream, 0.0) + self.host_us - start
        wait = self._last[stream] = Wait(task, len(self.steps), start, self.host_us, drained)
        self.waits.append(wait)

    def synchronize(self, task: Task) -> None:
        """Wait for every stream."""
        self.wait_until(task, self.end_us())

    def fetch(self, loader: Loader, operator: str = "next(loader)") -> None:
        """Ask the loader for a batch. Waiting for it is no stall, but the device may starve: `starved_us`."""
        start = self.host_us
        self.host_us = loader.claim(start)
        self.starved_us += self.host_us - start - loader.fetch_us
        if self.keep:
            self.host.append(Span(operator, start, self.host_us, step=len(self.steps)))

    def step(self) -> None:
        """End a step. `steps` holds the host's clock at each end, as a loop that times itself without synchronising would read it; `done` when all work
        queued by then is finished: a host that runs ahead makes the first steps look short in `steps`, not in `done`."""
        self.steps.append(self.host_us)
        self.done.append(max(self.host_us, self.end_us()))
