"""Public reports about collections, wrappers, states and aggregation."""

import sys
import warnings

import pytest
import torch
from reports import TORCHMETRICS, Report, Table, check, fed
from torch import Tensor, tensor
from users_metrics import MeanError

import torchtally as tt
from torchtally import classification as c

reports = Table()


class Scaled(tt.Metric):
    """A user's metric: a sum, times what `compute` is asked for, or a dict."""

    full_state_update = False

    def __init__(self, named: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.named = named
        self.add_state("total", default=tensor(0.0), dist_reduce_fx="sum")

    def update(self, value: Tensor) -> None:
        self.total += value

    def compute(self, times: float = 1.0):
        return {"one": self.total, "two": 2 * self.total} if self.named else self.total * times


@reports(TORCHMETRICS, 1772, "names in a value lose the prefix of the inner collection", [["b_a_one", "b_a_two"], ["x_one_y_z", "x_two_y_z"], ["a_one", "a_two", "b_one", "b_two"]])
def _():
    inner = [tt.MetricCollection([Scaled(named=True)], prefix=p) for p in ("a_", "b_")]
    nested = [
        tt.MetricCollection([inner[0].clone()], prefix="b_"),
        tt.MetricCollection([tt.MetricCollection([Scaled(named=True)], prefix="x_", postfix="_y")], postfix="_z"),
        tt.MetricCollection(inner),
    ]
    return [list(fed(m, (1.0,))) for m in nested]


@reports(TORCHMETRICS, 1841, "compute with arguments gives the value of the first call", [2.0, 4.0, 1.0])
def _():
    metric = Scaled()
    metric.update(1.0)
    return [metric.compute(2.0), metric.compute(times=4.0), metric.compute()]


@reports(TORCHMETRICS, 3472, "labels of classes that are too few, too many or equal drop values", 3 * ["refused"])
def _():
    def told(labels):
        try:
            fed(tt.ClasswiseWrapper(c.MulticlassAccuracy(3, average=None), labels), (tensor([0, 1, 2]), tensor([0, 1, 2])))
        except ValueError:
            return "refused"

    return [told(labels) for labels in (["cat", "dog"], ["a", "b", "c", "d"], ["cat", "cat", "dog"])]


@reports(TORCHMETRICS, (2048, 2450), "resamples that took no row count as 0, or make all NaN", [[20 * [1.0], 20 * [0.0], 20 * [1.0]]] * 2 + [[1.0, 0.0, 1.0], 1.0])
def _():
    found = []
    for replicates in (7, 40):
        every = [tt.BootStrapper(tt.MeanSquaredError(), replicates, quantile=0.1, seed=seed) for seed in range(20)]
        for metric in every:
            metric.update(preds=tensor([1.0, 2.0]), target=tensor([0.0, 1.0]))
        found.append([[m.compute()[name] for m in every] for name in ("mean", "std", "quantile")])
        merged = every[0].clone()
        for metric in every[1:]:
            merged.merge_state(metric)
    found.append([merged.compute()[name] for name in ("mean", "std", "quantile")])
    of_users = tt.BootStrapper(MeanError(), 30, seed=0)
    return [*found, of_users(tensor([1.0, 2.0]), tensor([0.0, 1.0]))["mean"]]


class Model(torch.nn.Module):
    """What is scripted for serving, with the metrics that it was trained with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.accuracy = c.BinaryAccuracy()
        self.mine = Scaled()
        self.tally = tt.MetricCollection({"loss": tt.MeanMetric(), "recall": c.MulticlassRecall(3, labels=["a", "b", "c"]), "mine": Scaled()})
        self.wrapped = torch.nn.ModuleList([tt.Running(tt.MeanMetric(), 3), tt.MinMaxMetric(c.BinaryAccuracy()), tt.BootStrapper(tt.MeanSquaredError())])
        self.sum = tt.MeanSquaredError() + tt.MeanAbsoluteError()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * 2


@reports(TORCHMETRICS, (276, 2812), "a module that holds metrics cannot be scripted", [True, True, 0.5])
def _():
    if sys.version_info >= (3, 14):
        pytest.skip("TorchScript is not supported from Python 3.14 on")
    model = Model()
    model.accuracy.update(tensor([1, 1]), tensor([1, 0]))
    x = torch.ones(1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, and in use
        scripted, traced = torch.jit.script(model), torch.jit.trace(model, x)
    return [torch.equal(scripted(x), model(x)), torch.equal(traced(x), model(x)), model.accuracy.compute()]


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
