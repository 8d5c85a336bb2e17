"""One pass through a network for all metrics that need it."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from ..collection import MetricCollection
from .abstract import Metric


class NetworkCache(nn.Module):
    """A network that remembers its last `max_size` results: given the same tensors again, unchanged, it gives the same result.

    What it remembers is dropped when `clear` is called, and is neither copied nor saved.
    """

    def __init__(self, network: nn.Module, max_size: int = 100) -> None:
        super().__init__()
        self.max_size = max_size
        self.network = network
        self.__dict__.update(_known=OrderedDict(), _traced=[])

    _known: OrderedDict[Any, tuple[Any, Any]]
    _traced: list[tuple[Any, Any, Any]]
    """What a trace has seen since `clear`: tensors have no identity in it that a later call could have."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network gives."""
        if torch.compiler.is_compiling():
            return self._in_trace(args, kwargs)
        key = tuple(_identity(x) for x in (*args, *kwargs.items(), self.network.training))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.network(*args, **kwargs), (args, kwargs)  # inputs are held, so that their identity stays theirs
            while len(self._known) > self.max_size:
                self._known.popitem(last=False)
        return found[0]

    def _in_trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for positional, named, result in self._traced:
            alike = len(positional) == len(args) and named.keys() == kwargs.keys()
            if alike and all(a is b for a, b in zip(positional, args)) and all(named[n] is x for n, x in kwargs.items()):
                return result
        found = self.network(*args, **kwargs)
        self._traced.append((args, kwargs, found))
        return found

    def clear(self) -> None:
        """Forget all results."""
        self._known.clear()
        self._traced.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": OrderedDict(), "_traced": []}

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "network" not in self.__dict__.get("_modules", {}):
                raise
            return getattr(self._modules["network"], name)


def _identity(x: Any) -> Any:
    if isinstance(x, Tensor):
        return id(x), 0 if x.is_inference() else x._version
    if isinstance(x, tuple | list):
        return tuple(_identity(e) for e in x)
    return x if isinstance(x, str | int | float | bool | type(None)) else id(x)


class FeatureShare(MetricCollection):
    """A collection of metrics that look at data through the same network, which runs once a batch for all of them.

    Each metric names the attribute that holds its network in `feature_network`, as those on image and text features do; that of the first is used
    for all. Results are kept for the batch only, `max_cache_size` of them (None: as many as there are metrics).

    >>> import torch
    >>> from torch import nn
    >>> from torchtally import Metric
    >>> from torchtally.wrappers import FeatureShare
    >>> class MeanFeature(Metric):
    ...     feature_network = "network"
    ...     def __init__(self, network):
    ...         super().__init__()
    ...         self.network = network
    ...         self.add_state("total", torch.tensor(0.0), "sum")
    ...     def update(self, images):
    ...         self.total += self.network(images).mean()
    ...     def compute(self):
    ...         return self.total
    >>> network = nn.Identity()
    >>> metrics = FeatureShare({"a": MeanFeature(network), "b": MeanFeature(network)})
    >>> metrics.update(torch.ones(2, 3))
    >>> metrics.compute()
    {'a': tensor(1.), 'b': tensor(1.)}
    """

    def __init__(self, metrics: Any, max_cache_size: int | None = None) -> None:
        super().__init__(metrics)
        size = len(self) if max_cache_size is None else max_cache_size
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"FeatureShare: max_cache_size is {max_cache_size!r}; expected an integer or None.")
        places = {n: _place_of(n, m) for n, m in self._modules.items()}
        first, *_ = self._modules
        network = getattr(self._modules[first], places[first])
        shared = NetworkCache(network, size)
        for n, m in self._modules.items():
            if str(getattr(m, places[n])) != str(network):
                warnings.warn(
                    f"FeatureShare: the network of {n!r} is not like that of {first!r}, which is used in its place.",
                    UserWarning,
                    stacklevel=2,
                )
            setattr(m, places[n], shared)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch to every metric; the network runs once."""
        try:
            super().update(*args, **kwargs)
        finally:
            self._clear()

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The values on this batch, which is also accumulated; the network runs once."""
        try:
            return super().forward(*args, **kwargs)
        finally:
            self._clear()

    def _clear(self) -> None:
        for m in self.modules():
            if isinstance(m, NetworkCache):
                m.clear()


def _place_of(name: str, metric: Metric) -> str:
    """The attribute that holds a metric's network."""
    place = getattr(metric, "feature_network", None)
    if place is None:
        raise AttributeError(f"FeatureShare: {name!r} has no feature_network; expected the name of the attribute that holds its network.")
    if not isinstance(place, str):
        raise TypeError(
            f"FeatureShare: feature_network of {name!r} is {place!r}; expected the name of the attribute that holds its network."
        )
    return place
