"""What tests of pictures look at. Nothing is shown: the backend draws into memory."""

import matplotlib

matplotlib.use("Agg")


def drawn(figure):
    """What cannot be laid out or shown fails here."""
    figure.canvas.draw()
    return figure


def texts(ax):
    legend = ax.get_legend()
    return [t.get_text() for t in ax.texts] + ([t.get_text() for t in legend.get_texts()] if legend else [])


def ticks(axis):
    return [t.get_text() for t in axis.get_ticklabels()]
