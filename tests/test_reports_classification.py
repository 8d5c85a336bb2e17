"""Public reports about classification metrics."""

import pytest
import torch
from reports import TORCHMETRICS, Report, Table, check, fed
from torch import tensor

import torchtally as tt
from torchtally import classification as c
from torchtally.stalls import pretend_cuda

reports = Table()


@reports(TORCHMETRICS, (2113, 3043), "samples of one element are refused", [[[1, 0, 2, 0, 1], [0, 1, 1, 1, 1]], [1.0, 0.0], [1.0, 0.0, 1.0], [0.8, 0.0]])
def _():
    options = {"multidim_average": "samplewise", "average": "micro"}
    scores = tensor([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0]])
    counts = fed(c.MulticlassStatScores(3, **options), (scores, tensor([0, 1])))
    f1 = fed(c.MulticlassF1Score(2, multidim_average="samplewise"), (scores[:, :2], tensor([0, 1])))
    binary = fed(c.BinaryAccuracy(multidim_average="samplewise"), (tensor([0.9, 0.2, 0.7]), tensor([1, 1, 1])))
    labels = fed(c.MultilabelF1Score(3, **options), (tensor([[1, 0, 1], [0, 0, 0]]), tensor([[1, 1, 1], [0, 0, 1]])))
    with pretend_cuda():
        for metric, preds, target, value in (
            (c.MulticlassStatScores(3, **options), scores, tensor([0, 1]), counts),
            (c.BinaryAccuracy(multidim_average="samplewise"), tensor([0.9, 0.2, 0.7]), tensor([1, 1, 1]), binary),
        ):
            assert torch.equal(fed(metric.cuda(), (preds.cuda(), target.cuda())).cpu(), value)
    return [counts, f1, binary, labels]


@reports(TORCHMETRICS, (269, 2465), "the counts cannot be read from the metric", [[1, 0, 1], 2, [2, 1], [[1, 1], [0, 2]]])
def _():
    preds, target = tensor([0, 1, 2, 2]), tensor([0, 2, 2, 1])
    recall, micro, matrix = c.MulticlassRecall(3), c.MulticlassRecall(3, average="micro"), c.BinaryConfusionMatrix(normalize="true")
    binary = c.BinaryF1Score(multidim_average="samplewise")
    jaccard = c.MulticlassJaccardIndex(3)
    for metric in (recall, micro, jaccard):
        metric.update(preds, target)
    matrix.update(tensor([1, 1, 0, 1]), tensor([1, 1, 0, 0]))
    binary.update(tensor([[1, 1], [1, 0]]), tensor([[1, 1], [1, 1]]))
    with pytest.raises(AttributeError, match=r"confmat.*ConfusionMatrix"):
        _ = jaccard.confmat
    return [recall.tp, micro.fn, binary.tp, matrix.confmat]


TOLD = {
    "threshold": (lambda: c.BinaryAccuracy(threshold=2.0), r"expected a probability.*logit"),
    "task": (lambda: tt.Accuracy(num_classes=3), r"Accuracy: task is missing; expected one of"),
    "one column": (lambda: c.BinaryAccuracy()(torch.rand(4, 1), tensor([0, 1, 1, 0])), r"Squeeze"),
    "two classes": (lambda: c.BinaryAUROC()(torch.rand(4, 2), tensor([0, 1, 1, 0])), r"2 classes.*multiclass"),
    "one-hot": (lambda: c.MulticlassF1Score(3)(torch.rand(3, 3), torch.eye(3).long()), r"argmax\(1\).*multilabel"),
}


@reports(TORCHMETRICS, (369, 391, 416), "errors do not say what to do", None)
def _():
    for make, said in TOLD.values():
        with pytest.raises((TypeError, ValueError), match=said):
            make()


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
