"""Operators on shapes alone: results of the right shape in memory that nobody touches, so that a model of any size takes next to no time or memory.

Memory fresh from the system costs nothing until it is written to. Operators on small tensors run for real, so that counters, flags and the
states of metrics stay sensible; what is small but comes from large tensors, such as a loss, is zero.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

SMALL = 4096
"""Elements a tensor may have to count as small."""
ZEROED = 262144
"""Elements up to which results are written, with zeros: shapes that depend on values then do not depend on what the memory held before."""

Dynamic: tuple[type[BaseException], ...] = (RuntimeError, NotImplementedError)  # what the meta device raises where shapes depend on values
_REAL = {"lift_fresh", "detach", "alias", "_reshape_alias", "_unsafe_view", "set_", "resize_", "resize_as_", "is_same_size", "_local_scalar_dense"}


def run_on_shapes(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the operator returns, computed only where its tensors are small. Shapes that depend on values are those for zeros."""
    packet = function.overloadpacket.__name__
    if function.is_view or packet in _REAL:
        return function(*args, **kwargs)
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    if all(t.numel() <= SMALL for t in tensors) and _asked(args) <= SMALL:
        return function(*args, **kwargs)
    if function._schema.is_mutable:
        return _written(function._schema, args, kwargs)
    key = (function, *(_described(x) for x in tree_flatten((args, kwargs))[0]), len(args), *kwargs)
    if key not in _known:
        asked = tree_map(_on_meta, kwargs)
        if "device" in kwargs:
            asked["device"] = torch.device("meta")
        try:
            _known[key] = function(*tree_map(_on_meta, args), **asked)
        except Dynamic:
            _known[key] = Dynamic
    shapes = _known[key]
    return function(*args, **kwargs) if shapes is Dynamic else tree_map(_untouched, shapes)


_known: dict[Any, Any] = {}  # a model runs the same operators on the same shapes step after step, and PyTorch takes its time to work shapes out


def _described(x: Any) -> Any:
    return (x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else (type(x), x)


def _asked(args: tuple[Any, ...]) -> int:
    """How many elements a factory is asked for: its size is its first or second argument."""
    for arg in args[:2]:
        if isinstance(arg, (list, tuple, torch.Size)) and arg and all(isinstance(n, int) for n in arg):
            return torch.Size(arg).numel()
    return 0


def _written(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operator that writes into its arguments returns: those very arguments, unchanged."""
    given = {a.name: v for a, v in zip(schema.arguments, args)} | kwargs
    by_alias = {name: given.get(a.name) for a in schema.arguments if a.alias_info for name in a.alias_info.before_set}
    returned = [next((by_alias[n] for n in r.alias_info.before_set if n in by_alias), None) if r.alias_info else None for r in schema.returns]
    return None if not returned else returned[0] if len(returned) == 1 else tuple(returned)


def _on_meta(x: Any) -> Any:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") if isinstance(x, Tensor) else x


def _untouched(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    result = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cpu")
    return result.zero_() if x.numel() <= ZEROED else result
