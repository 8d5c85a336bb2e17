"""How surprising the tokens of a text are to a language model."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from ..faults import Fault, FaultError, note
from ..refusal import check_plain, integers
from ..statistic import Input, Piece, Slot, Slots, Statistic, host_visible
from .class_counts import is_label

_BLOCK, _BLOCK_ON_DEVICE = 1 << 17, 1 << 27
"""So many logits are worked on at a time, on the host in the cache: temporary memory does not grow with the batch."""


def surprise(logits: Tensor, target: Tensor) -> Tensor:
    """Minus the log-probability of each target, float64 `(N,)`, of logits `(N, V)`: in float32 unless the logits are float64.

    Large logits cost no digits: the softmax takes the largest off first.
    """
    x = logits if logits.dtype is torch.float64 else logits.float()
    return -log_softmax(x, 1).gather(1, target[:, None])[:, 0].double()


@dataclass(frozen=True)
class Tokens(Input):
    """Logits `(..., V)` of the words of a vocabulary and the words that came, integers `(...)`. The normal form is a sum of surprises and their number."""

    ignore: int | None = None

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min")}

    def faults(self, slots: Slots) -> list[Fault]:
        problem = "impossible (expected targets within the vocabulary and logits without NaN, not all -inf)"
        return [Fault(slots.bad, slots.first_bad, problem, "Pass ignore_index for padding.")]

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        preds, target = batch
        for name, x in (("preds", preds), ("target", target)):
            if not isinstance(x, Tensor):
                raise TypeError(f"{name} is a {type(x).__name__}; expected a tensor. Wrap it in torch.tensor.")
            check_plain(name, x)
        integers("target", target)
        if not preds.is_floating_point():
            raise ValueError(f"preds has dtype {preds.dtype}; expected floating-point logits.")
        if preds.ndim < 2 or preds.shape[:-1] != target.shape or not preds.shape[-1]:
            raise ValueError(
                f"preds has shape {tuple(preds.shape)} but target has {tuple(target.shape)}; expected logits (N, L, V) and targets (N, L), "
                "or (..., V) and (...)."
            )
        if not host_visible(preds, target):
            return None, (preds, target)
        total, count, bad = self._sums(preds, target)
        if strict and bad.numpy().any():
            i = int(bad.numpy()[0].argmax())
            row, token = preds.reshape(-1, preds.shape[-1])[i], int(target.reshape(-1)[i])
            words = row.shape[0]
            if 0 <= token < words:
                raise FaultError(f"the logits of token {i} have NaN or are all -inf. Without a probability there is no perplexity.")
            raise FaultError(f"target {token} of token {i} is impossible; expected 0..{words - 1}. Pass ignore_index for padding.")
        return "sums", (float(total.numpy()), int(count.numpy()))

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        if not isinstance(pieces[0][0], Tensor):
            return sum(total for total, _ in pieces), sum(count for _, count in pieces)
        total, count, bad = self._sums(*pieces[0])
        note(slots, bad, first)
        return total, count

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The sum of surprises, of how many tokens, and which are impossible, `(1, N)`."""
        words = preds.shape[-1]
        logits, y = preds.reshape(-1, words), target.reshape(-1)
        ignored = torch.zeros_like(y, dtype=torch.bool) if self.ignore is None else is_label(y, self.ignore)
        inside = y.ge(0) & y.lt(words)
        place = y.long().masked_fill(~inside, 0)
        rows = len(y) if torch.compiler.is_compiling() else max(1, (_BLOCK if preds.is_cpu else _BLOCK_ON_DEVICE) // words)
        found = [surprise(*block) for block in zip(logits.split(rows), place.split(rows))] if len(y) > rows else [surprise(logits, place)]
        nll = torch.cat(found)
        bad = (~inside | nll.isnan()) & ~ignored
        live = ~(bad | ignored)
        return nll.where(live, 0.0).sum(), live.sum(), bad[None]


@dataclass(frozen=True)
class Surprises(Statistic):
    """The sum of surprises over all tokens, and how many these are."""

    input: Tokens

    def slots(self) -> dict[str, Slot]:
        return {"total": Slot(dtype=torch.float64), "count": Slot()}

    def update(self, slots: Slots, *normal: Any) -> None:
        slots.total.add_(normal[0])
        slots.count.add_(normal[1])
