"""One source text moved to torchtally: what each name becomes, and the edits that make it so."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from . import statements
from .offers import Offer, module_for
from .peers import PEERS, Peer
from .remarks import DIFFERS, Remark
from .taken import Path, Taken, Use, mentions, taken_from
from .text import Edit, Text, edited


@dataclass(frozen=True, slots=True)
class Migration:
    """What becomes of a source: the new text, how many names were moved, and what there is to say."""

    before: str
    after: str
    moved: tuple[str, ...]
    remarks: tuple[Remark, ...]
    edits: tuple[Edit, ...] = ()

    @property
    def kept(self) -> tuple[Remark, ...]:
        """What is left to do by hand."""
        return tuple(r for r in self.remarks if r.kind != DIFFERS)


def migrate_source(source: str) -> Migration:
    """Move a Python source to torchtally. Raises SyntaxError where it is none; the result always is."""
    text = Text(source)
    work = [_Moving(text, peer) for peer in PEERS if peer.root[0] in source]
    for moving in work:
        moving.run()
    edits = sorted({e for w in work for e in w.edits})
    after = edited(source, edits)
    ast.parse(after)
    remarks = sorted({r for w in work for r in w.remarks})
    return Migration(source, after, tuple(n for w in work for n in w.moved), tuple(remarks), tuple(edits))


class _Moving:
    """What one package gives a source, name by name."""

    def __init__(self, text: Text, peer: Peer) -> None:
        self.text, self.peer = text, peer
        self.edits: list[Edit] = []
        self.remarks: list[Remark] = []
        self.moved: list[str] = []
        self.targets: dict[ast.ImportFrom, dict[ast.alias, tuple[str, str]]] = {}
        self.needs_root: dict[ast.stmt, None] = {}
        self.staying: dict[ast.AST, str] = {}  # uses of what torchtally has not, with its name

    def run(self) -> None:
        taken = [t for t in taken_from(self.text.tree, self.peer.root[0]) if self._concerns(t)]
        if not taken and not self.peer.same_paths:
            return
        held = self.peer.hold(self.text.tree) if taken else None
        if held is not None:
            self.remarks.append(Remark(held[0], self.peer.root[0], held[1]))
            return
        for t in taken:
            for u in t.uses:
                module, name = (u.module, u.name) if t.module else (t.path[:-1], t.alias.name)
                if self.peer.offer(module, name) is None:
                    self.staying[u.node] = name
        for t in taken:
            if not t.module:
                self._name(t)
        for key in dict.fromkeys((t.scope, t.bound) for t in taken if t.module):
            self._module([t for t in taken if t.module and (t.scope, t.bound) == key])
        for node, targets in self.targets.items():
            self._statement(node, targets)
        self._import_root()
        self._strings()

    def _concerns(self, t: Taken) -> bool:
        root = self.peer.root
        if not t.module or t.loose or not t.uses:
            return t.path[: len(root)] == root[: len(t.path)] and (len(t.path) >= len(root) or bool(t.uses))
        return any(u.module[: len(root)] == root for u in t.uses)

    # ---- names
    def _name(self, t: Taken) -> None:
        """`from torchmetrics import X`: wherever X is used it keeps its name, so that only the statement changes."""
        name = t.alias.name
        if name == "*":
            self._keep(t.statement.lineno, "import *", "name what the file needs; then it can be moved")
            return
        if t.rebound is not None and not self.peer.same_paths:
            self._keep(t.rebound, t.bound, f"the name means something else here, so that uses of {name} cannot be told apart")
            return
        offer = self._offer(t.path[:-1], name, t.uses, t.alias.lineno)
        if offer is None:
            return
        assert isinstance(t.statement, ast.ImportFrom)
        own = f" as {t.bound}" if t.bound != offer.name else ""
        self.targets.setdefault(t.statement, {})[t.alias] = (offer.module, offer.name + own)
        self._count(t.path[:-1], name, offer, t.uses, t.alias.lineno)

    def _offer(self, module: Path, name: str, uses: Iterable[Use], line: int) -> Offer | None:
        """What torchtally offers for a name, if it takes every call of it in the file."""
        offer = self.peer.offer(module, name)
        if offer is None:
            self._keep(line, name, self.peer.why_not(module, name))
            return None
        refusals = [(u, reason) for u in uses if (reason := self.peer.refused(name, offer, u.call) or self._around(offer, u.call))]
        for u, reason in refusals:
            self._keep(u.node.lineno, name, reason)
        return None if refusals else offer

    def _around(self, offer: Offer, call: ast.Call | None) -> str | None:
        """Why a wrapper must stay where it is: a metric in it stays. Collections take both kinds, and are not looked into."""
        if call is None or not offer.wraps:
            return None
        inside: list[ast.AST] = [*call.args, *call.keywords]
        for node in inside:
            if node in self.staying:
                return f"it is around {self.staying[node]}, which torchtally has not; torchtally's takes metrics of torchtally"
            is_collection = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("MetricCollection")
            inside += () if is_collection else ast.iter_child_nodes(node)
        return None

    def _count(self, module: Path, name: str, offer: Offer, uses: list[Use], line: int) -> None:
        """Note that a name was moved, rewrite what its calls need, and tell where its value differs."""
        self.moved.append(".".join((*module, name)))
        for u in uses:
            self.edits += self.peer.edits(self.text, name, u.call)
        told: dict[str, int] = {}
        places: list[tuple[int, ast.Call | None]] = [(u.node.lineno, u.call) for u in uses if u.call is not None]
        for place, call in places or [(line, None)]:
            for difference in self.peer.differs(name, offer, call):
                told.setdefault(difference, place)
        self.remarks += [Remark(place, name, difference, DIFFERS) for difference, place in told.items()]

    # ---- modules
    def _module(self, group: list[Taken]) -> None:
        """`import torchmetrics`, `import torchmetrics as tm`, `from torchmetrics import functional as F`: what is used of it decides."""
        first = group[0]
        uses, loose = first.uses, first.loose
        if first.rebound is not None:
            told = f"the name means something else here, so that uses of {'.'.join(first.path)} cannot be told apart"
            self._keep(first.rebound, first.bound, told)
            return
        by_name: dict[tuple[Path, str], list[Use]] = {}
        for u in uses:
            by_name.setdefault((u.module, u.name), []).append(u)
        found = {key: self._offer(*key, several, several[0].node.lineno) for key, several in by_name.items()}
        for node in loose:
            self._keep(node.lineno, first.bound, "the module itself is used as a value")
        whole = not loose and all(offer is not None for offer in found.values()) and self._has_all(group)
        if not whole and not uses and not loose:
            self._keep(first.statement.lineno, first.bound, f"torchtally has no module {'.'.join(first.path)}")
        for (module, name), several in by_name.items():
            offer = found[module, name]
            if offer is not None:
                self._count(module, name, offer, several, several[0].node.lineno)
                for u in several:
                    self._point(first, u, offer, whole)
        if whole:
            self._imports(group)
        elif any(found.values()):
            self.needs_root[first.statement] = None

    def _has_all(self, group: list[Taken]) -> bool:
        """Whether torchtally has the modules themselves."""
        if not self.peer.same_paths:
            return bool(group[0].uses)
        paths = [tuple(t.alias.name.split(".")) if isinstance(t.statement, ast.Import) else t.path for t in group]
        return all(module_for(p)[1] == len(p) or (module_for(p)[1] > 1 and not t.alias.asname) for p, t in zip(paths, group))

    def _base(self, t: Taken) -> str | None:
        """The module of torchtally that the bound name will stand for; None where uses are written out from the root."""
        return module_for(t.path)[0] if self.peer.same_paths else None

    def _point(self, t: Taken, u: Use, offer: Offer, whole: bool) -> None:
        """Let a use name what torchtally offers."""
        base, bound = self._base(t), t.bound if t.bound != self.peer.root[0] else "torchtally"
        dotted = f"{offer.module}.{offer.name}"
        if whole and base is not None and f"{offer.module}.".startswith(f"{base}."):
            dotted = bound + dotted[len(base) :]
        elif whole and base is not None:
            self.needs_root[t.statement] = None
        start, end = self.text.span(u.node)
        if self.text.source[start:end] != dotted:
            self.edits.append(Edit(start, end, dotted))

    def _imports(self, group: list[Taken]) -> None:
        for t in group:
            if isinstance(t.statement, ast.ImportFrom):
                self._import_of_module(t, t.statement)
                continue
            path = tuple(t.alias.name.split("."))
            name = module_for(path)[0] if self.peer.same_paths else "torchtally"
            start, end = self.text.span(t.alias)
            own = f" as {t.alias.asname}" if t.alias.asname and self.peer.same_paths else ""
            self.edits.append(Edit(start, end, name + own))

    def _import_of_module(self, t: Taken, statement: ast.ImportFrom) -> None:
        if self.peer.same_paths:
            parent, _, name = module_for(t.path)[0].rpartition(".")
            own = f" as {t.bound}" if t.bound != name else ""
            self.targets.setdefault(statement, {})[t.alias] = (parent, name + own)
        elif len(statement.names) == 1:
            self.edits.append(Edit(*self.text.span(statement), "import torchtally"))
        else:
            self.needs_root[statement] = None

    # ---- statements
    def _statement(self, node: ast.ImportFrom, targets: dict[ast.alias, tuple[str, str]]) -> None:
        kept = [(node.module or "", a.name + (f" as {a.asname}" if a.asname else "")) for a in node.names]
        self.edits += statements.rewritten(self.text, node, [targets.get(a, k) for a, k in zip(node.names, kept)])

    def _import_root(self) -> None:
        """`import torchtally` before the first statement that made it needed, unless the file has it."""
        has = any(
            isinstance(n, ast.Import) and any(a.name == "torchtally" and not a.asname for a in n.names) for n in ast.walk(self.text.tree)
        )
        if self.needs_root and not has:
            self.edits.append(statements.before(self.text, next(iter(self.needs_root)), "import torchtally"))

    def _strings(self) -> None:
        for line, named in mentions(self.text.tree, self.peer.root[0]):
            if tuple(named.split("."))[: len(self.peer.root)] == self.peer.root[: named.count(".") + 1]:
                self._keep(line, f'"{named}"', "a string; change it by hand if it names what to import")

    def _keep(self, line: int, what: str, reason: str) -> None:
        self.remarks.append(Remark(line, what, reason))
