"""Runs the catalogue's snippets on a real GPU and prints where the catalogue, or `watch()`, and reality disagree: `python tests/gpu/check_catalogue.py`.

A wait counts when torch's synchronisation warning or its GPU trace says so, whichever says more: a warning misses device and event waits, the trace misses
waits inside thrust and MAGMA. Snippets marked `gpu=False` wait in the driver, where neither looks, and are left out. Exit code 1 where anything disagrees.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
from torch.cuda import _gpu_trace

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "stalls")]

from snippets import SNIPPETS, Snippet, namespace  # noqa: E402

from torchtally.stalls import watch  # noqa: E402
from torchtally.stalls.catalogue import WATCHED  # noqa: E402
from torchtally.stalls.catalogue.row import parse  # noqa: E402

SYNC = "called a synchronizing CUDA operation"
UNSEEN = {"aten::unique_dim", "aten::_coalesce", "torch.cuda.empty_cache"}  # thrust and cudaFree: neither warned of nor traced


class Waits:
    """What the trace has told since it was last cleared."""

    def __init__(self) -> None:
        self.seen = 0
        _gpu_trace.register_callback_for_stream_synchronization(lambda stream: self.add())
        _gpu_trace.register_callback_for_event_synchronization(lambda event: self.add())
        _gpu_trace.register_callback_for_device_synchronization(self.add)
        torch._C._activate_gpu_trace()

    def add(self) -> None:
        self.seen += 1

    def during(self, snippet: Snippet) -> int:
        names = namespace(snippet.before)
        torch.cuda.synchronize()
        self.seen = 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                exec(snippet.code, names)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return max(self.seen, sum(SYNC in str(w.message) for w in caught))


def watched(snippet: Snippet) -> int:
    """What `torchtally.stalls.watch` finds."""
    names = namespace(snippet.before)
    torch.cuda.synchronize()
    with watch() as recorder:
        exec(snippet.code, names)
    return len(recorder.stalls)


def agrees(snippet: Snippet, real: int) -> bool:
    expected = sum(snippet.waits.values())
    if snippet.waits.keys() & UNSEEN:
        return True
    exact = all(row.exact for name in snippet.waits for row in WATCHED[name])
    return real == expected if exact else real >= expected


def main() -> int:
    if not torch.cuda.is_available():
        print("skipped: no GPU here, torch.cuda.is_available() is false")
        return 0
    version, waits, wrong, ran = parse(torch.__version__), Waits(), 0, 0
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}: {len(SNIPPETS)} snippets")
    for snippet in SNIPPETS:
        if not snippet.gpu or not parse(snippet.since) <= version < parse(snippet.until or "99.0"):
            continue
        ran += 1
        try:
            waits.during(snippet)  # the first call may initialise a library, which waits
            real = waits.during(snippet)
            live = watched(snippet)
        except Exception as error:
            wrong += 1
            print(f"cannot run  {snippet.code}: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        if not agrees(snippet, real):
            wrong += 1
            print(f"disagrees   {snippet.code}: the catalogue says {snippet.waits or 'no wait'}, the device waited {real} times")
        printed = any(WATCHED[name][0].kind == "print" for name in snippet.waits)  # many waits, told once
        if (bool(live) != bool(real)) if printed else (live != real):
            wrong += 1
            print(f"watch()     {snippet.code}: found {live} of {real} waits")
    print(f"{ran} ran, {wrong} disagree")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
