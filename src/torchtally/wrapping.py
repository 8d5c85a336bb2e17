"""What is wrapped around the `update` and `compute` that users write."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .entries import parameters_of
from .guard import guarded
from .valid import valid_part

if TYPE_CHECKING:
    from .metric import Metric


def counted(update: Callable[..., None]) -> Callable[..., None]:
    """A user's update: counted, without gradients unless `forward` asks, and the cached value dropped."""

    def wrapper(self: Metric, *args: Any, **kwargs: Any) -> None:
        if self._depth:  # called by the update of a subclass
            return update(self, *args, **kwargs)
        if "valid" in kwargs and "valid" not in parameters_of(type(self)) and parameters_of(type(self)) != ("*",):
            args, kwargs = valid_part(type(self).__name__, kwargs.pop("valid"), args, kwargs)
        if self._is_synced:
            raise RuntimeError(f"{type(self).__name__} is synced; call unsync before update.")
        if not torch.compiler.is_compiling():
            self.__dict__["_update_count"] += 1
        self._meet()
        held = self.__dict__
        held["_computed"] = held["_token"] = None  # one by one: Dynamo of torch 2.11 traces no `update` of it
        held["_depth"] = 1
        lengths = {n: len(x) for n in self._defaults if isinstance(x := self.__dict__[n], list)}
        try:
            with torch.set_grad_enabled(self._grad and torch.is_grad_enabled()):
                update(self, *args, **kwargs)
            if not self._grad:
                self._detach(lengths)
        except BaseException:
            if not torch.compiler.is_compiling():
                self.__dict__["_update_count"] -= 1
            raise
        finally:
            self.__dict__["_depth"] = 0
        return None

    return functools.wraps(update)(guarded(wrapper))


def cached(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A user's compute: over all ranks, and kept until the next update. What arguments of it give is computed each time."""

    @functools.wraps(compute)
    def wrapper(self: Metric, *args: Any, **kwargs: Any) -> Any:
        with self._held():
            if self._depth:
                return compute(self, *args, **kwargs)
        synced = self._to_sync() and not self._is_synced
        keep = self.compute_with_cache and not (args or kwargs)
        if self._computed is not None and keep and not synced:  # other ranks may have seen more
            return self._computed
        reduced = self._reduced(self.dist_sync_fn, self.process_group) if synced else None
        with self._held():
            self._meet()
            if reduced is not None:
                self._switch(reduced)
            self.__dict__["_depth"] = 1
            try:
                value = compute(self, *args, **kwargs)
            finally:
                self.__dict__["_depth"] = 0
                if reduced is not None:
                    self.unsync()
        if not self._grad:
            self.__dict__["_computed"] = value if keep else None
        return value

    return wrapper
