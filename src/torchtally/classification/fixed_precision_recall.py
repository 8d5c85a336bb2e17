"""Precision at a given recall, and recall at a given precision."""

from __future__ import annotations

from typing import Any

from ..options import NamedOptions, Unpack
from .curve_formula import Thresholds
from .operating_points import PrecisionAtRecall, RecallAtPrecision
from .tasks import ClassificationTask, Task, chooses


class BinaryPrecisionAtFixedRecall(PrecisionAtRecall):
    """The largest precision where recall is at least `min_recall`, and the threshold that gives it.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is two scalars, the precision and a
    probability: exact, or at one of the `thresholds`, in constant memory. Of several thresholds it is the one with the highest recall, then
    the highest. 0 and NaN without positives.

    >>> from torch import tensor
    >>> BinaryPrecisionAtFixedRecall(min_recall=0.5)(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    (tensor(1.), tensor(0.9000))
    """

    def __init__(
        self,
        min_recall: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(None, None, min_recall, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class MulticlassPrecisionAtFixedRecall(PrecisionAtRecall):
    """The largest precision of each class against the others where its recall is at least `min_recall`, and the threshold that gives it.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is two tensors `(C,)`; see
    `BinaryPrecisionAtFixedRecall`.

    >>> from torch import tensor
    >>> MulticlassPrecisionAtFixedRecall(num_classes=2, min_recall=0.5)(tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), tensor([0, 1, 1]))
    (tensor([1., 1.]), tensor([0.7500, 0.5000]))
    """

    def __init__(
        self,
        num_classes: int,
        min_recall: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(num_classes, True, min_recall, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class MultilabelPrecisionAtFixedRecall(PrecisionAtRecall):
    """The largest precision of each label where its recall is at least `min_recall`, and the threshold that gives it.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is two tensors `(L,)`; see
    `BinaryPrecisionAtFixedRecall`.

    >>> from torch import tensor
    >>> MultilabelPrecisionAtFixedRecall(num_labels=2, min_recall=0.5)(tensor([[0.75, 0.25], [0.5, 0.75]]), tensor([[1, 0], [0, 1]]))
    (tensor([1., 1.]), tensor([0.7500, 0.7500]))
    """

    def __init__(
        self,
        num_labels: int,
        min_recall: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(num_labels, False, min_recall, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class PrecisionAtFixedRecall(ClassificationTask):
    """The largest precision where recall is at least `min_recall`; see the class of each task.

    >>> from torch import tensor
    >>> PrecisionAtFixedRecall(task="binary", min_recall=0.5)(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    (tensor(1.), tensor(0.9000))
    """

    tasks = {
        "binary": BinaryPrecisionAtFixedRecall,
        "multiclass": MulticlassPrecisionAtFixedRecall,
        "multilabel": MultilabelPrecisionAtFixedRecall,
    }

    @chooses
    def __new__(
        cls,
        task: Task,
        min_recall: float,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...


class BinaryRecallAtFixedPrecision(RecallAtPrecision):
    """The largest recall where precision is at least `min_precision`, and the threshold that gives it.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is two scalars, the recall and a probability:
    exact, or at one of the `thresholds`, in constant memory. Of several thresholds it is the one with the highest precision, then the
    highest. 0 and NaN where no threshold gives that precision.

    >>> from torch import tensor
    >>> BinaryRecallAtFixedPrecision(min_precision=0.6)(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    (tensor(1.), tensor(0.4000))
    """

    def __init__(
        self,
        min_precision: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(None, None, min_precision, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class MulticlassRecallAtFixedPrecision(RecallAtPrecision):
    """The largest recall of each class against the others where its precision is at least `min_precision`, and the threshold that gives it.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is two tensors `(C,)`; see
    `BinaryRecallAtFixedPrecision`.

    >>> from torch import tensor
    >>> MulticlassRecallAtFixedPrecision(num_classes=2, min_precision=0.6)(tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), tensor([0, 1, 1]))
    (tensor([1., 1.]), tensor([0.7500, 0.5000]))
    """

    def __init__(
        self,
        num_classes: int,
        min_precision: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(num_classes, True, min_precision, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class MultilabelRecallAtFixedPrecision(RecallAtPrecision):
    """The largest recall of each label where its precision is at least `min_precision`, and the threshold that gives it.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is two tensors `(L,)`; see
    `BinaryRecallAtFixedPrecision`.

    >>> from torch import tensor
    >>> MultilabelRecallAtFixedPrecision(num_labels=2, min_precision=0.6)(tensor([[0.75, 0.25], [0.5, 0.75]]), tensor([[1, 0], [0, 1]]))
    (tensor([1., 1.]), tensor([0.7500, 0.7500]))
    """

    def __init__(
        self,
        num_labels: int,
        min_precision: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(num_labels, False, min_precision, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class RecallAtFixedPrecision(ClassificationTask):
    """The largest recall where precision is at least `min_precision`; see the class of each task.

    >>> from torch import tensor
    >>> RecallAtFixedPrecision(task="binary", min_precision=0.6)(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    (tensor(1.), tensor(0.4000))
    """

    tasks = {
        "binary": BinaryRecallAtFixedPrecision,
        "multiclass": MulticlassRecallAtFixedPrecision,
        "multilabel": MultilabelRecallAtFixedPrecision,
    }

    @chooses
    def __new__(
        cls,
        task: Task,
        min_precision: float,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...
