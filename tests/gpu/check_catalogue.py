"""Runs the catalogue's snippets on a real GPU and prints where the catalogue, or `watch()`, and reality disagree: `python tests/gpu/check_catalogue.py`.

`Waits` counts the waits. Snippets marked `gpu=False` wait in the driver, where neither looks, and are left out. Exit code 1 where anything disagrees.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "stalls"), str(ROOT / "tests" / "gpu")]

from snippets import SNIPPETS, Snippet, namespace  # noqa: E402
from waiting import Waits  # noqa: E402

from torchtally.stalls import watch  # noqa: E402
from torchtally.stalls.catalogue import WATCHED  # noqa: E402
from torchtally.stalls.catalogue.row import parse  # noqa: E402

UNSEEN = {"aten::unique_dim", "aten::_coalesce", "torch.cuda.empty_cache"}  # thrust and cudaFree: neither warned of nor traced


def waits_of(snippet: Snippet, waits: Waits) -> int:
    names = namespace(snippet.before)
    with waits.counted():
        exec(snippet.code, names)
    return waits.seen


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
            waits_of(snippet, waits)  # the first call may initialise a library, which waits
            real = waits_of(snippet, waits)
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
