"""Rates of yes/no decisions in each of several groups, and how equal they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

from ..formula import feeds
from ..options import Unpack, WeighableOptions
from ..statistics.class_counts import Counts
from ..statistics.groups import GroupCounts, GroupDecisions
from ..valid import Valid
from ..weighing import Weighable
from .options import checked


class GroupFormula(Weighable):
    """A dict of rates, from the counts of each group."""

    entries = ("preds", "target", "groups")
    higher_is_better: bool | None = None
    is_differentiable = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def _start(self, validate_args: bool, targeted: bool = True, **kwargs: Any) -> None:
        names = ("threshold", "ignore_index", "num_groups", "from_logits")
        threshold, ignore, groups, logits = (self.__dict__[n] for n in names)
        decisions = GroupDecisions(float(threshold), ignore, logits=logits, groups=groups, targeted=targeted)
        super().__init__(GroupCounts(decisions), validate_args=validate_args, **kwargs)


class BinaryGroupStatRates(GroupFormula):
    """Shares of true positives, false positives, true negatives and false negatives in each group.

    `preds` are labels, probabilities or logits, `target` labels, of equal shape `(N, ...)`; `groups` are integers from 0 to `num_groups - 1`,
    of that shape or one for each sample. The value is `{"group_0": (tp, fp, tn, fn) / all, ...}`, NaN for a group that does not occur.

    >>> from torch import tensor
    >>> BinaryGroupStatRates(num_groups=2)(tensor([1, 0, 1, 1]), tensor([1, 0, 0, 1]), tensor([0, 0, 1, 1]))
    {'group_0': tensor([0.5000, 0.0000, 0.5000, 0.0000]), 'group_1': tensor([0.5000, 0.5000, 0.0000, 0.0000])}
    """

    def __init__(
        self,
        num_groups: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, num_groups=num_groups, threshold=threshold, ignore_index=ignore_index, from_logits=from_logits)
        self._start(validate_args, **kwargs)

    def plot(self, val: Any = None, ax: Any = None, *, labels: Sequence[str] | None = None) -> tuple[Any, Any]:
        """Draw the shares of each group as parts of a whole; `labels` names the groups."""
        from ..plotting.counts import plot_counts

        rates = self.compute() if val is None else val
        rows = torch.stack(list(rates.values()))
        return plot_counts(rows, ax, labels=labels or list(rates), name=type(self).__name__, label="share of the group")

    @feeds
    def update(  # type: ignore[override]  # groups, too
        self, preds: Tensor, target: Tensor, groups: Tensor, weight: Tensor | None = None, *, valid: Valid = None
    ) -> None:
        self._weigh(weight, preds, target, groups, valid=valid)

    def value(self, c: Counts) -> dict[str, Tensor]:
        rates = torch.stack([c.tp, c.fp, c.tn, c.fn], 1) / c.seen[:, None]
        return {f"group_{i}": row for i, row in enumerate(rates.unbind())}


class BinaryFairness(GroupFormula):
    """The lowest rate of any group over the highest, from 0 to 1 where all are alike.

    `task="demographic_parity"` compares the shares of positive decisions, `"equal_opportunity"` the shares of positive targets that are found,
    `"all"` both. The value is `{"DP_low_high": ratio}` and `{"EO_low_high": ratio}`, named after the groups with the lowest and the highest
    rate; since the names, torchmetrics' too, depend on the data, `compute`, `forward` and `fetch` wait for the device, and only `update` does not.
    A group without a rate is in no comparison; NaN where the highest rate is 0, or there is none. Inputs are those of `BinaryGroupStatRates`; for demographic parity `target` may be None.
    Source: Hardt et al., 2016 (arXiv:1610.02413).

    >>> from torch import tensor
    >>> BinaryFairness(num_groups=2)(tensor([1, 0, 1, 1]), tensor([1, 0, 0, 1]), tensor([0, 0, 1, 1]))
    {'DP_0_1': tensor(0.5000), 'EO_0_0': tensor(1.)}
    """

    higher_is_better = True

    def __init__(
        self,
        num_groups: int,
        task: str = "all",
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[WeighableOptions],
    ) -> None:
        checked(self, num_groups=num_groups, threshold=threshold, ignore_index=ignore_index, from_logits=from_logits)
        checked(self, task=task)
        self._start(validate_args, task != "demographic_parity", **kwargs)

    task: str

    @feeds
    def update(  # type: ignore[override]  # groups, too
        self, preds: Tensor, target: Tensor | None, groups: Tensor, weight: Tensor | None = None, *, valid: Valid = None
    ) -> None:
        self._weigh(weight, preds, target, groups, valid=valid)

    def value(self, c: Counts) -> dict[str, Tensor]:
        rates = {"DP": c.predicted / c.seen, "EO": c.tp / c.actual}
        wanted = {"demographic_parity": ("DP",), "equal_opportunity": ("EO",), "all": ("DP", "EO")}[self.task]
        ends = {name: _ends(rates[name]) for name in wanted}
        groups = torch.stack([x for _, *pair in ends.values() for x in pair]).tolist()  # read together
        return {f"{n}_{groups[2 * k]}_{groups[2 * k + 1]}": ratio for k, (n, (ratio, _, _)) in enumerate(ends.items())}


def _ends(rates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lowest over highest rate, and the groups that have them; NaN is no rate."""
    low, high = rates.nan_to_num(nan=inf), rates.nan_to_num(nan=-inf)
    return low.amin() / high.amax(), low.argmin(), high.argmax()
