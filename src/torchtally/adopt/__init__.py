"""Cures for existing code: torchmetrics' and users' own metrics that do not make the host wait."""

from .adopting import Left, adopt
from .advice import Advice
from .advising import advise
from .deferred import Deferred
from .nan_check import suppress_nan_check

__all__ = ["Advice", "Deferred", "Left", "adopt", "advise", "suppress_nan_check"]
