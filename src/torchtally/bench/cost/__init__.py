"""What the experiment would show on a GPU that is not here. How it works and how far to trust it: docs/cost-model.md."""

from .prediction import Prediction, Waiting, predict_recording, summary
from .recording import Recording
from .simulation import Circumstances, Outcome, simulate
from .views import report, timeline

__all__ = ["Circumstances", "Outcome", "Prediction", "Recording", "Waiting", "predict_recording", "report", "simulate", "summary", "timeline"]
