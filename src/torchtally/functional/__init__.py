"""One-shot forms of metrics: the value on one batch, nothing kept."""

from . import classification, regression
from .classification import *  # noqa: F403  # the functions are made from the metrics
from .regression import *  # noqa: F403

__all__ = ["classification", "regression", *classification.__all__, *regression.__all__]
