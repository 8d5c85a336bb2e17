"""A function's code with a region around each statement, compiled onto the same file and lines.

The whole file is compiled again and the function's code object picked out of it, so that closures, `__class__`, private names and `from __future__`
mean what they meant. Regions are constants of the new code: it uses no name that the old one did not, and `locals()` shows nothing new.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import os
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType
from typing import Any, TypeVar

from torch.profiler import record_function

from ..errors import TallyError
from .regions import line_region
from .stall import Site

T = TypeVar("T")
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_FUTURE_FLAGS = 0
for _feature in __future__.all_feature_names:
    _FUTURE_FLAGS |= getattr(__future__, _feature).compiler_flag


class _Opened(record_function):
    """A region that ends at the latest when it is dropped, as it is with the stack of a frame that an exception leaves."""

    running = False

    def __enter__(self) -> _Opened:
        super().__enter__()
        self.running = True
        return self

    def __exit__(self, *error: Any) -> None:
        self.running = False
        super().__exit__(*error)

    def __del__(self) -> None:
        if self.running:
            self.__exit__(None, None, None)


class LineRegion:
    """The region of one line. It is shared by all threads and frames that run the line, so whatever it opens is a new object each time."""

    __slots__ = ("name", "site")

    def __init__(self, site: Site) -> None:
        self.site = site
        self.name = line_region(site)

    @property
    def whole(self) -> record_function:
        """`with region.whole: statement`."""
        return record_function(self.name)

    def enter(self) -> _Opened:
        return _Opened(self.name).__enter__()

    def leave(self, opened: _Opened, value: T) -> T:
        """`region.leave(region.enter(), expression)`."""
        opened.__exit__(None, None, None)
        return value

    def steps(self) -> Any:
        """`for target in region.steps()(iterable)`: a region around each `next`.

        Only C code runs between the loop and the iterator, so that tracebacks show no frame of ours.
        """
        return partial(map, self.leave, iter(self.enter, None))


def rewrite(functions: Iterable[FunctionType]) -> dict[FunctionType, tuple[CodeType, tuple[Site, ...]]]:
    """For each function its code with regions, and the lines that have one."""
    by_file: dict[str, list[FunctionType]] = {}
    for function in functions:
        by_file.setdefault(function.__code__.co_filename, []).append(function)
    rewritten = {}
    for filename, members in by_file.items():
        tree, source = _parse(filename, members[0])
        writer = _Writer(os.path.abspath(filename) if os.path.exists(filename) else filename, source)
        for function in members:
            writer.function(_node_of(function, tree))
        compiled = _compile(tree, members[0])
        for function in members:
            code = _code_of(function, compiled)
            regions = writer.fill(code)
            marked = function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE  # `types.coroutine` has set it after compiling
            regions = regions.replace(co_flags=regions.co_flags | marked)
            rewritten[function] = (regions, tuple(dict.fromkeys(_sites(regions))))
    return rewritten


def _parse(filename: str, function: FunctionType) -> tuple[ast.Module, list[str]]:
    linecache.checkcache(filename)
    source = linecache.getlines(filename, function.__globals__)
    if not source:
        raise TallyError(
            f"probe_lines: {function.__qualname__} comes from {filename}, whose source cannot be read. "
            "Probes are made from the source: give a function that was written in a file, not one made by exec or compiled to C."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its warnings were shown when it was imported
            return ast.parse("".join(source), filename), source
    except SyntaxError as error:
        raise TallyError(
            f"probe_lines: {filename}, the source of {function.__qualname__}, is not Python (line {error.lineno}: {error.msg}). "
            "Has the file changed since it was imported? Start again with the new file."
        ) from error


def _compile(tree: ast.Module, function: FunctionType) -> CodeType:
    code = function.__code__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(tree, code.co_filename, "exec", flags=code.co_flags & _FUTURE_FLAGS, dont_inherit=True)
    except SyntaxError as error:
        raise TallyError(
            f"probe_lines: {code.co_filename} line {error.lineno} cannot be compiled with a region around it: {error.msg}. Probe the functions it calls instead."
        ) from error


def _first_line(node: Function) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def _changed(function: FunctionType) -> TallyError:
    code = function.__code__
    return TallyError(
        f"probe_lines: {code.co_filename} has no {function.__qualname__} at line {code.co_firstlineno} as it was imported. "
        "The file has changed since: start again with the new file."
    )


def _node_of(function: FunctionType, tree: ast.Module) -> Function:
    code = function.__code__
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, Function) and _first_line(node) == code.co_firstlineno and getattr(node, "name", "<lambda>") == code.co_name
    ]
    if not found:
        raise _changed(function)
    if len(found) > 1:
        raise TallyError(
            f"probe_lines: line {code.co_firstlineno} of {code.co_filename} has {len(found)} functions named {code.co_name}, and which one is meant "
            "cannot be told. Give each a line of its own."
        )
    return found[0]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _code_of(function: FunctionType, module: CodeType) -> CodeType:
    old = function.__code__
    arguments = old.co_argcount + old.co_kwonlyargcount
    for new in _codes(module):
        if (new.co_name, new.co_firstlineno) == (old.co_name, old.co_firstlineno):
            if new.co_freevars == old.co_freevars and new.co_varnames[:arguments] == old.co_varnames[:arguments]:
                return new
            break
    raise _changed(function)


def _sites(code: CodeType) -> list[Site]:
    here = [c.site for c in code.co_consts if isinstance(c, LineRegion)]
    return here + [s for c in code.co_consts if isinstance(c, CodeType) for s in _sites(c)]


def _suspends(node: ast.AST) -> bool:
    """Whether evaluating it can hand control to other code and come back: a region must not stay open meanwhile."""
    if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) or (isinstance(node, ast.comprehension) and node.is_async):
        return True
    if isinstance(node, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    if isinstance(node, ast.GeneratorExp):  # only its first iterable is evaluated here
        return _suspends(node.generators[0].iter)
    return any(_suspends(child) for child in ast.iter_child_nodes(node))


class _Writer:
    """Puts regions into the tree as string constants, which `fill` replaces in the compiled code: `compile` takes no other objects."""

    def __init__(self, filename: str, source: list[str]) -> None:
        self.filename = filename
        self.source = source
        self.regions: dict[str, LineRegion] = {}
        self.done: set[int] = set()

    def fill(self, code: CodeType) -> CodeType:
        """The code with our regions in place of the constants that stand for them."""
        return code.replace(
            co_consts=tuple(
                self.fill(c) if isinstance(c, CodeType) else self.regions.get(c, c) if isinstance(c, str) else c for c in code.co_consts
            )
        )

    def region(self, node: ast.stmt | ast.expr, end: int | None = None) -> str:
        """A new region for the line where a node starts; `end` is its last line, where that is not the node's own."""
        last = max(node.lineno, end if end is not None else node.end_lineno or node.lineno)
        code = " ".join(line.strip() for line in self.source[node.lineno - 1 : last])
        mark = f"\0line region {len(self.regions)}"
        self.regions[mark] = LineRegion(Site(self.filename, node.lineno, code=code))
        return mark

    def part(self, mark: str, name: str, at: ast.AST) -> ast.expr:
        return ast.copy_location(ast.Attribute(ast.Constant(mark), name, ast.Load()), at)

    def call(self, mark: str, name: str, at: ast.AST, *args: ast.expr) -> ast.Call:
        return ast.copy_location(ast.Call(self.part(mark, name, at), list(args), []), at)

    def value(self, mark: str, node: ast.expr) -> ast.expr:
        """The expression in a region, or, where it suspends, those parts of it in one that do not."""
        if not _suspends(node):
            if isinstance(node, (ast.Constant, ast.Name)):
                return node
            return self.call(mark, "leave", node, self.call(mark, "enter", node), node)
        if isinstance(node, (ast.JoinedStr, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return node
        self.parts(mark, node)
        return node

    def parts(self, mark: str, node: ast.AST) -> None:
        for name, child in ast.iter_fields(node):
            if isinstance(child, list):
                child[:] = [self.part_of(mark, c) for c in child]
            elif isinstance(child, ast.AST):
                setattr(node, name, self.part_of(mark, child))

    def part_of(self, mark: str, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Slice) or (isinstance(node, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.elts)):
            self.parts(mark, node)  # a slice is no value that could be passed on
            return node
        if isinstance(node, ast.Starred) or not isinstance(node, ast.expr):
            self.parts(mark, node)
            return node
        return self.value(mark, node) if isinstance(getattr(node, "ctx", None), (ast.Load, type(None))) else node

    def test(self, mark: str, node: ast.expr) -> ast.expr:
        """The truth of a test, taken inside the region: it is the truth of a tensor that waits. A conditional asks each operand once, as `if` does."""
        if isinstance(node, ast.Constant):
            return node
        if _suspends(node):
            return self.value(mark, node)
        truth = ast.IfExp(node, ast.Constant(True), ast.Constant(False))
        return self.call(mark, "leave", node, self.call(mark, "enter", node), ast.copy_location(truth, node))

    def function(self, node: Function) -> None:
        if id(node) in self.done:
            return
        self.done.add(id(node))
        if isinstance(node, ast.Lambda):
            node.body = self.value(self.region(node.body), node.body)
        else:
            self.block(node.body)
        ast.fix_missing_locations(node)

    def block(self, body: list[ast.stmt]) -> None:
        body[:] = [self.statement(s) for s in body]

    def statement(self, node: ast.stmt) -> ast.stmt:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node)
            case ast.ClassDef() | ast.Pass() | ast.Break() | ast.Continue() | ast.Global() | ast.Nonlocal() | ast.Expr(ast.Constant()):
                pass
            case ast.If() | ast.While():
                node.test = self.test(self.region(node, node.test.end_lineno), node.test)
            case ast.For():
                mark = self.region(node, node.iter.end_lineno)
                steps = self.call(mark, "steps", node.iter)
                node.iter = ast.copy_location(ast.Call(steps, [self.value(mark, node.iter)], []), node.iter)
            case ast.AsyncFor():
                node.iter = self.value(self.region(node, node.iter.end_lineno), node.iter)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    item.context_expr = self.value(self.region(item.context_expr), item.context_expr)
            case ast.Match():
                node.subject = self.value(self.region(node, node.subject.end_lineno), node.subject)
                for choice in node.cases:
                    if choice.guard is not None:
                        choice.guard = self.test(self.region(choice.guard), choice.guard)
                    self.block(choice.body)
            case _ if hasattr(node, "handlers"):  # try, also with except*
                for handler in node.handlers:
                    self.block(handler.body)
            case _ if type(node).__name__ == "TypeAlias":
                pass  # evaluated when asked for, not here
            case _ if _suspends(node):
                self.parts(self.region(node), node)
            case _:
                item = ast.withitem(self.part(self.region(node), "whole", node), None)
                return ast.copy_location(ast.With([item], [node]), node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                if isinstance(branch := getattr(node, name, None), list):
                    self.block(branch)
        return node
