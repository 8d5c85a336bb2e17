"""Equal error rates."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..options import NamedOptions, Unpack
from .curve_formula import AnyCurves, BinaryCurve, CurveFormula, MulticlassCurve, MultilabelCurve, Points, Thresholds
from .curves import averaged_roc
from .tasks import ClassificationTask, Task, chooses


class EERFormula(CurveFormula):
    """The mean of false positive and false negative rate at the point of the ROC curve where they are closest, the highest such threshold."""

    higher_is_better = None

    def value(self, curves: AnyCurves) -> Any:
        points = self.points(curves, curves.joined if self.average == "micro" else curves.each)
        if self.average == "macro":
            mean = averaged_roc(points, self.exact)
            return equal_error(mean.x, mean.y, mean.x + mean.y - 1)[0]
        rates = self._rates(points.from_nothing() if self.exact else points)
        return rates[0] if self.columns is None or self.average == "micro" else self.named(rates)

    def _rates(self, points: Points) -> Tensor:
        positives, negatives = points.curve.positives[:, None], points.curve.negatives[:, None]
        gap = points.fp * positives + points.tp * negatives - positives * negatives  # of whole numbers, so that ties are ties
        return equal_error(points.fpr, points.tpr, gap)


def equal_error(fpr: Tensor, tpr: Tensor, gap: Tensor) -> Tensor:
    """Of each curve, the mean of both errors at the first point where the gap between them is smallest."""
    at = gap.abs().argmin(1, keepdim=True)
    return ((fpr.gather(1, at) + 1 - tpr.gather(1, at)) / 2)[:, 0]


class BinaryEER(EERFormula, BinaryCurve):
    """Equal error rate: the mean of false positive and false negative rate at the threshold where they are closest; 0 is best, 0.5 guessing.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. Exact from all samples, or at one of the `thresholds`, in
    constant memory. NaN unless both classes occur.

    >>> from torch import tensor
    >>> BinaryEER()(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """


class MulticlassEER(EERFormula, MulticlassCurve):
    """Equal error rate of each class against the others; 0 is best.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is `(C,)`, NaN for a class that never or always occurs;
    with `average="micro"` or "macro" a scalar, of that average of the ROC curves (see `MulticlassROC`).

    >>> from torch import tensor
    >>> MulticlassEER(num_classes=2)(tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), tensor([0, 1, 0]))
    tensor([0.2500, 0.7500])
    """


class MultilabelEER(EERFormula, MultilabelCurve):
    """Equal error rate of each label; 0 is best.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is `(L,)`, NaN for a label with one class only.

    >>> from torch import tensor
    >>> MultilabelEER(num_labels=2)(tensor([[0.75, 0.25], [0.5, 0.75]]), tensor([[1, 0], [0, 1]]))
    tensor([0., 0.])
    """


class EER(ClassificationTask):
    """Equal error rate; see the class of each task.

    >>> from torch import tensor
    >>> EER(task="binary")(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """

    tasks = {"binary": BinaryEER, "multiclass": MulticlassEER, "multilabel": MultilabelEER}

    @chooses
    def __new__(
        cls,
        task: Task,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        normalization: str | None = "sigmoid",
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...
