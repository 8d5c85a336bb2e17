"""Draw the pictures of docs/plots.md, from made-up data. Run `python docs/images/plots.py [FOLDER]` from the repository."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import torch
from matplotlib import pyplot
from PIL import Image

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "src")]

import torchtally as tt  # noqa: E402
from torchtally import classification as c  # noqa: E402
from torchtally.wrappers import BootStrapper  # noqa: E402

ANIMALS = ["cat", "dog", "fox", "owl", "hare"]


def scores(count: int, classes: int, skill: float, seed: int = 0, lift: float = 0.35) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of a classifier of some skill, and labels of uneven frequency."""
    g = torch.Generator().manual_seed(seed)
    target = torch.multinomial(torch.arange(classes, 0, -1.0), count, replacement=True, generator=g)
    noise = torch.randn(count, classes, generator=g)
    noise[torch.arange(count), target] += skill + lift * target
    return noise, target


def yes_no(count: int, skill: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    target = (torch.rand(count, generator=g) < 0.3).long()
    return torch.sigmoid(torch.randn(count, generator=g) + skill * target - 1), target


def fed(metric: Any, batch: tuple[torch.Tensor, ...]) -> Any:
    metric.update(*batch)
    return metric


def epochs(metric: Any, count: int = 12) -> list[Any]:
    return [metric(*scores(800, 5, 0.4 + 1.6 * (1 - 0.75**epoch) - 0.04 * max(0, epoch - 8), epoch)) for epoch in range(count)]


def value() -> Any:
    return fed(c.MulticlassAccuracy(5, average="micro"), scores(800, 5, 1.2)).plot()


def classes() -> Any:
    return fed(c.MulticlassF1Score(5, average="none"), scores(800, 5, 1.2)).plot(labels=ANIMALS)


def many_classes() -> Any:
    return fed(c.MulticlassRecall(200, average="none"), scores(20000, 200, 2.0, lift=0.01)).plot()


def steps() -> Any:
    metric = c.MulticlassAccuracy(5, average="micro")
    return metric.plot(epochs(metric))


def steps_of_classes() -> Any:
    metric = c.MulticlassF1Score(5, average="none")
    return metric.plot(epochs(metric), labels=ANIMALS)


def together() -> Any:
    tally = tt.MetricCollection([c.MulticlassAccuracy(5), c.MulticlassF1Score(5, average="macro"), c.MulticlassCohenKappa(5)])
    return tally.plot(epochs(tally), together=True)


def confusion() -> Any:
    return fed(c.MulticlassConfusionMatrix(5), scores(2000, 5, 1.2)).plot(labels=ANIMALS)


def confusion_of_labels() -> Any:
    g = torch.Generator().manual_seed(0)
    target = (torch.rand(600, 3, generator=g) < torch.tensor([0.5, 0.2, 0.05])).long()
    preds = torch.sigmoid(torch.randn(600, 3, generator=g) + 3 * target - 1.5)
    return fed(c.MultilabelConfusionMatrix(3), (preds, target)).plot(labels=["urban", "water", "cloud"])


def counts() -> Any:
    return fed(c.MulticlassStatScores(5, average="none"), scores(800, 5, 1.2)).plot(labels=ANIMALS)


def roc() -> Any:
    return fed(c.BinaryROC(), yes_no(600, 1.8)).plot()


def roc_of_classes() -> Any:
    return fed(c.MulticlassROC(5), scores(2000, 5, 1.2)).plot(labels=ANIMALS)


def precision_recall() -> Any:
    return fed(c.BinaryPrecisionRecallCurve(), yes_no(600, 1.8)).plot()


def calibration() -> Any:
    scores, target = yes_no(4000, 1.8)
    return fed(c.BinaryCalibrationError(n_bins=10), (scores.pow(0.5), target)).plot()


def resamples() -> Any:
    metric = BootStrapper(c.MulticlassRecall(5, average="none"), 50, quantile=[0.05, 0.95], seed=0)
    return fed(metric, scores(400, 5, 1.2)).plot(labels=ANIMALS)


PICTURES: dict[str, Callable[[], Any]] = {
    "value": value,
    "classes": classes,
    "many-classes": many_classes,
    "steps": steps,
    "steps-of-classes": steps_of_classes,
    "together": together,
    "confusion": confusion,
    "confusion-of-labels": confusion_of_labels,
    "counts": counts,
    "calibration": calibration,
    "resamples": resamples,
    "roc": roc,
    "roc-of-classes": roc_of_classes,
    "precision-recall": precision_recall,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, draw in PICTURES.items():
        figure, _ = draw()
        picture = io.BytesIO()
        figure.savefig(picture, dpi=110)
        pyplot.close(figure)
        small = Image.open(picture).convert("RGB").quantize(64)  # few colours: the repository stays small
        small.save(folder / f"plot-{name}.png", optimize=True)


if __name__ == "__main__":
    main()
