"""Public reports about plots."""

import matplotlib
import pytest
import torch
from matplotlib import pyplot
from reports import TORCHMETRICS, Report, Table, check, fed
from torch import tensor

import torchtally as tt
from torchtally import classification as c

matplotlib.use("Agg")
reports = Table()


def numbers(axes):
    return [text.get_text().split("\n")[0] for text in axes.texts]


@reports(TORCHMETRICS, (2059, 2857), "the matrices of some numbers of labels do not fit into a grid", [1, 2, 3, 11, 17, 21])
def _():
    found = []
    for labels in (1, 2, 3, 11, 17, 21):
        metric = c.MultilabelConfusionMatrix(labels)
        metric.update(torch.rand(8, labels), torch.randint(2, (8, labels)))
        figure, _ = metric.plot()
        found.append(sum(len(axes.texts) == 4 for axes in figure.axes))
    return found


@reports(TORCHMETRICS, 1971, "rows and columns of a drawn matrix are exchanged", [["0", "1", "0", "0"], "predicted class", "true class"])
def _():
    metric = c.MulticlassConfusionMatrix(2)
    metric.update(tensor([1]), tensor([0]))
    _, axes = metric.plot()
    return [numbers(axes), axes.get_xlabel(), axes.get_ylabel()]


@reports(TORCHMETRICS, 2358, "shares in a drawn matrix have too many digits", ["33 %", "67 %", "0 %", "100 %"])
def _():
    metric = c.MulticlassConfusionMatrix(2, normalize="true")
    metric.update(tensor([0, 1, 1, 1]), tensor([0, 0, 0, 1]))
    return numbers(metric.plot()[1])


@reports("microsoft/hi-ml", 508, "a matrix is not drawn where classes are absent", [["0", "1", "0", "0", "0", "0", "0", "0", "0"], ["a", "b", "c"]])
def _():
    metric = c.MulticlassConfusionMatrix(3)
    metric.update(tensor([1]), tensor([0]))
    _, axes = metric.plot(labels=["a", "b", "c"])
    return [numbers(axes), [text.get_text() for text in axes.get_xticklabels()]]


@reports(TORCHMETRICS, 652, "metrics that are no number cannot be drawn", 4 * [True])
def _():
    scores, target = torch.rand(20, 3), torch.randint(3, (20,))
    metrics = [c.MulticlassROC(3), c.MulticlassPrecisionRecallCurve(3), tt.ClasswiseWrapper(c.MulticlassRecall(3, average=None)), c.MulticlassStatScores(3)]
    for metric in metrics:
        fed(metric, (scores, target))
    return [isinstance(metric.plot()[0], pyplot.Figure) for metric in metrics]


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    try:
        check(report)
    finally:
        pyplot.close("all")
