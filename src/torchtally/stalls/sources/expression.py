"""Which operator a waiting line of Python is executing, told from the instruction the interpreter stands at.

A hook of CUDA says that the host waits, not for which operator. The instruction's place in the source does: `x.cpu()`, `x[mask]`, `if loss > 0`.
"""

from __future__ import annotations

import ast
import dis
import linecache
import re
import textwrap
from itertools import islice
from types import CodeType, FrameType

import numpy as np
import torch

from ..catalogue import WATCHED, Row
from ..catalogue.shapes import MASKS

READ = "aten::_local_scalar_dense"
CHECKED = "aten::_linalg_check_errors"
SPELLED = {  # as Python calls it → as the catalogue does
    **dict.fromkeys(("item", "float", "int", "bool", "complex", "range", "is_nonzero", "max", "min", "sum", "sorted", "contains", "one_hot", "narrow", "select"), READ),
    **dict.fromkeys(("inv", "cholesky", "solve", "lu_factor", "ldl_factor", "tensorinv", "matrix_power", "inverse"), CHECKED),
    **dict.fromkeys(("svd", "svdvals", "matrix_rank", "cond", "matrix_norm"), "aten::_linalg_svd"),
    **dict.fromkeys(("eigh", "eigvalsh"), "aten::_linalg_eigh"),
    **dict.fromkeys(("cov", "corrcoef", "istft"), "aten::equal"),
    **dict.fromkeys(("where", "argwhere"), "aten::nonzero"),
    **dict.fromkeys(("tensor", "as_tensor", "asarray"), "torch.tensor"),
    "getitem": "aten::index",
    "setitem": "aten::index_put_",
    "unique": "aten::_unique2",
    "tolist": "Tensor.tolist",
    "new_tensor": "Tensor.new_tensor",
    "cross_entropy": "torch.nn.functional.cross_entropy",
    "synchronize": "torch.cuda.Stream.synchronize",
    "barrier": "torch.distributed.barrier",
    "load_state_dict": "aten::copy_",
    "eig": "aten::linalg_eig",
    "to_sparse": "aten::_to_sparse",
    "coalesce": "aten::_coalesce",
}


def row_of(frame: FrameType) -> Row | None:
    """The row of the catalogue that the frame's instruction points to, or None where it names no operator of the catalogue."""
    name, node = executing(frame)
    if name in ("getitem", "setitem"):
        return _row_of_index(name, node, frame)
    if name is None:
        return None
    tried = (SPELLED.get(name), f"aten::{name}", f"aten::linalg_{name}", f"aten::{name.rstrip('_')}")
    return next((WATCHED[t][0] for t in tried if t in WATCHED), None)


def _row_of_index(name: str, node: ast.expr | None, frame: FrameType) -> Row:
    """Masks are counted, numbers read, lists and host tensors copied: the index tells, where it can be seen."""
    parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else [getattr(node, "slice", None)]
    kind = "shape_read" if name == "getitem" else "host_to_device"
    for part in parts:
        value = frame.f_locals.get(part.id, frame.f_globals.get(part.id)) if isinstance(part, ast.Name) else None
        if isinstance(part, ast.Slice) or (isinstance(value, torch.Tensor) and value.dim() == 0):
            return WATCHED[READ][0]
        if isinstance(part, (ast.Compare, ast.UnaryOp, ast.BinOp)) or (isinstance(value, torch.Tensor) and value.dtype in MASKS):
            kind = "shape_read"
        elif isinstance(part, ast.List) or isinstance(value, (list, np.ndarray)) or (isinstance(value, torch.Tensor) and value.is_cpu):
            kind = "host_to_device"
    operator = "aten::index" if name == "getitem" else "aten::index_put_"
    return next(row for row in WATCHED[operator] if row.kind == kind)


def executing(frame: FrameType) -> tuple[str | None, ast.expr | None]:
    """What the frame does now, by name (`item`, `getitem`, `bool`, …), and the expression where it can be read."""
    code = frame.f_code
    if not hasattr(code, "co_positions"):  # Python 3.10 knows the line alone
        return _last_call(linecache.getline(code.co_filename, frame.f_lineno)), None
    operation = dis.opname[code.co_code[frame.f_lasti]]
    if operation.startswith("POP_JUMP") or operation in ("TO_BOOL", "UNARY_NOT", "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
        return "bool", None  # placed at the whole statement
    source = textwrap.dedent(_source(code, frame.f_lasti)).strip()
    try:
        node = ast.parse(source, mode="eval").body
    except SyntaxError:
        return _last_call(source), None
    if operation in ("STORE_SUBSCR", "STORE_SLICE"):
        return "setitem", node
    if operation == "CONTAINS_OP":
        return "contains", node
    if isinstance(node, ast.Subscript):
        return "getitem", node
    if isinstance(node, ast.Call):
        called = node.func
        return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else None, node
    return None, node


def _source(code: CodeType, at: int) -> str:
    """The text of the expression whose instruction stands at this place."""
    first, last, start, end = next(islice(code.co_positions(), at // 2, None))
    if first is None or last is None or start is None or end is None:
        return ""
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
    if not any(lines):
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")


def _last_call(line: str) -> str | None:
    calls = re.findall(r"(\w+)\(", line)
    return calls[-1] if calls else "getitem" if "[" in line else None
