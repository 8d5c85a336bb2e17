"""Which line, metric and region each stall is blamed on, from what the run recorded around it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..ownership import Owner
from ..regions import line_of, metric_of
from ..stall import Site, Stall
from ..timeline import Timeline
from .findings import Findings
from .nesting import Nesting
from .recorded import Frame, caller_of, frame_of, frames_of_stack, owner_of
from .source import code_at, reading_lines

_ENGINE = "run_backward"
_STEP = "ProfilerStep"
_MODULE = "nn.Module: "


def blame_stalls(timeline: Timeline, findings: Findings) -> Findings:
    """Site, metric and region of each stall that has no site yet.

    In order of trust: a region that names a line; Python functions with the line they were called from; a call stack recorded with the
    operator; the functions alone. For a stall in the backward pass, which has no Python of its own, the line of the forward operator.
    """
    blamer = _Blamer(timeline)
    return findings.changed(lambda stall: blamer(stall) if stall.site is None and stall.start_us is not None else stall)


@dataclass(frozen=True, slots=True)
class _Place:
    """What was open at a moment: frames, the outermost first, and whether they are of another moment, that of the forward pass."""

    frames: tuple[Frame, ...] = ()
    modules: tuple[str, ...] = ()
    elsewhere: bool = False


class _Blamer:
    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.frames = Nesting(timeline.frames)
        self.operators = Nesting(timeline.operators)
        self.regions = Nesting(timeline.regions)
        self.threads = {lane.label: i for i, lane in enumerate(timeline.lanes)}
        forward = np.flatnonzero((timeline.operators.backward == 0) & (timeline.operators.sequence >= 0))
        self.forward = dict(zip(timeline.operators.sequence[forward].tolist(), forward.tolist()))
        self.lanes_with_frames = np.unique(timeline.frames.lane).tolist()

    def __call__(self, stall: Stall) -> Stall:
        lane, moment = self.threads.get(stall.thread, -1), stall.start_us or 0.0
        place, lane, moment = self.place(lane, moment)
        names = [self.timeline.names[self.timeline.regions.name[i]] for i in self.regions.at(lane, moment)]
        probed = [s for n in reversed(names) if (s := line_of(n))]
        metric = next((m[0] for n in reversed(names) if (m := metric_of(n))), None)
        region = next((n for n in reversed(names) if not (n.startswith(_STEP) or line_of(n) or metric_of(n))), stall.region)
        own = next((f for f in reversed(place.frames) if owner_of(f.file) is Owner.USER), None)
        inner = next((f for f in reversed(place.frames) if owner_of(f.file) is not Owner.PLUMBING), own)
        blamed = own or inner
        site, deepest = _site(blamed), _site(inner)
        doubtful = place.elsewhere or (blamed is not None and not blamed.exact)
        if probed:  # a region around one line says which line ran; the functions around it mostly do not
            deepest = probed[0]
            mine = next((s for s in probed if owner_of(s.file) is Owner.USER), None)
            if mine is not None or site is None:
                site, doubtful = mine or deepest, False
        return replace(
            stall,
            site=site,
            inner=deepest or site,
            metric=metric or _metric(place) or stall.metric,
            region=region,
            inferred=stall.inferred or (site is not None and doubtful),
        )

    def place(self, lane: int, moment: float) -> tuple[_Place, int, float]:
        """Frames at that moment on that thread; else at the forward operator; else of the thread that called `backward`."""
        if found := self.here(lane, moment):
            return found, lane, moment
        operators = self.timeline.operators
        for i in reversed(self.operators.at(lane, moment)):
            before = self.forward.get(int(operators.sequence[i])) if operators.backward[i] else None
            if before is not None:
                there, then = int(operators.lane[before]), float(operators.start_us[before])
                found = self.here(there, then)
                return (replace(found, elsewhere=True) if found else _Place(elsewhere=True)), there, then
        for other in self.lanes_with_frames:
            if other != lane and any(_ENGINE in self.timeline.names[self.timeline.frames.name[i]] for i in self.frames.at(other, moment)):
                found = self.here(other, moment)
                return (replace(found, elsewhere=True) if found else _Place()), other, moment
        return _Place(), lane, moment

    def here(self, lane: int, moment: float) -> _Place | None:
        timeline = self.timeline
        opened = self.frames.at(lane, moment)
        if opened:
            return self.with_lines(lane, moment, opened)
        for i in reversed(self.operators.at(lane, moment)):
            if stack := timeline.name(int(timeline.operators.stack[i])):
                return _Place(tuple(frames_of_stack(stack, timeline.stacks_have_lines)))
        return None

    def with_lines(self, lane: int, moment: float, opened: list[int]) -> _Place:
        """The open functions, each with the line it had reached, which what it called has recorded; the last one's is inferred."""
        frames = self.timeline.frames
        found: list[Frame] = []
        modules: list[str] = []
        for i, inside in zip(opened, [*opened[1:], -1]):
            name = self.timeline.names[frames.name[i]]
            frame = frame_of(name)
            if frame is None:
                if name.startswith(_MODULE):
                    modules.append(name.removeprefix(_MODULE).rpartition("_")[0])
                continue
            reached = caller_of(self.timeline.name(int(frames.called_from[inside]))) if inside >= 0 else None
            if reached is not None and _same_file(reached[0], frame.file):
                frame = replace(frame, line=reached[1], exact=True)
            elif inside < 0:
                frame = replace(frame, line=self.inferred_line(lane, moment, i, frame))
            found.append(frame)
        return _Place(tuple(found), tuple(modules))

    def inferred_line(self, lane: int, moment: float, position: int, frame: Frame) -> int:
        """The line a function had reached when it waited without calling anything that was recorded, as `if x:` and `float(x)` do.

        It lies between the lines of the calls before and after; of those, the source tells which can read a value.
        """
        low = self.line_called(self.child(lane, position, self.frames.last_before(lane, moment)))
        high = self.line_called(self.child(lane, position, self.frames.first_after(lane, moment)))
        candidates = [n for n in reading_lines(frame.file, frame.line) if n >= (low or 0)]
        within = [n for n in candidates if high is None or low is None or low > high or n <= high]
        return (within or candidates or [low or frame.line])[0]

    def child(self, lane: int, parent: int, position: int) -> int:
        """Of a span, the one around it that `parent` called directly; -1 if it is not inside `parent`."""
        if position < 0:
            return -1
        stack = [*self.frames.at(lane, float(self.timeline.frames.start_us[position]))]
        return stack[stack.index(parent) + 1] if parent in stack[:-1] else -1

    def line_called(self, position: int) -> int | None:
        called = caller_of(self.timeline.name(int(self.timeline.frames.called_from[position]))) if position >= 0 else None
        return called[1] if called else None


def _same_file(a: str, b: str) -> bool:
    """Whether two recorded paths are one file: each may be cut at another entry of `sys.path`."""
    return a == b or a.endswith("/" + b) or b.endswith("/" + a)


def _site(frame: Frame | None) -> Site | None:
    if frame is None:
        return None
    code = code_at(frame.file, frame.line) if frame.exact or frame.line else ""
    return Site(frame.file, frame.line, frame.function, code)


def _metric(place: _Place) -> str | None:
    """The metric whose code is on the stack: the module's class where it was called, else the outermost function of a metric library."""
    inside = [f for f in place.frames if owner_of(f.file) is Owner.METRICS]
    if not inside:
        return None
    named = (
        next((m for m in place.modules if m and m[0].isupper()), None)
        if any(f.function in ("forward", "_wrapped_call_impl") for f in inside)
        else None
    )
    if named:
        return named
    outermost = next((f for f in inside if not f.file.endswith(("/metric.py", "/collections.py"))), inside[0])
    path = outermost.file.replace("\\", "/").removesuffix(".py").split("/")
    package = next((i for i, part in enumerate(path) if part in ("torchmetrics", "torcheval", "ignite", "torchtally")), 0)
    return ".".join([*path[package:], outermost.function])
