"""Metrics that are shares of decisions, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ..faults import Fault, check
from ..formula import Formula
from ..intervals import Intervals, NoInterval
from ..together import Read


class Proportion(Formula):
    """A share of independent decisions, whose confidence interval follows from the counts."""

    def interval(self, level: float = 0.95, method: str = "wilson") -> tuple[Any, Any]:
        """The confidence interval of the value, `(low, high)`, each shaped as it; read as `compute` reads, from the same counts.

        "wilson" covers `level` on average and is close to it for few samples, too (Brown, Cai & DasGupta, 2001); "exact" is Clopper and
        Pearson's, which covers at least `level`, is wider, and needs SciPy. Both take decisions for independent, which pixels of one image
        are not. For averages "micro" and "none"; of anything else, and of weighted samples, `BootStrapper` tells how sure it is.
        """
        name = type(self).__name__
        asked = Intervals(name, level, method)
        self._refuse_open()
        ledger = self._of_ranks()
        with self._held():
            ledger = ledger or self._own()
            bounds = self._bounds(asked, *self._totals(ledger))()
        check(name, self._faults(ledger), bounds)
        return bounds

    def _bounds_later(self, read: Read | None, asked: Intervals) -> Callable[[], tuple[tuple[Any, Any], list[tuple[str, Fault]]]]:
        self._refuse_open()
        ledger = read.ledger_of(self) if read is not None and self in read else self._whole()
        bounds, faults = self._bounds(asked, *self._totals(ledger)), [(type(self).__name__, f) for f in self._faults(ledger)]
        return lambda: (bounds(), faults)

    def _refuse_open(self) -> None:
        if what := self._open_form():
            raise NoInterval.of(self, what)

    def _bounds(self, asked: Intervals, *totals: Any) -> Callable[[], tuple[Any, Any]]:
        """What gives the bounds over some totals, once all is asked for."""
        self._refuse_open()
        place = asked.add(*self._shares(*totals))

        def solved() -> tuple[Any, Any]:
            low, high = asked.of(place)
            return self._finish(self._bound(low)), self._finish(self._bound(high))

        return solved

    def _open_form(self) -> str | None:
        """What it is that has no interval in closed form, if so."""
        return "a share of weights" if getattr(self, "weighted", False) else None

    def _shares(self, *totals: Any) -> tuple[Tensor, Tensor]:
        """Of how many decisions how many were so: part and whole."""
        raise NotImplementedError

    def _bound(self, bound: Tensor) -> Any:
        """A bound in the form of the value."""
        return bound
