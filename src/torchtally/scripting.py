"""Lets `torch.jit.script` pass over the metrics that a module holds: they stay Python, and what does not call them is scripted without them."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

_OF_MODULES = frozenset(nn.Module().__dict__)


class Left:
    """Names that TorchScript leaves alone, looked up when it asks: of a class its properties, of an object all that is its own, too."""

    def __get__(self, owner: Any, kind: type) -> list[str]:
        properties = [n for n in dir(kind) if isinstance(inspect.getattr_static(kind, n, None), property)]
        return properties if owner is None else [*properties, *(n for n in owner.__dict__ if n not in _OF_MODULES), *owner._modules]


class Unscripted:
    """A module that TorchScript does not compile."""

    __jit_unused_properties__ = Left()
    __jit_ignored_attributes__ = Left()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__:
            torch.jit.unused(cls.__dict__["forward"])
