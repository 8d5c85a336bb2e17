"""Areas under curves of scores: AUROC and average precision; and the curves of yes/no scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..formula import Formula, feeds
from ..statistics.curves import BinnedCurves, Curve, Curves, ScoreHistogram, Scores, ScoreSamples, constant
from .options import ClassificationTask, checked
from .pictures import PrecisionRecallPlot, ROCPlot

Thresholds = int | list[float] | Tensor | None


def _values(name: str, thresholds: Thresholds) -> tuple[float, ...] | None:
    """Thresholds as numbers of float32 (of their own dtype if a tensor), so that equal float32 scores tie with them."""
    if thresholds is None:
        return None
    if isinstance(thresholds, int) and not isinstance(thresholds, bool) and thresholds > 1:
        return tuple(torch.linspace(0, 1, thresholds, dtype=torch.float64).float().tolist())
    if isinstance(thresholds, list | tuple) and thresholds and all(isinstance(t, int | float) and 0 <= t <= 1 for t in thresholds):
        return tuple(torch.tensor(thresholds, dtype=torch.float32).tolist())
    if isinstance(thresholds, Tensor) and thresholds.ndim == 1 and thresholds.numel():
        values = tuple(thresholds.double().tolist())
        if all(0 <= t <= 1 for t in values):
            return values
    raise ValueError(
        f"{name}: thresholds is {thresholds!r}; expected None for exact curves, a number of thresholds above 1, or a list or 1-d tensor of numbers in [0, 1]."
    )


class CurveFormula(Formula):
    """A number or a curve from scores and yes/no targets, exact or binned by `thresholds`."""

    higher_is_better: bool | None = True
    is_differentiable = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    average: str | None = None
    normalization: str | None = "sigmoid"
    columns: int | None = None

    def _start(self, thresholds: Thresholds, exclusive: bool, validate_args: bool, **kwargs: Any) -> None:
        values = _values(type(self).__name__, thresholds)
        options = {n: self.__dict__[given] for n, given in (("ignore", "ignore_index"), ("logits", "from_logits"))}
        options |= {"labels": self.columns, "exclusive": exclusive}
        scores = Scores(**options, probabilities=values is not None, normalize=self.normalization is not None)
        statistic = ScoreSamples(scores) if values is None else ScoreHistogram(scores, tuple(sorted(values)))
        super().__init__(statistic, validate_args=validate_args, **kwargs)
        self.__dict__["thresholds"] = values
        self.__dict__["_rank"] = None
        if values is not None and tuple(sorted(values)) != values:
            place = {t: i for i, t in enumerate(sorted(values))}
            self.__dict__["_rank"] = tuple(float(place[t]) for t in values)

    thresholds: tuple[float, ...] | None
    _rank: tuple[float, ...] | None

    @feeds
    def update(self, preds: Tensor, target: Tensor) -> None:
        self._add(preds, target)


class BinaryCurve(CurveFormula):
    """One column of scores."""

    def __init__(
        self,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: str | None = "sigmoid",
        from_logits: bool | None = None,
        **kwargs: Any,
    ) -> None:
        checked(self, ignore_index=ignore_index, normalization=normalization, from_logits=from_logits)
        self._start(thresholds, False, validate_args, **kwargs)


class AreaFormula(CurveFormula):
    """The area under the curve of each column, averaged as asked; a column without one is left out of the average."""

    def area(self, curve: Curve) -> Tensor:
        raise NotImplementedError

    def value(self, curves: Curves | BinnedCurves) -> Tensor:
        if self.columns is None:
            return self.area(curves.each)[0]
        if self.average == "micro":
            return self.area(curves.joined)[0]
        areas = self.area(curves.each)
        if self.average in ("none", None):
            return areas
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
        **kwargs: Any,
    ) -> None:
        checked(self, num_classes=num_classes, average=average, ignore_index=ignore_index, from_logits=from_logits)
        if average == "micro":
            raise ValueError(f"{type(self).__name__}: average is 'micro'; expected 'macro', 'weighted', 'none' or None.")
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
        **kwargs: Any,
    ) -> None:
        checked(self, num_labels=num_labels, average=average, ignore_index=ignore_index, from_logits=from_logits)
        self.columns = num_labels
        self._start(thresholds, False, validate_args, **kwargs)


def _steps(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where each step of a curve begins and ends; the first begins at 0."""
    return torch.cat([x.new_zeros(x.shape[0], 1), x[:, :-1]], 1), x


def roc_area(curve: Curve, max_fpr: float | None = None) -> Tensor:
    """Area under each ROC curve by the trapezoidal rule, NaN where one of the two classes does not occur.

    With `max_fpr` the area up to there, standardised so that chance is 0.5 and the best is 1 (McClish).
    """
    x0, x1 = _steps(curve.fp / curve.negatives[:, None])
    y0, y1 = _steps(curve.tp / curve.positives[:, None])
    undefined = curve.negatives.eq(0) | curve.positives.eq(0)
    if max_fpr is None or max_fpr == 1:
        return ((x1 - x0) * (y0 + y1) / 2).sum(1).masked_fill(undefined, torch.nan)
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
    `thresholds` (a number, list or tensor) exact for scores rounded down to the next threshold, in constant memory. With
    `max_fpr` the standardised area up to that false positive rate. NaN unless both classes occur.

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
        **kwargs: Any,
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
    defaults = {"average": "macro"}

    @classmethod
    def _order(cls) -> tuple[str, ...]:
        return ("thresholds", "num_classes", "num_labels", "average", "max_fpr", "ignore_index", "validate_args")


class AveragePrecisionFormula(AreaFormula):
    """Precision at each threshold, weighted by the recall gained there."""

    def area(self, curve: Curve) -> Tensor:
        begin, end = _steps(curve.tp)
        found = ((end - begin) * (curve.tp / (curve.tp + curve.fp).clamp(min=1))).sum(1)
        area = found / curve.positives
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
    defaults = {"average": "macro"}

    @classmethod
    def _order(cls) -> tuple[str, ...]:
        return ("thresholds", "num_classes", "num_labels", "average", "ignore_index", "validate_args")


class BinaryROC(ROCPlot, BinaryCurve):
    """False and true positive rates as the threshold falls, and the thresholds.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is `(fpr, tpr, thresholds)`: exact, a point
    for each distinct score after (0, 0), whose threshold is written as 1; or with `thresholds` one for each of them, the last first.
    A rate is NaN where its class does not occur.

    >>> from torch import tensor
    >>> BinaryROC()(tensor([0.25, 0.75, 0.5]), tensor([0, 1, 1]))
    (tensor([0., 0., 0., 1.]), tensor([0.0000, 0.5000, 1.0000, 1.0000]), tensor([1.0000, 0.7500, 0.5000, 0.2500]))
    """

    higher_is_better = None

    def value(self, curves: Curves | BinnedCurves) -> tuple[Tensor, Tensor, Tensor]:
        tp, fp, thresholds = points(self, curves)
        if self.thresholds is None:
            tp, fp = (torch.cat([x.new_zeros(1), x]) for x in (tp, fp))
            thresholds = torch.cat([thresholds.new_ones(1), thresholds])
        return fp / curves.each.negatives, tp / curves.each.positives, thresholds


class BinaryPrecisionRecallCurve(PrecisionRecallPlot, BinaryCurve):
    """Precision and recall as the threshold rises, and the thresholds.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is `(precision, recall, thresholds)`: exact, a
    point for each distinct score, or with `thresholds` one for each of them; then the point (1, 0), which has no threshold. Recall is 1
    without positives, as in scikit-learn; precision is NaN at a threshold that nothing reaches.

    >>> from torch import tensor
    >>> BinaryPrecisionRecallCurve()(tensor([0.25, 0.75, 0.5]), tensor([0, 1, 1]))
    (tensor([0.6667, 1.0000, 1.0000, 1.0000]), tensor([1.0000, 1.0000, 0.5000, 0.0000]), tensor([0.2500, 0.5000, 0.7500]))
    """

    higher_is_better = None

    def value(self, curves: Curves | BinnedCurves) -> tuple[Tensor, Tensor, Tensor]:
        tp, fp, thresholds = (x.flip(0) for x in points(self, curves))
        recall = (tp / curves.each.positives).nan_to_num(nan=1.0)
        return torch.cat([tp / (tp + fp), tp.new_ones(1)]), torch.cat([recall, tp.new_zeros(1)]), thresholds


def points(metric: BinaryCurve, curves: Curves | BinnedCurves) -> tuple[Tensor, Tensor, Tensor]:
    """True positives, false positives and thresholds of one column: of distinct scores from the highest on, or of given thresholds, last first.

    How many distinct scores there are is read from the device.
    """
    curve = curves.each
    tp, fp = curve.tp[0], curve.fp[0]
    if isinstance(curves, Curves):
        assert curve.distinct is not None and curve.score is not None
        places = curve.distinct[0].nonzero().squeeze(1)
        return tp[places], fp[places], curves.probabilities(curve.score[0][places])
    assert metric.thresholds is not None
    count = len(metric.thresholds)
    tp, fp, thresholds = tp[:count], fp[:count], constant(metric.thresholds, tp.device).flip(0)
    if metric._rank is not None:
        place = (count - 1 - constant(metric._rank, tp.device)).long().flip(0)
        tp, fp = tp[place], fp[place]
    return tp, fp, thresholds
