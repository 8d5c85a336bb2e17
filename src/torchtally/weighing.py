"""Metrics that take sample weights where they are made to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .formula import Formula, feeds
from .statistic import Statistic
from .valid import Valid


class Weighable(Formula):
    """A metric over counts or means, or with `weighted=True` over sums of sample weights, as scikit-learn's `sample_weight`.

    `weight` is `(N,)` or shaped as `target`: finite numbers of at least 0; without it, each element weighs 1. Impossible weights are a
    FaultError; those of ignored elements do not matter. Whether there are weights is said once and not by a batch, since sums take
    float64 where counts are whole numbers.
    """

    weighted: bool
    _untaken: tuple[str, ...] = ("weight",)

    def __init__(self, *statistics: Statistic, weighted: bool = False, **kwargs: Any) -> None:
        if not isinstance(weighted, bool):
            raise ValueError(f"{type(self).__name__}: weighted is {weighted!r}; expected True or False.")
        self.__dict__["weighted"] = weighted
        if weighted:
            from .statistics.weighing import weighted as of_weights

            if why := self._unweighable():
                raise ValueError(f"{type(self).__name__}: weighted is True, but {why}.")
            statistics = tuple(map(of_weights, statistics))
            self.__dict__.update(entries=(*self.entries, "weight"), _untaken=())
        super().__init__(*statistics, **kwargs)

    def _unweighable(self) -> str | None:
        """Why samples of the metric, made as it is, cannot have weights, if so."""
        return None

    @feeds
    def update(self, preds: Tensor, target: Tensor, weight: Tensor | None = None, *, valid: Valid = None) -> None:
        if weight is None:
            self._add(preds, target, valid=valid)
        else:
            self._weigh(weight, preds, target, valid=valid)

    def _weigh(self, weight: Tensor | None, *batch: Any, valid: Valid = None) -> None:
        """Add a batch and its weights, if there are any."""
        if weight is None:
            self._add(*batch, valid=valid)
        elif self.weighted:
            self._add(*batch, weight, valid=valid)
        else:
            raise self._unasked()

    def _unasked(self) -> ValueError:
        name = type(self).__name__
        return ValueError(
            f"{name}: update was given a weight, but without weighted=True all samples count the same. Make the metric with it."
        )

    def _batch_of(self, positional: Sequence[Any], given: dict[str, Any]) -> tuple[Any, ...]:
        if not self.weighted and (len(positional) > len(self.entries) or given.get("weight") is not None):
            raise self._unasked()
        return super()._batch_of(positional, given)

