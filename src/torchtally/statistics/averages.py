"""Weighted sums of numbers, and what to do about NaN among them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import fsum, nan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..faults import Fault, FaultError, FaultWarning, note
from ..statistic import Input, Number, Piece, Slot, Slots, Statistic, host_visible, may_wait, recorded

if TYPE_CHECKING:
    from ..ledger import Ledger

SMALL = 4096
"""Device batches of up to this many elements wait as copies."""

COMPACT = 1024
"""Host numbers that are kept before they are summed, exactly rounded, into one."""

_ADVICE = "Pass nan_strategy='ignore' to leave NaN out silently, or a number to count it as that."


def nan_strategy_of(strategy: Any, name: str) -> str | float:
    """A checked `nan_strategy`."""
    if isinstance(strategy, int | float) and not isinstance(strategy, bool):
        return float(strategy)
    if strategy not in ("error", "warn", "ignore", "disable"):
        raise ValueError(f"{name}: nan_strategy is {strategy!r}; expected 'error', 'warn', 'ignore', 'disable' or a number.")
    return str(strategy)


def nan_on_host(strategy: str | float) -> float | None:
    """Raise or warn as asked; returns what NaN counts as, None to leave it out."""
    if strategy == "error":
        raise FaultError(f"NaN among the values; expected numbers. {_ADVICE}")
    if strategy == "warn":
        warnings.warn(f"NaN among the values was left out. {_ADVICE}", FaultWarning, stacklevel=5)
    return strategy if isinstance(strategy, float) else None


def given(value: Any) -> Any:
    """A number or a tensor, also from a list or an array of numbers."""
    if isinstance(value, (Tensor, int, float)):  # Dynamo of torch 2.6 takes no unions
        return value
    try:
        return torch.tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"value is {value!r}; expected a number, a tensor or a list of numbers.") from None


@dataclass(frozen=True)
class NanRule(Input):
    """Numbers without NaN: left out, counted as a number, or a fault."""

    nan: str | float = "warn"

    host_values: ClassVar[bool] = True

    def slots(self) -> dict[str, Slot]:
        return {"bad": Slot(), "first_bad": Slot(combine="min")} if self.nan in ("error", "warn") else {}

    def faults(self, slots: Slots) -> list[Fault]:
        if self.nan not in ("error", "warn"):
            return []
        return [Fault(slots.bad, slots.first_bad, "NaN", _ADVICE, fatal=self.nan == "error")]

    def found(self, slots: Slots, bad: Tensor, first: Any) -> None:
        """Count NaN that was found on a device; row i of `bad` came with update `first + i`."""
        if self.nan in ("error", "warn"):
            note(slots, bad, first)


@dataclass(frozen=True)
class Weighed(NanRule):
    """Values with weights.

    The normal form is two Python numbers, sum of products and sum of weights, or three device operands: values, their weights (or the
    one weight of all), and the mask of values to leave out where the weights do not already do so.
    """

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece]:
        value = given(batch[0])
        weight = given(batch[1]) if len(batch) == 2 and batch[1] is not None else 1.0
        if not isinstance(value, Tensor):
            if torch.compiler.is_compiling() or (isinstance(weight, Tensor) and not host_visible(weight)):
                like = weight if isinstance(weight, Tensor) else torch.empty(())
                return None, (torch.full_like(like, value, dtype=torch.float64), weight)
            if isinstance(weight, Tensor):
                value = torch.tensor(value, dtype=torch.float64)
        if not isinstance(value, Tensor):
            return None, self._number(float(value), float(weight))
        if host_visible(value) and (not isinstance(weight, Tensor) or host_visible(weight)):
            return None, self._on_host(value, weight)
        if isinstance(weight, Tensor) and weight.numel() == 1 and host_visible(weight):
            weight = float(weight.item())
        if isinstance(weight, Tensor):
            if value.numel() == 1 and host_visible(value):
                value = torch.full_like(weight, value.item(), dtype=torch.float64)
            value, weight = _broadcast(value, weight)
        if (self.nan == "disable" and value.numel() == 1) or value.numel() > SMALL or not may_wait(value):
            return None, (value, weight)
        if not isinstance(weight, Tensor):
            return (value.shape, value.dtype, weight), (value.clone(), weight)
        return (value.shape, value.dtype, weight.dtype), (value.clone(), weight.clone())

    def _number(self, value: float, weight: float) -> tuple[float, float]:
        if (value != value or weight != weight) and self.nan != "disable":
            kept = nan_on_host(self.nan)
            if kept is None or weight != weight:
                return 0.0, 0.0
            value = kept
        return value * weight, weight

    def _on_host(self, value: Tensor, weight: Any) -> tuple[float, float]:
        if value.numel() == 1 and not isinstance(weight, Tensor):
            return self._number(float(value.item()), float(weight))
        w: Any = weight
        if isinstance(weight, Tensor):
            value, weight = _broadcast(value, weight)
            w = _array(weight).ravel()
        v = _array(value).ravel()
        total, mass = weighed(v, w)
        if (total - total == 0.0 and mass - mass == 0.0) or self.nan == "disable":  # finite: there is no NaN anywhere
            return total, mass
        w = np.broadcast_to(w, v.shape)
        missing, unweighed = np.isnan(v), np.isnan(w)
        if not missing.any() and not unweighed.any():
            return total, mass
        kept = nan_on_host(self.nan)
        # An imputed value keeps its weight; what has a NaN weight is left out.
        live = ~unweighed if kept is not None else ~(missing | unweighed)
        return weighed(np.where(missing, nan if kept is None else kept, v)[live], w[live])

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        value, weight = pieces[0]
        if not isinstance(value, Tensor):
            return value, weight
        if len(pieces) > 1:
            value = torch.stack([p[0] for p in pieces])
            weight = torch.stack([p[1] for p in pieces]) if isinstance(weight, Tensor) else weight
        else:
            value, weight = value[None], weight[None] if isinstance(weight, Tensor) else weight
        return self.clean(slots, value, weight, first)

    def clean(self, slots: Slots, value: Tensor, weight: Any, first: Any) -> Piece:
        """Device operands without NaN; row i of them came with update `first + i`."""
        if self.nan == "disable" or not (value.is_floating_point() or isinstance(weight, Tensor)):
            return value, weight, None
        bad = value.isnan()
        value = value.masked_fill(bad, self.nan if isinstance(self.nan, float) else 0.0)
        if isinstance(weight, Tensor):
            unweighed = weight.isnan()
            either = bad | unweighed
            self.found(slots, either, first)
            return value, weight.masked_fill(unweighed if isinstance(self.nan, float) else either, 0.0), None
        self.found(slots, bad, first)
        return value, weight, None if isinstance(self.nan, float) else bad


def _broadcast(value: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    if value.device != weight.device:
        raise ValueError(f"value is on {value.device} but weight is on {weight.device}; move one of them, or pass a single number.")
    try:
        value, weight = torch.broadcast_tensors(value, weight)
    except RuntimeError:
        shapes = f"weight has shape {tuple(weight.shape)} but value has {tuple(value.shape)}"
        raise ValueError(f"{shapes}; expected shapes that broadcast. In a collection .bind(value='loss') names the entry to take.") from None
    return value, weight


@dataclass(frozen=True)
class Average(Statistic):
    """Weighted sum of the elements, and the sum of the weights."""

    nan: str | float = "warn"

    @property
    def input(self) -> Weighed:  # type: ignore[override]  # a class attribute elsewhere; here it follows from `nan`
        return Weighed(self.nan)

    def slots(self) -> dict[str, Slot]:
        return {"total": Slot(dtype=torch.float64), "weight": Slot(dtype=torch.float64)}

    def lane(self) -> list[list[float]]:
        return [[], [], []]  # values of weight 1, products, weights

    def drain(self, host: list[list[float]]) -> dict[str, Number]:
        values, products, weights = host
        if not values and not products:
            return {}
        drained: dict[str, Number] = {"total": _fsum(values + products), "weight": _fsum([len(values), *weights])}
        for numbers in host:
            numbers.clear()
        return drained

    def update(self, slots: Slots, *normal: Any) -> None:
        value, weight = normal[:2]
        if not isinstance(value, Tensor):
            _put(slots.host, value, weight)
            return
        left_out = normal[2]
        if isinstance(weight, Tensor):
            slots.total.add_((value.double() * weight).sum())
            slots.weight.add_(weight.sum(dtype=torch.float64))
            return
        slots.total.add_(value.reshape(()) if value.numel() == 1 else value.sum(dtype=torch.float64), alpha=weight)
        if left_out is not None:
            slots.weight.add_(left_out.sum(), alpha=-weight)
        if recorded(value):
            slots.weight.add_(value.numel() * weight)
        else:
            _put(slots.host, 0.0, value.numel() * weight)


def _put(host: list[list[float]], product: float, weight: float) -> None:
    host[1].append(product)
    host[2].append(weight)
    if len(host[1]) >= COMPACT:
        compact(host)


def compact(host: list[list[float]]) -> None:
    """Sum a lane's numbers, exactly rounded, into one of each, and another for what rounding left."""
    values, products, weights = host
    products[:] = _rounded(values + products)
    weights[:] = _rounded([len(values), *weights])
    values.clear()


def _rounded(numbers: list[float]) -> list[float]:
    total = _fsum(numbers)
    return [total, _fsum([*numbers, -total])] if total - total == 0.0 else [total]


def read_scalars(strategy: str | float, values: list[Any], eager: bool) -> tuple[Sequence[float | None], list[int]]:
    """Values of weight 1 as Python numbers, None where one is left out; and the places of those that only a device knows.

    Raises before anything is written. Entries of the list at those places have no meaning. Lists and arrays among `values` are replaced by
    tensors. `eager`: not traced.
    """
    if len(values) == 1:
        x = values[0]
        if type(x) is Tensor and eager and x.is_cpu and x.numel() == 1:
            x = x.item()
        if type(x) is float and x == x:
            return (x,), []
        return _read_mixed(strategy, values, eager)
    kinds = set(map(type, values))
    if kinds == {float}:
        numbers = values
    elif kinds == {Tensor} and eager and all([x.is_cpu for x in values]) and all([x.numel() == 1 for x in values]):
        numbers = [x.item() for x in values]
    else:
        return _read_mixed(strategy, values, eager)
    total = sum(numbers)
    if total == total or strategy == "disable":  # not NaN: none of them is
        return numbers, []
    return [nan_on_host(strategy) if x != x else x for x in numbers], []


def _read_mixed(strategy: str | float, values: list[Any], eager: bool) -> tuple[list[float | None], list[int]]:
    numbers: list[float | None] = []
    rest: list[int] = []
    for place, x in enumerate(values):
        x = values[place] = given(x)
        if isinstance(x, Tensor):
            if not (eager and type(x) is Tensor and x.is_cpu and x.numel() == 1):
                rest.append(place)
                numbers.append(None)
                continue
            x = x.item()
        x = float(x)
        numbers.append(nan_on_host(strategy) if x != x and strategy != "disable" else x)
    return numbers, rest


def add_scalars(ledger: Ledger, indices: Sequence[int], numbers: Sequence[float | None]) -> None:
    """Add one number of weight 1 to each of several averages: no tensor is touched."""
    lanes = ledger.lanes
    for i, x in zip(indices, numbers):
        if x is not None:
            lanes[i][0].append(x)
    for i in indices[:1]:
        if len(lanes[i][0]) >= COMPACT:
            for k in indices:
                compact(lanes[k])


@dataclass(frozen=True)
class ScalarRows:
    """Device scalars of several averages of weight 1, stacked once per update and settled many rows at a time."""

    strategy: str | float
    indices: tuple[int, ...]

    def settle(self, ledger: Ledger, pieces: list[Piece], first: int) -> None:
        rows = torch.stack([p[0] for p in pieces])  # (updates, averages)
        views, count = ledger.views(), len(rows)
        left_out = None
        if self.strategy != "disable" and rows.is_floating_point():
            bad = rows.isnan()
            rows = rows.masked_fill(bad, self.strategy if isinstance(self.strategy, float) else 0.0)
            left_out = None if isinstance(self.strategy, float) else bad.sum(0)
            if self.strategy in ("error", "warn"):
                parts = [len(ledger.keys) + ledger.input_of(i) for i in self.indices]
                updates = torch.arange(count, device=rows.device).add_(first)[:, None]
                earliest = updates.masked_fill(~bad, torch.iinfo(torch.int64).max).amin(0)
                _scatter(ledger, parts, "bad", bad.sum(0), torch.Tensor.add_)
                _scatter(ledger, parts, "first_bad", earliest, lambda into, x: torch.minimum(into, x, out=into))
        _scatter(ledger, self.indices, "total", rows.sum(0, dtype=torch.float64), torch.Tensor.add_)
        if left_out is not None:
            _scatter(ledger, self.indices, "weight", left_out, torch.Tensor.sub_)
        for i in self.indices:
            _put(views[i].host, 0.0, float(count))


def _scatter(ledger: Ledger, parts: Sequence[int], name: str, values: Tensor, put: Any) -> None:
    """Combine one value with the same scalar slot of each of several parts: in one operator where they are neighbours."""
    column = ledger.column(parts, name)
    if column is not None:
        put(column, values)
        return
    views = ledger.views()
    for part, x in zip(parts, values.unbind()):
        put(getattr(views[part], name), x)


def _fsum(numbers: list[float]) -> float:
    """Exactly rounded; where infinities or NaN are among them, what plain addition gives."""
    try:
        return fsum(numbers)
    except (OverflowError, ValueError):
        return sum(numbers)


def _array(x: Tensor) -> np.ndarray:
    return (x.float() if x.dtype in (torch.bfloat16, torch.float16) else x).numpy()


def weighed(v: np.ndarray, w: Any) -> tuple[float, float]:
    """Sum of products and sum of weights, in float64, in blocks so that no large copy is made."""
    with np.errstate(all="ignore"):
        if not isinstance(w, np.ndarray):
            return float(v.sum(dtype=np.float64)) * w, v.size * float(w)
        if v.dtype == w.dtype == np.float64:
            return float(np.dot(v, w)), float(w.sum())
        total = 0.0
        for i in range(0, v.size, 1 << 15):
            total += float(np.dot(v[i : i + (1 << 15)].astype(np.float64), w[i : i + (1 << 15)].astype(np.float64)))
        return total, float(w.sum(dtype=np.float64))
