"""Bases of metrics that are a ratio of true and false positives and negatives, and the counts themselves."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import torch
from torch import Tensor

from ..options import RateOptions, Unpack
from ..statistic import Statistic
from ..statistics.class_counts import ClassCounts, Counts, Hits, Labels
from ..statistics.decisions import Decisions, LabelCounts
from .intervals import Proportion
from .naming import Named
from .options import checked
from .tasks import ClassificationTask, Task, chooses

ABSENT = ("skip", "keep", "zero", "nan")
"""What a class that never occurs is in an average: left out, scored as any other (0/0 is `zero_division`), 0, or NaN, and so is the mean."""

AVERAGES = ("micro", "macro", "weighted", "none", None)


def rated(part: Tensor, whole: Tensor, undefined: float) -> Tensor:
    """part / whole of counts; `undefined` where the whole is 0."""
    score = part / whole
    return score if undefined != undefined else score.nan_to_num(nan=undefined)


def averaged(
    part: Tensor, whole: Tensor, counts: Counts, how: str | None, undefined: float, absent: str, absent_is_undefined: bool
) -> Tensor:
    """The mean over classes of part / whole; where the whole is 0 that is `undefined`, and left out if NaN.

    "macro" weighs classes alike, "weighted" by their targets. Classes that occur neither in predictions nor in targets are `absent`: see
    `ABSENT`. `absent_is_undefined`: of a class that does not occur the whole is 0.
    """
    if how == "macro" and absent == "skip" and absent_is_undefined and undefined == 0 and counts.averaged is None:
        return (part / whole).nansum(-1) / counts.occurring  # classes that do not occur score 0
    score = rated(part, whole, undefined)
    gone = counts.occurs.eq(0) if absent in ("zero", "nan") else None
    if gone is not None:
        score = score.masked_fill(gone, 0.0 if absent == "zero" else nan)
    if how in ("none", None):
        return score
    weight = counts.actual if how == "weighted" else counts.occurs if absent == "skip" else torch.ones_like(score)
    if counts.averaged is not None:
        weight = weight * counts.averaged
    if undefined != undefined:
        weight = weight.masked_fill(whole.eq(0) if gone is None else whole.eq(0) & ~gone, 0.0)
    if undefined != undefined or absent == "nan":
        score = score.nan_to_num(nan=0.0)
    mean = rated((weight * score).sum(-1), weight.sum(-1), undefined)
    if gone is None or absent == "zero":
        return mean
    return mean.masked_fill((gone if counts.averaged is None else gone & counts.averaged).any(-1), nan)


class RateMetric(Proportion, Named):
    """A rate of counts: `rate` per class, averaged as asked."""

    higher_is_better: bool | None = True
    is_differentiable = False
    plot_lower_bound = 0.0
    plot_upper_bound: float | None = 1.0

    average: str | None
    zero_division: float
    absent: str
    usual_absent = "keep"
    absent_is_undefined = True
    needs_classes = False

    def __init__(self, *statistics: Statistic, absent: str | None = None, **kwargs: Any) -> None:
        if absent is not None:
            self._check_absent(absent)
        super().__init__(*statistics, **kwargs)
        self.__dict__["absent"] = absent or self.usual_absent

    def _check_absent(self, absent: str) -> None:
        checked(self, absent=absent)
        average = self.__dict__.get("average", "no")
        if average in ("no", "micro"):
            kind = "of yes and no alone" if average == "no" else "over all classes together, average='micro'"
            raise ValueError(f"{type(self).__name__}: absent is {absent!r}, but the value is {kind}. Leave it out.")

    def _options(self) -> list[tuple[str, Any]]:
        return [(name, x) for name, x in super()._options() if name != "absent" or x != self.usual_absent]

    @property
    def undefined(self) -> float:
        """What 0/0 counts as."""
        return self.zero_division

    def rate(self, c: Counts) -> tuple[Tensor, Tensor]:
        """The metric of each class as part and whole."""
        raise NotImplementedError

    def value(self, c: Counts) -> Any:
        if self.average == "micro":
            return rated(*self.rate(self._joined(c)), self.undefined)
        return self.named(averaged(*self.rate(c), c, self.average, self.undefined, self.absent, self.absent_is_undefined))

    def _joined(self, c: Counts) -> Counts:
        """Over all classes together."""
        return c if isinstance(self.statistics[0], Hits) else c.micro()

    def _shares(self, c: Counts) -> tuple[Tensor, Tensor]:
        return self.rate(self._joined(c) if self.average == "micro" else c)

    def _open_form(self) -> str | None:
        return super()._open_form() or (f"average={self.average!r}" if self.average in ("macro", "weighted") else None)

    def _bound(self, bound: Tensor) -> Any:
        return self.named(bound)

    def _counted(self, name: str) -> Tensor:
        with self._held():
            (counts,) = self._totals(self._own())
        found: Tensor = getattr(self._joined(counts) if self.average == "micro" else counts, name)
        return found.clone() if self.weighted else found.long()

    # ---- what torchmetrics calls its states
    @property
    def tp(self) -> Tensor:
        """True positives that this rank has seen, of each class unless `average="micro"`."""
        return self._counted("tp")

    @property
    def fp(self) -> Tensor:
        """False positives."""
        return self._counted("fp")

    @property
    def tn(self) -> Tensor:
        """True negatives."""
        return self._counted("tn")

    @property
    def fn(self) -> Tensor:
        """False negatives."""
        return self._counted("fn")


class BinaryRate(RateMetric):
    """`threshold` decides scores: probabilities, or logits, as `from_logits` says; if None, a batch with one outside [0, 1] is logits."""

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
        checked(
            self,
            threshold=threshold,
            multidim_average=multidim_average,
            ignore_index=ignore_index,
            zero_division=zero_division,
            from_logits=from_logits,
        )
        samplewise = multidim_average == "samplewise"
        super().__init__(
            LabelCounts(Decisions(float(threshold), ignore_index, None, samplewise, from_logits)), validate_args=validate_args, **kwargs
        )
        self.average = "none"


class MulticlassRate(RateMetric):
    """Rates over classes; "micro" needs two counts, the other averages three vectors of `num_classes`."""

    usual_absent = "skip"

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
        checked(
            self,
            num_classes=num_classes,
            top_k=top_k,
            average=average,
            multidim_average=multidim_average,
            ignore_index=ignore_index,
            zero_division=zero_division,
        )
        if num_classes is None and self.needs_classes:
            raise ValueError(f"{type(self).__name__}: num_classes is None; expected an integer, since true negatives depend on it.")
        labels = Labels(num_classes, ignore_index, top_k, multidim_average == "samplewise")
        super().__init__(Hits(labels) if average == "micro" else ClassCounts(labels), validate_args=validate_args, **kwargs)


class MultilabelRate(RateMetric):
    """Rates over labels, each decided on its own by `threshold`."""

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
        checked(
            self,
            num_labels=num_labels,
            threshold=threshold,
            average=average,
            multidim_average=multidim_average,
            ignore_index=ignore_index,
            zero_division=zero_division,
            from_logits=from_logits,
        )
        decisions = Decisions(float(threshold), ignore_index, num_labels, multidim_average == "samplewise", from_logits)
        super().__init__(LabelCounts(decisions), validate_args=validate_args, **kwargs)


class StatScoresFormula(RateMetric):
    """The counts themselves and the support, last dimension `(tp, fp, tn, fn, tp + fn)`."""

    higher_is_better = None
    plot_lower_bound = 0.0
    plot_upper_bound = None
    needs_classes = True

    def _open_form(self) -> str:
        return "the metric"

    def _check_absent(self, absent: str) -> None:
        raise ValueError(f"{type(self).__name__}: absent is {absent!r}; counts of a class that never occurs are 0. Leave it out.")

    def value(self, c: Counts) -> Any:
        scores = torch.stack([c.tp, c.fp, c.tn, c.fn, c.actual], -1)
        flat = isinstance(self.statistics[0], Hits) or scores.ndim == (1 if not self._samplewise else 2)
        if flat or self.average in ("none", None):
            scores = scores if self.weighted else scores.long()
            return scores if flat else self.named(scores, -2)
        if self.average == "micro":
            return scores.sum(-2) if self.weighted else scores.sum(-2).long()
        if self.average == "macro":
            return scores.mean(-2)
        weight = c.actual
        return (scores * (weight / weight.sum(-1, keepdim=True)).nan_to_num(nan=0.0)[..., None]).sum(-2)

    def plot(self, val: Any = None, ax: Any = None, *, labels: Sequence[str] | None = None) -> tuple[Any, Any]:
        """Draw the counts, or `val`, as bars that are parts of a whole; `labels` names the classes."""
        from ..plotting.counts import plot_counts

        val = self.compute() if val is None else val
        if isinstance(val, dict):
            val, labels = torch.stack(list(val.values())), list(val) if labels is None else labels
        return plot_counts(val, ax, labels=labels, name=type(self).__name__)

    @property
    def _samplewise(self) -> bool:
        return bool(self.__dict__["multidim_average"] == "samplewise")


class BinaryStatScores(StatScoresFormula, BinaryRate):
    """True positives, false positives, true negatives, false negatives and support of yes/no predictions.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`. The result is int64 `(5,)`, or `(N, 5)` with
    `multidim_average="samplewise"`. Raises ValueError on unequal shapes and FaultError on impossible labels.

    >>> from torch import tensor
    >>> BinaryStatScores()(tensor([0.1, 0.9, 0.8, 0.3]), tensor([0, 1, 0, 1]))
    tensor([1, 1, 1, 1, 2])
    """


class MulticlassStatScores(StatScoresFormula, MulticlassRate):
    """True positives, false positives, true negatives, false negatives and support, one class against the others.

    `preds` are scores `(N, C, ...)` or labels `(N, ...)`, `target` labels `(N, ...)`. The result is `(5,)`, `(C, 5)` with
    `average="none"`, with N before it if samplewise; int64 unless averaged by "macro" or "weighted".

    >>> from torch import tensor
    >>> MulticlassStatScores(num_classes=3, average="micro")(tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0]))
    tensor([3, 1, 7, 1, 4])
    """


class MultilabelStatScores(StatScoresFormula, MultilabelRate):
    """True positives, false positives, true negatives, false negatives and support of each label.

    `preds` are labels, probabilities or logits, `target` labels, both `(N, L, ...)`. The result is `(5,)`, `(L, 5)` with
    `average="none"`, with N before it if samplewise; int64 unless averaged by "macro" or "weighted".

    >>> from torch import tensor
    >>> MultilabelStatScores(num_labels=2, average="none")(tensor([[0, 1], [1, 1]]), tensor([[0, 1], [0, 1]]))
    tensor([[0, 1, 1, 0, 0],
            [2, 0, 0, 0, 2]])
    """


class RateTask(ClassificationTask):
    """A rate of yes and no, of classes or of labels."""

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
        *,
        zero_division: float = 0.0,
        from_logits: bool | None = None,
        **options: Unpack[RateOptions],
    ) -> Any: ...


class StatScores(RateTask):
    """True and false positives and negatives, and support; see the class of each task.

    >>> from torch import tensor
    >>> StatScores(task="binary")(tensor([0, 1, 1]), tensor([0, 1, 0]))
    tensor([1, 1, 1, 0, 1])
    """

    tasks = {"binary": BinaryStatScores, "multiclass": MulticlassStatScores, "multilabel": MultilabelStatScores}
