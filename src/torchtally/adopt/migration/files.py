"""Files and folders, scripts and notebooks: read as they are, written whole or not at all."""

from __future__ import annotations

import difflib
import io
import os
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import TallyError
from .migrating import migrate_source
from .notebooks import migrate_notebook
from .peers import PEERS
from .remarks import DIFFERS, Remark

_SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class FileMigration:
    """What becomes of a file. `problem` says why it cannot be read; then nothing is changed."""

    path: Path
    before: bytes
    after: bytes
    diff: str = ""
    moved: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    problem: str = ""

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def kept(self) -> tuple[Remark, ...]:
        """What is left to do by hand."""
        return tuple(r for r in self.remarks if r.kind != DIFFERS)


def migrate_paths(paths: list[Path]) -> Iterator[FileMigration]:
    """The files that name one of the packages, of those given and of those in the folders given, each once."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise TallyError(f"{path}: there is no such file or folder.")
        for file in sorted(_files(path)) if path.is_dir() else [path]:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                found = migrate_file(file)
                if found is not None:
                    yield found


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in _SKIPPED and not f.startswith(".") and not (Path(root, f) / "pyvenv.cfg").exists()]
        yield from (Path(root, f) for f in files if f.endswith((".py", ".pyi", ".ipynb")))


def migrate_file(path: Path) -> FileMigration | None:
    """What becomes of a file; None where it names none of the packages."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return FileMigration(path, b"", b"", problem=str(error.strerror))
    if not any(peer.root[0].encode() in data for peer in PEERS):
        return None
    try:
        encoding = "utf-8" if path.suffix == ".ipynb" else _encoding(data)
        mark = _BOM if data.startswith(_BOM) else b""
        source = data[len(mark) :].decode(encoding)
        found = migrate_notebook(source) if path.suffix == ".ipynb" else migrate_source(source)
        after = mark + found.after.encode(encoding)
    except SyntaxError as error:
        return FileMigration(path, data, data, problem=f"line {error.lineno}: {error.msg}" if error.lineno else str(error))
    except (UnicodeError, ValueError) as error:
        return FileMigration(path, data, data, problem=str(error))
    return FileMigration(path, data, after, _diff(path, source, found.after), found.moved, found.remarks)


def _encoding(data: bytes) -> str:
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0].removesuffix("-sig")


def _diff(path: Path, before: str, after: str) -> str:
    """A diff that `git apply` and `patch -p1` take."""
    name = path.as_posix().lstrip("/")
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    return io.StringIO(text, newline="\n").readlines()


def write(found: FileMigration) -> None:
    """Put the new text in the place of the old, in one step."""
    path = found.path.resolve()  # a link stays one
    if path.read_bytes() != found.before:
        raise TallyError(f"{found.path}: it was changed in the meantime; nothing was written to it. Run again.")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(handle, "wb") as out:
                out.write(found.after)
                out.flush()
                os.fsync(out.fileno())
            os.chmod(name, path.stat().st_mode & 0o7777)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise TallyError(f"{found.path}: {error.strerror}; it was left as it is.") from None
