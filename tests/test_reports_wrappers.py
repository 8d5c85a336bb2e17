"""Public reports about wrappers."""

import copy
import warnings
from math import nan

import pytest
import torch
from reports import TORCHMETRICS, Report, Table, check, fed
from torch import tensor
from users_metrics import MeanError

import torchtally as tt
from torchtally import classification as c
from torchtally import wrappers as w

reports = Table()


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


@reports(TORCHMETRICS, 2556, "a reset leaves the resamples as they are", [1.0, 0, nan])
def _():
    metric = tt.BootStrapper(tt.MeanSquaredError())
    first = fed(metric, (torch.ones(50), torch.zeros(50)))["mean"]
    metric.reset()
    return [first, metric.update_count, metric.compute()["mean"]]


@reports(TORCHMETRICS, (842, 1128, 1915, 2389), "values per class are named twice, or those of all batches", [["val/f", "val/t_Tree", "val/t_Bush"], [1.0, 1.0], [0.0, 0.5]])
def _():
    named = tt.ClasswiseWrapper(c.MulticlassF1Score(2, average=None), ["Tree", "Bush"], prefix="t_")
    tally = tt.MetricCollection({"f": c.MulticlassF1Score(2), "t": named}, prefix="val/")
    jaccard = tt.ClasswiseWrapper(c.MulticlassJaccardIndex(2, average=None))
    batches = [(tensor(p), tensor([0, 1])) for p in ([0, 1], [1, 1])]
    return [list(fed(tally, batches[0])), *(list(jaccard(*batch).values()) for batch in batches)]


def tracked(metric, *batches, **options):
    tracker = tt.MetricTracker(metric, **options)
    for batch in batches:
        tracker.increment()
        tracker.update(*batch)
    return tracker


RIGHT, HALF = (tensor([0, 1]), tensor([0, 1])), (tensor([1, 1]), tensor([0, 1]))


@reports(TORCHMETRICS, (911, 1304, 2545, 2994, 3007), "the best step is not found", [0.25, [1.0, 1], 1.0, {"a": 1.0, "matrix": None}, {"multiclassaccuracy_0": 1.0, "multiclassaccuracy_1": 1.0, "f": 1.0}])
def _():
    classwise = tt.MetricCollection({"a": tt.ClasswiseWrapper(c.MulticlassAccuracy(2, average=None)), "f": c.MulticlassF1Score(2)})
    errors = tracked(tt.MeanSquaredError(), *((tensor([x]), tensor([0.0])) for x in (1.0, 0.5, 2.0)), maximize=None)
    accuracy = tracked(c.BinaryAccuracy(), HALF, RIGHT)
    matrix = tracked(tt.MetricCollection({"a": c.BinaryAccuracy(), "matrix": c.BinaryConfusionMatrix()}), RIGHT, HALF, maximize=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_matrix = matrix.best_metric()
    return [errors.best_metric(), list(accuracy.best_metric(return_step=True)), accuracy.best_metric(), of_matrix, tracked(classwise, RIGHT, HALF).best_metric()]


@reports(TORCHMETRICS, 1428, "one metric takes a list of directions", ["refused", "refused"])
def _():
    told = []
    for make in (lambda: tt.MetricTracker(tt.MeanSquaredError(), maximize=[False]), lambda: tt.MetricTracker(tt.MeanSquaredError()).compute()):
        with pytest.raises(ValueError, match=r"maximize|increment"):
            make()
        told.append("refused")
    return told


@reports(TORCHMETRICS, (1436, 3122), "a reset leaves the metric inside as it is", [[4.0, 9.0], 0.0])
def _():
    outputs = tt.MultioutputWrapper(tt.MeanSquaredError(), 2)
    same = w.LambdaInputTransformer(tt.MeanSquaredError(), lambda preds: preds)
    outputs(tensor([[1.0, 1.0]]), tensor([[0.0, 0.0]]))
    fed(same, (tensor([3.0]), tensor([1.0])))
    outputs.compute()
    for metric in (outputs, same):
        metric.reset()
    outputs(tensor([[2.0, 3.0]]), tensor([[0.0, 0.0]]))
    return [outputs.compute(), fed(same, (tensor([1.0]), tensor([1.0])))]


@reports(TORCHMETRICS, 3323, "extremes are not saved", {"raw": 0.5, "max": 1.0, "min": 0.5})
def _():
    first, again = tt.MinMaxMetric(c.BinaryAccuracy()), tt.MinMaxMetric(c.BinaryAccuracy())
    fed(first, RIGHT)
    first.reset()
    again.load_state_dict(copy.deepcopy(first.state_dict()))
    return fed(again, HALF)


@reports(TORCHMETRICS, (2338, 2402), "collections of tasks cannot be listed", {"a_mse": 1.0, "a_mae": 1.0, "b": 0.0})
def _():
    tasks = tt.MultitaskWrapper({"a": tt.MetricCollection({"mse": tt.MeanSquaredError(), "mae": tt.MeanAbsoluteError()}), "b": c.BinaryAccuracy()})
    tasks.update({"a": tensor([1.0]), "b": tensor([1])}, {"a": tensor([0.0]), "b": tensor([0])})
    return {name: metric.compute() for name, metric in tasks.items()}


@reports(TORCHMETRICS, 2026, "areas do not say that more is better", [True, True, True, False])
def _():
    made = c.BinaryAUROC(), c.BinaryAveragePrecision(), c.MultilabelAUROC(2), tt.MeanSquaredError()
    return [m.higher_is_better for m in made]


@reports(TORCHMETRICS, 2325, "a copy of metrics of several tasks takes no prefix or postfix", [["Img_val", "b_val"], ["x_Img_val", "x_b_val"], ["Img_mse_val", "b_val"]])
def _():
    tasks = tt.MultitaskWrapper({"Img": tt.MetricCollection({"mse": tt.MeanSquaredError()}), "b": c.BinaryAccuracy()})
    val = tasks.clone(postfix="_val")
    for made in (val, tasks):
        made.update({"Img": torch.ones(2), "b": tensor([1])}, {"Img": torch.ones(2), "b": tensor([1])})
    return [list(val.compute()), list(val.clone(prefix="x_").compute()), [n for n, _ in val.items()]]


@reports(TORCHMETRICS, 1867, "names of classes take no prefix or postfix", ["v_p-a", "v_p-b", "v_a-q", "v_b-q"])
def _():
    by_class = {
        "accuracy": tt.ClasswiseWrapper(c.MulticlassAccuracy(2, average=None), labels=["a", "b"], prefix="p-"),
        "f1": tt.ClasswiseWrapper(c.MulticlassF1Score(2, average=None), labels=["a", "b"], postfix="-q"),
    }
    return list(tt.MetricCollection(by_class, prefix="v_")(tensor([0, 1]), tensor([0, 1])))


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
