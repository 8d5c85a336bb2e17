"""Run by Python at the start of a child process of a checked script: see `torchtally.stalls.children`. Cheap until torch is imported."""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from typing import Any


class _AfterTorch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torch as usual and starts the pretend device once it is loaded."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch" or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        if not any(os.path.exists(os.path.join(p, "torchtally", "stalls", "children.py")) for p in sys.path):
            sys.path.append(self.settings["sources"])
        try:
            from torchtally.stalls import children

            children.begin(self.settings)
        except ImportError as error:  # another environment than the parent's
            print(f"torchtally: the child process {os.getpid()} is not checked: {error}", file=sys.stderr)


def _run_the_one_in_our_place() -> None:
    """This file hides any other `sitecustomize`: run that one as Python would have."""
    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_run_the_one_in_our_place()
if "TORCHTALLY_CHECK" in os.environ:
    sys.meta_path.insert(0, _AfterTorch(json.loads(os.environ["TORCHTALLY_CHECK"])))
