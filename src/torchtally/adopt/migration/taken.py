"""What a file takes from a package: names it imports, modules it imports, and where it uses them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Path = tuple[str, ...]


@dataclass(slots=True)
class Use:
    """`tm.functional.accuracy`, or a bare name: the node, the module and the name it stands for, and the call it is the head of."""

    node: ast.expr
    module: Path
    name: str
    call: ast.Call | None


@dataclass(slots=True)
class Taken:
    """One name that an import binds. `path` is what it stands for; `module` whether that is a module."""

    statement: ast.Import | ast.ImportFrom
    alias: ast.alias
    path: Path
    module: bool
    bound: str
    uses: list[Use] = field(default_factory=list)
    loose: list[ast.expr] = field(default_factory=list)  # uses of a module itself, of which nothing is known


def taken_from(tree: ast.Module, package: str) -> list[Taken]:
    """What a file imports from a package, with all uses."""
    found = [t for node in ast.walk(tree) for t in _of_statement(node, package)]
    by_name: dict[str, Taken] = {}
    for t in found:
        by_name.setdefault(t.bound, t)
    for node, parents in _walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in by_name:
            _use(by_name[node.id], node, parents)
    return found


def _of_statement(node: ast.AST, package: str) -> Iterator[Taken]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            path = tuple(alias.name.split("."))
            if path[0] == package:
                yield Taken(node, alias, path if alias.asname else path[:1], True, alias.asname or path[0])
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        path = tuple(node.module.split("."))
        if path[0] == package:
            for alias in node.names:
                yield Taken(node, alias, (*path, alias.name), _names_a_module(path, alias.name), alias.asname or alias.name)


_MODULES = {
    "aggregation", "audio", "classification", "clustering", "detection", "functional", "image", "metrics", "multimodal", "nominal",
    "regression", "retrieval", "segmentation", "shape", "text", "toolkit", "utilities", "utils", "video", "wrappers",
}  # fmt: skip


def _names_a_module(path: Path, name: str) -> bool:
    return name in _MODULES and len(path) <= 2


def _walk(tree: ast.AST) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Every node with those around it, the outermost first."""
    stack: list[tuple[ast.AST, list[ast.AST]]] = [(tree, [])]
    while stack:
        node, parents = stack.pop()
        yield node, parents
        stack += [(child, [*parents, node]) for child in ast.iter_child_nodes(node)]


def _use(taken: Taken, node: ast.Name, parents: list[ast.AST]) -> None:
    if not taken.module:
        above = parents[-1] if parents else None
        call = above if isinstance(above, ast.Call) and above.func is node else None
        taken.uses.append(Use(node, taken.path[:-1], taken.path[-1], call))
        return
    chain: list[ast.expr] = [node]
    for above in reversed(parents):
        if not (isinstance(above, ast.Attribute) and above.value is chain[-1]):
            break
        chain.append(above)
    names = [a.attr for a in chain[1:] if isinstance(a, ast.Attribute)]
    if not names:
        taken.loose.append(node)
        return
    depth = _depth(taken.path, names)
    last = chain[depth + 1]
    above = parents[-1 - (depth + 1)] if len(parents) > depth + 1 else None
    call = above if isinstance(above, ast.Call) and above.func is last else None
    taken.uses.append(Use(last, (*taken.path, *names[:depth]), names[depth], call))


def _depth(path: Path, names: list[str]) -> int:
    """How many of the attributes are modules: lower-case names that something other than a method of a metric follows."""
    depth = 0
    for name in names[:-1]:
        within = (*path, *names[:depth])[-1]
        if name not in _MODULES and not (within in _MODULES and name.islower()):
            break
        depth += 1
    return depth


def bound_elsewhere(tree: ast.Module, name: str) -> int | None:
    """The line where a name is given another meaning than that of an import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and node.id == name:
            return node.lineno
        if isinstance(node, ast.arg) and node.arg == name:
            return node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return node.lineno
    return None


def mentions(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Strings that name something of a package, such as targets of configurations and module names."""
    docs = {
        id(n.body[0].value)
        for n in ast.walk(tree)
        if hasattr(n, "body") and isinstance(n.body, list) and n.body and isinstance(n.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            text = node.value
            if (
                (text == package or text.startswith(f"{package}."))
                and not text.endswith(".")
                and all(p.isidentifier() for p in text.split("."))
            ):
                yield node.lineno, text
