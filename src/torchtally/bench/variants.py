"""Ways to collect the experiment's five metrics, each written as it would stand in a training script: copy the one you like.

A variant is a function of the number of classes and the device that makes its metrics and returns two functions: `update`, called after
every step, and `read`, called now and then, which gives Python numbers and starts again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from ..errors import TallyError


class Meter(NamedTuple):
    """What a variant gives the training loop."""

    update: Callable[[Tensor, Tensor, Tensor], None]
    read: Callable[[], dict[str, float]]


def none(classes: int, device: str) -> Meter:
    """No metrics: keep the last loss, print it now and then."""
    last: dict[str, Tensor] = {}

    def update(loss: Tensor, preds: Tensor, target: Tensor) -> None:
        last["loss"] = loss.detach()

    def read() -> dict[str, float]:
        last["loss"].item()
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

    def read() -> dict[str, float]:
        values = {name: metric.compute().item() for name, metric in metrics.items()}
        for metric in metrics.values():
            metric.reset()
        return values

    return Meter(update, read)


def collection(classes: int, device: str) -> Meter:
    """torchmetrics' MetricCollection, which updates metrics of equal states once."""
    from torchmetrics import Accuracy, F1Score, MeanMetric, MetricCollection, Precision, Recall

    average = MeanMetric().to(device)
    scores = MetricCollection(
        {
            "accuracy": Accuracy(task="multiclass", num_classes=classes),
            "precision": Precision(task="multiclass", num_classes=classes),
            "recall": Recall(task="multiclass", num_classes=classes),
            "f1": F1Score(task="multiclass", num_classes=classes),
        }
    ).to(device)

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


VARIANTS: dict[str, Callable[[int, str], Meter]] = {"none": none, "naive": naive, "collection": collection, "torchtally": torchtally}


def make(name: str, classes: int, device: str) -> Meter:
    """The variant called `name`, with its metrics on `device`."""
    if name not in VARIANTS:
        raise TallyError(f"Variant {name!r} is unknown; expected one of {', '.join(VARIANTS)}.")
    try:
        return VARIANTS[name](classes, device)
    except ModuleNotFoundError as error:
        raise TallyError(f"Variant {name!r} needs {error.name}: pip install 'torchtally[bench]'.") from None
