"""Areas under curves of scores: AUROC and average precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..options import NamedOptions, Unpack
from ..statistics.curves import Curve
from .curve_formula import AnyCurves, BinaryCurve, CurveFormula, Thresholds, refuse_micro
from .options import checked
from .tasks import ClassificationTask, Task, chooses


class AreaFormula(CurveFormula):
    """The area under the curve of each column, averaged as asked; a column without one is left out of the average."""

    def area(self, curve: Curve) -> Tensor:
        raise NotImplementedError

    def value(self, curves: AnyCurves) -> Any:
        if self.columns is None:
            return self.area(curves.each)[0]
        if self.average == "micro":
            return self.area(curves.joined)[0]
        areas = self.area(curves.each)
        if self.average in ("none", None):
            return self.named(areas)
        weight = areas.isnan().logical_not().double()
        if self.average == "weighted":
            weight = weight * curves.each.positives
        return (areas.nan_to_num(nan=0.0) * weight).sum() / weight.sum()


class MulticlassArea(AreaFormula):
    """Each class against the others."""

    def __init__(
        self,
        num_classes: int,
        average: str | None = "macro",
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, num_classes=num_classes, average=average, ignore_index=ignore_index, from_logits=from_logits)
        refuse_micro(self, average)
        self.columns = num_classes
        self._start(thresholds, True, validate_args, **kwargs)


class MultilabelArea(AreaFormula):
    """Each label on its own."""

    def __init__(
        self,
        num_labels: int,
        average: str | None = "macro",
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, num_labels=num_labels, average=average, ignore_index=ignore_index, from_logits=from_logits)
        self.columns = num_labels
        self._start(thresholds, False, validate_args, **kwargs)


def gain(x: Tensor) -> Tensor:
    """By how much each point of a curve is above the one before; the first is after 0."""
    out = x.clone()
    out[:, 1:] -= x[:, :-1]
    return out


def _sum_of_neighbours(x: Tensor) -> Tensor:
    """Each point of a curve plus the one before; the first is after 0."""
    total = x.clone()
    total[:, 1:] += x[:, :-1]
    return total


def steps(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where each step of a curve begins and ends; the first begins at 0."""
    return torch.cat([x.new_zeros(x.shape[0], 1), x[:, :-1]], 1), x


def roc_area(curve: Curve, max_fpr: float | None = None) -> Tensor:
    """Area under each ROC curve by the trapezoidal rule, NaN where one of the two classes does not occur.

    With `max_fpr` the area up to there, standardised so that chance is 0.5 and the best is 1 (McClish).
    """
    undefined = curve.negatives.eq(0) | curve.positives.eq(0)
    if max_fpr is None or max_fpr == 1:
        pairs = gain(curve.fp).mul_(_sum_of_neighbours(curve.tp)).sum(1) / 2  # of a positive and a negative below it
        return (pairs / (curve.positives * curve.negatives)).masked_fill(undefined, torch.nan)
    x0, x1 = steps(curve.fpr)
    y0, y1 = steps(curve.tpr)
    y1 = torch.where(x1 > max_fpr, y0 + (y1 - y0) * (max_fpr - x0) / (x1 - x0), y1)
    area = ((x1.clamp(max=max_fpr) - x0.clamp(max=max_fpr)) * (y0 + y1) / 2).where(x0 < max_fpr, 0.0).sum(1)
    least = max_fpr**2 / 2
    return (0.5 * (1 + (area - least) / (max_fpr - least))).masked_fill(undefined, torch.nan)


class AUROCFormula(AreaFormula):
    """Chance that a positive outranks a negative, ties counting half: the area under the ROC curve."""

    max_fpr: float | None = None

    def area(self, curve: Curve) -> Tensor:
        return roc_area(curve, self.max_fpr)


class BinaryAUROC(AUROCFormula):
    """Chance that a positive outranks a negative, ties counting half; from 0 to 1, 0.5 by guessing.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. Exact from all samples, ranked as they came, or with
    `thresholds` (a number, list or tensor) exact for scores rounded down to the next threshold, in constant memory. With `thresholds="auto"`
    exact up to 32 MiB of scores, 6.7 million; from then on for all of them rounded down by at most 1/64 in log-odds (twice that or more with
    over 117 columns), so that the area is off by at most half the share of the pairs of a positive and a negative that are rounded alike.
    With `max_fpr` the standardised area up to that false positive rate. NaN unless both classes occur.

    >>> from torch import tensor
    >>> BinaryAUROC()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.7500)
    """

    def __init__(
        self,
        max_fpr: float | None = None,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, max_fpr=max_fpr, ignore_index=ignore_index, from_logits=from_logits)
        self._start(thresholds, False, validate_args, **kwargs)


class MulticlassAUROC(AUROCFormula, MulticlassArea):
    """Chance that a sample of a class scores higher for it than one of another class, averaged over classes.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    NaN for a class that never or always occurs; averages leave it out. `thresholds` as in `BinaryAUROC`.

    >>> from torch import tensor
    >>> MulticlassAUROC(num_classes=2)(tensor([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), tensor([0, 1, 0]))
    tensor(0.5000)
    """


class MultilabelAUROC(AUROCFormula, MultilabelArea):
    """Chance that a positive outranks a negative of the same label, ties counting half, averaged over labels.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`, NaN for a
    label with one class only; averages leave it out. "micro" ranks all labels together. `thresholds` as in `BinaryAUROC`.

    >>> from torch import tensor
    >>> MultilabelAUROC(num_labels=2)(tensor([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), tensor([[1, 0], [0, 1], [0, 1]]))
    tensor(1.)
    """


class AUROC(ClassificationTask):
    """Area under the ROC curve; see the class of each task.

    >>> from torch import tensor
    >>> AUROC(task="binary")(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.7500)
    """

    tasks = {"binary": BinaryAUROC, "multiclass": MulticlassAUROC, "multilabel": MultilabelAUROC}

    @chooses
    def __new__(
        cls,
        task: Task,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        max_fpr: float | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...


class AveragePrecisionFormula(AreaFormula):
    """Precision at each threshold, weighted by the recall gained there."""

    def area(self, curve: Curve) -> Tensor:
        area = gain(curve.tp).mul_(curve.precision).nansum(1) / curve.positives  # NaN is where nothing is predicted, nor gained
        return area.nan_to_num(nan=0.0) if self.columns is None else area


class BinaryAveragePrecision(AveragePrecisionFormula, BinaryCurve):
    """Precision at each threshold, weighted by the recall gained there; from 0 to 1, the share of positives by guessing.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. Tied scores are one threshold. Exact from all
    samples, ranked as they came, or with `thresholds` exact for scores rounded down to the next threshold, in constant memory. 0 without positives.

    >>> from torch import tensor
    >>> BinaryAveragePrecision()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.8333)
    """


class MulticlassAveragePrecision(AveragePrecisionFormula, MulticlassArea):
    """Average precision of each class against the others, averaged over classes.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    NaN for a class that never occurs; averages leave it out. `thresholds` as in `BinaryAveragePrecision`.

    >>> from torch import tensor
    >>> MulticlassAveragePrecision(num_classes=2)(tensor([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), tensor([0, 1, 0]))
    tensor(0.6667)
    """


class MultilabelAveragePrecision(AveragePrecisionFormula, MultilabelArea):
    """Average precision of each label, averaged over labels.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`, NaN for a
    label without positives; averages leave it out. "micro" ranks all labels together. `thresholds` as in `BinaryAveragePrecision`.

    >>> from torch import tensor
    >>> MultilabelAveragePrecision(num_labels=2)(tensor([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), tensor([[1, 0], [0, 1], [0, 1]]))
    tensor(1.)
    """


class AveragePrecision(ClassificationTask):
    """Average precision; see the class of each task.

    >>> from torch import tensor
    >>> AveragePrecision(task="binary")(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.8333)
    """

    tasks = {"binary": BinaryAveragePrecision, "multiclass": MulticlassAveragePrecision, "multilabel": MultilabelAveragePrecision}

    @chooses
    def __new__(
        cls,
        task: Task,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...
