"""Regions in which waiting is meant."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator

_DEPTH: dict[int, int] = {}
"""Open regions by thread: read also from the threads that work for another, such as autograd's."""


class allow(ContextDecorator):
    """Waits inside, on this thread and in the backward passes it starts, are not recorded. A context and a decorator; costs next to nothing where nobody watches.

    >>> with allow():
    ...     print(f"epoch done, loss {float(torch.tensor(1.5))}")
    epoch done, loss 1.5
    """

    def __enter__(self) -> allow:
        thread = threading.get_ident()
        _DEPTH[thread] = _DEPTH.get(thread, 0) + 1
        return self

    def __exit__(self, *raised: object) -> None:
        thread = threading.get_ident()
        depth = _DEPTH.pop(thread) - 1
        if depth:
            _DEPTH[thread] = depth


def allowed(thread: int) -> bool:
    """Whether this thread is inside such a region now."""
    return thread in _DEPTH
