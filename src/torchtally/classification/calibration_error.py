"""Calibration error: how far confidences are from the share of predictions that are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..options import Unpack, WeighableOptions
from ..statistics.calibration import CalibrationBins
from ..statistics.curves import Scores
from ..weighing import Weighable
from .options import checked
from .tasks import ClassificationTask, TwoTasks, chooses


class CalibrationFormula(Weighable):
    """The gap between confidence and accuracy of each bin, averaged ("l1"), as a root mean square ("l2"), or the largest ("max")."""

    higher_is_better = False
    is_differentiable = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    norm: str

    def value(self, bins: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        seen, right, confidence = bins
        gap, whole = (right - confidence).abs(), seen.sum()  # of each bin, times how many it has
        if self.norm == "l1":
            return gap.sum() / whole
        if self.norm == "l2":
            return ((gap.square() / _held(seen)).sum() / whole).sqrt()
        return (gap / _held(seen)).amax().masked_fill(whole.eq(0), torch.nan)

    def plot(self, val: Any = None, ax: Any = None, *, labels: Sequence[str] | None = None) -> tuple[Any, Any]:
        """Draw the bins as a reliability diagram; or `val`, an error that was computed before, or a list of them, one for each step."""
        from ..plotting.calibration import plot_calibration
        from ..plotting.canvas import spaced

        if val is not None:
            return super().plot(val, ax, labels=labels)
        ((seen, right, confidence),) = self._totals(self._whole())
        held = _held(seen)
        error, name = float(self.compute()), spaced(type(self).__name__)
        return plot_calibration(seen, confidence / held, right / held, ax, score=error, norm=self.norm, name=name)


def _held(seen: Tensor) -> Tensor:
    """How much each bin has; 1 of an empty one, to divide by."""
    return torch.where(seen > 0, seen, 1.0)


class BinaryCalibrationError(CalibrationFormula):
    """How far the probabilities of yes are from the share of yes among their like, from 0 to 1; lower is better.

    Probabilities are counted in `n_bins` bins of equal width, each without its lower edge and with its upper one (the first has both), as in
    scikit-learn's `calibration_curve`. With b the share of a bin, c its mean probability and a its share of yes: `norm="l1"` is the sum of
    `b * abs(a - c)` (expected calibration error), `"l2"` the root of the sum of `b * (a - c)**2`, `"max"` the largest `abs(a - c)`.
    `preds` are probabilities or logits, `target` labels, of equal shape `(N, ...)`. NaN of no samples. Memory is three numbers a bin.
    Source: Naeini et al., AAAI 2015; Guo et al., ICML 2017 (arXiv:1706.04599); Kumar et al., 2019 (arXiv:1909.10155) for the norms.

    >>> from torch import tensor
    >>> BinaryCalibrationError(n_bins=2)(tensor([0.2, 0.3, 0.7, 0.9]), tensor([0, 1, 1, 1]))
    tensor(0.2250)
    """

    def __init__(
        self,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, n_bins=n_bins, norm=norm, ignore_index=ignore_index, from_logits=from_logits)
        scores = Scores(ignore=ignore_index, probabilities=True, logits=from_logits)
        super().__init__(CalibrationBins(scores, n_bins), validate_args=validate_args, **kwargs)


class MulticlassCalibrationError(CalibrationFormula):
    """How far the probabilities of the most probable classes are from the share of them that are right, from 0 to 1; lower is better.

    Bins and norms are those of `BinaryCalibrationError`; the confidence of a sample is the probability of its most probable class, and it is
    right if that is its target. `preds` are probabilities or logits `(N, C, ...)`, `target` labels `(N, ...)`. NaN of no samples.

    >>> from torch import tensor
    >>> MulticlassCalibrationError(num_classes=2, n_bins=2)(tensor([[0.8, 0.2], [0.3, 0.7], [0.4, 0.6]]), tensor([0, 1, 0]))
    tensor(0.0333)
    """

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, num_classes=num_classes, n_bins=n_bins, norm=norm, ignore_index=ignore_index, from_logits=from_logits)
        scores = Scores(num_classes, ignore_index, exclusive=True, probabilities=True, logits=from_logits)
        super().__init__(CalibrationBins(scores, n_bins), validate_args=validate_args, **kwargs)


class CalibrationError(ClassificationTask):
    """How far confidences are from the share of predictions that are right; see the class of each task.

    >>> from torch import tensor
    >>> CalibrationError(task="binary", n_bins=2)(tensor([0.2, 0.3, 0.7, 0.9]), tensor([0, 1, 1, 1]))
    tensor(0.2250)
    """

    tasks = {"binary": BinaryCalibrationError, "multiclass": MulticlassCalibrationError}

    @chooses
    def __new__(
        cls,
        task: TwoTasks,
        n_bins: int = 15,
        norm: str = "l1",
        num_classes: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[WeighableOptions],
    ) -> Any: ...
