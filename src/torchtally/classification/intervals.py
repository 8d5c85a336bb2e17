"""How sure a proportion is: confidence intervals of k of n, in closed form."""

from __future__ import annotations

from statistics import NormalDist

import torch
from torch import Tensor

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
