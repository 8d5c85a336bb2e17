"""Accuracy, precision, recall, specificity, negative predictive value and Hamming distance."""

from __future__ import annotations

from torch import Tensor

from ..statistics.class_counts import Counts
from .stat_scores import BinaryRate, MulticlassRate, MultilabelRate, RateMetric, RateTask


class AccuracyFormula(RateMetric):
    """Share of decisions that are right; of one class among several, of its targets."""

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        return (c.tp, c.actual) if isinstance(self, MulticlassRate) else (c.tp + c.tn, c.seen)


class PrecisionFormula(RateMetric):
    """Share of positive predictions that are right."""

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        return c.tp, c.predicted


class RecallFormula(RateMetric):
    """Share of positive targets that are found."""

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        return c.tp, c.actual


class SpecificityFormula(RateMetric):
    """Share of negative targets that are found."""

    needs_classes = True
    absent_is_undefined = False

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        return c.tn, c.negative


class NegativePredictiveValueFormula(RateMetric):
    """Share of negative predictions that are right."""

    needs_classes = True
    absent_is_undefined = False

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        return c.tn, c.unpredicted


class HammingFormula(AccuracyFormula):
    """Share of decisions that are wrong."""

    higher_is_better = False

    @property
    def undefined(self) -> float:
        return 1 - self.zero_division  # as one minus accuracy has it

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        right, whole = super().rate(c)
        return whole - right, whole


class BinaryAccuracy(AccuracyFormula, BinaryRate):
    """Share of yes/no predictions that are right.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, or `(N,)` if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinaryAccuracy()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """


class MulticlassAccuracy(AccuracyFormula, MulticlassRate):
    """Share of targets predicted right; per class that is its recall.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    with N before it if samplewise. Classes that occur in neither are left out of "macro"; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassAccuracy(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.8333)
    """


class MultilabelAccuracy(AccuracyFormula, MultilabelRate):
    """Share of the yes/no decisions of each label that are right.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`,
    with N before it if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelAccuracy(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.6667)
    """

    absent_is_undefined = False


class Accuracy(RateTask):
    """Share of predictions that are right; see the class of each task.

    >>> from torch import tensor
    >>> Accuracy(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7500)
    """

    tasks = {"binary": BinaryAccuracy, "multiclass": MulticlassAccuracy, "multilabel": MultilabelAccuracy}


class BinaryPrecision(PrecisionFormula, BinaryRate):
    """Share of positive predictions that are right.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, or `(N,)` if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinaryPrecision()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """


class MulticlassPrecision(PrecisionFormula, MulticlassRate):
    """Share of a class's predictions that are right.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    with N before it if samplewise. Classes that occur in neither are left out of "macro"; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassPrecision(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.8333)
    """


class MultilabelPrecision(PrecisionFormula, MultilabelRate):
    """Share of a label's positive predictions that are right.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`,
    with N before it if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelPrecision(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.5000)
    """


class Precision(RateTask):
    """Share of positive predictions that are right; see the class of each task.

    >>> from torch import tensor
    >>> Precision(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7500)
    """

    tasks = {"binary": BinaryPrecision, "multiclass": MulticlassPrecision, "multilabel": MultilabelPrecision}


class BinaryRecall(RecallFormula, BinaryRate):
    """Share of positive targets that are found.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, or `(N,)` if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinaryRecall()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """


class MulticlassRecall(RecallFormula, MulticlassRate):
    """Share of a class's targets that are found.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    with N before it if samplewise. Classes that occur in neither are left out of "macro"; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassRecall(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.8333)
    """


class MultilabelRecall(RecallFormula, MultilabelRate):
    """Share of a label's positive targets that are found.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`,
    with N before it if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelRecall(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.5000)
    """


class Recall(RateTask):
    """Share of positive targets that are found; see the class of each task.

    >>> from torch import tensor
    >>> Recall(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7500)
    """

    tasks = {"binary": BinaryRecall, "multiclass": MulticlassRecall, "multilabel": MultilabelRecall}


class BinarySpecificity(SpecificityFormula, BinaryRate):
    """Share of negative targets that are found.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, or `(N,)` if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinarySpecificity()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """


class MulticlassSpecificity(SpecificityFormula, MulticlassRate):
    """Share of the targets of other classes that are not taken for a class.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    with N before it if samplewise. Classes that occur in neither are left out of "macro"; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassSpecificity(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.8889)
    """


class MultilabelSpecificity(SpecificityFormula, MultilabelRate):
    """Share of a label's negative targets that are found.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`,
    with N before it if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelSpecificity(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.7500)
    """


class Specificity(RateTask):
    """Share of negative targets that are found; see the class of each task.

    >>> from torch import tensor
    >>> Specificity(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.8750)
    """

    tasks = {"binary": BinarySpecificity, "multiclass": MulticlassSpecificity, "multilabel": MultilabelSpecificity}


class BinaryNegativePredictiveValue(NegativePredictiveValueFormula, BinaryRate):
    """Share of negative predictions that are right.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, or `(N,)` if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinaryNegativePredictiveValue()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """


class MulticlassNegativePredictiveValue(NegativePredictiveValueFormula, MulticlassRate):
    """Share of the predictions of other classes that are rightly not a class.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    with N before it if samplewise. Classes that occur in neither are left out of "macro"; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassNegativePredictiveValue(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.8889)
    """


class MultilabelNegativePredictiveValue(NegativePredictiveValueFormula, MultilabelRate):
    """Share of a label's negative predictions that are right.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`,
    with N before it if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelNegativePredictiveValue(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.7500)
    """


class NegativePredictiveValue(RateTask):
    """Share of negative predictions that are right; see the class of each task.

    >>> from torch import tensor
    >>> NegativePredictiveValue(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.8750)
    """

    tasks = {
        "binary": BinaryNegativePredictiveValue,
        "multiclass": MulticlassNegativePredictiveValue,
        "multilabel": MultilabelNegativePredictiveValue,
    }


class BinaryHammingDistance(HammingFormula, BinaryRate):
    """Share of yes/no predictions that are wrong; lower is better.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, or `(N,)` if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinaryHammingDistance()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """


class MulticlassHammingDistance(HammingFormula, MulticlassRate):
    """Share of targets predicted wrong; lower is better.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    with N before it if samplewise. Classes that occur in neither are left out of "macro"; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassHammingDistance(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.1667)
    """


class MultilabelHammingDistance(HammingFormula, MultilabelRate):
    """Share of the yes/no decisions of each label that are wrong; lower is better.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`,
    with N before it if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelHammingDistance(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.3333)
    """

    absent_is_undefined = False


class HammingDistance(RateTask):
    """Share of predictions that are wrong; lower is better; see the class of each task.

    >>> from torch import tensor
    >>> HammingDistance(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.2500)
    """

    tasks = {"binary": BinaryHammingDistance, "multiclass": MulticlassHammingDistance, "multilabel": MultilabelHammingDistance}
