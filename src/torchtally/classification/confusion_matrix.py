"""Confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..options import NamedOptions, Unpack
from ..statistics.class_counts import Counts, Labels
from ..statistics.confusion import Confusion
from ..statistics.decisions import Decisions, LabelCounts
from .naming import Named
from .options import checked
from .tasks import ClassificationTask, Task, chooses


class ConfusionFormula(Named):
    """Predictions against targets."""

    is_differentiable = False
    normalize: str | None

    @property
    def confmat(self) -> Tensor:
        """The counts that this rank has seen, as torchmetrics calls its state."""
        with self._held():
            (totals,) = self._totals(self._own())
        counts = totals if isinstance(totals, Tensor) else _square(totals)
        return counts.clone() if self.weighted else counts.long()

    def shown(self, matrix: Tensor) -> Tensor:
        """Counts, or their shares: of each true class ("true"), of each predicted class ("pred"), or of all. Of nothing, the share is 0."""
        if self.normalize in ("none", None):
            return matrix if self.weighted else matrix.long()
        matrix = matrix.double()
        dims = {"true": (-1,), "pred": (-2,), "all": (-2, -1)}[self.normalize]  # type: ignore[index]  # None was handled above
        return (matrix / matrix.sum(dims, keepdim=True)).nan_to_num(nan=0.0)

    def plot(
        self,
        val: Tensor | None = None,
        ax: Any = None,
        add_text: bool = True,
        labels: Sequence[str] | None = None,
        cmap: Any = None,
        percent: bool = True,
    ) -> tuple[Any, Any]:
        """Draw the matrix, or `val`, shaded by the share of the true class; `labels` names the classes, `percent` writes shares beside counts."""
        from ..plotting.canvas import spaced
        from ..plotting.confusion import plot_confusion_matrix

        matrix = self.compute() if val is None else val
        style = {
            "add_text": add_text,
            "labels": self.labels if labels is None else labels,
            "cmap": cmap,
            "percent": percent,
            "normalize": self.normalize,
        }
        return plot_confusion_matrix(matrix, ax, name=spaced(type(self).__name__), **style)


def _square(c: Counts) -> Tensor:
    return torch.stack([torch.stack([c.tn, c.fp], -1), torch.stack([c.fn, c.tp], -1)], -2)


class BinaryConfusionMatrix(ConfusionFormula):
    """How often 0 and 1 (columns) were predicted for true 0 and 1 (rows).

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is `(2, 2)`, int64 unless
    `normalize` is "true", "pred" or "all".

    >>> from torch import tensor
    >>> BinaryConfusionMatrix()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor([[1, 1],
            [1, 1]])
    """

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, threshold=threshold, ignore_index=ignore_index, normalize=normalize, from_logits=from_logits)
        super().__init__(LabelCounts(Decisions(float(threshold), ignore_index, logits=from_logits)), validate_args=validate_args, **kwargs)

    def value(self, c: Counts) -> Tensor:
        return self.shown(_square(c))


class MulticlassConfusionMatrix(ConfusionFormula):
    """How often each class (column) was predicted for each true class (row).

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is `(C, C)`, int64 unless `normalize` is
    "true" (rows sum to 1), "pred" (columns do) or "all".

    >>> from torch import tensor
    >>> MulticlassConfusionMatrix(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor([[1, 1, 0],
            [0, 1, 0],
            [0, 0, 1]])
    """

    def __init__(
        self,
        num_classes: int,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, num_classes=num_classes, ignore_index=ignore_index, normalize=normalize)
        super().__init__(Confusion(Labels(num_classes, ignore_index)), validate_args=validate_args, **kwargs)

    def value(self, matrix: Tensor) -> Tensor:
        return self.shown(matrix)


class MultilabelConfusionMatrix(ConfusionFormula):
    """For each label, how often 0 and 1 (columns) were predicted for true 0 and 1 (rows).

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is `(L, 2, 2)`, int64 unless `normalize`
    is "true", "pred" or "all".

    >>> from torch import tensor
    >>> MultilabelConfusionMatrix(num_labels=2)(tensor([[0, 1], [1, 1]]), tensor([[0, 1], [0, 1]])).tolist()
    [[[1, 1], [0, 0]], [[0, 0], [0, 2]]]
    """

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, num_labels=num_labels, threshold=threshold, ignore_index=ignore_index, normalize=normalize, from_logits=from_logits)
        super().__init__(
            LabelCounts(Decisions(float(threshold), ignore_index, num_labels, logits=from_logits)), validate_args=validate_args, **kwargs
        )

    def value(self, c: Counts) -> Tensor:
        return self.shown(_square(c))


class ConfusionMatrix(ClassificationTask):
    """Predictions against targets; see the class of each task.

    >>> from torch import tensor
    >>> ConfusionMatrix(task="multiclass", num_classes=2)(tensor([0, 1, 1]), tensor([0, 1, 0]))
    tensor([[1, 1],
            [0, 1]])
    """

    tasks = {"binary": BinaryConfusionMatrix, "multiclass": MulticlassConfusionMatrix, "multilabel": MultilabelConfusionMatrix}

    @chooses
    def __new__(
        cls,
        task: Task,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        normalize: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...
