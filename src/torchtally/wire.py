"""What travels between ranks: collectives over a user's group, or over connections of our own."""

from __future__ import annotations

import datetime
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch import distributed as dist

FEW = 2
"""Up to so many ranks on hosts gather few numbers and add them up themselves: half as many steps as a reduction takes. Of more ranks, each would send more bytes than in one."""

_GATHER_SINGLE = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"


class Traffic:
    """How many collectives were called and how many bytes this rank gave to them."""

    def __init__(self) -> None:
        self.collectives = self.bytes = 0

    def add(self, x: Tensor) -> None:
        self.collectives += 1
        self.bytes += x.numel() * x.element_size()


_counters: list[Traffic] = []


@contextmanager
def counted() -> Iterator[Traffic]:
    """Counts the collectives of all reads within: `with counted() as traffic: tally.compute()`."""
    traffic = Traffic()
    _counters.append(traffic)
    try:
        yield traffic
    finally:
        _counters.remove(traffic)


class Wire:
    """Collectives over a user's group. Each returns at once with the work to wait for."""

    def __init__(self, group: Any, world: int, gloo: bool) -> None:
        self._group, self.world = weakref.ref(group), world  # weakly: a group that was destroyed must not live on in our table
        self.gloo = gloo  # carries host tensors
        self.refused = 0  # reads in which ranks differed

    def all_reduce(self, x: Tensor, how: str = "sum") -> Any:
        for traffic in _counters:
            traffic.add(x)
        return self._reduce(x, {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}[how])

    def total(self, x: Tensor) -> tuple[Tensor, Any]:
        """The sum of few numbers, or those of every rank, one a row, to be added up here: what few ranks on hosts have in half the steps."""
        if self.gloo and x.is_cpu and self.world <= FEW:
            return self.all_gather(x)
        return x, self.all_reduce(x)

    def all_gather(self, x: Tensor) -> tuple[Tensor, Any]:
        """The tensor of every rank, one a row."""
        for traffic in _counters:
            traffic.add(x)
        out = x.new_empty((self.world, *x.shape))
        return out, self._gather(out, x)

    def _reduce(self, x: Tensor, operator: Any) -> Any:
        return dist.all_reduce(x, operator, group=self._group(), async_op=True)

    def _gather(self, out: Tensor, x: Tensor) -> Any:
        if self.gloo and x.is_cpu:
            return getattr(dist, _GATHER_SINGLE)(out.view(-1), x.view(-1), group=self._group(), async_op=True)
        return dist.all_gather(list(out.unbind()), x, group=self._group(), async_op=True)


class PrivateWire(Wire):
    """Gloo connections of our own between the ranks of a group, so that a read in a thread meets no collective of the user.

    It carries host tensors whatever the group's backend is, and makes no stream of a device wait for another rank.
    """

    def __init__(self, store: Any, rank: int, world: int, timeout: datetime.timedelta) -> None:
        self.own: Any = dist.ProcessGroupGloo(store, rank, world, timeout)
        super().__init__(self.own, world, True)

    def _reduce(self, x: Tensor, operator: Any) -> Any:
        options = dist.AllreduceOptions()
        options.reduceOp = operator
        return self.own.allreduce([x], options)

    def _gather(self, out: Tensor, x: Tensor) -> Any:
        return self.own.allgather([list(out.unbind())], [x])
