"""Whether scores are probabilities or logits: as told, or decided batch by batch and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..faults import Fault
from ..statistic import Slot

READINGS = {"scored": Slot(), "logits": Slot()}
"""Batches with scores, and those of them that were taken for logits: the slots of an input that decides."""


def outside(scores: Tensor, dim: int | None = None) -> Tensor:
    """Whether any score lies outside [0, 1], so that a batch is one of logits; of several batches, along a dimension."""
    found = scores.lt(0) | scores.gt(1)
    return found.any() if dim is None else found.any(dim)


def improbable(scores: Tensor) -> Tensor:
    """Where a score is no probability: outside [0, 1], or NaN."""
    return ~(scores.ge(0) & scores.le(1))


def note_readings(slots: Any, found: Sequence[Any], live: Tensor | None = None) -> None:
    """Count batches by what `outside` found, all tensors or all bools; None is a batch without scores, or no batch at all.

    A batch without an element that counts is not counted: `live` says which do, if not all.
    """
    if not found or found[0] is None:
        return
    if isinstance(found[0], bool):
        slots.logits.add_(sum(found))
        slots.scored.add_(len(found))
    elif live is not None:
        counted = live.reshape(len(found), -1).any(1)
        slots.logits.add_((torch.stack(list(found)) & counted).sum())
        slots.scored.add_(counted.sum())
    else:
        slots.logits.add_(torch.stack(list(found)).sum() if len(found) > 1 else found[0])
        slots.scored.add_(len(found))


@dataclass(frozen=True)
class Mixed(Fault):
    """Some batches were taken for logits and others for probabilities: `count` of `first`."""

    def message(self, name: str, count: int, first: int) -> str:
        return f"{name}: {count} of {first} batches had scores {self.problem}. {self.advice}"


def mixed(slots: Any) -> Fault:
    """What to report where an input decided both ways."""
    return Mixed(
        slots.logits * slots.logits.lt(slots.scored),
        slots.scored,
        "outside [0, 1] and were taken for logits, the others for probabilities, so the value depends on how the data was split",
        "Pass from_logits=True or from_logits=False.",
        fatal=False,
    )
