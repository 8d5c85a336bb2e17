"""What somebody is told whose batch was refused: the metric, what came, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

NUMBERS = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
"""The dtypes that torch adds, compares and sorts on every device."""


def check_plain(name: str, x: Tensor) -> None:
    """Raise unless a tensor is dense and of a dtype that is computed with."""
    if x.dtype not in NUMBERS or x.layout is not torch.strided:
        oddity = of_tensor(name, x)
        if oddity is not None:
            raise TypeError(oddity)


def of_tensor(name: str, x: Tensor) -> str | None:
    """What is unusual about a tensor, so that metrics cannot take it."""
    if x.is_nested:
        return f"{name} is a nested tensor; expected a plain one. Join its parts with torch.cat({name}.unbind())."
    if x.is_quantized:
        return f"{name} is quantized ({x.dtype}); expected a plain tensor. Pass {name}.dequantize()."
    if x.layout is not torch.strided:
        return f"{name} has layout {x.layout}; expected a dense tensor. Pass {name}.to_dense()."
    if x.is_complex() or x.dtype in NUMBERS:
        return None
    cast = "float" if x.is_floating_point() else "long"
    return f"{name} has dtype {x.dtype}, which torch does not compute with; pass {name}.{cast}()."


def refused(error: Exception, name: str, entries: Iterable[str], batch: Iterable[Any]) -> Exception:
    """The error of a batch that was not taken, with the metric's name.

    Where the batch holds what no metric takes, it says that, in place of whatever went wrong in the depths.
    """
    if not isinstance(error, ValueError):
        missing = isinstance(error, AttributeError)  # of what tensors have
        oddities = [_oddity(entry, x, missing) for entry, x in zip(entries, batch)]
        error = next((TypeError(said) for said in oddities if said is not None), error)
    return named(error, name)


def _oddity(entry: str, x: Any, missing: bool) -> str | None:
    if isinstance(x, Tensor):
        return of_tensor(entry, x)
    if not missing:
        return None
    if x is None:
        return f"{entry} is None; expected a tensor."
    kind = type(x).__name__ if type(x).__module__ == "builtins" else f"{type(x).__module__}.{type(x).__name__}"
    return f"{entry} is a {kind}; expected a tensor. Pass torch.as_tensor({entry})."


def named(error: Exception, name: str) -> Exception:
    """The same error with the metric's name before its message."""
    if error.args and isinstance(error.args[0], str) and not getattr(error, "tally_named", False):
        error.args = (f"{name}: {error.args[0]}", *error.args[1:])
        error.tally_named = True  # type: ignore[attr-defined]  # so that a wrapper does not name it again
    return error
