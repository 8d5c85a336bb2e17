"""What the experiment would show on a GPU that is not here. How it works and how far to trust it: docs/cost-model.md."""

from .loading import loader_us
from .prediction import Prediction, Waiting, predict, predict_recording, summary
from .recording import Recording, device_on_shapes, record
from .simulation import Circumstances, Outcome, simulate
from .views import report, timeline

__all__ = [
    "Circumstances",
    "Outcome",
    "Prediction",
    "Recording",
    "Waiting",
    "device_on_shapes",
    "loader_us",
    "predict",
    "predict_recording",
    "record",
    "report",
    "simulate",
    "summary",
    "timeline",
]
