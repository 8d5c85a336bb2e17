"""The user's line as it is and as it should be: small rewrites of one line of source."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass

from ..stalls import Site


def with_weight(code: str) -> str | None:
    """`loss.update(x)` → `loss.update(x, torch.ones_like(x))`; a number as weight becomes a tensor of it. None where the line is no such call."""
    call = _update_call(code)
    if call is None or not call.args:
        return None
    value = ast.unparse(call.args[0])
    given = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "weight"), None)
    weight = f"torch.ones_like({value})" if given is None else f"torch.full_like({value}, {ast.unparse(given)})"
    return f"{ast.unparse(call.func)}({value}, {weight})"


def with_tensor(code: str) -> str | None:
    """`seconds.update(x)` → `value = torch.as_tensor(x); seconds.update(value, torch.ones_like(value))`."""
    call = _update_call(code)
    if call is None or not call.args:
        return None
    return f"value = torch.as_tensor({ast.unparse(call.args[0])}); {ast.unparse(call.func)}(value, torch.ones_like(value))"


def _update_call(code: str) -> ast.Call | None:
    """The call on a line by which a metric is given a batch."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # the first line of a longer statement
        return None
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return next(
        (c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in ("update", "forward")),
        calls[0] if len(calls) == 1 else None,
    )


@dataclass(frozen=True, slots=True)
class Making:
    """The line that makes a metric: `maker` is what is called, `whole` the value that gets the name, where both stand on that line."""

    site: Site
    maker: str
    whole: str

    def with_maker(self, text: str) -> str:
        return self.site.code.replace(f"{self.maker}(", f"{text}(", 1)

    def wrapped(self, before: str, after: str) -> str:
        return self.site.code.replace(self.whole, f"{before}{self.whole}{after}", 1)


def made_at(file: str, name: str, kind: str) -> Making | None:
    """Where a file makes the metric that it calls `name`. None where no line gives something of that name the value of a call to `kind`."""
    source = linecache.getlines(file)
    try:
        tree = ast.parse("".join(source))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        for target, value in _namings(node):
            made = next((n for n in ast.walk(value) if isinstance(n, ast.Call) and _last(n.func) == kind), None)
            if target == name and made is not None:
                line = source[made.func.lineno - 1]
                whole = ast.get_source_segment("".join(source), value) or ""
                return Making(
                    Site(file, made.func.lineno, code=line.strip()),
                    ast.unparse(made.func),
                    whole if whole in line else ast.unparse(made.func),
                )
    return None


def _namings(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """What a statement or an entry of a dict calls a value."""
    if isinstance(node, ast.Assign):
        return [(_last(t), node.value) for t in node.targets]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [(_last(node.target), node.value)]
    if isinstance(node, ast.keyword) and node.arg is not None:
        return [(node.arg, node.value)]
    if isinstance(node, ast.Dict):
        return [
            (key.value, value) for key, value in zip(node.keys, node.values) if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
    return []


def _last(node: ast.expr) -> str:
    """`c` of `a.b.c`, and of `a["c"]`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _last(node.slice)
    if isinstance(node, ast.Constant):
        return str(node.value)
    return node.id if isinstance(node, ast.Name) else ""
