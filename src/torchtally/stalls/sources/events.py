"""The events of a trace file, block by block, in bounded memory and as far as the file is whole.

A file is cut where one event ends and the next begins, and whole blocks go to the parser. Only a block that does not parse is
looked at event by event.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import orjson

from ...errors import TallyError
from .mend import finite, mend

Event = dict[str, Any]

GZIP = b"\x1f\x8b"
BLOCK = 1 << 17
LONGEST = 1 << 26
"""No header and no single event of a real trace is as long as this."""
BOMB_RATIO, BOMB_SIZE = 200, 1 << 28
"""Profiler traces shrink 10- to 30-fold. What unpacks to more than BOMB_SIZE at this ratio is no trace."""

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEYS = rb'\s*"(?:ph|name|cat|ts|pid|tid|id|dur|args|bp|s|cname|sf|tts|tdur|scope)"\s*:'
_BREAK = re.compile(rb"\}\s*,\s*\{" + _KEYS)
_END = re.compile(rb"\}\s*,?\s*\]")
_END_THEN = re.compile(rb'\s*(?:,\s*"[^"\\\n]*"\s*:|\}?\s*$)')
_START = re.compile(rb"[\[,}\]]\s*(\{)" + _KEYS)
_BLANK = b" \t\r\n"


@dataclass
class Damage:
    """What was wrong with a file. `notes()` says it to a person."""

    mended: int = 0
    lost: int = 0
    cut: bool = False
    gzip: str = ""
    other: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        found = list(self.other)
        if self.gzip:
            found.append(self.gzip)
        if self.cut:
            found.append("the file ends in the middle of its list of events: what came after is missing")
        if self.mended:
            found.append(f"{self.mended:,} events were not valid JSON and were read after mending")
        if self.lost:
            found.append(f"{self.lost:,} events could not be read and are missing")
        return found


def unpacked(path: Path, damage: Damage, progress: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """The file's bytes in pieces, unpacked if it is gzip, whatever its name. `progress` hears of bytes read from the disk."""
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] == GZIP:
                yield from _inflated(path, file, damage, progress)
                return
            while piece := file.read(BLOCK):
                if progress:
                    progress(len(piece))
                yield piece
    except OSError as error:
        raise TallyError(f"{path}: cannot be read ({error.strerror}). Give the path of a profiler trace.") from None


def _inflated(path: Path, file: BufferedReader, damage: Damage, progress: Callable[[int], None] | None) -> Iterator[bytes]:
    inflate = None
    packed = total = 0
    while data := file.read(1 << 18):
        packed += len(data)
        if progress:
            progress(len(data))
        while data:
            inflate = inflate or zlib.decompressobj(wbits=31)
            try:
                piece = inflate.decompress(data, BLOCK)
            except zlib.error:
                damage.gzip = f"the gzip stream is damaged near byte {packed:,}: what came after is missing"
                return
            total += len(piece)
            if total > BOMB_SIZE and total > BOMB_RATIO * packed:
                raise TallyError(
                    f"{path}: unpacks to more than {BOMB_RATIO} times its size, which no profiler's trace does; stopped at {total:,} bytes. "
                    "Unpack it yourself if you trust it."
                )
            yield piece
            data = inflate.unconsumed_tail
            if inflate.eof:  # another member may follow; anything else is padding
                data, inflate = inflate.unused_data, None
                if data[:2] != GZIP[: len(data)]:
                    return
    if inflate is not None:
        yield inflate.flush()
        damage.gzip = "the gzip file is cut short: what came after is missing"


class Events:
    """The events of one file, as an iterator over blocks of them.

    `header` and `footer` are the bytes before and after the list of events, complete once the iterator is through (the footer up to a limit).
    """

    def __init__(self, path: Path, pieces: Iterator[bytes], damage: Damage) -> None:
        self.path, self.damage = path, damage
        self.header = self.footer = b""
        self._pieces = pieces
        self._buffer = b""
        self._enough = BLOCK
        self._open = True

    def __iter__(self) -> Iterator[list[Event]]:
        self._find_the_list()
        waiting = [self._buffer]  # joined once there is enough
        while self._open:
            more = next(self._pieces, None)
            if more is not None:
                waiting.append(more)
                if sum(map(len, waiting)) < self._enough:
                    continue
            self._buffer = b"".join(waiting)
            yield self._last() if more is None else self._block()
            waiting = [self._buffer]
        self._drain()

    def _find_the_list(self) -> None:
        """Skip to the first event. What cannot be a trace is refused."""
        for piece in self._pieces:
            self._buffer += piece
            text = self._buffer.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANK)
            if text[:1] == b"[":
                self._buffer = text[1:]
                return
            if text[:1] not in (b"", b"{"):
                break
            if found := _LIST.search(self._buffer):
                self.header, self._buffer = self._buffer[: found.start()], self._buffer[found.end() :]
                return
            if len(self._buffer) > LONGEST:
                break
        raise TallyError(f"{self.path}: {self._refusal()}. Give a trace that torch.profiler exported (Chrome trace JSON, plain or gzip).")

    def _refusal(self) -> str:
        text = self._buffer.strip()
        if self.damage.gzip:
            return f"no trace can be read from it: {self.damage.gzip}"
        if not text:
            return "the file is empty"
        if text[:1] == b"{":
            return 'is JSON perhaps, but no trace: it has no "traceEvents"'
        return "is no trace: it is not JSON"

    def _block(self) -> list[Event]:
        """All whole events in the buffer."""
        cut = _last_break(self._buffer)
        if cut is None:
            if len(self._buffer) > LONGEST:
                self.damage.other.append(f"{len(self._buffer):,} bytes in a row hold no event and were skipped")
                self._buffer = b""
            self._enough = 2 * max(BLOCK, len(self._buffer))  # not once more for every piece: that would take quadratic time
            return []
        self._enough = BLOCK
        data, self._buffer = self._buffer[:cut], self._buffer[cut:]
        return self._parse(data)

    def _last(self) -> list[Event]:
        data, self._buffer = self._buffer, b""
        found = self._parse(data)
        if self._open:
            self.damage.cut = True
            self._open = False
        return found

    def _parse(self, data: bytes) -> list[Event]:
        """The events of `data`. Where the list of them ends in it, the rest becomes the footer."""
        data = data.strip(_BLANK + b",")
        if not data:
            return []
        if data[:1] == b"]":
            self._close(data[1:])
            return []
        if (found := _loads(data)) is not None:
            return found
        if end := _END.search(data):
            whole, rest = data[: end.start() + 1], data[end.end() :]
            if (found := _loads(whole)) is not None:
                self._close(rest)
                return found
        return self._salvage(data)

    def _salvage(self, data: bytes) -> list[Event]:
        """The events one by one, each from where it starts to where the next one does."""
        marked = b"," + data
        starts = [m.start(1) for m in _START.finditer(marked)]
        if not starts:
            self.damage.lost += 1
            return []
        found: list[Event] = []
        for start, stop in zip(starts, [*starts[1:], len(marked)]):
            segment = marked[start:stop].rstrip(_BLANK + b",")
            try:
                event = orjson.loads(segment)
            except orjson.JSONDecodeError:
                for end in _END.finditer(segment):  # the list may end within the segment
                    if _END_THEN.match(segment, end.end()) and (event := mend(segment[: end.start() + 1])) is not None:
                        found.append(event)
                        self._close(marked[start + end.end() :])
                        return found
                event = mend(finite(segment))
                if event is None:
                    self.damage.lost += 1
                    continue
                self.damage.mended += 1
            found.append(event)
        return found

    def _close(self, rest: bytes) -> None:
        self._open = False
        self.footer = rest + self._buffer
        self._buffer = b""

    def _drain(self) -> None:
        """Read on, so that damage to the end of a gzip file is seen, but keep no more than a footer can be."""
        kept = [self.footer]
        size = len(self.footer)
        for piece in self._pieces:
            if size < LONGEST:
                kept.append(piece)
                size += len(piece)
        self.footer = b"".join(kept)


def _last_break(data: bytes) -> int | None:
    """Just behind the last event that another one follows."""
    for window in (1 << 14, 1 << 18, len(data)):
        breaks = [m.start() + 1 for m in _BREAK.finditer(data, max(0, len(data) - window))]
        if breaks:
            return breaks[-1]
    return None


def _loads(data: bytes) -> list[Event] | None:
    """The comma-separated objects, or None where they are not JSON even with NaN and Infinity taken as null."""
    try:
        return orjson.loads(b"[" + data + b"]")
    except orjson.JSONDecodeError:
        text = finite(data)
        if text == data:
            return None
    try:
        return orjson.loads(b"[" + text + b"]")
    except orjson.JSONDecodeError:
        return None
