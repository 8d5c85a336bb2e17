"""One-shot forms of metrics: the value on one batch, nothing kept."""

from . import classification
from .classification import *  # noqa: F403  # the functions are made from the metrics

__all__ = ["classification", *classification.__all__]
