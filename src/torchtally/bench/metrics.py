"""Ways to collect the experiment's five metrics, each written as it would stand in a training script: copy the one you like.

Each is a function of the number of classes and the device that makes its metrics and returns `update`, called after every step, and `read`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .meter import Meter


def none(classes: int, device: str) -> Meter:
    """No metrics: keep the last loss and look at it now and then."""
    last = torch.zeros(())

    def update(loss: Tensor, preds: Tensor, target: Tensor) -> None:
        nonlocal last
        last = loss.detach()

    def read() -> dict[str, float]:
        last.item()
        return {}

    return Meter(update, read)


def naive(classes: int, device: str) -> Meter:
    """torchmetrics as most people write it: separate objects, each updated after every step."""
    from torchmetrics import Accuracy, F1Score, MeanMetric, Precision, Recall

    metrics: dict[str, Any] = {
        "loss": MeanMetric(),
        "accuracy": Accuracy(task="multiclass", num_classes=classes),
        "precision": Precision(task="multiclass", num_classes=classes),
        "recall": Recall(task="multiclass", num_classes=classes),
        "f1": F1Score(task="multiclass", num_classes=classes),
    }
    metrics = {name: metric.to(device) for name, metric in metrics.items()}

    def update(loss: Tensor, preds: Tensor, target: Tensor) -> None:
        for name, metric in metrics.items():
            if name == "loss":
                metric.update(loss)
            else:
                metric.update(preds, target)

    return Meter(update, lambda: read_each(metrics))


def weights(classes: int, device: str) -> Meter:
    """The first cure: give the weight as a tensor on the device, so that torchmetrics need not copy its default there."""
    from torchmetrics import MeanMetric

    average = MeanMetric().to(device)
    scores = scores_of_torchmetrics(classes, device)

    def update(loss: Tensor, preds: Tensor, target: Tensor) -> None:
        average.update(loss, weight=torch.ones_like(loss))
        for score in scores.values():
            score.update(preds, target)

    return Meter(update, lambda: read_each({"loss": average} | scores))


def no_nan_check(classes: int, device: str) -> Meter:
    """Both cures: weights as tensors, and no look at the values for NaN."""
    from torchmetrics import MeanMetric

    from torchtally.adopt import suppress_nan_check

    NoNanMeanMetric = suppress_nan_check(MeanMetric)
    average = NoNanMeanMetric().to(device)
    scores = scores_of_torchmetrics(classes, device)

    def update(loss: Tensor, preds: Tensor, target: Tensor) -> None:
        average.update(loss, weight=torch.ones_like(loss))
        for score in scores.values():
            score.update(preds, target)

    return Meter(update, lambda: read_each({"loss": average} | scores))


def collection(classes: int, device: str) -> Meter:
    """torchmetrics' MetricCollection, which updates metrics with equal states once."""
    from torchmetrics import MeanMetric, MetricCollection

    average = MeanMetric().to(device)
    scores = MetricCollection(scores_of_torchmetrics(classes, device))

    def update(loss: Tensor, preds: Tensor, target: Tensor) -> None:
        average.update(loss)
        scores.update(preds, target)

    def read() -> dict[str, float]:
        values = {"loss": average.compute().item()} | {name: value.item() for name, value in scores.compute().items()}
        average.reset()
        scores.reset()
        return values

    return Meter(update, read)


def torchtally(classes: int, device: str) -> Meter:
    """torchtally: one collection, one update, one read, and nothing that waits for the device in between."""
    from torchtally import Accuracy, F1Score, MeanMetric, MetricCollection, Precision, Recall

    tally = MetricCollection(
        {
            "loss": MeanMetric().bind(value="loss"),
            "accuracy": Accuracy(task="multiclass", num_classes=classes),
            "precision": Precision(task="multiclass", num_classes=classes),
            "recall": Recall(task="multiclass", num_classes=classes),
            "f1": F1Score(task="multiclass", num_classes=classes),
        }
    ).to(device)

    def update(loss: Tensor, preds: Tensor, target: Tensor) -> None:
        tally.update(loss=loss, preds=preds, target=target)

    def read() -> dict[str, float]:
        return tally.fetch(reset=True).result()

    return Meter(update, read)


def scores_of_torchmetrics(classes: int, device: str) -> dict[str, Any]:
    from torchmetrics import Accuracy, F1Score, Precision, Recall

    return {
        "accuracy": Accuracy(task="multiclass", num_classes=classes).to(device),
        "precision": Precision(task="multiclass", num_classes=classes).to(device),
        "recall": Recall(task="multiclass", num_classes=classes).to(device),
        "f1": F1Score(task="multiclass", num_classes=classes).to(device),
    }


def read_each(metrics: dict[str, Any]) -> dict[str, float]:
    """Compute, bring to the host and reset, one metric after the other."""
    values = {name: metric.compute().item() for name, metric in metrics.items()}
    for metric in metrics.values():
        metric.reset()
    return values
