"""Hinge loss, of support vector machines."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..options import Unpack, WeighableOptions
from ..statistics.curves import Scores
from ..statistics.hinge import HingeSums
from ..weighing import Weighable
from .options import checked
from .tasks import ClassificationTask, TwoTasks, chooses


class HingeFormula(Weighable):
    """The mean of how far margins fall short of 1."""

    higher_is_better = False
    is_differentiable = True
    plot_lower_bound = 0.0

    def value(self, sums: Any) -> Tensor:
        mean: Tensor = sums.total / sums.count
        return mean[0] if isinstance(self, BinaryHingeLoss) else mean


class BinaryHingeLoss(HingeFormula):
    """Mean of `max(0, 1 - y * p)`, where y is 1 for yes and -1 for no; of its square if `squared`; lower is better.

    `preds` are scores, `target` labels, of equal shape `(N, ...)`. As in torchmetrics, logits are turned into probabilities, batch by batch if
    one lies outside [0, 1], all with `from_logits=True`. With `from_logits=False` scores are margins of any size, taken as they are, as in
    scikit-learn's `hinge_loss`. The value is a scalar, NaN of no samples; gradients flow to it.

    >>> from torch import tensor
    >>> BinaryHingeLoss(from_logits=False)(tensor([-2.0, 0.5, 3.0]), tensor([0, 0, 1]))
    tensor(0.5000)
    """

    def __init__(
        self,
        squared: bool = False,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, squared=squared, ignore_index=ignore_index, from_logits=from_logits)
        super().__init__(HingeSums(margins(None, ignore_index, from_logits), squared), validate_args=validate_args, **kwargs)


class MulticlassHingeLoss(HingeFormula):
    """Mean of how far the score of the target is from being 1 above all others, or the hinge losses of each class against the rest.

    `multiclass_mode="crammer-singer"` gives the mean of `max(0, 1 - (p[y] - max of the others))`, a scalar (Crammer and Singer, JMLR 2001);
    `"one-vs-all"` the loss of `BinaryHingeLoss` for each class, `(C,)`. Squared if `squared`; lower is better. `preds` are scores
    `(N, C, ...)`, `target` labels `(N, ...)`; `from_logits` as in `BinaryHingeLoss`, with softmax. NaN of no samples; gradients flow.

    >>> from torch import tensor
    >>> MulticlassHingeLoss(num_classes=3, from_logits=False)(tensor([[2.0, 0.5, 0.0], [1.0, 1.5, 3.0]]), tensor([0, 1]))
    tensor(1.2500)
    """

    def __init__(
        self,
        num_classes: int,
        squared: bool = False,
        multiclass_mode: str = "crammer-singer",
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, num_classes=num_classes, squared=squared, ignore_index=ignore_index, from_logits=from_logits)
        checked(self, multiclass_mode=multiclass_mode)
        scores = margins(num_classes, ignore_index, from_logits)
        super().__init__(HingeSums(scores, squared, multiclass_mode == "crammer-singer"), validate_args=validate_args, **kwargs)


def margins(classes: int | None, ignore: int | None, from_logits: bool | None) -> Scores:
    """Scores as probabilities, or as they are where they are said not to be logits."""
    as_they_are = from_logits is False
    logits = None if as_they_are else from_logits
    return Scores(classes, ignore, classes is not None, probabilities=True, normalize=not as_they_are, logits=logits)


class HingeLoss(ClassificationTask):
    """Mean of how far margins fall short of 1; see the class of each task.

    >>> from torch import tensor
    >>> HingeLoss(task="binary", from_logits=False)(tensor([-2.0, 0.5, 3.0]), tensor([0, 0, 1]))
    tensor(0.5000)
    """

    tasks = {"binary": BinaryHingeLoss, "multiclass": MulticlassHingeLoss}

    @chooses
    def __new__(
        cls,
        task: TwoTasks,
        num_classes: int | None = None,
        squared: bool = False,
        multiclass_mode: str = "crammer-singer",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        from_logits: bool | None = None,
        **options: Unpack[WeighableOptions],
    ) -> Any: ...
