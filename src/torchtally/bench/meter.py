"""What a variant gives the training loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Meter(NamedTuple):
    """`update` is called after every step, with the loss, the predictions and the target, or with the step's seconds; `read` now and then.

    `read` gives Python numbers by name and starts again. Neither keeps anything of the autograd graph.
    """

    update: Callable[..., None]
    read: Callable[[], dict[str, float]]
