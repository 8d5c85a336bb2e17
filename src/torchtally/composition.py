"""Arithmetic on metrics: `(precision + recall) / 2` is a metric."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .faults import Fault
from .metric import Metric
from .pending import finished
from .saving import opened
from .together import Read


class CompositionalMetric(Metric):
    """An operator over the values of metrics, numbers or tensors. Updating it updates each metric in it once.

    >>> from torch import tensor
    >>> from torchtally import MaxMetric, MinMetric
    >>> spread = MaxMetric() - MinMetric()
    >>> spread.update(tensor([1.0, 4.0]))
    >>> spread.compute()
    tensor(3.)
    """

    _builtin = True

    def __init__(self, operator: Callable[..., Any], metric_a: Any, metric_b: Any = None) -> None:
        super().__init__()
        self.op = operator
        for name, x in (("metric_a", metric_a), ("metric_b", metric_b)):
            setattr(self, name, x)

    def _operands(self) -> list[Any]:
        return [x for x in (self.metric_a, self.metric_b) if x is not None]

    def leaves(self) -> list[Metric]:
        """The metrics in it, each once."""
        found: dict[Metric, None] = {}
        for x in self._operands():
            for leaf in x.leaves() if isinstance(x, CompositionalMetric) else [x] if isinstance(x, Metric) else []:
                found[leaf] = None
        return list(found)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for leaf in self.leaves():
            leaf.update(*args, **leaf._filter_kwargs(**kwargs))

    def compute(self) -> Any:
        return self._apply_operator([x.compute() if isinstance(x, Metric) else x for x in self._operands()])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The operator over the values on this batch, which is also accumulated."""
        values = {leaf: leaf(*args, **leaf._filter_kwargs(**kwargs)) for leaf in self.leaves()}
        value = self._on_batch(values)
        self.__dict__["_forward_cache"] = value
        return value

    def _later(self, read: Read | None) -> Callable[[], tuple[Any, list[tuple[str, Fault]]]]:
        leaves = {leaf: leaf._later(read) for leaf in self.leaves()}

        def arrived() -> tuple[Any, list[tuple[str, Fault]]]:
            found = {leaf: later() for leaf, later in leaves.items()}
            value = self._on_batch({leaf: finished(value) for leaf, (value, _) in found.items()})
            return value, [fault for _, faults in found.values() for fault in faults]

        return arrived

    def _on_batch(self, values: dict[Metric, Any]) -> Any:
        operands = [
            x._on_batch(values) if isinstance(x, CompositionalMetric) else values[x] if isinstance(x, Metric) else x
            for x in self._operands()
        ]
        return None if any(x is None for x in operands) else self._apply_operator(operands)

    def _apply_operator(self, operands: list[Any]) -> Any:
        device = next((x.device for x in operands if isinstance(x, Tensor)), None)
        if not isinstance(self.op, _Item):
            # `full` runs on the device; `tensor` would copy there, which waits.
            operands = [x.to(device) if isinstance(x, Tensor) else torch.full((), x, device=device) for x in operands]
        return self.op(*operands)

    def reset(self) -> None:
        for leaf in self.leaves():
            leaf.reset()
        self.__dict__.update(_computed=None, _forward_cache=None)

    def persistent(self, mode: bool = False) -> None:
        for leaf in self.leaves():
            leaf.persistent(mode)

    def merge_state(self, other: Metric | dict[str, Any] | str | os.PathLike[str]) -> None:
        found = opened(other)
        if isinstance(found, dict):
            states, found = found, self.clone()
            found.load_state_dict(states)
        if not isinstance(found, CompositionalMetric) or len(found.leaves()) != len(self.leaves()):
            raise ValueError("CompositionalMetric.merge_state expects a composition of the same metrics, its states, or a file of them.")
        for mine, theirs in zip(self.leaves(), found.leaves()):
            mine.merge_state(theirs)

    @property
    def update_count(self) -> int:
        return max((leaf.update_count for leaf in self.leaves()), default=0)

    @property
    def device(self) -> torch.device:
        return next((leaf.device for leaf in self.leaves()), torch.device("cpu"))

    @property
    def metric_state(self) -> dict[str, Any]:
        return {f"{i}.{n}": x for i, leaf in enumerate(self.leaves()) for n, x in leaf.metric_state.items()}

    def __repr__(self) -> str:
        return f"CompositionalMetric({getattr(self.op, '__name__', self.op)}, {', '.join(map(repr, self._operands()))})"


class _Item:
    """Picks an element; a class so that a composition can be pickled."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.__name__ = f"item {index!r}"

    def __call__(self, value: Any) -> Any:
        return value[self.index]


def _binary(name: str, operator: Callable[..., Any]) -> None:
    def left(self: Metric, other: Any) -> CompositionalMetric:
        return CompositionalMetric(operator, self, other)

    def right(self: Metric, other: Any) -> CompositionalMetric:
        return CompositionalMetric(operator, other, self)

    setattr(Metric, f"__{name}__", left)
    if name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
        setattr(Metric, f"__r{name}__", right)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "truediv": torch.true_divide,
    "floordiv": torch.floor_divide,
    "mod": torch.fmod,
    "pow": torch.pow,
    "matmul": torch.matmul,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq": torch.eq,
    "ne": torch.ne,
}
for _name, _operator in _BINARY.items():
    _binary(_name, _operator)


def _unary(name: str, operator: Callable[..., Any]) -> None:
    setattr(Metric, f"__{name}__", lambda self: CompositionalMetric(operator, self))


for _name, _operator in {"abs": torch.abs, "neg": torch.neg, "pos": torch.positive, "invert": torch.bitwise_not}.items():
    _unary(_name, _operator)


def _pick(self: Metric, index: Any) -> CompositionalMetric:
    return CompositionalMetric(_Item(index), self)


setattr(Metric, "__getitem__", _pick)  # noqa: B010  # as the operators above
