"""What a script exported from Jupyter expects to find: `get_ipython()` and `display()`."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

_RUNS_ITS_CODE = ("time", "timeit", "capture", "prun")


class IPythonStandIn:
    """Runs the code that timing magics wrap and skips the others, saying so."""

    def __init__(self, names: dict[str, Any], note: Callable[[str], None]) -> None:
        self._names = names
        self._note = note
        self._cells = 0

    def run_line_magic(self, magic: str, line: str = "", *rest: Any, **options: Any) -> Any:
        if magic in _RUNS_ITS_CODE and line.strip():
            return self._run(line)
        return self._skip(f"%{magic} {line}".strip())

    def run_cell_magic(self, magic: str, line: str, cell: str = "") -> Any:
        if magic in _RUNS_ITS_CODE:
            return self._run(cell)
        return self._skip(f"%%{magic} {line}".strip())

    def magic(self, text: str) -> Any:
        name, _, line = text.partition(" ")
        return self.run_line_magic(name, line)

    def system(self, command: str) -> None:
        self._skip(f"!{command}")

    def getoutput(self, command: str) -> list[str]:
        self._skip(f"!{command}")
        return []

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"get_ipython().{name} exists only in Jupyter; put it under `if` so that the script also runs without.")

    def _run(self, source: str) -> None:
        self._cells += 1
        file = f"<ipython-input-{self._cells}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), self._names)

    def _skip(self, what: str) -> None:
        self._note(f"skipped, as there is no Jupyter: {what}")


def furnish(names: dict[str, Any], source: bytes, note: Callable[[str], None]) -> None:
    """Add what a notebook has to a script's names, if the script looks exported from one."""
    if b"get_ipython()" in source or b"# %%" in source or b"# In[" in source:
        stand_in = IPythonStandIn(names, note)
        names.setdefault("get_ipython", lambda: stand_in)
        names.setdefault("display", print)
