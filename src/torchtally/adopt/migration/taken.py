"""What a file takes from a package: names it imports, modules it imports, and where it uses them."""

from __future__ import annotations

import ast
import re
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
    scope: ast.AST | None = None
    rebound: int | None = None  # the line where the scope gives the name another meaning
    uses: list[Use] = field(default_factory=list)
    loose: list[ast.expr] = field(default_factory=list)  # uses of a module itself, of which nothing is known


def taken_from(tree: ast.Module, package: str) -> list[Taken]:
    """What a file imports from a package, with all uses."""
    nodes = list(_walk(tree))
    found: list[Taken] = []
    owned: dict[tuple[ast.AST, str], Taken] = {}
    for node, parents in nodes:
        for t in _of_statement(node, package):
            t.scope = _scopes(parents)[0]
            found.append(t)
            owned.setdefault((_scopes(parents)[0], t.bound), t)
    bound: dict[ast.AST, dict[str, int]] = {}
    for node, parents in nodes:
        for name, line in _bindings(node, package):
            bound.setdefault(_scopes(parents)[0], {}).setdefault(name, line)
    for t in found:
        t.rebound = bound.get(t.scope, {}).get(t.bound) if t.scope is not None else None
    names = {t.bound for t in found}
    for node, parents in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            here = next((s for s in _scopes(parents) if (s, node.id) in owned or node.id in bound.get(s, {})), None)
            if here is not None and (here, node.id) in owned:
                _use(owned[here, node.id], node, parents)
    return found


_SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _scopes(parents: list[ast.AST]) -> list[ast.AST]:
    """Where a name that stands below these nodes is looked up, the innermost first; classes only by what stands directly in them."""
    around = [p for p in reversed(parents) if isinstance(p, _SCOPES)]
    return [s for i, s in enumerate(around) if i == 0 or not isinstance(s, ast.ClassDef)]


def _bindings(node: ast.AST, package: str) -> Iterator[tuple[str, int]]:
    """Names that a node gives a meaning other than by an import of the package, or than a constant as `tm = None` where there is none."""
    if isinstance(node, ast.Import):
        names = [a.asname or a.name.partition(".")[0] for a in node.names if a.name.partition(".")[0] != package]
        yield from ((name, node.lineno) for name in names)
    elif isinstance(node, ast.ImportFrom):
        if node.level or (node.module or "").partition(".")[0] != package:
            yield from ((a.asname or a.name, node.lineno) for a in node.names)
    elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
        yield from ((n.id, n.lineno) for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr | ast.For | ast.AsyncFor | ast.comprehension):
        yield from ((n.id, n.lineno) for n in ast.walk(node.target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from ((n.id, n.lineno) for n in ast.walk(node.optional_vars) if isinstance(n, ast.Name))
    elif isinstance(node, ast.arg):
        yield node.arg, node.lineno
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, node.lineno


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


_IMPORTS = ("import_module", "__import__", "find_spec", "importorskip")


def mentions(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Strings that name something of a package, such as targets of configurations, and what is imported by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func) in _IMPORTS and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value == package:
                yield first.lineno, package
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(rf"{package}(\.\w+)+", node.value):
            yield node.lineno, node.value


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
