"""Metrics whose classes have names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..statistic import Statistic
from ..weighing import Weighable
from .options import checked


class Named(Weighable):
    """A metric that gives the values of classes by name, where `labels=[…]` names them."""

    keywords: tuple[str, ...] = ("weighted", "labels")
    average: str | None
    labels: tuple[str, ...] | None

    def __init__(self, *statistics: Statistic, labels: Sequence[str] | None = None, **kwargs: Any) -> None:
        checked(self, labels=labels)
        super().__init__(*statistics, **kwargs)
        self.__dict__.update(labels=None if labels is None else tuple(labels), _names_values=labels is not None)
        if labels is not None:
            self.__dict__["in_numbers"] = False  # `named` takes tensors apart

    def named(self, value: Tensor, dim: int = -1) -> Any:
        """The value of each class by its name, where names were given."""
        if self.labels is None or self.average not in ("none", None):
            return value
        return dict(zip(self.labels, value.unbind(dim)))
