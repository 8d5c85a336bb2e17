"""Values over epochs, and the best of them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..collection import MetricCollection
from ..fetching import leaves_named, read_all
from ..interval_reading import paired
from ..pending import Pending, Unfinished
from ..saving import asked_alone, opened, saving_all
from ..together import Together, copy_over_ranks, reads_of
from .abstract import WrapperMetric, checked_metric
from .multioutput import stacked


class Steps(WrapperMetric):
    """The metrics of all steps as one: read over ranks, copied to the host and checked in one go."""

    def __init__(self, steps: Sequence[Any], reads: dict[str, Together]) -> None:
        super().__init__()
        self.__dict__["_reads"] = reads  # so that one that timed out goes on
        self.steps = nn.ModuleList(steps)

    def _parts(self) -> list[Any]:
        return list(self.steps)

    def _value(self, values: list[Any]) -> Any:
        return values if any(isinstance(x, Unfinished) for x in pytree.tree_leaves(values)) else stacked(values)


class MetricTracker(nn.ModuleList):
    """A metric or a collection over several steps, usually epochs: `increment` starts the next, `best_metric` finds the best.

    `maximize` says which way is better: one flag, or one for each metric of a collection; by default what each metric says of itself
    (`higher_is_better`), and ValueError where it does not. The tracker holds the metric of every step, so each can still be read, moved, saved
    and merged. Loading the states of a longer tracker makes the steps that are missing.

    >>> from torch import tensor
    >>> from torchtally import MetricTracker
    >>> from torchtally.classification import BinaryAccuracy
    >>> tracker = MetricTracker(BinaryAccuracy())
    >>> for preds in ([0, 1, 0], [1, 1, 0], [0, 0, 0]):
    ...     tracker.increment()
    ...     tracker.update(tensor(preds), tensor([1, 1, 0]))
    >>> tracker.best_metric(return_step=True)
    (1.0, 1)
    >>> tracker.compute_all()
    tensor([0.6667, 1.0000, 0.3333])
    """

    maximize: Any
    _read: tuple[list[int], dict[str, Together]]  # which metrics were read last, and their reads

    def __init__(self, metric: Any, maximize: bool | list[bool] | None = None) -> None:
        try:
            checked_metric("MetricTracker", "metric", metric)
        except ValueError as error:
            raise TypeError(str(error)) from None
        self.__dict__["_read"] = [], {}
        super().__init__([metric])  # before the steps, the empty metric they are copies of, as people know it
        self.maximize = _said(metric) if maximize is None else _checked(metric, maximize)

    # ---- steps
    @property
    def n_steps(self) -> int:
        """How many steps were started."""
        return len(self) - 1

    def increment(self) -> None:
        """Start the next step with an empty metric."""
        fresh = self._base.clone()
        fresh.reset()
        self.append(fresh)

    @property
    def _base(self) -> Any:
        return self[0]

    def _step(self, method: str) -> Any:
        if not self.n_steps:
            raise ValueError(f"MetricTracker.{method}: there is no step yet; call increment() before the first update of each step.")
        return self[-1]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch to this step."""
        self._step("update").update(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The value on this batch, which is added to this step."""
        return self._step("forward")(*args, **kwargs)

    def compute(self) -> Any:
        """The value of this step."""
        return self._step("compute").compute()

    def interval(self, *args: Any, **kwargs: Any) -> Any:
        """The confidence interval of the value of this step, as the metric gives it; see `Accuracy.interval`."""
        return self._step("interval").interval(*args, **kwargs)

    def fetch(self, reset: bool = False) -> Pending:
        """The value of this step as Python numbers, later; nothing waits."""
        found: Pending = self._step("fetch").fetch(reset)
        return found

    def reset(self) -> None:
        """Start this step afresh."""
        self._step("reset").reset()

    def reset_all(self) -> None:
        """Start every step afresh."""
        for m in self:
            m.reset()  # type: ignore[operator]  # a metric

    # ---- all steps
    def _as_one(self, steps: list[Any]) -> Steps:
        """Steps as one metric. Where the same were read before, a read that timed out goes on."""
        which = [id(m) for m in steps]
        if which != self._read[0]:
            self.__dict__["_read"] = which, {}
        return Steps(steps, self._read[1])

    def compute_all(self) -> Any:
        """The values of all steps, stacked: a tensor whose first dimension is the step, or a dict of them; a list where shapes differ."""
        self._step("compute_all")
        return self._as_one(list(self)[1:]).compute()

    def interval_all(self, level: float = 0.95, method: str = "wilson") -> Any:
        """Those of all steps, in one read: `(low, high)`, each as `compute_all` gives values; of a collection, a dict of such pairs."""
        self._step("interval_all")
        low, high = self._as_one(list(self)[1:]).interval(level, method)
        return paired(low, high) if isinstance(self._base, MetricCollection) else (low, high)

    def fetch_all(self) -> Pending:
        """The values of all steps on their way to the host, in one copy."""
        self._step("fetch_all")
        return self._as_one(list(self)[1:]).fetch()

    def best_metric(self, return_step: bool = False) -> Any:
        """The best value of all steps, and with `return_step` the step (from 0) it was first reached in; dicts of them for a collection.

        Steps without a value (NaN) are left out. None, with a warning, where values are no single numbers.
        """
        found = self.compute_all()
        best = _best_of(found, self._ways(found), type(self._base).__name__)
        return (_unzipped(best, 0), _unzipped(best, 1)) if return_step else _unzipped(best, 0)

    def _ways(self, found: Any) -> Any:
        """Which way is better: one flag, or one for each name of a value."""
        if not isinstance(found, dict) or not isinstance(self.maximize, list):
            return self.maximize
        if len(self.maximize) == len(found):
            return dict(zip(found, self.maximize))
        local = copy_over_ranks(self[-1], None)  # some members have several values: their names tell whose they are
        values = {n: m._later(None)()[0] for n, m in local._modules.items()}
        flags = {n: dict.fromkeys(value, way) if isinstance(value, dict) else way for way, (n, value) in zip(self.maximize, values.items())}
        return local._named(flags)

    def plot(self, val: Any = None, ax: Any = None, *, labels: Sequence[str] | None = None) -> tuple[Any, Any]:
        """Draw the values of all steps, or `val`: what `compute_all` gives, or a list of values, one for each step. The best is marked."""
        from ..plotting.wrappers import plot_tracker

        return plot_tracker(self, val, ax, labels)

    # ---- being a module
    def clone(self) -> Any:
        """A copy with the same totals and nothing shared."""
        return copy.deepcopy(self)

    def over_ranks(self) -> Any:
        """A copy with the totals of all ranks, which must all call. It is local from then on."""
        steps = self._as_one(list(self))
        return copy_over_ranks(self, read_all(steps, reads_of(steps, "copy"), leaves_named(steps)))

    def merge_state(self, other: Any) -> None:
        """Add what another tracker of the same metric has seen, step by step: the tracker, its `state_dict`, or a file of `torchtally.save`."""
        other = opened(other)
        if not isinstance(other, MetricTracker):
            states, other = other, self.clone()
            other.load_state_dict(states)
        while self.n_steps < other.n_steps:
            self.increment()
        for mine, theirs in zip(self, other):
            mine.merge_state(theirs)  # type: ignore[operator]  # a metric

    def state_dict(self, *args: Any, reduce: bool = False, **kwargs: Any) -> Any:
        """All states of all steps, when called on the tracker itself; what was made `persistent`, when called on a module that holds it.

        They are of this rank and nothing is communicated. With `reduce=True`, which all ranks must call, they are of all of them.
        """
        if reduce:
            return self.over_ranks().state_dict(*args, **kwargs)
        if not asked_alone(args, kwargs):
            return super().state_dict(*args, **kwargs)
        with saving_all():
            return super().state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Go on from saved states; steps that are missing are made, and those that the states do not have are dropped."""
        steps = max((int(p) for k in state_dict if (p := k.partition(".")[0]).isdigit()), default=0)
        while self.n_steps > steps:
            self.pop(-1)
        self._make(steps)
        return super().load_state_dict(state_dict, strict, assign)

    def _make(self, steps: int) -> None:
        while self.n_steps < steps:
            self.increment()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        places = [k[len(prefix) :].partition(".")[0] for k in state_dict if k.startswith(prefix)]
        self._make(max((int(p) for p in places if p.isdigit()), default=0))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def persistent(self, mode: bool = True) -> None:
        """Whether states appear in the `state_dict` of a module that holds the tracker (its own is always complete)."""
        for m in self:
            m.persistent(mode)  # type: ignore[operator]  # a metric

    def __repr__(self) -> str:
        lines = "".join(f"\n  ({n}): {m!r}".replace("\n", "\n  ") for n, m in enumerate(list(self)[1:]))
        return f"MetricTracker({type(self._base).__name__}, {self.n_steps} step{'s' if self.n_steps != 1 else ''}{lines})"


def _said(metric: Any) -> Any:
    """Which way metrics say is better."""
    if isinstance(metric, MetricCollection):
        return [_said_by(n, getattr(m, "higher_is_better", None)) for n, m in metric.items()]
    return _said_by(type(metric).__name__, metric.higher_is_better)


def _said_by(name: str, way: Any) -> Any:
    if way is None or (isinstance(way, dict) and None in way.values()):
        raise ValueError(f"MetricTracker: {name} does not say whether higher is better; pass maximize=True or maximize=False.")
    return way


def _checked(metric: Any, maximize: Any) -> Any:
    flags = isinstance(maximize, list) and all(isinstance(x, bool) for x in maximize)
    if not isinstance(maximize, bool) and not flags:
        raise ValueError(f"MetricTracker: maximize is {maximize!r}; expected True, False, or a list of them.")
    if flags and not isinstance(metric, MetricCollection):
        raise ValueError(f"MetricTracker: maximize is {maximize!r}; expected True or False for a single metric.")
    if flags and len(maximize) != len(metric):
        raise ValueError(
            f"MetricTracker: maximize has {len(maximize)} flags; expected {len(metric)}, one for each metric of the collection."
        )
    return maximize


def _best_of(found: Any, way: Any, name: str) -> Any:
    """The best value and its step; a dict of them for a dict."""
    if isinstance(found, dict):
        return {n: _best_of(x, way.get(n) if isinstance(way, dict) else way, n) for n, x in found.items()}
    if not isinstance(found, Tensor) or found.ndim != 1 or not isinstance(way, bool):
        warnings.warn(f"MetricTracker: {name} has no single best value; it is given as None.", UserWarning, stacklevel=4)
        return None, None
    host = found.double().cpu()
    steps = host.isnan().logical_not().nonzero().flatten()
    if not len(steps):
        return float("nan"), None
    there = host[steps]
    step = int(steps[there.argmax() if way else there.argmin()])
    return float(host[step]), step


def _unzipped(best: Any, part: int) -> Any:
    return {n: _unzipped(x, part) for n, x in best.items()} if isinstance(best, dict) else best[part]
