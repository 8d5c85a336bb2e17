"""Sensitivity at a given specificity, and specificity at a given sensitivity."""

from __future__ import annotations

from typing import Any

from ..options import NamedOptions, Unpack
from .curve_formula import Thresholds
from .operating_points import SensitivityAt, SpecificityAt
from .tasks import ClassificationTask, Task, chooses


class BinarySensitivityAtSpecificity(SensitivityAt):
    """The largest sensitivity where specificity is at least `min_specificity`, and the threshold that gives it.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is two scalars, the sensitivity and a
    probability: exact, or at one of the `thresholds`, in constant memory. Of several thresholds it is the one with the highest specificity,
    then the highest. 0 and 1e6 where no threshold will do, NaN unless both classes occur.

    >>> from torch import tensor
    >>> BinarySensitivityAtSpecificity(min_specificity=0.5)(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    (tensor(1.), tensor(0.4000))
    """

    def __init__(
        self,
        min_specificity: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(None, None, min_specificity, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class MulticlassSensitivityAtSpecificity(SensitivityAt):
    """The largest sensitivity of each class against the others where its specificity is at least `min_specificity`, and the threshold that gives it.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is two tensors `(C,)`; see
    `BinarySensitivityAtSpecificity`.

    >>> from torch import tensor
    >>> MulticlassSensitivityAtSpecificity(num_classes=2, min_specificity=0.5)(tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), tensor([0, 1, 1]))
    (tensor([1., 1.]), tensor([0.7500, 0.5000]))
    """

    def __init__(
        self,
        num_classes: int,
        min_specificity: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(num_classes, True, min_specificity, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class MultilabelSensitivityAtSpecificity(SensitivityAt):
    """The largest sensitivity of each label where its specificity is at least `min_specificity`, and the threshold that gives it.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is two tensors `(L,)`; see
    `BinarySensitivityAtSpecificity`.

    >>> from torch import tensor
    >>> MultilabelSensitivityAtSpecificity(num_labels=2, min_specificity=0.5)(tensor([[0.75, 0.25], [0.5, 0.75]]), tensor([[1, 0], [0, 1]]))
    (tensor([1., 1.]), tensor([0.7500, 0.7500]))
    """

    def __init__(
        self,
        num_labels: int,
        min_specificity: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(num_labels, False, min_specificity, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class SensitivityAtSpecificity(ClassificationTask):
    """The largest sensitivity where specificity is at least `min_specificity`; see the class of each task.

    >>> from torch import tensor
    >>> SensitivityAtSpecificity(task="binary", min_specificity=0.5)(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    (tensor(1.), tensor(0.4000))
    """

    tasks = {
        "binary": BinarySensitivityAtSpecificity,
        "multiclass": MulticlassSensitivityAtSpecificity,
        "multilabel": MultilabelSensitivityAtSpecificity,
    }

    @chooses
    def __new__(
        cls,
        task: Task,
        min_specificity: float,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...


class BinarySpecificityAtSensitivity(SpecificityAt):
    """The largest specificity where sensitivity is at least `min_sensitivity`, and the threshold that gives it.

    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is two scalars, the specificity and a
    probability: exact, or at one of the `thresholds`, in constant memory. Of several thresholds it is the one with the highest sensitivity,
    then the highest. 0 and 1e6 where no threshold will do, NaN unless both classes occur.

    >>> from torch import tensor
    >>> BinarySpecificityAtSensitivity(min_sensitivity=0.6)(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    (tensor(0.5000), tensor(0.4000))
    """

    def __init__(
        self,
        min_sensitivity: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(None, None, min_sensitivity, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class MulticlassSpecificityAtSensitivity(SpecificityAt):
    """The largest specificity of each class against the others where its sensitivity is at least `min_sensitivity`, and the threshold that gives it.

    `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. The value is two tensors `(C,)`; see
    `BinarySpecificityAtSensitivity`.

    >>> from torch import tensor
    >>> MulticlassSpecificityAtSensitivity(num_classes=2, min_sensitivity=0.6)(tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), tensor([0, 1, 1]))
    (tensor([1., 1.]), tensor([0.7500, 0.5000]))
    """

    def __init__(
        self,
        num_classes: int,
        min_sensitivity: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(num_classes, True, min_sensitivity, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class MultilabelSpecificityAtSensitivity(SpecificityAt):
    """The largest specificity of each label where its sensitivity is at least `min_sensitivity`, and the threshold that gives it.

    `preds` are probabilities or logits, `target` labels, both `(N, L, ...)`. The value is two tensors `(L,)`; see
    `BinarySpecificityAtSensitivity`.

    >>> from torch import tensor
    >>> MultilabelSpecificityAtSensitivity(num_labels=2, min_sensitivity=0.6)(tensor([[0.75, 0.25], [0.5, 0.75]]), tensor([[1, 0], [0, 1]]))
    (tensor([1., 1.]), tensor([0.7500, 0.7500]))
    """

    def __init__(
        self,
        num_labels: int,
        min_sensitivity: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        self._begin(num_labels, False, min_sensitivity, thresholds, ignore_index, validate_args, from_logits, **kwargs)


class SpecificityAtSensitivity(ClassificationTask):
    """The largest specificity where sensitivity is at least `min_sensitivity`; see the class of each task.

    >>> from torch import tensor
    >>> SpecificityAtSensitivity(task="binary", min_sensitivity=0.6)(tensor([0.1, 0.4, 0.6, 0.9]), tensor([0, 1, 0, 1]))
    (tensor(0.5000), tensor(0.4000))
    """

    tasks = {
        "binary": BinarySpecificityAtSensitivity,
        "multiclass": MulticlassSpecificityAtSensitivity,
        "multilabel": MultilabelSpecificityAtSensitivity,
    }

    @chooses
    def __new__(
        cls,
        task: Task,
        min_sensitivity: float,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[NamedOptions],
    ) -> Any: ...
