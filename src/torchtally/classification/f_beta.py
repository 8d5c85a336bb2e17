"""F-beta and F1 scores: the weighted harmonic mean of precision and recall."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..options import RateOptions, Unpack
from ..statistics.class_counts import Counts
from .options import checked
from .stat_scores import BinaryRate, MulticlassRate, MultilabelRate, RateMetric
from .tasks import ClassificationTask, Task, chooses


class FBetaFormula(RateMetric):
    """Harmonic mean of precision and recall, in which recall weighs `beta` times as much."""

    beta: float = 1.0

    def __init__(self, beta: float, *args: Any, **kwargs: Any) -> None:
        checked(self, beta=beta)
        super().__init__(*args, **kwargs)

    def _open_form(self) -> str:
        return "the metric"

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        square = self.beta**2
        return (1 + square) * c.tp, c.involved if square == 1 else square * c.actual + c.predicted


class F1Formula(FBetaFormula):
    """Harmonic mean of precision and recall."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(1.0, *args, **kwargs)


class BinaryFBetaScore(FBetaFormula, BinaryRate):
    """Harmonic mean of precision and recall, in which recall weighs `beta` times as much.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, or `(N,)` if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinaryFBetaScore(beta=0.5)(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """

    def __init__(
        self,
        beta: float,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        from_logits: bool | None = None,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        super().__init__(beta, threshold, multidim_average, ignore_index, validate_args, zero_division, from_logits, **kwargs)


class MulticlassFBetaScore(FBetaFormula, MulticlassRate):
    """Harmonic mean of precision and recall, in which recall weighs `beta` times as much.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    with N before it if samplewise. Classes that occur in neither are left out of "macro"; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassFBetaScore(beta=0.5, num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7963)
    """

    def __init__(
        self,
        beta: float,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        super().__init__(beta, num_classes, top_k, average, multidim_average, ignore_index, validate_args, zero_division, **kwargs)


class MultilabelFBetaScore(FBetaFormula, MultilabelRate):
    """Harmonic mean of precision and recall, in which recall weighs `beta` times as much.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`,
    with N before it if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelFBetaScore(beta=0.5, num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.5000)
    """

    def __init__(
        self,
        beta: float,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        from_logits: bool | None = None,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        super().__init__(
            beta, num_labels, threshold, average, multidim_average, ignore_index, validate_args, zero_division, from_logits, **kwargs
        )


class FBetaScore(ClassificationTask):
    """Harmonic mean of precision and recall, in which recall weighs `beta` times as much; see the class of each task.

    >>> from torch import tensor
    >>> FBetaScore(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7500)
    """

    tasks = {"binary": BinaryFBetaScore, "multiclass": MulticlassFBetaScore, "multilabel": MultilabelFBetaScore}

    @chooses
    def __new__(
        cls,
        task: Task,
        beta: float = 1.0,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        *,
        from_logits: bool | None = None,
        **options: Unpack[RateOptions],
    ) -> Any: ...


class BinaryF1Score(F1Formula, BinaryRate):
    """Harmonic mean of precision and recall.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The value is a scalar, or `(N,)` if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> BinaryF1Score()(tensor([0.2, 0.8, 0.6, 0.3]), tensor([0, 1, 0, 1]))
    tensor(0.5000)
    """

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        from_logits: bool | None = None,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        super().__init__(threshold, multidim_average, ignore_index, validate_args, zero_division, from_logits, **kwargs)


class MulticlassF1Score(F1Formula, MulticlassRate):
    """Harmonic mean of precision and recall.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The value is a scalar, `(C,)` with `average="none"`,
    with N before it if samplewise. Classes that occur in neither are left out of "macro"; 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MulticlassF1Score(num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7778)
    """

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        super().__init__(num_classes, top_k, average, multidim_average, ignore_index, validate_args, zero_division, **kwargs)


class MultilabelF1Score(F1Formula, MultilabelRate):
    """Harmonic mean of precision and recall.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The value is a scalar, `(L,)` with `average="none"`,
    with N before it if samplewise. 0/0 counts as `zero_division`.

    >>> from torch import tensor
    >>> MultilabelF1Score(num_labels=2)(tensor([[0, 1], [1, 1], [0, 0]]), tensor([[0, 1], [0, 1], [1, 0]]))
    tensor(0.5000)
    """

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        from_logits: bool | None = None,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        super().__init__(
            num_labels, threshold, average, multidim_average, ignore_index, validate_args, zero_division, from_logits, **kwargs
        )


class F1Score(ClassificationTask):
    """Harmonic mean of precision and recall; see the class of each task.

    >>> from torch import tensor
    >>> F1Score(task="multiclass", num_classes=3)(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor(0.7500)
    """

    tasks = {"binary": BinaryF1Score, "multiclass": MulticlassF1Score, "multilabel": MultilabelF1Score}

    @chooses
    def __new__(
        cls,
        task: Task,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0.0,
        *,
        from_logits: bool | None = None,
        **options: Unpack[RateOptions],
    ) -> Any: ...
