"""Agreement beyond chance: Matthews' correlation coefficient and Cohen's kappa."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..options import Unpack, WeighableOptions
from ..statistics.class_counts import ClassCounts, Counts, Labels
from ..statistics.confusion import Confusion
from ..statistics.decisions import Decisions, LabelCounts
from ..weighing import Weighable
from .options import checked
from .tasks import ClassificationTask, Task, TwoTasks, chooses


class AgreementFormula(Weighable):
    """A number that is 1 for perfect agreement and 0 for what chance gives."""

    higher_is_better = True
    is_differentiable = False
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0


def correlation(c: Counts) -> Tensor:
    """Matthews' correlation of yes/no counts; 0 where predictions or targets are all alike."""
    square = c.predicted * c.unpredicted * c.actual * c.negative
    return torch.where(square > 0, (c.tp * c.tn - c.fp * c.fn) / square.sqrt(), 0.0)


class BinaryMatthewsCorrCoef(AgreementFormula):
    """Matthews' correlation coefficient of yes/no predictions and targets, from -1 to 1.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, 0 where predictions
    or targets are all alike, as in scikit-learn.

    >>> from torch import tensor
    >>> BinaryMatthewsCorrCoef()(tensor([0.2, 0.8, 0.6, 0.3, 0.9]), tensor([0, 1, 0, 1, 1]))
    tensor(0.1667)
    """

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, threshold=threshold, ignore_index=ignore_index, from_logits=from_logits)
        super().__init__(LabelCounts(Decisions(float(threshold), ignore_index, logits=from_logits)), validate_args=validate_args, **kwargs)

    def value(self, c: Counts) -> Tensor:
        return correlation(c)


class MulticlassMatthewsCorrCoef(AgreementFormula):
    """Matthews' correlation coefficient of predicted and true classes (Gorodkin's R_K), at most 1.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, 0 where predictions or
    targets are all of one class, as in scikit-learn.

    >>> from torch import tensor
    >>> MulticlassMatthewsCorrCoef(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7000)
    """

    def __init__(self, num_classes: int, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Unpack[WeighableOptions]) -> None:
        checked(self, num_classes=num_classes, ignore_index=ignore_index)
        super().__init__(ClassCounts(Labels(num_classes, ignore_index)), validate_args=validate_args, **kwargs)

    def value(self, c: Counts) -> Tensor:
        seen = c.actual.sum()
        spread = (c.predicted * c.unpredicted).sum() * (c.actual * c.negative).sum()
        return torch.where(spread > 0, (c.tp.sum() * seen - (c.actual * c.predicted).sum()) / spread.sqrt(), 0.0)


class MultilabelMatthewsCorrCoef(AgreementFormula):
    """Matthews' correlation coefficient of all yes/no decisions on all labels, from -1 to 1.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, 0 where decisions or targets
    are all alike.

    >>> from torch import tensor
    >>> MultilabelMatthewsCorrCoef(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.3333)
    """

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, num_labels=num_labels, threshold=threshold, ignore_index=ignore_index, from_logits=from_logits)
        super().__init__(
            LabelCounts(Decisions(float(threshold), ignore_index, num_labels, logits=from_logits)), validate_args=validate_args, **kwargs
        )

    def value(self, c: Counts) -> Tensor:
        return correlation(c.micro())


class MatthewsCorrCoef(ClassificationTask):
    """Matthews' correlation coefficient; see the class of each task.

    >>> from torch import tensor
    >>> MatthewsCorrCoef(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7000)
    """

    tasks = {"binary": BinaryMatthewsCorrCoef, "multiclass": MulticlassMatthewsCorrCoef, "multilabel": MultilabelMatthewsCorrCoef}

    @chooses
    def __new__(
        cls,
        task: Task,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[WeighableOptions],
    ) -> Any: ...


def kappa(hit: Tensor, predicted: Tensor, actual: Tensor, negative: Tensor) -> Tensor:
    """Cohen's kappa from marginal counts; NaN where all predictions and targets are of one class."""
    return (hit * actual.sum() - (predicted * actual).sum()) / (predicted * negative).sum()


def weighted_kappa(matrix: Tensor, power: int) -> Tensor:
    """Cohen's kappa with disagreements weighted by a power of the distance between classes."""
    counts = matrix.double()
    place = torch.arange(len(counts), dtype=torch.float64, device=counts.device)
    weight = (place[:, None] - place).abs() ** power
    expected = counts.sum(1)[:, None] * (counts.sum(0) / counts.sum())
    return 1 - (weight * counts).sum() / (weight * expected).sum()


class BinaryCohenKappa(AgreementFormula):
    """Cohen's kappa: agreement of yes/no predictions and targets beyond chance, at most 1.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, NaN where predictions
    and targets are all of one class. With two classes all `weights` give the same.

    >>> from torch import tensor
    >>> BinaryCohenKappa()(tensor([0.2, 0.8, 0.6, 0.3, 0.9]), tensor([0, 1, 0, 1, 1]))
    tensor(0.1667)
    """

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        weights: str | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, threshold=threshold, ignore_index=ignore_index, weights=weights, from_logits=from_logits)
        super().__init__(LabelCounts(Decisions(float(threshold), ignore_index, logits=from_logits)), validate_args=validate_args, **kwargs)

    def value(self, c: Counts) -> Tensor:
        predicted, actual, negative = (
            torch.stack(x) for x in ((c.predicted, c.unpredicted), (c.actual, c.negative), (c.negative, c.actual))
        )
        return kappa(c.tp + c.tn, predicted, actual, negative)


class MulticlassCohenKappa(AgreementFormula):
    """Cohen's kappa: agreement of predicted and true classes beyond chance, at most 1.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. `weights` "linear" or "quadratic" count a
    disagreement by the distance of the classes and need the whole confusion matrix; without, three counts for each class suffice. The
    value is a scalar, NaN where predictions and targets are all of one class.

    >>> from torch import tensor
    >>> MulticlassCohenKappa(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.6364)
    """

    weights: str | None

    def __init__(
        self,
        num_classes: int,
        ignore_index: int | None = None,
        weights: str | None = None,
        validate_args: bool = True,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, num_classes=num_classes, ignore_index=ignore_index, weights=weights)
        labels = Labels(num_classes, ignore_index)
        plain = weights in ("none", None)
        super().__init__(ClassCounts(labels) if plain else Confusion(labels), validate_args=validate_args, **kwargs)

    def value(self, counted: Counts | Tensor) -> Tensor:
        if isinstance(counted, Tensor):
            return weighted_kappa(counted, 1 if self.weights == "linear" else 2)
        return kappa(counted.tp.sum(), counted.predicted, counted.actual, counted.negative)


class CohenKappa(ClassificationTask):
    """Cohen's kappa; see the class of each task.

    >>> from torch import tensor
    >>> CohenKappa(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.6364)
    """

    tasks = {"binary": BinaryCohenKappa, "multiclass": MulticlassCohenKappa}

    @chooses
    def __new__(
        cls,
        task: TwoTasks,
        threshold: float = 0.5,
        num_classes: int | None = None,
        weights: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[WeighableOptions],
    ) -> Any: ...
