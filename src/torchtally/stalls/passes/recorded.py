"""Python functions and call stacks as a profiler recorded them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache

from ..ownership import LIBRARY_PACKAGES, METRIC_PACKAGES, TORCH_THAT_CARRIES, TORCH_THAT_DECIDES, Owner

_FRAME = re.compile(r"(?P<file>.+?)\((?P<line>\d{1,9})\): (?P<function>.*)\Z", re.DOTALL)
_CALLER = re.compile(r"(?P<file>.+):(?P<line>\d{1,9})\Z", re.DOTALL)
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
_STANDARD = re.compile(r".*[/\\]python3\.\d+[/\\](?!site-packages|dist-packages)")


@dataclass(frozen=True, slots=True)
class Frame:
    """One function of a recorded stack. `exact` tells whether `line` is the one that ran or the one where the function begins."""

    file: str
    line: int
    function: str
    exact: bool = False


@lru_cache(maxsize=1 << 14)
def frame_of(name: str) -> Frame | None:
    """The function that a recorded name stands for; None for built-in functions and modules, which have no line."""
    found = _FRAME.match(name)
    return Frame(found["file"], int(found["line"]), found["function"]) if found else None


def caller_of(called_from: str) -> tuple[str, int] | None:
    """File and line of a recorded caller."""
    found = _CALLER.match(called_from)
    return (found["file"], int(found["line"])) if found else None


def frames_of_stack(stack: str, exact: bool) -> list[Frame]:
    """The frames of a `Call stack` field, the outermost first."""
    found = [frame_of(part.strip()) for part in stack.split(";")]
    return [Frame(f.file, f.line, f.function, exact) for f in reversed(found) if f is not None]


@lru_cache(maxsize=1 << 12)
def owner_of(file: str) -> Owner:
    """Whose a recorded file is. Recorded paths are cut down to what follows an entry of the recording program's `sys.path`."""
    if file.startswith("<"):
        return Owner.USER if file in ("<stdin>",) or file.startswith("<ipython-input") else Owner.PLUMBING
    installed = _INSTALLED.match(file)
    path = (file[installed.end() :] if installed else file).replace("\\", "/")
    package, _, rest = path.partition("/")
    if package == "torch" and rest:
        decides = rest.startswith(tuple(p + "/" for p in TORCH_THAT_DECIDES)) and rest not in TORCH_THAT_CARRIES
        return Owner.LIBRARY if decides else Owner.PLUMBING
    if package == "torchtally" and rest.startswith(("bench/", "commands/", "stalls/")):  # the experiment's loop is a user's; the rest carries it
        return Owner.USER if rest.startswith("bench/") else Owner.PLUMBING
    if package in METRIC_PACKAGES and rest:
        return Owner.METRICS
    if installed or (package in LIBRARY_PACKAGES and rest):
        return Owner.LIBRARY
    if _STANDARD.match(file) or (not path.startswith("/") and package.removesuffix(".py") in sys.stdlib_module_names):
        return Owner.PLUMBING
    return Owner.USER
