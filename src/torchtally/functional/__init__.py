"""One-shot forms of metrics: the value on one batch, nothing kept.

Wrong values on a device are reported at once, for which a call waits; with `validate_args=False` none does.
"""

from . import classification, regression, retrieval, text
from .classification import *  # noqa: F403  # the functions are made from the metrics
from .regression import *  # noqa: F403
from .retrieval import *  # noqa: F403
from .text import *  # noqa: F403

__all__ = ["classification", "regression", "retrieval", "text", *classification.__all__, *regression.__all__, *retrieval.__all__, *text.__all__]
