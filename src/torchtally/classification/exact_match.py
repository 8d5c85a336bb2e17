"""Exact match: samples with every position or label right."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..options import Unpack, WeighableOptions
from ..statistics.whole_rows import DecisionRows, LabelRows, WholeRows
from ..weighing import Weighable
from .intervals import Proportion
from .options import checked
from .stat_scores import rated
from .tasks import ClassificationTask, Task, chooses


class ExactMatchFormula(Proportion, Weighable):
    """Share of samples without anything wrong."""

    higher_is_better = True
    is_differentiable = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def value(self, counts: tuple[Tensor, Tensor]) -> Tensor:
        return rated(*counts, 0.0)

    def _shares(self, counts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return counts


class MulticlassExactMatch(ExactMatchFormula):
    """Share of samples whose every position is predicted right, from 0 to 1.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. Ignored positions are never wrong. The value is a
    scalar, 0 of no samples; `(N,)` zeros and ones if samplewise.

    >>> from torch import tensor
    >>> MulticlassExactMatch(num_classes=3)(tensor([[0, 1], [2, 1]]), tensor([[0, 1], [2, 2]]))
    tensor(0.5000)
    """

    def __init__(
        self,
        num_classes: int,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, num_classes=num_classes, multidim_average=multidim_average, ignore_index=ignore_index)
        rows = LabelRows(num_classes, ignore_index, per_sample=True)
        super().__init__(WholeRows(rows, multidim_average == "samplewise"), validate_args=validate_args, **kwargs)

    def _unweighable(self) -> str | None:
        listed = self.__dict__["multidim_average"] == "samplewise"
        return "multidim_average='samplewise' lists the value of each sample, which its weight does not change" if listed else None


class MultilabelExactMatch(ExactMatchFormula):
    """Share of samples (and positions in them) with every label decided right, from 0 to 1; also called subset accuracy.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. Ignored labels are never wrong. The value is a
    scalar, 0 of no samples; `(N,)` shares of positions if samplewise.

    >>> from torch import tensor
    >>> MultilabelExactMatch(num_labels=2)(tensor([[0, 1], [1, 1]]), tensor([[0, 1], [0, 1]]))
    tensor(0.5000)
    """

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(
            self,
            num_labels=num_labels,
            threshold=threshold,
            multidim_average=multidim_average,
            ignore_index=ignore_index,
            from_logits=from_logits,
        )
        rows = DecisionRows(float(threshold), ignore_index, num_labels, per_sample=True, logits=from_logits)
        super().__init__(WholeRows(rows, multidim_average == "samplewise"), validate_args=validate_args, **kwargs)


class ExactMatch(ClassificationTask):
    """Share of samples without anything wrong; see the class of each task.

    >>> from torch import tensor
    >>> ExactMatch(task="multilabel", num_labels=2)(tensor([[0, 1], [1, 1]]), tensor([[0, 1], [0, 1]]))
    tensor(0.5000)
    """

    tasks = {"multiclass": MulticlassExactMatch, "multilabel": MultilabelExactMatch}

    @chooses
    def __new__(
        cls,
        task: Task,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[WeighableOptions],
    ) -> Any: ...
