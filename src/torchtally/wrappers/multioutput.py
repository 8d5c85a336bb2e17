"""A metric for each of several outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..apart import Call, update_all
from ..ledger import Ledger
from ..options import count_of, flag_of
from ..pending import finished
from ..statistic import Slots, host_visible
from ..valid import rows_of
from .abstract import WrapperMetric, checked_metric, given_to
from .by_rows import ByRow, by_row, rows_in


class MultioutputWrapper(WrapperMetric):
    """One copy of a metric for each slice of the inputs along `output_dim`; the value is theirs, stacked.

    Without `squeeze_outputs` slices keep that dimension, of size 1. With `remove_nans` rows in which an input of that output is NaN do not count;
    nothing waits to know which these are, but of metrics that keep samples (ranks, exact curves), of users' own and of collections `update` adds such
    a batch in the background, and `forward` waits. Of a collection, the value is a dict of stacks.

    >>> from torch import tensor
    >>> from torchtally import MeanSquaredError
    >>> from torchtally.wrappers import MultioutputWrapper
    >>> metric = MultioutputWrapper(MeanSquaredError(), num_outputs=2)
    >>> metric.update(tensor([[1.0, 2.0], [3.0, float("nan")]]), tensor([[1.0, 4.0], [1.0, 0.0]]))
    >>> metric.compute()
    tensor([2., 4.])
    """

    is_differentiable = False

    def __init__(
        self, base_metric: Any, num_outputs: int, output_dim: int = -1, remove_nans: bool = True, squeeze_outputs: bool = True
    ) -> None:
        super().__init__()
        checked_metric("MultioutputWrapper", "base_metric", base_metric)
        count_of("MultioutputWrapper", "num_outputs", num_outputs)
        self.metrics = nn.ModuleList([base_metric.clone() for _ in range(num_outputs)])
        self.__dict__["by_rows"] = ByRow(base_metric) if by_row(base_metric) else None
        self.output_dim = output_dim
        self.remove_nans = flag_of("MultioutputWrapper", "remove_nans", remove_nans)
        self.squeeze_outputs = flag_of("MultioutputWrapper", "squeeze_outputs", squeeze_outputs)
        self._hold()

    by_rows: ByRow | None
    """What adds the rows that are whole, without knowing which they are, if that can be."""

    def _parts(self) -> list[Any]:
        return list(self.metrics)

    def _calls(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Call]:
        return [
            given_to(m, tuple(self._slice(x, i) for x in args), {k: self._slice(x, i) for k, x in kwargs.items()})
            for i, m in enumerate(self.metrics)
        ]

    def _slice(self, x: Any, i: int) -> Any:
        if not isinstance(x, Tensor) or not x.ndim:
            return x
        if x.shape[self.output_dim] != len(self.metrics):
            raise ValueError(
                f"MultioutputWrapper: an input has shape {tuple(x.shape)}; expected {len(self.metrics)} outputs along dimension {self.output_dim}."
            )
        return x.select(self.output_dim, i) if self.squeeze_outputs else x.narrow(self.output_dim, i, 1)

    def _whole_rows(self, call: Call) -> Tensor | None:
        """Which rows of an output have no NaN; None where there can be none."""
        _, positional, given = call
        found = None
        for x in (*positional, *given.values()):
            if isinstance(x, Tensor) and x.is_floating_point() and x.ndim:
                rows = ~x.isnan().flatten(1).any(1) if x.ndim > 1 else ~x.isnan()
                found = rows if found is None else found & rows
        return found

    def _kept(self, call: Call, valid: Any) -> Any:
        """Which rows of an output to add; None for all of them."""
        return _both(self._whole_rows(call) if self.remove_nans else None, valid)

    def _among(self, calls: list[Call], valid: Any = None) -> list[tuple[Any, Tensor, list[Tensor]]] | None:
        """Of each metric the rows to add of a batch, if only a device knows them and rows can be added each alone."""
        if self.by_rows is None:
            return None
        found = []
        for call in calls:
            m, positional, given = call
            keep = self._kept(call, valid)
            batch = list(m._batch_of(positional, given))
            if not isinstance(keep, Tensor) or host_visible(keep) or rows_in([keep, *batch]) is None:
                return None
            m._taken(tuple(x[:0] for x in batch))  # refuses what can be refused now
            found.append((m, keep, batch))
        return found

    def _add_among(self, ledger: Ledger, keep: Tensor, batch: list[Tensor]) -> None:
        """Add the rows that are kept."""
        assert self.by_rows is not None
        ledger.meet()
        one = [Slots(None, ledger.clock) for _ in ledger.parts]
        for part, into, slots in zip(ledger.parts, one, ledger.views()):
            for name in part.slots():
                setattr(into, name, getattr(slots, name)[None])
        self.by_rows.add(one, 1, keep.logical_not().long(), batch, ledger.clock)
        ledger.tick()

    def _update_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        valid = kwargs.pop("valid", None)
        whole = self._calls(args, kwargs)
        among = self._among(whole, valid)
        if among is not None:
            for m, among_these, batch in among:
                self._add_among(m.ledger, among_these, batch)
            return
        calls: list[Call] = []
        later = []
        for call in whole:
            m, positional, given = call
            keep = self._kept(call, valid)
            values = [*positional, *given.values()]
            found = values if keep is None else rows_of(keep, values, "MultioutputWrapper")
            if isinstance(found, list):
                calls.append((m, tuple(found[: len(positional)]), dict(zip(given, found[len(positional) :]))))
            else:
                later.append((m, positional, {**given, "valid": found}))
        if calls:
            update_all(calls)
        for m, positional, given in later:
            m.update(*positional, **given)

    def _forward_here(self, calls: list[Call]) -> Any:
        among = self._among(calls)
        if among is not None:
            shares = [(m, m.ledger.scratch(), keep, batch) for m, keep, batch in among]
            for m, share, keep, batch in shares:
                self._add_among(share, keep, batch)
                m.ledger.absorb(share, 1)
            value = self.__dict__["_forward_cache"] = self._value([m._value_of(share) for m, share, _, _ in shares])
            return value
        return super()._forward_here([self._without_nan(call) for call in calls] if self.remove_nans else calls)

    def _without_nan(self, call: Call) -> Call:
        m, positional, given = call
        keep = self._whole_rows(call)
        if keep is None:
            return call
        found = rows_of(keep.cpu(), [*positional, *given.values()], "MultioutputWrapper")
        assert isinstance(found, list)
        return m, tuple(found[: len(positional)]), dict(zip(given, found[len(positional) :]))

    def _value(self, values: list[Any]) -> Any:
        return stacked(finished(values))


def _both(keep: Tensor | None, valid: Any) -> Any:
    """Rows that are whole and count."""
    if keep is None or valid is None:
        return valid if keep is None else keep
    if isinstance(valid, int) or (isinstance(valid, Tensor) and not valid.ndim):
        return keep & (torch.arange(len(keep), device=keep.device) < valid)
    return keep & torch.as_tensor(valid, device=keep.device)


def stacked(values: list[Any]) -> Any:
    """Values of one form with a new first dimension; a list of them where their forms or shapes differ."""
    first = values[0]
    if isinstance(first, dict):
        alike = all(isinstance(v, dict) and v.keys() == first.keys() for v in values)
        return {k: stacked([v[k] for v in values]) for k in first} if alike else list(values)
    if isinstance(first, tuple):
        return tuple(stacked([v[k] for v in values]) for k in range(len(first)))
    if isinstance(first, list):
        return list(values)
    tensors = [x if isinstance(x, Tensor) else torch.as_tensor(x) for x in values]
    return torch.stack(tensors) if all(x.shape == tensors[0].shape for x in tensors) else tensors
