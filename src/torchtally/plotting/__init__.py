"""Pictures of values, curves and matrices. `plot()` of metrics, collections and trackers draws them; here they are for values of your own."""

from .calibration import plot_calibration
from .confusion import plot_confusion_matrix
from .curves import plot_precision_recall, plot_roc
from .values import plot_values

__all__ = ["plot_calibration", "plot_confusion_matrix", "plot_precision_recall", "plot_roc", "plot_values"]
