"""Metrics of text that come from a model's logits. Those that compare strings never touch a device, and are torchmetrics' or others'."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .classification.options import checked
from .formula import Formula, feeds
from .options import FormulaOptions, Unpack
from .statistics.tokens import Surprises, Tokens
from .valid import Valid

__all__ = ["Perplexity"]


class Perplexity(Formula):
    """How many words a language model hesitates between on average: e to the mean of minus the log-probability of each token. At best 1.

    `preds` are logits, or log-probabilities, `(N, L, V)`, or of any shape that ends with the words of the vocabulary; `target` is `(N, L)`, the
    words that came. Targets equal to `ignore_index` do not count. Worked out in float32, float64 for float64 logits, and summed in float64. A
    target outside of the vocabulary, and logits with NaN, raise at once on the CPU; on a device they are left out and raise when the value is
    read. NaN of no tokens.

    >>> import torch
    >>> preds = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]]).log()
    >>> Perplexity(ignore_index=-100)(preds, torch.tensor([[0, -100]]))
    tensor(2.)
    """

    higher_is_better = False
    is_differentiable = True
    plot_lower_bound = 1.0
    declined = {"weighted": "leave tokens out with ignore_index or valid; a weight of a token has no agreed meaning"}

    def __init__(self, ignore_index: int | None = None, **kwargs: Unpack[FormulaOptions]) -> None:
        checked(self, ignore_index=ignore_index)
        super().__init__(Surprises(Tokens(ignore_index)), **kwargs)

    @feeds
    def update(self, preds: Tensor, target: Tensor, *, valid: Valid = None) -> None:
        self._add(preds, target, valid=valid)

    def value(self, sums: Any) -> Tensor:
        result: Tensor = (sums.total / sums.count).exp()
        return result
