"""Scores of whole rows: of vectors, distributions and ensembles."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..statistic import Input, Piece, Slot, Slots, Statistic, host_visible
from .pairs import BLOCK, check_pair


def _cosine(p: Tensor, t: Tensor, _: bool) -> Tensor:
    return (p * t).sum(-1) / (p.norm(dim=-1) * t.norm(dim=-1))


def _entropy(p: Tensor, log_ratio: Callable[[Tensor], Tensor]) -> Tensor:
    """Sum of p times a log-ratio, where p is 0 counting as 0 whatever the ratio, in the gradient too."""
    zero = p == 0
    return torch.where(zero, 0.0, p * log_ratio(zero)).sum(-1)


def _divergence(p: Tensor, q: Tensor, logs: bool) -> Tensor:
    if logs:
        return _entropy(p.exp(), lambda zero: p.masked_fill(zero, 0.0) - q.masked_fill(zero, 0.0))
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    return _entropy(p, lambda zero: (p.masked_fill(zero, 1.0) / q.masked_fill(zero, 1.0)).log())


def _mid_divergence(p: Tensor, q: Tensor, logs: bool) -> Tensor:
    """Of both to their mean."""
    if logs:
        middle = torch.logaddexp(p, q) - torch.log(p.new_full((), 2.0))
    else:
        p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
        middle = (p + q) / 2
    return (_divergence(p, middle, logs) + _divergence(q, middle, logs)) / 2


def _ranked_probability(x: Tensor, y: Tensor, _: bool) -> Tensor:
    """Mean distance to the target less half the mean distance between members, by sorting instead of in pairs."""
    members = x.shape[1]
    x = (x - y[:, None]).sort(1).values
    weights = torch.arange(1 - members, members, 2, dtype=x.dtype, device=x.device)
    return x.abs().mean(1) - (x * weights).sum(1) / members**2


SCORES: dict[str, Callable[[Tensor, Tensor, bool], Tensor]] = {
    "cosine": _cosine,
    "divergence": _divergence,
    "mid divergence": _mid_divergence,
    "ranked probability": _ranked_probability,
}
"""Score of each row in float64, by name."""


@dataclass(frozen=True)
class Rows(Input):
    """Two tensors `(N, D)`, or with `ensemble` members `(N, M)` and targets `(N,)`."""

    ensemble: bool = False
    names: tuple[str, str] = ("preds", "target")

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        left, right = batch
        if isinstance(left, Tensor) and left.ndim != 2:
            raise ValueError(f"{self.names[0]} has shape {tuple(left.shape)}; expected two dimensions, a row for each sample.")
        if self.ensemble and isinstance(left, Tensor):
            if left.shape[1] < 2:
                raise ValueError(f"preds has shape {tuple(left.shape)}; expected (N, M) with M, the members of the ensemble, at least 2.")
            check_pair(left[:, 0], right, self.names)
        else:
            check_pair(left, right, self.names)
        return None, (left, right)


@dataclass(frozen=True)
class RowScores(Statistic):
    """How many rows there are and the sum of their scores, or, with `kept`, every score."""

    score: str
    logs: bool = False
    kept: bool = False

    @property
    def input(self) -> Rows:  # type: ignore[override]
        return Rows(self.score == "ranked probability", ("p", "q") if "divergence" in self.score else ("preds", "target"))

    def slots(self) -> dict[str, Slot]:
        if self.kept:
            return {"scores": Slot(dtype=torch.float64, combine="cat")}
        return {"total": Slot(dtype=torch.float64), "count": Slot()}

    def update(self, slots: Slots, *normal: Any) -> None:
        left, right = normal
        for _, scores in self.some(left, right):
            if self.kept:
                slots.scores.append(scores)
            else:
                slots.total.add_(scores.sum())
        if not self.kept:
            slots.count.add_(len(left))

    def some(self, left: Tensor, right: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Scores of rows, as many at a time as the host's cache holds, and which rows these are."""
        step = len(left)
        if host_visible(left, right):
            step = max(1, BLOCK // max(1, left.shape[1]))
        for start in range(0, len(left), step) if step < len(left) else (0,):
            rows = slice(start, start + step)
            yield rows, SCORES[self.score](left[rows].double(), right[rows].double(), self.logs)

    def totals(self, slots: Slots) -> Any:
        if not self.kept:
            return slots
        return torch.cat(list(slots.scores)) if slots.scores else None


@dataclass(frozen=True)
class Events(Input):
    """Values and which dimension to keep, if any: anything of one shape."""

    keep: int | None = None

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        check_pair(preds, target)
        if self.keep is not None and self.keep >= preds.ndim:
            raise ValueError(f"preds has shape {tuple(preds.shape)} but keep_sequence_dim={self.keep}; expected more dimensions.")
        return None, (preds, target)


@dataclass(frozen=True)
class EventCounts(Statistic):
    """Hits, misses and false alarms of values that reach a threshold; with `keep`, for every place along that dimension."""

    threshold: float
    keep: int | None = None

    @property
    def input(self) -> Events:  # type: ignore[override]
        return Events(self.keep)

    def slots(self) -> dict[str, Slot]:
        how = "sum" if self.keep is None else "cat"
        return {name: Slot(combine=how) for name in ("hits", "misses", "false_alarms")}

    def update(self, slots: Slots, *normal: Any) -> None:
        preds, target = normal
        if self.keep is None:
            predicted, actual = preds >= self.threshold, target >= self.threshold
            hits = (predicted & actual).sum()
            slots.hits.add_(hits)
            slots.misses.add_(actual.sum() - hits)
            slots.false_alarms.add_(predicted.sum() - hits)
            return
        for name, cell in self.cells(preds, target).items():
            getattr(slots, name).append(self.along(cell.long()))

    def cells(self, preds: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Where each sort of event is."""
        predicted, actual = preds >= self.threshold, target >= self.threshold
        return {"hits": predicted & actual, "misses": ~predicted & actual, "false_alarms": predicted & ~actual}

    def along(self, x: Tensor) -> Tensor:
        """Summed over all dimensions but the one that is kept."""
        others = [d for d in range(x.ndim) if d != self.keep]
        return x.sum(others) if others else x
