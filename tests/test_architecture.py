"""The rooms of docs/architecture.md: which part may import which."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "torchtally"
BRIDGES = {"commands", "bench", "adopt", "testing", "throughput"}  # may know both halves
STALLS = {"stalls"}


def imports(path: Path) -> set[str]:
    """First-level parts of torchtally that a file imports, wherever in it."""
    parts = ("torchtally", *path.relative_to(PACKAGE).with_suffix("").parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = parts[: len(parts) - node.level] if node.level else ()
            name = ".".join([*base, *([node.module] if node.module else [])])
            targets = [name] if name.count(".") else [f"{name}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            continue
        found |= {t.split(".")[1] for t in targets if t.startswith("torchtally.")}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_metrics_and_stalls_do_not_import_each_other(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room in BRIDGES or room in ("__init__", "__main__"):
        return
    wrong = imports(path) & (BRIDGES | (set() if room in STALLS else STALLS))
    if room in STALLS:
        wrong |= imports(path) - STALLS - {"errors"}
    assert not wrong, f"{path.relative_to(PACKAGE)} imports {sorted(wrong)}"
