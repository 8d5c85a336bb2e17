"""Named states of users' metrics: declared with what combines two of them, saved, moved and kept away from parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .guard import Guard, follow, guarded, stream_of
from .saving import saves_all
from .statistic import map_tensors

Reduction = str | Callable[[Any], Any] | None

KNOWN = ("sum", "mean", "max", "min", "cat")


class States(nn.Module):
    """A module with named states, which are attributes of it: tensors, or lists that updates append to."""

    _defaults: dict[str, Any]
    _reductions: dict[str, Reduction]
    _persistent: dict[str, bool]
    _update_count: int
    _computed: Any  # the value, until the states change
    _is_synced: bool
    _cache: Any  # this rank's own states, while synced
    _device: torch.device
    _guard: Guard  # shared with the collection and its members
    _stream: Any  # that used the states last

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(
            _defaults={},
            _reductions={},
            _persistent={},
            _update_count=0,
            _computed=None,
            _is_synced=False,
            _cache=None,
            _device=torch.get_default_device(),
            _guard=Guard(),
            _stream=None,
        )

    def add_state(self, name: str, default: Tensor | list[Any], dist_reduce_fx: Reduction = None, persistent: bool = False) -> None:
        """Declare an accumulator: a tensor, or an empty list that update appends to.

        `dist_reduce_fx` says how two of them combine: "sum", "mean", "max", "min", "cat", a function of the stacked (tensor) or listed
        (list) states of all ranks, or None to leave them stacked or listed.
        """
        if "_defaults" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: add_state({name!r}) comes before super().__init__(); call that first.")
        if not name.isidentifier():
            raise ValueError(f"{type(self).__name__}: state name {name!r} is not a Python identifier.")
        if not isinstance(default, Tensor) and not (isinstance(default, list) and not default):
            raise ValueError(f"{type(self).__name__}: default of state {name!r} is {default!r}; expected a tensor or an empty list.")
        if not (dist_reduce_fx is None or dist_reduce_fx in KNOWN or callable(dist_reduce_fx)):
            raise ValueError(
                f"{type(self).__name__}: dist_reduce_fx of state {name!r} is {dist_reduce_fx!r}; expected one of {KNOWN}, a function or None."
            )
        if isinstance(default, Tensor) and default.is_meta:  # in torch 2.6 the default device is not that of a context
            self.__dict__["_device"] = default.device
        self._defaults[name] = self._kept_value(default.detach().clone(), self._device) if isinstance(default, Tensor) else []
        self._reductions[name] = dist_reduce_fx
        self._persistent[name] = persistent
        self.__dict__[name] = self._fresh(name)

    @staticmethod
    def _kept_value(default: Any, device: torch.device) -> Any:
        """A default on a device, unless that would keep no value."""
        return default if device.type == "meta" else moved(default, device)

    def _fresh(self, name: str) -> Any:
        """A state as it starts."""
        default = self._defaults[name]
        return default.to(self._device, copy=True) if isinstance(default, Tensor) else []

    def _blank(self) -> None:
        with torch.inference_mode(False):
            for name in self._defaults:
                self.__dict__[name] = self._fresh(name)
        self.__dict__.update(_update_count=0, _token=None)

    def _meet(self) -> None:
        """Order what the device is asked next after what other streams were asked to do with the states."""
        if self._device.type == "cuda" and not torch.compiler.is_compiling():
            self.__dict__["_stream"] = follow(
                self._stream, self._device, lambda: pytree.tree_leaves([self.__dict__[n] for n in self._defaults])
            )

    def _snapshot(self) -> dict[str, Any]:
        self._meet()
        return {n: list(x) if isinstance(x := self.__dict__[n], list) else x for n in self._defaults}

    def _detach(self, lengths: dict[str, int]) -> None:
        """Let go of the graphs that an update put into the states; lists had these lengths before."""
        for name in self._defaults:
            x = self.__dict__[name]
            if isinstance(x, Tensor):
                if x.requires_grad:
                    self.__dict__[name] = x.detach()
            else:
                x[lengths.get(name, 0) :] = map_tensors(x[lengths.get(name, 0) :], lambda t: t.detach() if t.requires_grad else t)

    def _states_kept(self) -> tuple[dict[str, Any], int]:
        """The states as they are, for `_restore`, whatever an update does in place."""
        return {n: list(x) if isinstance(x := self.__dict__[n], list) else x.clone() for n in self._defaults}, self._update_count

    def _restore(self, states: dict[str, Any], count: int) -> None:
        self.__dict__.update(states, _update_count=count, _token=None)

    def _combine(self, old: dict[str, Any], count: int) -> None:
        """Add states accumulated earlier, over `count` updates, to those held now."""
        for name, how in self._reductions.items():
            self.__dict__[name] = combined(how, old[name], self.__dict__[name], count, self._update_count, f"{type(self).__name__}.{name}")
        self.__dict__.update(_update_count=self._update_count + count, _token=None)

    def _combined_over(self, ranks: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            name: moved(reduced(how, [r[name] for r in ranks], isinstance(self._defaults[name], list)), self._device)
            for name, how in self._reductions.items()
        }

    @guarded
    def _move(self, device: torch.device) -> None:
        self._meet()
        blank = self._device.type == "meta"  # there is nothing to move: start empty
        if blank and (lost := [n for n, x in self._defaults.items() if isinstance(x, Tensor) and x.is_meta]):
            raise NotImplementedError(
                f"{type(self).__name__}: states {lost} were declared on the meta device, which holds no values to start from. Give values to "
                "add_state, as torch.zeros((), device='cpu'); the states follow the module to its device."
            )
        for name in self._defaults:
            self._defaults[name] = self._kept_value(self._defaults[name], device)
            if not blank:
                self.__dict__[name] = moved(self.__dict__[name], device)
        self.__dict__.update(_device=device, _stream=stream_of(device), _computed=None, _cache=moved(self._cache, device))
        if blank:
            self._blank()

    def persistent(self, mode: bool = False) -> None:
        """Whether the states appear in the `state_dict` of a module that holds the metric (its own `state_dict()` is always complete)."""
        for name in self._persistent:
            self._persistent[name] = mode

    def _saved(self) -> dict[str, Any]:
        """What to save, by name."""
        every = saves_all()
        return {n: self.__dict__[n] for n, keep in self._persistent.items() if keep or every}

    @guarded
    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, x in self._saved().items():
            destination[prefix + name] = map_tensors(x, lambda t: t.detach().clone())
        metadata = getattr(destination, "_metadata", {}).get(prefix[:-1])
        if metadata is not None:  # beside the states, whose names are the user's: a mean is weighed by it
            metadata["updates"] = self._update_count

    @guarded
    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for name, keep in self._persistent.items():
            if prefix + name in state_dict:
                self.__dict__[name] = moved(map_tensors(state_dict[prefix + name], lambda t: t.detach().clone()), self._device)
                self.__dict__.update(_computed=None, _update_count=int((local_metadata or {}).get("updates", max(self._update_count, 1))))
            elif strict and (keep or not prefix):
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)
        if strict and not prefix:
            known = set(self._defaults)
            unexpected_keys += [k for k in state_dict if "." not in k and k not in known and k not in unexpected_keys]


def combined(how: Reduction, old: Any, new: Any, old_count: int, new_count: int, name: str) -> Any:
    """Two states of one metric, the older first."""
    if isinstance(old, list) or isinstance(new, list):
        return [*_as_list(old), *(x.detach() if isinstance(x, Tensor) else x for x in _as_list(new))]
    if how == "sum":
        return old + new
    if how == "mean":
        return (old * old_count + new * new_count) / max(old_count + new_count, 1)
    if how in ("max", "min"):
        return torch.maximum(old, new) if how == "max" else torch.minimum(old, new)
    if how == "cat":
        return torch.cat([torch.atleast_1d(old), torch.atleast_1d(new)])
    if how is None:
        return torch.stack([old, new])
    if callable(how):
        return how(torch.stack([old, new]))
    raise RuntimeError(f"{name}: states do not combine by {how!r}.")


def _as_list(x: Any) -> list[Any]:
    return x if isinstance(x, list) else [x]


def reduced(how: Reduction, parts: list[Any], listed: bool) -> Any:
    """The states of all ranks as one."""
    if listed:
        flat = [x for part in parts for x in _as_list(part)]
        if how == "cat":
            return [torch.cat([torch.atleast_1d(x) for x in flat])] if flat else []
        return how(flat) if callable(how) else flat
    if how == "cat":
        return torch.cat([torch.atleast_1d(x) for x in parts])
    stacked = torch.stack(list(parts))
    if how in ("sum", "mean"):
        return stacked.sum(0) if how == "sum" else stacked.mean(0)
    if how in ("max", "min"):
        return stacked.amax(0) if how == "max" else stacked.amin(0)
    return how(stacked) if callable(how) else stacked


def gathered_by(gather: Callable[..., Any], states: dict[str, Any], group: Any) -> list[dict[str, Any]]:
    """States of all ranks through a user's `dist_sync_fn(tensor, group) -> list of tensors`."""
    columns: dict[str, list[Any]] = {}
    for name, x in states.items():
        if isinstance(x, list):
            joined = torch.cat([torch.atleast_1d(e) for e in x]) if x else torch.zeros(0)
            columns[name] = [[part] if part.numel() else [] for part in gather(joined, group)]
        else:
            columns[name] = list(gather(x, group))
    world = len(next(iter(columns.values()), [None]))
    return [{n: column[r] for n, column in columns.items()} for r in range(world)]


def moved(x: Any, device: torch.device) -> Any:
    return map_tensors(x, lambda t: t.to(device))
