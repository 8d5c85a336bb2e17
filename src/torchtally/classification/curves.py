"""Curves of scores: receiver operating characteristics, and precision against recall."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..options import NamedOptions, Unpack
from .curve_formula import BinaryCurve, Drawn, DrawnFormula, MulticlassCurve, MultilabelCurve, Points, Thresholds
from .pictures import PrecisionRecallPlot, ROCPlot
from .tasks import ClassificationTask, Task, chooses

_ORDER = ("thresholds", "num_classes", "num_labels", "ignore_index", "validate_args")


def _or_all(mask: Tensor | None, like: Tensor) -> Tensor:
    return torch.ones_like(like, dtype=torch.bool) if mask is None else mask


def _ordered(x: Tensor, keep: Tensor, falling: bool) -> tuple[Tensor, Tensor]:
    """All numbers of several curves in one row, in order, and which of them stay."""
    values, order = x.flatten().sort(descending=falling)
    return values[None], keep.flatten()[order][None]


def _mean_over(rows: list[Tensor], undefined: Tensor) -> Tensor:
    """The mean of the rows that are defined."""
    total = torch.zeros_like(rows[0])
    for row, out in zip(rows, undefined):
        total += row.masked_fill(out, 0.0)
    return (total / undefined.logical_not().sum())[None]


def interpolated(x: Tensor, y: Tensor, at: Tensor) -> Tensor:
    """A curve from (0, 0) to (1, 1) at other places, linear between its points, the last of those with an equal x counting."""
    x, y = (pad(pad(z, (1, 0)), (0, 1), value=1.0) for z in (x, y))
    begin = (torch.searchsorted(x, at, right=True) - 1).clamp(0, len(x) - 2)
    x0, x1, y0, y1 = x[begin], x[begin + 1], y[begin], y[begin + 1]
    share = ((at - x0) / (x1 - x0)).nan_to_num(nan=1.0)
    return y0 + (y1 - y0) * share


def averaged_roc(points: Points, exact: bool) -> Drawn:
    """The mean true positive rate, over the columns that have a curve, at each of their false positive rates."""
    curve, points = points.curve, points.from_nothing() if exact else points
    undefined = curve.negatives.eq(0) | curve.positives.eq(0)
    fpr, tpr = points.fpr.sort(1).values, points.tpr.sort(1).values  # given thresholds may be in any order
    keep = _or_all(points.distinct, fpr) & ~undefined[:, None]
    grid, keep_grid = _ordered(fpr.masked_fill(undefined[:, None], 1.0), keep, False)
    mean = _mean_over([interpolated(x, y, grid[0]) for x, y in zip(fpr, tpr)], undefined)
    at, keep_at = _ordered(points.at, keep, True)
    return Drawn(grid, mean, at, keep_grid if exact else None, keep_at if exact else None, "one")


class FromNothing(Drawn):
    """After the point where nothing is positive, whose threshold is written as 1."""

    def complete(self) -> Drawn:
        nothing = [x[:, :1] * 0 if x.shape[1] else x.new_full((len(x), 1), torch.nan) for x in (self.x, self.y)]  # of no class is no rate
        x, y, at = torch.cat([nothing[0], self.x], 1), torch.cat([nothing[1], self.y], 1), pad(self.at, (1, 0), value=1.0)
        keep = None if self.keep is None else pad(self.keep, (1, 0), value=True)
        return Drawn(x, y, at, keep, keep, self.shape)


class Rising(Drawn):
    """In the order of rising thresholds; then the point (1, 0). Recall is 1 without positives, as in scikit-learn."""

    def complete(self) -> Drawn:
        x, y, at = self.x.flip(1), self.y.nan_to_num(nan=1.0).flip(1), self.at.flip(1)
        keep = None if self.keep is None else self.keep.flip(1)
        longer = None if keep is None else pad(keep, (0, 1), value=True)
        return Drawn(pad(x, (0, 1), value=1.0), pad(y, (0, 1)), at, longer, keep, self.shape)


class ROCFormula(DrawnFormula):
    """False and true positive rates as the threshold falls."""

    def drawn(self, points: Points, shape: str) -> Drawn:
        kind = FromNothing if self.exact else Drawn
        return kind(points.fpr, points.tpr, points.at, points.distinct, points.distinct, shape)

    def averaged(self, points: Points) -> Drawn:
        return averaged_roc(points, self.exact)


class BinaryROC(ROCPlot, ROCFormula, BinaryCurve):
    """False and true positive rates as the threshold falls, and the thresholds.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is `(fpr, tpr, thresholds)`: exact, a point
    for each distinct score after (0, 0), whose threshold is written as 1; or with `thresholds` one for each of them, the last first.
    A rate is NaN where its class does not occur. `forward` on a device repeats points where scores are tied.

    >>> from torch import tensor
    >>> BinaryROC()(tensor([0.25, 0.75, 0.5]), tensor([0, 1, 1]))
    (tensor([0., 0., 0., 1.]), tensor([0.0000, 0.5000, 1.0000, 1.0000]), tensor([1.0000, 0.7500, 0.5000, 0.2500]))
    """


class MulticlassROC(ROCPlot, ROCFormula, MulticlassCurve):
    """False and true positive rates of each class against the others as the threshold falls, and the thresholds.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is `(fpr, tpr, thresholds)`: lists with a tensor
    for each class, or with `thresholds` tensors `(C, T)`, `(C, T)` and `(T,)`; see `BinaryROC`. With `average="micro"` it is one curve of all
    pairs of a sample and a class; with "macro" the mean over the classes that have a curve of the true positive rate at each of their false
    positive rates, linear in between.

    >>> from torch import tensor
    >>> fpr, tpr, thresholds = MulticlassROC(num_classes=2)(tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), tensor([0, 1, 0]))
    >>> fpr[0], tpr[0]
    (tensor([0., 0., 1., 1.]), tensor([0.0000, 0.5000, 0.5000, 1.0000]))
    """


class MultilabelROC(ROCPlot, ROCFormula, MultilabelCurve):
    """False and true positive rates of each label as the threshold falls, and the thresholds.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is `(fpr, tpr, thresholds)`: lists with a tensor for
    each label, or with `thresholds` tensors `(L, T)`, `(L, T)` and `(T,)`; see `BinaryROC`.

    >>> from torch import tensor
    >>> fpr, tpr, thresholds = MultilabelROC(num_labels=2)(tensor([[0.75, 0.25], [0.5, 0.75]]), tensor([[1, 0], [0, 1]]))
    >>> fpr[1], tpr[1], thresholds[1]
    (tensor([0., 0., 1.]), tensor([0., 1., 1.]), tensor([1.0000, 0.7500, 0.2500]))
    """


class ROC(ClassificationTask):
    """Receiver operating characteristic; see the class of each task.

    >>> from torch import tensor
    >>> ROC(task="binary")(tensor([0.25, 0.75, 0.5]), tensor([0, 1, 1]))
    (tensor([0., 0., 0., 1.]), tensor([0.0000, 0.5000, 1.0000, 1.0000]), tensor([1.0000, 0.7500, 0.5000, 0.2500]))
    """

    tasks = {"binary": BinaryROC, "multiclass": MulticlassROC, "multilabel": MultilabelROC}

    @chooses
    def __new__(
        cls,
        task: Task,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        average: str | None = None,
        normalization: str | None = "sigmoid",
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...


class PrecisionRecallFormula(DrawnFormula):
    """Precision and recall as the threshold rises, and at last (1, 0)."""

    def drawn(self, points: Points, shape: str) -> Drawn:
        return Rising(points.precision, points.tpr, points.at, points.distinct, points.distinct, shape)

    def averaged(self, points: Points) -> Drawn:
        exact, undefined = self.exact, points.curve.positives.eq(0)
        recall, order = pad(points.tpr, (1, 0)).sort(stable=True, dim=1)  # given thresholds may be in any order
        precision = pad(points.precision, (1, 0), value=1.0).gather(1, order)
        keep_at = _or_all(points.distinct, points.at) & ~undefined[:, None]
        keep = pad(keep_at, (1, 0), value=True) & ~undefined[:, None]
        grid, keep_grid = _ordered(recall.masked_fill(undefined[:, None], 0.0), keep.gather(1, order), True)
        rows = [p[torch.searchsorted(r.contiguous(), grid[0]).clamp(max=len(r) - 1)] for p, r in zip(precision, recall)]
        at, keep_at = _ordered(points.at, keep_at, False)
        return Drawn(_mean_over(rows, undefined), grid, at, keep_grid if exact else None, keep_at if exact else None, "one")


class BinaryPrecisionRecallCurve(PrecisionRecallPlot, PrecisionRecallFormula, BinaryCurve):
    """Precision and recall as the threshold rises, and the thresholds.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is `(precision, recall, thresholds)`: exact, a
    point for each distinct score, or with `thresholds` one for each of them; then the point (1, 0), which has no threshold. Recall is 1
    without positives, as in scikit-learn; precision is NaN at a threshold that nothing reaches. `forward` on a device repeats points where
    scores are tied.

    >>> from torch import tensor
    >>> BinaryPrecisionRecallCurve()(tensor([0.25, 0.75, 0.5]), tensor([0, 1, 1]))
    (tensor([0.6667, 1.0000, 1.0000, 1.0000]), tensor([1.0000, 1.0000, 0.5000, 0.0000]), tensor([0.2500, 0.5000, 0.7500]))
    """


class MulticlassPrecisionRecallCurve(PrecisionRecallPlot, PrecisionRecallFormula, MulticlassCurve):
    """Precision and recall of each class against the others as the threshold rises, and the thresholds.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is `(precision, recall, thresholds)`: lists with a
    tensor for each class, or with `thresholds` tensors `(C, T + 1)`, `(C, T + 1)` and `(T,)`; see `BinaryPrecisionRecallCurve`. With
    `average="micro"` it is one curve of all pairs of a sample and a class; with "macro" the mean over the classes with targets of the precision
    at each of their recalls, of which the stepwise area is the macro average precision.

    >>> from torch import tensor
    >>> curves = MulticlassPrecisionRecallCurve(num_classes=2)(tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), tensor([0, 1, 0]))
    >>> curves[0][0], curves[1][0]
    (tensor([0.6667, 0.5000, 1.0000, 1.0000]), tensor([1.0000, 0.5000, 0.5000, 0.0000]))
    """


class MultilabelPrecisionRecallCurve(PrecisionRecallPlot, PrecisionRecallFormula, MultilabelCurve):
    """Precision and recall of each label as the threshold rises, and the thresholds.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is `(precision, recall, thresholds)`: lists with a tensor
    for each label, or with `thresholds` tensors `(L, T + 1)`, `(L, T + 1)` and `(T,)`; see `BinaryPrecisionRecallCurve`.

    >>> from torch import tensor
    >>> curves = MultilabelPrecisionRecallCurve(num_labels=2)(tensor([[0.75, 0.25], [0.5, 0.75]]), tensor([[1, 0], [0, 1]]))
    >>> curves[0][1], curves[1][1], curves[2][1]
    (tensor([0.5000, 1.0000, 1.0000]), tensor([1., 1., 0.]), tensor([0.2500, 0.7500]))
    """


class PrecisionRecallCurve(ClassificationTask):
    """Precision against recall; see the class of each task.

    >>> from torch import tensor
    >>> PrecisionRecallCurve(task="binary")(tensor([0.25, 0.75]), tensor([0, 1]))
    (tensor([0.5000, 1.0000, 1.0000]), tensor([1., 1., 0.]), tensor([0.2500, 0.7500]))
    """

    tasks = {
        "binary": BinaryPrecisionRecallCurve,
        "multiclass": MulticlassPrecisionRecallCurve,
        "multilabel": MultilabelPrecisionRecallCurve,
    }

    @chooses
    def __new__(
        cls,
        task: Task,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        average: str | None = None,
        normalization: str | None = "sigmoid",
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...
