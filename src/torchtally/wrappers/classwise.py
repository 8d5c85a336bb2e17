"""Values per class under the names of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..classification.naming import by_class
from ..collection import MetricCollection
from ..options import affix_of
from ..pending import finished
from .abstract import WrapperMetric, checked_metric


class ClasswiseWrapper(WrapperMetric):
    """A metric's values per class as a dict: `{"multiclassaccuracy_cat": …, "multiclassaccuracy_dog": …}`.

    `metric` gives a vector, as metrics with `average=None` do, or a curve or an operating point for each class; of a collection, each member
    does. `labels` name its elements (by default 0, 1, …, or the names that the metric itself was made with); `prefix` and `postfix` go around
    them, in place of the name of the metric's class. Equal labels raise ValueError at once, a number of them other than that of the values when
    results are read.

    >>> from torch import tensor
    >>> from torchtally.classification import MulticlassRecall
    >>> from torchtally.wrappers import ClasswiseWrapper
    >>> metric = ClasswiseWrapper(MulticlassRecall(num_classes=2, average=None), labels=["cat", "dog"])
    >>> metric.update(tensor([0, 1, 0]), tensor([0, 1, 1]))
    >>> metric.compute()
    {'multiclassrecall_cat': tensor(1.), 'multiclassrecall_dog': tensor(0.5000)}
    """

    def __init__(self, metric: Any, labels: Sequence[str] | None = None, prefix: str | None = None, postfix: str | None = None) -> None:
        super().__init__()
        self.metric = checked_metric("ClasswiseWrapper", "metric", metric)
        if labels is not None and not (isinstance(labels, list | tuple) and all(isinstance(x, str) for x in labels)):
            raise ValueError(f"ClasswiseWrapper: labels is {labels!r}; expected a list of strings, or None.")
        if labels is not None and len(set(labels)) < len(labels):
            raise ValueError(f"ClasswiseWrapper: labels is {labels!r}; expected names that differ, one for each value.")
        self.labels = labels
        self._prefix = affix_of("ClasswiseWrapper", "prefix", prefix)
        self._postfix = affix_of("ClasswiseWrapper", "postfix", postfix)
        self._hold()

    def plot(self, val: Any = None, ax: Any = None, *, labels: Sequence[str] | None = None) -> tuple[Any, Any]:  # type: ignore[override]  # no other options
        """Draw the values, or `val`, under the names of the classes."""
        from ..plotting.wrappers import plot_classwise

        return plot_classwise(self, val, ax, labels)

    def _value(self, values: list[Any]) -> dict[str, Any]:
        value = finished(values[0])
        if not isinstance(self.metric, MetricCollection):
            return self._by_class(value, f"{type(self.metric).__name__.lower()}_")
        return {k: x for name, inner in self._members(value).items() for k, x in self._by_class(inner, f"{name}_", collected=True).items()}

    def _members(self, value: dict[str, Any]) -> dict[str, Any]:
        """The value of each member of a collection, which spreads out those that name their classes themselves."""
        found = dict(value)
        for member, m in self.metric._modules.items():
            if getattr(m, "_names_values", False):
                places = {self.metric._name(f"{member}_{label}"): label for label in m.labels}
                if places.keys() <= found.keys():
                    found[self.metric._name(member)] = {label: found.pop(place) for place, label in places.items()}
        return found

    def _by_class(self, value: Any, name: str, collected: bool = False) -> dict[str, Any]:
        single = isinstance(value, tuple) and len(value) != 2 and isinstance(value[0], Tensor) and value[0].ndim < 2  # one curve
        if single or not (value.ndim if isinstance(value, Tensor) else isinstance(value, dict | tuple)):
            told = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise ValueError(
                f"ClasswiseWrapper: the metric's value is {told}; expected one value a class. Pass average=None to the metric."
            )
        each = list(value.values()) if isinstance(value, dict) else by_class(value)
        own = list(value) if isinstance(value, dict) else [str(i) for i in range(len(each))]
        labels = own if self.labels is None else self.labels
        if len(labels) != len(each):
            raise ValueError(f"ClasswiseWrapper: {len(labels)} labels were given but the metric has {len(each)} values; expected as many.")
        before, after = self._prefix or "", self._postfix or ""
        if collected or not (before or after):
            before += name
        return {f"{before}{label}{after}": x for label, x in zip(labels, each)}
