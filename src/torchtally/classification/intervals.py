"""How sure a proportion is: confidence intervals of k of n, in closed form."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from ..formula import Formula, check

METHODS = ("wilson", "exact")


def interval(part: Tensor, whole: Tensor, level: float, method: str) -> tuple[Tensor, Tensor]:
    """Between which bounds the proportion lies of which `part` of `whole` independent trials are a sample; (0, 1) of no trials."""
    return wilson(part, whole, level) if method == "wilson" else clopper_pearson(part, whole, level)


def wilson(part: Tensor, whole: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Where a score test of the proportion does not reject (Wilson, 1927): what covers `level` on average."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    spread = part * (whole - part) / whole.clamp(min=1)
    middle, reach = part + z**2 / 2, z * (spread + z**2 / 4).sqrt()
    low = ((middle - reach) / (whole + z**2)).masked_fill(part.eq(0), 0.0)
    high = ((middle + reach) / (whole + z**2)).masked_fill(part.eq(whole), 1.0)
    return low, high


def clopper_pearson(part: Tensor, whole: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Where a binomial test of the proportion does not reject (Clopper and Pearson, 1934): what covers at least `level`, whatever it is."""
    try:
        from scipy.special import betaincinv
    except ImportError:
        raise ModuleNotFoundError("interval(method='exact') needs SciPy: pip install scipy. method='wilson' does not.") from None
    k, n = part.cpu().numpy(), whole.cpu().numpy()
    tail = (1 - level) / 2
    # A parameter of 0 has no beta distribution: there the bound is 0 or 1.
    low = torch.as_tensor(betaincinv(k.clip(1), n - k + 1, tail)).to(part.device)
    high = torch.as_tensor(betaincinv(k + 1, (n - k).clip(1), 1 - tail)).to(part.device)
    return low.masked_fill(part.eq(0), 0.0), high.masked_fill(part.eq(whole), 1.0)


class Proportion(Formula):
    """A share of independent decisions, whose confidence interval follows from the counts."""

    def interval(self, level: float = 0.95, method: str = "wilson") -> tuple[Any, Any]:
        """The confidence interval of the value, `(low, high)`, each shaped as it; read as `compute` reads, from the same counts.

        "wilson" covers `level` on average and is close to it for few samples, too (Brown, Cai & DasGupta, 2001); "exact" is Clopper and
        Pearson's, which covers at least `level`, is wider, and needs SciPy. Both take decisions for independent, which pixels of one image
        are not. For averages "micro" and "none"; of anything else, and of weighted samples, `BootStrapper` tells how sure it is.
        """
        name = type(self).__name__
        if what := self._open_form():
            raise ValueError(
                f"{name}.interval: {what} has no closed form. Use BootStrapper(metric, quantile=…), or average 'micro' or 'none'."
            )
        if not isinstance(level, int | float) or not 0 < level < 1:
            raise ValueError(f"{name}.interval: level is {level!r}; expected a number between 0 and 1.")
        if method not in METHODS:
            raise ValueError(f"{name}.interval: method is {method!r}; expected 'wilson' or 'exact'.")
        ledger = self._of_ranks()
        with self._held():
            ledger = ledger or self._own()
            low, high = interval(*self._shares(*self._totals(ledger)), level, method)
            bounds = self._finish(self._bound(low)), self._finish(self._bound(high))
        check(name, self._faults(ledger), bounds)
        return bounds

    def _open_form(self) -> str | None:
        """What it is that has no interval in closed form, if so."""
        return None

    def _shares(self, *totals: Any) -> tuple[Tensor, Tensor]:
        """Of how many decisions how many were so: part and whole."""
        raise NotImplementedError

    def _bound(self, bound: Tensor) -> Any:
        """A bound in the form of the value."""
        return bound
