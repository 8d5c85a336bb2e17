"""Jaccard index: intersection over union."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..options import RateOptions, Unpack
from ..statistics.class_counts import ClassCounts, Counts, Labels
from ..statistics.decisions import Decisions, LabelCounts
from .options import checked
from .stat_scores import RateMetric, rated
from .tasks import ClassificationTask, Task, chooses


class JaccardFormula(RateMetric):
    """What was predicted and is there, of what was predicted or is there."""

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        return c.tp, c.union

    def value(self, c: Counts) -> Any:
        return rated(*self._shares(c), self.undefined) if self.average == "micro" else super().value(c)

    def _shares(self, c: Counts) -> tuple[Tensor, Tensor]:
        part, whole = self.rate(c)
        if self.average != "micro":
            return part, whole
        if c.averaged is not None:  # an ignored class is in no union
            part, whole = part * c.averaged, whole * c.averaged
        return part.sum(-1), whole.sum(-1)


class BinaryJaccardIndex(JaccardFormula):
    """Intersection over union of positive predictions and positive targets, from 0 to 1.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinaryJaccardIndex()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.3333)
    """

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        from_logits: bool | None = None,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        checked(self, threshold=threshold, ignore_index=ignore_index, zero_division=zero_division, from_logits=from_logits)
        super().__init__(LabelCounts(Decisions(float(threshold), ignore_index, logits=from_logits)), validate_args=validate_args, **kwargs)
        self.average = "none"


class MulticlassJaccardIndex(JaccardFormula):
    """Intersection over union of predictions and targets of each class, from 0 to 1; averaged, the mIoU of segmentation.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`.
    "macro" leaves out classes that occur in neither and an ignored class; "micro" joins the classes. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassJaccardIndex(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.6667)
    """

    usual_absent = "skip"

    def __init__(
        self,
        num_classes: int,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        checked(self, num_classes=num_classes, ignore_index=ignore_index, zero_division=zero_division)
        checked(self, average=average)
        super().__init__(ClassCounts(Labels(num_classes, ignore_index)), validate_args=validate_args, **kwargs)


class MultilabelJaccardIndex(JaccardFormula):
    """Intersection over union of positive predictions and positive targets of each label, from 0 to 1.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`.
    0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelJaccardIndex(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.5000)
    """

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        from_logits: bool | None = None,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        checked(
            self,
            num_labels=num_labels,
            threshold=threshold,
            average=average,
            ignore_index=ignore_index,
            zero_division=zero_division,
            from_logits=from_logits,
        )
        super().__init__(
            LabelCounts(Decisions(float(threshold), ignore_index, num_labels, logits=from_logits)), validate_args=validate_args, **kwargs
        )


class JaccardIndex(ClassificationTask):
    """Intersection over union; see the class of each task.

    >>> from torch import tensor
    >>> JaccardIndex(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.6667)
    """

    tasks = {"binary": BinaryJaccardIndex, "multiclass": MulticlassJaccardIndex, "multilabel": MultilabelJaccardIndex}

    @chooses
    def __new__(
        cls,
        task: Task,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        zero_division: float = 0.0,
        from_logits: bool | None = None,
        **options: Unpack[RateOptions],
    ) -> Any: ...
