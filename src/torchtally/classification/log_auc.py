"""Areas under ROC curves with a logarithmic axis of false positive rates."""

from __future__ import annotations

from math import log
from typing import Any

import torch
from torch import Tensor

from ..metric import Metric
from ..options import NamedOptions, Unpack
from ..statistics.curves import Curve
from .areas import AreaFormula, steps
from .curve_formula import Thresholds, refuse_micro
from .options import checked
from .tasks import ClassificationTask, Task, chooses

Range = tuple[float, float]


def _range(metric: Metric, limits: Any) -> Range:
    """Raise where the range is impossible."""
    pair = isinstance(limits, list | tuple) and len(limits) == 2 and all(isinstance(x, int | float) for x in limits)
    if not (pair and 0 < limits[0] < limits[1] <= 1):
        raise ValueError(
            f"{type(metric).__name__}: fpr_range is {limits!r}; expected two rising numbers above 0 and at most 1: 0 has no logarithm."
        )
    return float(limits[0]), float(limits[1])


class LogAUCFormula(AreaFormula):
    """Area under the ROC curve between two false positive rates, whose axis is logarithmic, as a share of what it could be."""

    fpr_range: Range

    def area(self, curve: Curve) -> Tensor:
        low, high = self.fpr_range
        x0, x1 = steps(curve.fpr)
        y0, y1 = steps(curve.tpr)
        begin, end = x0.clamp(low, high), x1.clamp(low, high)
        slope = ((y1 - y0) / (x1 - x0)).where(end > begin, 0.0)
        height = (2 * y0 + slope * (begin - x0) + slope * (end - x0)) / 2
        area = ((end.log() - begin.log()) * height).sum(1) / log(high / low)
        return area.masked_fill(curve.positives.mul(curve.negatives).eq(0), torch.nan)


class BinaryLogAUC(LogAUCFormula):
    """Area under the ROC curve on a logarithmic axis of false positive rates, between those of `fpr_range`; from 0 to 1.

    It weighs what is found early, as in virtual screening. `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. True
    positive rates are linear between points; the area between them is a trapezoid on the logarithmic axis (Mysinger and Shoichet 2010). Exact
    from all samples, or with `thresholds` for scores rounded down to the next threshold. NaN unless both classes occur.

    >>> from torch import tensor
    >>> BinaryLogAUC(fpr_range=(0.1, 1.0))(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    tensor(0.6505)
    """

    def __init__(
        self,
        fpr_range: Range = (0.001, 0.1),
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = False,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, ignore_index=ignore_index, from_logits=from_logits)
        self.__dict__["fpr_range"] = _range(self, fpr_range)
        self._start(thresholds, False, validate_args, **kwargs)


class MulticlassLogAUC(LogAUCFormula):
    """Area under the ROC curve of each class against the others on a logarithmic axis of false positive rates.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is `(C,)`, NaN for a class that never or always occurs;
    a scalar with `average="macro"` or "weighted", which leave it out. See `BinaryLogAUC`.

    >>> from torch import tensor
    >>> MulticlassLogAUC(num_classes=2)(tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), tensor([0, 1, 0]))
    tensor([0.5000, 0.0000])
    """

    def __init__(
        self,
        num_classes: int,
        fpr_range: Range = (0.001, 0.1),
        average: str | None = None,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, num_classes=num_classes, average=average, ignore_index=ignore_index, from_logits=from_logits)
        refuse_micro(self, average)
        self.columns = num_classes
        self.__dict__["fpr_range"] = _range(self, fpr_range)
        self._start(thresholds, True, validate_args, **kwargs)


class MultilabelLogAUC(LogAUCFormula):
    """Area under the ROC curve of each label on a logarithmic axis of false positive rates.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is `(L,)`, NaN for a label with one class only; a scalar with
    `average="macro"` or "weighted", which leave it out, or "micro", which ranks all labels together. See `BinaryLogAUC`.

    >>> from torch import tensor
    >>> MultilabelLogAUC(num_labels=2)(tensor([[0.75, 0.25], [0.5, 0.75]]), tensor([[1, 0], [0, 1]]))
    tensor([1., 1.])
    """

    def __init__(
        self,
        num_labels: int,
        fpr_range: Range = (0.001, 0.1),
        average: str | None = None,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, num_labels=num_labels, average=average, ignore_index=ignore_index, from_logits=from_logits)
        self.columns = num_labels
        self.__dict__["fpr_range"] = _range(self, fpr_range)
        self._start(thresholds, False, validate_args, **kwargs)


class LogAUC(ClassificationTask):
    """Area under the ROC curve on a logarithmic axis of false positive rates; see the class of each task.

    >>> from torch import tensor
    >>> LogAUC(task="binary", fpr_range=(0.1, 1.0))(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    tensor(0.6505)
    """

    tasks = {"binary": BinaryLogAUC, "multiclass": MulticlassLogAUC, "multilabel": MultilabelLogAUC}

    @chooses
    def __new__(
        cls,
        task: Task,
        thresholds: Thresholds = None,
        fpr_range: Range = (0.001, 0.1),
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        average: str | None = None,
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...
