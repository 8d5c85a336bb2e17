"""Public reports about areas, curves, logits and calibration."""

from math import nan

import pytest
import torch
from reports import LIGHTNING, TORCHMETRICS, Report, Table, check, fed
from torch import tensor

from torchtally import classification as c

reports = Table()


@reports(TORCHMETRICS, 2685, "an area fails where every element is ignored", [nan, [1.0, nan, 1.0], [nan, nan, nan], nan, 0.75])
def _():
    scores = tensor([[0.9, 0.5, 0.2], [0.1, 0.3, 0.8], [0.7, 0.6, 0.4]])
    target = tensor([[1, -1, 0], [0, -1, 1], [1, -1, 0]])
    area = c.BinaryAUROC(ignore_index=-1)
    first = area(tensor([0.1, 0.8]), tensor([-1, -1]))
    of_labels = [fed(c.MultilabelAUROC(3, average=None, ignore_index=-1), (scores, t)) for t in (target, torch.full_like(target, -1))]
    area.update(tensor([0.1, 0.8, 0.4, 0.3]), tensor([0, 1, 0, 1]))
    none = fed(c.BinaryAUROC(ignore_index=-1), (tensor([0.1, 0.8, 0.4]), tensor([-1, -1, -1])))
    return [none, *of_labels, first, area.compute()]


@reports(TORCHMETRICS, (1989, 2195, 2329), "scores within [0, 1] are not taken for logits in some batches", [1.0, 0.5, 1.0])
def _():
    def one_by_one(*pairs):
        return fed(c.BinaryAUROC(), *((tensor([score]), tensor([y])) for score, y in pairs))

    by_batch = fed(c.BinaryAUROC(), (tensor([0.2, 0.9]), tensor([0, 0])), (tensor([-1.0, 1.5]), tensor([0, 1])))
    return [one_by_one((1.2, 1), (0.9678, 0), (1.7, 1)), one_by_one((-1.0, 1), (0.0, 0), (1.0, 1)), by_batch]


@reports(TORCHMETRICS, (1604, 3269), "logits within [0, 1] are taken for probabilities", [1.0, 0.0, 1.0])
def _():
    batches = (tensor([0.4]), tensor([1])), (tensor([-2.0, 3.0]), tensor([0, 1]))
    return [fed(c.BinaryAccuracy(from_logits=True), *batches), *(fed(c.BinaryAccuracy(from_logits=x), batches[0]) for x in (False, True))]


@reports(TORCHMETRICS, 2819, "large logits tie", 0.75)
def _():
    return fed(c.BinaryAUROC(), (tensor([50.0, 51.0, 52.0, 53.0]), tensor([0, 1, 0, 1])))


@reports(TORCHMETRICS, 2494, "the area of one class is 0", [nan, nan, 1.0])
def _():
    scores = tensor([0.2, 0.9])
    return [*(fed(c.BinaryAUROC(), (scores, y)) for y in (tensor([1, 1]), tensor([0, 0]))), fed(c.BinaryAveragePrecision(), (scores, tensor([1, 1])))]


@reports(TORCHMETRICS, 1891, "a partial area of one class fails", nan)
def _():
    return fed(c.BinaryAUROC(max_fpr=0.1), (tensor([0.2, 0.9, 0.4]), tensor([1, 1, 1])))


@reports(LIGHTNING, 8246, "areas fail or sink where a class has no targets", [1.0, 1.0, [1.0, 1.0, nan]])
def _():
    scores = tensor([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.8, 0.1]])
    return [fed(c.MulticlassAUROC(3, average=a), (scores, tensor([0, 0, 1, 1]))) for a in ("weighted", "macro", None)]


@reports("tracel-ai/burn", 5683, "average precision of ties depends on the order of the rows", [1 / 3, 1 / 3])
def _():
    return [fed(c.BinaryAveragePrecision(), (tensor([0.3, 0.3, 0.3]), y)) for y in (tensor([1, 0, 0]), tensor([0, 0, 1]))]


@reports(TORCHMETRICS, 2873, "the precision above all scores is 0", [[0.5, 0.5, 0.5, 0.6, 0.5, 1 / 3, 0.5, 0.0, nan, nan, 1.0], [1.0, 1.0, 1.0, 1.0, 2 / 3, 1 / 3, 1 / 3, 0.0, 0.0, 0.0, 0.0]])
def _():
    curve = c.BinaryPrecisionRecallCurve(thresholds=10)
    return fed(curve, (tensor([0.3, 0.4, 0.5, 0.6, 0.7, 0.8]), tensor([0, 1, 1, 0, 1, 0])))[:2]


@reports(TORCHMETRICS, 3226, "a threshold of a million where none is reached", [0.0, nan])
def _():
    return list(fed(c.BinaryRecallAtFixedPrecision(min_precision=0.9), (tensor([0.9, 0.1]), tensor([0, 1]))))


@reports(TORCHMETRICS, (1646, 1744, 1907, 3510), "confidences of 0 fail, those of 1 have a bin of their own", [0.28, 0.0, 0.475, 0.25 * 2 / 5 + 0.45 / 5 + 0.25 * 2 / 5])
def _():
    error = c.BinaryCalibrationError
    return [
        fed(error(n_bins=2), (tensor([0.8, 0.8, 0.8, 0.0, 0.0]), tensor([1, 1, 0, 1, 0]))),
        fed(error(n_bins=15), (tensor([0.0, 1.0, 0.0, 1.0]), tensor([0, 1, 0, 1]))),
        fed(error(n_bins=10), (tensor([0.95, 1.0]), tensor([1, 0]))),
        fed(error(n_bins=4), (tensor([0.25, 0.25, 0.55, 0.75, 0.75]), tensor([0, 0, 1, 1, 1]))),
    ]


@reports("meta-pytorch/torcheval", 46, "areas of several tasks with equal scores mix their rows", [[1 / 3, 0.75], [1 / 3, 0.75]])
def _():
    scores = tensor([[0, 0.8, 0.9, 0, 1, 0.2, 0, 1, 0.5, 1], [0, 1, 0, 1, 0, 0, 1, 0, 0, 1]])
    target = tensor([[1, 0, 0, 1, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 0, 1, 1, 1, 1]])
    return [fed(c.MultilabelAUROC(2, average=None), (scores.T, target.T)), [fed(c.BinaryAUROC(), (s, t)) for s, t in zip(scores, target)]]


@reports(LIGHTNING, 3303, "a binary area takes scores of several classes and gives a random value", ValueError)
def _():
    fed(c.BinaryAUROC(), (torch.rand(10, 3), tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])))


@reports(TORCHMETRICS, (1105, 2519), "a binary calibration error compares confidence with the share of positives, not with accuracy", [0.99, 0.01])
def _():
    sure = tensor([0.01, 0.01, 0.01])
    return [fed(c.BinaryCalibrationError(), (sure, tensor([y, y, y]))) for y in (1, 0)]


@reports("scikit-learn/scikit-learn", 17630, "a hinge loss fails where a class is absent from the targets", [1.5, 2.0])
def _():
    decision = tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    return [fed(c.MulticlassHingeLoss(3), (decision, tensor(y))) for y in ([0, 1, 2, 0], [0, 2, 2, 0])]


@reports(TORCHMETRICS, (3299, 2921, 3294), "what a metric remembers grows with thresholds, or with every compute", [True, True])
def _():
    def sizes(metric, updates):
        for _ in range(updates):
            metric.update(torch.rand(50, 3), torch.randint(3, (50,)))
        for _ in range(3):
            metric.compute()
            yield sum(t.numel() for x in metric.metric_state.values() for t in (x if isinstance(x, list) else [x]))

    (few, *_), (many, *_) = (set(sizes(c.MulticlassPrecisionRecallCurve(3, thresholds=20), n)) for n in (1, 9))
    return [few == many, len(set(sizes(c.MulticlassPrecisionRecallCurve(3), 2))) == 1]


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
