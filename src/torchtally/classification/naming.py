"""Metrics whose classes have names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..statistic import Statistic
from ..weighing import Weighable
from .options import checked


class Named(Weighable):
    """A metric that gives the values of classes by name, where `labels=[…]` names them."""

    average: str | None
    labels: tuple[str, ...] | None

    def __init__(self, *statistics: Statistic, labels: Sequence[str] | None = None, **kwargs: Any) -> None:
        checked(self, labels=labels)
        super().__init__(*statistics, **kwargs)
        self.__dict__.update(labels=None if labels is None else tuple(labels), _names_values=labels is not None)

    def named(self, value: Any, dim: int = -1) -> Any:
        """The value of each class by its name, where names were given."""
        if self.labels is None or self.average not in ("none", None):
            return value
        return dict(zip(self.labels, by_class(value, dim)))


def by_class(value: Any, dim: int = 0) -> list[Any]:
    """What is of each class: of a tensor along `dim`, the elements of a list, and of a tuple of them a tuple of its parts.

    A tensor of fewer dimensions than the tuple's first, as the thresholds that all curves have in common, is of every class.
    """
    if not isinstance(value, tuple):
        return list(value if isinstance(value, list) else value.unbind(dim))
    first = by_class(value[0], dim)
    common = [not isinstance(x, list) and x.ndim < value[0].ndim for x in value]
    return list(zip(*([x] * len(first) if shared else by_class(x, dim) for x, shared in zip(value, common))))
