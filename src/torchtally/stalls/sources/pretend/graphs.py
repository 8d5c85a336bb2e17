"""CUDA graphs: a capture keeps the operators it sees, a replay runs them again into the same memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .session import STATE, Patches, note, tell
from .streams import Stream, current_stream


class CUDAGraph:
    """Stands for `torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph: bool = False) -> None:
        self.operators: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        self.operators.clear()
        STATE.graph = self

    def capture_end(self) -> None:
        STATE.graph = None

    def add(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Keep an operator that has run while this graph was captured."""
        if not function.is_view:
            self.operators.append((function, args, kwargs, result))

    def replay(self) -> None:
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), torch.no_grad():
            for function, args, kwargs, result in self.operators:
                _write(result, function(*args, **kwargs))

    def instantiate(self) -> None:
        pass

    def reset(self) -> None:
        self.operators.clear()

    def pool(self) -> tuple[int, int]:
        return (0, 1)

    def enable_debug_mode(self) -> None:
        pass

    def debug_dump(self, debug_path: str) -> None:
        pass


def _write(old: Any, new: Any) -> None:
    """Put what a replay computed where the capture put it."""
    if isinstance(old, Tensor):
        if old is not new and old.shape == new.shape:
            old.copy_(new)
    elif isinstance(old, (tuple, list)):
        for one, other in zip(old, new):
            _write(one, other)


class graph:
    """Stands for `torch.cuda.graph`."""

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global", **rest: Any) -> None:
        self.cuda_graph = cuda_graph
        self.stream = stream or Stream()

    def __enter__(self) -> None:
        tell("torch.cuda.graph.__enter__", (self.cuda_graph,))
        self.before = current_stream()
        self.stream.__enter__()
        self.cuda_graph.capture_begin()

    def __exit__(self, *error: Any) -> None:
        self.cuda_graph.capture_end()
        self.stream.__exit__(*error)


def make_graphed_callables(callables: Any, sample_args: Any, *args: Any, **kwargs: Any) -> Any:
    note("torch.cuda.make_graphed_callables: what is to be captured runs operator by operator")
    return callables


def patch_graphs(patches: Patches) -> None:
    cuda: Any = torch.cuda
    for module in (cuda, cuda.graphs):
        patches.add(module, CUDAGraph=CUDAGraph, graph=graph, make_graphed_callables=make_graphed_callables)
        patches.set(module, "graph_pool_handle", lambda: (0, 0))
    patches.set(cuda.graphs, "is_current_stream_capturing", lambda: STATE.graph is not None)
