"""Makes `isinstance(ours, torchmetrics.Metric)` true where torchmetrics is used, without importing it: Lightning asks."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .collection import MetricCollection
from .metric import Metric

_TARGETS = ("torchmetrics.metric", "torchmetrics.collections")


def _adopt(name: str) -> None:
    module = sys.modules.get(name)
    theirs = getattr(module, "Metric" if name.endswith("metric") else "MetricCollection", None)
    register = getattr(theirs, "register", None)  # Metric is an ABC; collections became none
    if register is not None:
        register(Metric if name.endswith("metric") else MetricCollection)


class _Loader(importlib.abc.Loader):
    """The module's own loader, and a word to us when it is done."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.inner.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner
        _adopt(module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Sees the import of torchmetrics' base classes, and otherwise stays out of the way."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _TARGETS:
            return None
        others = [f for f in sys.meta_path if f is not self]
        for finder in others:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


def register() -> None:
    """Register now if torchmetrics is loaded, else when it is."""
    for name in _TARGETS:
        if name in sys.modules:
            _adopt(name)
    if not any(type(f).__name__ == "_Finder" and type(f).__module__ == __name__ for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
