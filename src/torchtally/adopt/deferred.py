"""Any metric, fed in blocks, so that between the blocks nothing of it runs and nothing waits."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..errors import TallyError

_STATES = ("metric_state", "update_count", "_update_count", "update_called")


@dataclass(frozen=True, slots=True)
class _Batch:
    """The arguments of one update, and the modes it was called under: they decide about dtypes and about the states it leaves."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    size: int
    inference: bool = field(default_factory=torch.is_inference_mode_enabled)
    autocast: tuple[tuple[str, torch.dtype], ...] = field(default_factory=lambda: _autocast())

    def joins(self, other: _Batch) -> bool:
        """Whether it has the form of another: the same but for the values of tensors and their first dimension."""
        if (self.inference, self.autocast) != (other.inference, other.autocast):
            return False
        mine, shape = tree_flatten((self.args, self.kwargs))
        theirs, other_shape = tree_flatten((other.args, other.kwargs))
        return shape == other_shape and all(map(_alike, mine, theirs)) and any(isinstance(x, Tensor) for x in mine)


def _autocast() -> tuple[tuple[str, torch.dtype], ...]:
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in ("cuda", "cpu") if torch.is_autocast_enabled(kind))


class Deferred(nn.Module):
    """A metric whose updates run every `every` steps and whenever its value, its state or itself is asked for; values are those of the metric.

    `metric` is anything with `update` and `compute`: a metric or collection of torchmetrics or torchtally, or a user's own. `update` copies the
    tensors (and arrays) it is given, without gradients and on their device, and returns; the caller may overwrite them. After `every` of them, or
    when the copies exceed `max_bytes`, the metric is fed with all. An error of the metric therefore comes up to `every` steps late; the batch it is
    about is dropped, the others are kept.

    Fed one by one, the updates of a block wait as often as ever: the queue of the device is drained once in a block, but stays empty until the block is
    done, so that little is gained. With `concatenate=True` a block is one update, with the batches joined along their first dimension (numbers are
    stacked), and costs what one step did. Ask for it where an update with a larger batch means the same as several updates, as it does for sums,
    means, extremes, counts and everything kept sample by sample; not where a batch is a unit of its own (a whole image set, a query, a running window).
    Defer a collection rather than each of its members: batches are copied once.

    `forward` returns the value on the batch, so it feeds the metric at once and costs what the metric's own costs: call `update` in a hot loop.
    `reset` drops what waits. Attributes are the metric's; methods among them are given after feeding. Copying, pickling, moving and saving feed first.

    >>> from torchmetrics import MeanMetric
    >>> loss = Deferred(MeanMetric(), every=100)
    >>> for value in torch.arange(5.0):
    ...     loss.update(value)
    >>> loss.pending, loss.compute()
    (5, tensor(2.))
    """

    _defaults: Mapping[str, Any] = {}  # torchmetrics' collections share states by assigning them, which would miss the metric

    def __init__(self, metric: Any, every: int = 16, max_bytes: int = 256 * 2**20, concatenate: bool = False) -> None:
        super().__init__()
        for name in ("update", "compute"):
            if not callable(getattr(metric, name, None)):
                raise TallyError(f"Deferred: {type(metric).__name__} has no {name}(); expected a metric or a collection of metrics.")
        for name, number in (("every", every), ("max_bytes", max_bytes)):
            if not isinstance(number, int) or number < 1:
                raise TallyError(f"Deferred: {name} is {number!r}; expected a whole number of at least 1.")
        self.metric = metric
        self.every = every
        self.max_bytes = max_bytes
        self.concatenate = concatenate
        self._waiting: deque[_Batch] = deque()
        self.pending_bytes = 0
        _register()

    # ---- what a metric does
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Keep a copy of a batch; feed the metric when it is time."""
        memo: dict[int, Any] = {}
        with torch.no_grad():
            kept = tuple([_copied(x, memo) for x in args])
            named = {name: _copied(x, memo) for name, x in kwargs.items()}
        size = sum(_size(x) for x in memo.values())
        self._waiting.append(_Batch(kept, named, size))
        self.__dict__["pending_bytes"] += size  # nn.Module's own way of setting costs a microsecond
        if len(self._waiting) >= self.every or self.pending_bytes > self.max_bytes:
            self.flush()

    def flush(self) -> None:
        """Feed the metric with all that waits."""
        waiting = self._waiting
        while waiting:
            behind = len(waiting)
            block = [waiting.popleft()]
            while self.concatenate and waiting and waiting[0].joins(block[0]):
                block.append(waiting.popleft())
            self.__dict__["pending_bytes"] -= sum(batch.size for batch in block)
            args, kwargs = (block[0].args, block[0].kwargs) if len(block) == 1 else _joined(block)
            try:
                with _modes(block[0]):
                    self.metric.update(*args, **kwargs)
            except Exception as error:
                if hasattr(error, "add_note"):  # Python 3.11
                    which = "an update" if len(block) == 1 else f"{len(block)} updates, the first"
                    error.add_note(f"Deferred: raised by {which} of {behind} steps ago; what it was given was dropped.")
                raise

    def compute(self) -> Any:
        """The metric's value over all batches."""
        self.flush()
        return self.metric.compute()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The metric's value on this batch, which is also accumulated. Not deferred."""
        self.flush()
        return self.metric(*args, **kwargs)

    def reset(self) -> None:
        """Forget everything, also what waits."""
        self._waiting.clear()
        self.pending_bytes = 0
        self.metric.reset()

    @property
    def pending(self) -> int:
        """How many batches wait."""
        return len(self._waiting)

    def clone(self) -> Deferred:
        """A copy with the same totals and nothing shared."""
        self.flush()
        metric = self.metric.clone() if hasattr(self.metric, "clone") else copy.deepcopy(self.metric)
        return Deferred(metric, self.every, self.max_bytes, self.concatenate)

    # ---- what a module does
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self.flush()
        if not isinstance(self.metric, nn.Module) and callable(move := getattr(self.metric, "to", None)):
            self.metric = move(fn(torch.empty(0)).device)  # torcheval's metrics are no modules
        return super()._apply(fn, recurse)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        self.flush()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.flush()  # what is not loaded keeps what it has seen
        super()._load_from_state_dict(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        self.flush()
        return self.__dict__

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "metric" or name.startswith("__"):
                raise
        metric = self.metric
        if self._waiting and (name in _STATES or name in getattr(metric, "_defaults", ()) or callable(getattr(metric, name))):
            self.flush()
        return getattr(metric, name)

    def __getitem__(self, name: Any) -> Any:
        self.flush()
        return self.metric[name]

    def __repr__(self) -> str:
        return f"Deferred({self.metric!r}, every={self.every}{', concatenate=True' * self.concatenate})"


def _copied(x: Any, memo: dict[int, Any]) -> Any:
    """Its tensors and arrays copied, without gradients; lists, tuples and dicts around them made anew."""
    if id(x) in memo:
        return memo[id(x)]
    if isinstance(x, Tensor):
        memo[id(x)] = tensor = x.detach().clone()
        return tensor
    if isinstance(x, np.ndarray):
        memo[id(x)] = array = x.copy()
        return array
    if isinstance(x, tuple):
        items = [_copied(e, memo) for e in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, (list, deque)):
        return type(x)(_copied(e, memo) for e in x)
    if type(x) is dict:
        return {key: _copied(e, memo) for key, e in x.items()}
    return x


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.ndim == b.ndim and a.shape[1:] == b.shape[1:] and a.dtype == b.dtype and a.device == b.device and a.layout == b.layout
    return type(a) is type(b) and isinstance(a, (int, float, str, bool, type(None))) and a == b


def _joined(block: list[_Batch]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    columns, form = list(zip(*(tree_flatten((b.args, b.kwargs))[0] for b in block))), tree_flatten((block[0].args, block[0].kwargs))[1]
    with torch.inference_mode(block[0].inference):
        leaves = [(torch.cat(c) if c[0].ndim else torch.stack(c)) if isinstance(c[0], Tensor) else c[0] for c in columns]
    joined: tuple[tuple[Any, ...], dict[str, Any]] = tree_unflatten(leaves, form)
    return joined


def _size(x: Any) -> int:
    return int(x.element_size() * x.numel() if isinstance(x, Tensor) else x.nbytes)


@contextlib.contextmanager
def _modes(batch: _Batch) -> Iterator[None]:
    """The modes of the time of the update, whatever they are now."""
    if batch.inference == torch.is_inference_mode_enabled() and batch.autocast == _autocast():
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(batch.inference))
        then, now = dict(batch.autocast), dict(_autocast())
        for kind in {*then, *now}:
            stack.enter_context(torch.autocast(kind, dtype=then.get(kind), enabled=kind in then))
        yield


def _register() -> None:
    """Lightning and torchmetrics' collections ask whether it is a metric of torchmetrics."""
    register = getattr(getattr(sys.modules.get("torchmetrics"), "Metric", None), "register", None)
    if register is not None:
        register(Deferred)
