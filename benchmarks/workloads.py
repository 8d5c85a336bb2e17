"""The jobs, and who does them how: one function a job, which gives the ways to do it by name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

import torchtally as tt

from . import floors

Ways = dict[str, Callable[[], object]]


def _scores(n: int, classes: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    target = torch.randint(0, classes, (n,), generator=g)
    preds = torch.randn(n, classes, generator=g, dtype=dtype)
    preds[torch.arange(n), target] += 2.5
    return preds, target, torch.tensor(6.9)


def _ours(classes: int, average: str) -> tt.MetricCollection:
    rates = {
        n: getattr(tt, n)(task="multiclass", num_classes=classes, average=average) for n in ("Accuracy", "Precision", "Recall", "F1Score")
    }
    return tt.MetricCollection({**rates, "loss": tt.MeanMetric().bind(value="loss")})


def _torchmetrics(classes: int, average: str) -> dict[str, Any]:
    import torchmetrics.classification as k

    names = ("MulticlassAccuracy", "MulticlassPrecision", "MulticlassRecall", "MulticlassF1Score")
    return {n: getattr(k, n)(num_classes=classes, average=average) for n in names}


def _torcheval(classes: int, average: str) -> list[Any]:
    import logging

    import torcheval.metrics as te

    logging.disable(logging.WARNING)
    names = ("MulticlassAccuracy", "MulticlassPrecision", "MulticlassRecall", "MulticlassF1Score")
    return [getattr(te, n)(average=average, num_classes=classes) for n in names]


def mean(value: float | torch.Tensor) -> Ways:
    """One number into one mean."""
    import torcheval.metrics as te
    import torchmetrics

    floor, ours, theirs, evals = floors.Mean(), tt.MeanMetric(), torchmetrics.MeanMetric(), te.Mean()
    return {
        "floor": lambda: floor.update(value),
        "torchtally": lambda: ours.update(value),
        "torchmetrics": lambda: theirs.update(value),
        "torcheval": lambda: evals.update(torch.as_tensor(value)),
    }


def five(preds: torch.Tensor, target: torch.Tensor, loss: torch.Tensor, classes: int, average: str, peers: bool = True) -> Ways:
    """Mean loss, accuracy, precision, recall and F1 of one batch."""
    floor, ours = floors.FiveMetrics(classes, average), _ours(classes, average)
    ways: Ways = {
        "floor": lambda: floor.update(preds, target, loss),
        "torchtally": lambda: ours.update(loss=loss, preds=preds, target=target),
    }
    if peers:
        import torcheval.metrics as te
        import torchmetrics

        separate, mean_loss = _torchmetrics(classes, average), torchmetrics.MeanMetric()
        together, other_loss = torchmetrics.MetricCollection(_torchmetrics(classes, average)), torchmetrics.MeanMetric()
        together.update(preds, target)  # forms its compute groups

        def each() -> None:
            mean_loss.update(loss)
            for m in separate.values():
                m.update(preds, target)

        def collection() -> None:
            other_loss.update(loss)
            together.update(preds, target)

        ways |= {"torchmetrics separate": each, "torchmetrics collection": collection}
    import torcheval.metrics as te

    evals, eval_loss = _torcheval(classes, average), te.Mean()

    def torcheval() -> None:
        eval_loss.update(loss)
        for m in evals:
            m.update(preds, target)

    return {**ways, "torcheval": torcheval}


def labels(classes: int) -> Ways:
    """The five with labels of a large vocabulary; torchmetrics would build a table of classes × classes."""
    g = torch.Generator().manual_seed(2)
    target = torch.randint(0, classes, (4096,), generator=g)
    preds = torch.where(torch.rand(4096, generator=g) < 0.5, target, torch.randint(0, classes, (4096,), generator=g))
    return five(preds, target, torch.tensor(6.9), classes, "macro", peers=False)


def language_model(average: str) -> Ways:
    """Logits of 4096 tokens over 32,000 words in bfloat16."""
    preds, target, loss = _scores(4096, 32000, torch.bfloat16)
    floor, ours = floors.FiveMetrics(32000, average), _ours(32000, average)
    import torchmetrics

    together, mean_loss = torchmetrics.MetricCollection(_torchmetrics(32000, average)), torchmetrics.MeanMetric()

    def collection() -> None:
        mean_loss.update(loss)
        together.update(preds, target)

    return {
        "floor": lambda: floor.update(preds, target, loss),
        "torchtally": lambda: ours.update(loss=loss, preds=preds, target=target),
        "torchmetrics collection": collection,
    }


def confusion() -> Ways:
    """8192 labels into a confusion matrix of 1000 classes."""
    import torchmetrics.classification as k

    g = torch.Generator().manual_seed(2)
    target = torch.randint(0, 1000, (8192,), generator=g)
    preds = torch.where(torch.rand(8192, generator=g) < 0.5, target, torch.randint(0, 1000, (8192,), generator=g))
    floor, ours, theirs = floors.Confusion(1000), tt.ConfusionMatrix(task="multiclass", num_classes=1000), k.MulticlassConfusionMatrix(1000)
    return {
        "floor": lambda: floor.update(preds, target),
        "torchtally": lambda: ours.update(preds, target),
        "torchmetrics": lambda: theirs.update(preds, target),
    }


def top5() -> Ways:
    """Whether the target is among the five highest scores of 1000."""
    import ignite.metrics as ig
    import torcheval.metrics as te
    import torchmetrics.classification as k

    preds, target, _ = _scores(128, 1000)
    floor, ours = floors.TopK(5, 128, 1000), tt.Accuracy(task="multiclass", num_classes=1000, top_k=5)
    theirs, evals = k.MulticlassAccuracy(1000, top_k=5, average="micro"), te.MulticlassAccuracy(num_classes=1000, k=5)
    ignite = ig.TopKCategoricalAccuracy(5)
    return {
        "floor": lambda: floor.update(preds, target),
        "torchtally": lambda: ours.update(preds, target),
        "torchmetrics": lambda: theirs.update(preds, target),
        "torcheval": lambda: evals.update(preds, target),
        "ignite": lambda: ignite.update((preds, target)),
    }


def segmentation() -> Ways:
    """Mean intersection over union, accuracy and Dice of four images of 256 by 256, 21 classes, a tenth of the pixels ignored."""
    import ignite.metrics as ig
    import torchmetrics

    g = torch.Generator().manual_seed(4)
    preds, target = torch.randn(4, 21, 256, 256, generator=g), torch.randint(0, 21, (4, 256, 256), generator=g)
    preds.scatter_add_(1, target[:, None], torch.full((4, 1, 256, 256), 2.0))
    target[torch.rand(4, 256, 256, generator=g) < 0.1] = 255

    def collection(library: Any) -> Any:
        options = {"task": "multiclass", "num_classes": 21, "ignore_index": 255}
        return library.MetricCollection(
            {
                "miou": library.JaccardIndex(**options),
                "accuracy": library.Accuracy(average="micro", **options),
                "dice": library.F1Score(average="macro", **options),
            }
        )

    floor, ours, theirs, ignite = floors.Segmentation(), collection(tt), collection(torchmetrics), ig.ConfusionMatrix(num_classes=21)
    theirs.update(preds, target)  # forms its compute groups
    return {
        "floor": lambda: floor.update(preds, target),
        "torchtally": lambda: ours.update(preds, target),
        "torchmetrics collection": lambda: theirs.update(preds, target),
        "ignite": lambda: ignite.update((preds, target)),
    }


def many_means(tensors: bool) -> Ways:
    """Fifty means, one value each."""
    import torchmetrics

    values: list[Any] = [torch.tensor(float(i)) if tensors else float(i) for i in range(50)]
    floor, ours = floors.ManyMeans(50), tt.MetricCollection({f"m{i}": tt.MeanMetric().bind(value=f"m{i}") for i in range(50)})
    theirs = [torchmetrics.MeanMetric() for _ in range(50)]
    batch = {f"m{i}": x for i, x in enumerate(values)}

    def each() -> None:
        for m, x in zip(theirs, values):
            m.update(x)

    return {"floor": lambda: floor.update(values), "torchtally": lambda: ours.update(**batch), "torchmetrics": each}


def lifecycle(what: str) -> Ways:
    """Reading, saving and clearing a collection of the five, macro over 1000 classes."""
    import torchmetrics

    preds, target, loss = _scores(128, 1000)
    ours = _ours(1000, "macro")
    theirs = torchmetrics.MetricCollection(_torchmetrics(1000, "macro"))
    theirs.update(preds, target)
    theirs.persistent(True)
    ours.update(loss=loss, preds=preds, target=target)
    theirs.update(preds, target)

    def their_compute() -> None:
        for m in theirs.values(copy_state=False):
            m._computed = None  # else it only looks up the last value
        theirs.compute()

    return {
        "torchtally": {"compute": ours.compute, "reset": ours.reset, "state_dict": ours.state_dict}[what],
        "torchmetrics collection": {"compute": their_compute, "reset": theirs.reset, "state_dict": theirs.state_dict}[what],
    }


def regression(offset: float) -> Ways:
    """Squared and absolute error, R², explained variance and correlation of 8192 pairs."""
    import torchmetrics

    g = torch.Generator().manual_seed(7)
    target = torch.randn(8192, generator=g)
    preds = target + 0.5 * torch.randn(8192, generator=g) + offset
    target = target + offset
    names = ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "ExplainedVariance")
    floor, ours = floors.Regression(), tt.MetricCollection([getattr(tt, n)() for n in names])
    theirs = torchmetrics.MetricCollection([getattr(torchmetrics, n)() for n in names])
    theirs.update(preds, target)  # forms its compute groups
    return {
        "floor": lambda: floor.update(preds, target),
        "torchtally": lambda: ours.update(preds, target),
        "torchmetrics collection": lambda: theirs.update(preds, target),
    }


def spearman() -> Ways:
    """Reading the rank correlation of 81,920 pairs."""
    import torchmetrics

    g = torch.Generator().manual_seed(7)
    target = torch.randn(81920, generator=g)
    preds = target + 0.5 * torch.randn(81920, generator=g)
    ours, theirs = tt.SpearmanCorrCoef(), torchmetrics.SpearmanCorrCoef()
    for batch in zip(preds.chunk(10), target.chunk(10)):
        ours.update(*batch)
        theirs.update(*batch)

    def their_compute() -> None:
        theirs._computed = None  # else it only looks up the last value
        theirs.compute()

    return {"floor": lambda: floors.spearman(preds, target), "torchtally": ours.compute, "torchmetrics": their_compute}


def retrieval() -> Ways:
    """Ten retrieval metrics of 20,000 documents of 400 queries, in ten updates, and reading them."""
    import torchmetrics
    import torchmetrics.retrieval

    import torchtally.retrieval

    g = torch.Generator().manual_seed(9)
    data = torch.randn(20_000, generator=g), torch.randint(0, 2, (20_000,), generator=g), torch.randint(0, 400, (20_000,), generator=g)
    batches = list(zip(*(x.chunk(10) for x in data)))
    names = ("MAP", "MRR", "NormalizedDCG", "Precision", "Recall", "HitRate", "FallOut", "RPrecision", "AUROC", "PrecisionRecallCurve")

    def way(library: Any) -> Callable[[], None]:
        metrics = library.MetricCollection({n: getattr(library.retrieval, f"Retrieval{n}")() for n in names})

        def run() -> None:
            metrics.reset()
            for preds, target, indexes in batches:
                metrics.update(preds, target, indexes=indexes)
            metrics.compute()

        return run

    return {"torchtally": way(torchtally), "torchmetrics collection": way(torchmetrics)}


def _yes_no() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A hundred batches of 10,000 probabilities and targets."""
    g = torch.Generator().manual_seed(5)
    target = (torch.rand(1_000_000, generator=g) < 0.3).long()
    preds = torch.sigmoid(torch.randn(1_000_000, generator=g) + target * 1.5 - 1)
    return list(zip(preds.split(10_000), target.split(10_000)))


_CURVES = {"auroc": "AUROC", "ap": "AveragePrecision", "prc": "PrecisionRecallCurve", "roc": "ROC"}


def _curves(module: Any, task: str, names: str, **options: Any) -> dict[str, Any]:
    return {n: getattr(module, task + _CURVES[n])(**options) for n in names.split()}


def _update_all(metrics: Any, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None]:
    def update() -> None:
        metrics.reset()
        for batch in batches:
            metrics.update(*batch)

    return update


def curves_update(thresholds: int | None) -> Ways:
    """AUROC, average precision and both curves: a hundred updates, after a reset."""
    import torchmetrics
    import torchmetrics.classification as k

    batches = _yes_no()
    ours = tt.MetricCollection(_curves(tt.classification, "Binary", "auroc ap prc roc", thresholds=thresholds))
    theirs = torchmetrics.MetricCollection(_curves(k, "Binary", "auroc ap prc roc", thresholds=thresholds))
    theirs.update(*batches[0])  # forms its compute groups
    floor = floors.ExactCurves() if thresholds is None else floors.UniformCurves(thresholds)

    def least() -> None:
        if thresholds is None:
            floor.reset()
        else:
            floor.counts.fill(0)
        for batch in batches:
            floor.update(*batch)

    ways: Ways = {"floor": least, "torchtally": _update_all(ours, batches), "torchmetrics collection": _update_all(theirs, batches)}
    if thresholds is not None:
        import torcheval.metrics as te

        at = torch.linspace(0, 1, thresholds)
        evals = [c(threshold=at) for c in (te.BinaryBinnedAUROC, te.BinaryBinnedAUPRC, te.BinaryBinnedPrecisionRecallCurve)]

        def torcheval() -> None:
            for m in evals:
                m.reset()
            for batch in batches:
                for m in evals:
                    m.update(*batch)

        ways["torcheval"] = torcheval
    return ways


def curves_compute() -> Ways:
    """Reading AUROC, average precision and both curves of a million scores."""
    import torchmetrics
    import torchmetrics.classification as k

    batches = _yes_no()
    ours, floor = tt.MetricCollection(_curves(tt.classification, "Binary", "auroc ap prc roc")), floors.ExactCurves()
    theirs = torchmetrics.MetricCollection(_curves(k, "Binary", "auroc ap prc roc"))
    for batch in batches:
        for metrics in (ours, theirs, floor):
            metrics.update(*batch)

    def our_compute() -> None:
        for slots in ours.ledger.views():
            slots.__dict__.pop("derived", None)  # else it only looks up what it sorted last
        ours.compute()

    def their_compute() -> None:
        for m in theirs.values(copy_state=False):
            m._computed = None
        theirs.compute()

    return {"floor": floor.compute, "torchtally": our_compute, "torchmetrics collection": their_compute}


def label_curves() -> Ways:
    """AUROC and average precision of 80 labels at 200 thresholds."""
    import torchmetrics
    import torchmetrics.classification as k

    g = torch.Generator().manual_seed(6)
    target = (torch.rand(1024, 80, generator=g) < 0.1).long()
    preds = torch.sigmoid(torch.randn(1024, 80, generator=g) + target - 1)
    options = {"num_labels": 80, "thresholds": 200}
    floor = floors.UniformCurves(200, 80)
    ours = tt.MetricCollection(_curves(tt.classification, "Multilabel", "auroc ap", **options))
    theirs = torchmetrics.MetricCollection(_curves(k, "Multilabel", "auroc ap", **options))
    theirs.update(preds, target)
    return {
        "floor": lambda: floor.update(preds, target),
        "torchtally": lambda: ours.update(preds, target),
        "torchmetrics collection": lambda: theirs.update(preds, target),
    }


warnings.filterwarnings("ignore")

WORKLOADS: dict[str, Callable[[], Ways]] = {
    "mean of a tensor": functools.partial(mean, torch.tensor(1.5)),
    "mean of a float": functools.partial(mean, 1.5),
    "five, micro, 128×1000": lambda: five(*_scores(128, 1000), 1000, "micro"),
    "five, macro, 128×1000": lambda: five(*_scores(128, 1000), 1000, "macro"),
    "five, micro, 32×10": lambda: five(*_scores(32, 10), 10, "micro"),
    "five, macro, 32×10": lambda: five(*_scores(32, 10), 10, "macro"),
    "five, macro, labels of 128,256": functools.partial(labels, 128256),
    "five, micro, bf16 4096×32000": functools.partial(language_model, "micro"),
    "five, macro, bf16 4096×32000": functools.partial(language_model, "macro"),
    "top 5 of 1000 classes": top5,
    "segmentation": segmentation,
    "confusion of 1000 classes": confusion,
    "fifty means of tensors": functools.partial(many_means, True),
    "fifty means of floats": functools.partial(many_means, False),
    "regression of 8192 pairs": functools.partial(regression, 0.0),
    "regression of 8192 pairs at 1e6": functools.partial(regression, 1e6),
    "rank correlation": spearman,
    "ten retrieval metrics, 10 updates and compute": retrieval,
    "exact curves, 100 updates": functools.partial(curves_update, None),
    "exact curves, compute": curves_compute,
    "curves at 200 thresholds, 100 updates": functools.partial(curves_update, 200),
    "curves of 80 labels at 200 thresholds": label_curves,
    "compute": functools.partial(lifecycle, "compute"),
    "reset": functools.partial(lifecycle, "reset"),
    "state_dict": functools.partial(lifecycle, "state_dict"),
}
