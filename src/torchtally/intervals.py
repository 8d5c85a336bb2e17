"""How sure a proportion is: confidence intervals of k of n, in closed form."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

METHODS = ("wilson", "exact")


class NoInterval(ValueError):
    """A metric whose value has no confidence interval of its own."""

    @classmethod
    def of(cls, metric: Any, what: str = "the metric") -> NoInterval:
        """Because `what` has none in closed form."""
        name = type(metric).__name__
        return cls(f"{name}.interval: {what} has no closed form. Use BootStrapper(metric, quantile=…), or average 'micro' or 'none'.")


class Intervals:
    """The intervals that one reading asks for: proportions are added first, and solved together when the first is looked at."""

    def __init__(self, name: str, level: float, method: str) -> None:
        if not isinstance(level, int | float) or isinstance(level, bool) or not 0 < level < 1:
            raise ValueError(f"{name}.interval: level is {level!r}; expected a number between 0 and 1.")
        if method not in METHODS:
            raise ValueError(f"{name}.interval: method is {method!r}; expected 'wilson' or 'exact'.")
        self.level, self.method = level, method
        self._asked: list[tuple[Tensor, Tensor]] = []
        self._found: list[tuple[Tensor, Tensor]] | None = None

    def add(self, part: Tensor, whole: Tensor) -> int:
        """Ask for the interval of `part` of `whole` independent trials; its place for `of`."""
        self._asked.append(torch.broadcast_tensors(part, whole))  # type: ignore[arg-type]  # two were given
        return len(self._asked) - 1

    def of(self, place: int) -> tuple[Tensor, Tensor]:
        """The lower and the upper bound."""
        if self._found is None:
            self._found = self._solved()
        return self._found[place]

    def _solved(self) -> list[tuple[Tensor, Tensor]]:
        parts, wholes = (torch.cat([pair[k].reshape(-1).double() for pair in self._asked]) for k in (0, 1))
        bounds = wilson(parts, wholes, self.level) if self.method == "wilson" else clopper_pearson(parts, wholes, self.level)
        sizes = [part.numel() for part, _ in self._asked]
        return [
            (low.view(part.shape), high.view(part.shape)) for low, high, (part, _) in zip(*(x.split(sizes) for x in bounds), self._asked)
        ]


def wilson(part: Tensor, whole: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Where a score test of the proportion does not reject (Wilson, 1927): what covers `level` on average; (0, 1) of no trials."""
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
    k, n = torch.stack([part, whole]).cpu().numpy()
    tail = (1 - level) / 2
    # A parameter of 0 has no beta distribution: there the bound is 0 or 1.
    low = torch.as_tensor(betaincinv(k.clip(1), n - k + 1, tail)).masked_fill(torch.from_numpy(k == 0), 0.0)
    high = torch.as_tensor(betaincinv(k + 1, (n - k).clip(1), 1 - tail)).masked_fill(torch.from_numpy(k == n), 1.0)
    both = torch.stack([low, high])
    both = both.pin_memory().to(part.device, non_blocking=True) if part.is_cuda else both.to(part.device)
    return both[0], both[1]
