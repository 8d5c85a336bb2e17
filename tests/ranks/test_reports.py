"""Public reports about metrics of several processes."""

import copy
from typing import Any

import pytest
import torch
from reports import IGNITE, LIGHTNING, TORCHMETRICS, Report, Table, check, fed
from scipy import stats
from torch import Tensor, tensor
from torch import distributed as dist
from users_metrics import Everything

import torchtally as tt
from ranks.harness import run_ranks
from torchtally import classification as c
from torchtally.wire import counted

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this build of PyTorch has no torch.distributed")
reports = Table()

SCORES, TARGETS = ([0.1, 0.4], [0.35, 0.8]), ([0, 0], [1, 1])  # of two ranks; 3 of 4 pairs are in order


def ours(rank):
    return tensor(SCORES[rank]), tensor(TARGETS[rank])


def on_both(right: Any) -> list[Any]:
    return [right, right]


@reports(TORCHMETRICS, (1088, 2477), "states kept on the CPU cannot be read over ranks", on_both([0.75, [0.0, 1.0]]))
def _():
    def work(rank):
        area, numbers = c.BinaryAUROC(compute_on_cpu=True), tt.CatMetric(compute_on_cpu=True)
        return [fed(area, ours(rank)), fed(numbers, (float(rank),))]

    return run_ranks(work)


@reports(TORCHMETRICS, (112, 337, 813), "reading samples hangs, more so after a state_dict", on_both([0.75, 0.75]))
def _():
    def work(rank):
        area, curve = c.BinaryAUROC(), c.BinaryROC()
        area.persistent(True)
        area.state_dict()
        fpr, tpr, _ = fed(curve, ours(rank))
        return [fed(area, ours(rank)), torch.trapezoid(tpr, fpr)]

    return run_ranks(work)


@reports(TORCHMETRICS, 1899, "a running window is read over ranks although its metric is not", [[0.0], [1.0]])
def _():
    return run_ranks(lambda rank: [fed(tt.Running(tt.MeanMetric(sync_on_compute=False), window=2), (float(rank),))])


@reports(TORCHMETRICS, 3486, "an error in compute leaves the metric synced", on_both([1.0, "refused", 1.5]))
def _():
    class Half(tt.Metric):
        full_state_update = False
        broken = False

        def __init__(self) -> None:
            super().__init__()
            self.add_state("total", default=tensor(0.0), dist_reduce_fx="sum")

        def update(self, value: Tensor) -> None:
            self.total = self.total + value

        def compute(self) -> Tensor:
            if self.broken:
                raise ValueError("broken")
            return self.total / 2

    def work(rank):
        metric = Half()
        first = fed(metric, (1.0,))
        metric.broken = True
        try:
            said = fed(metric, (0.5,))
        except ValueError:
            said = "refused"
        metric.broken = False
        return [first, said, fed(metric, (0.0,))]

    return run_ranks(work)


@reports(LIGHTNING, 2724, "a normalised matrix is the sum of normalised matrices, sized by what a rank saw", on_both([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
def _():
    batches = (tensor([0, 1]), tensor([0, 0])), (tensor([1]), tensor([1]))
    return run_ranks(lambda rank: fed(c.MulticlassConfusionMatrix(3, normalize="true"), batches[rank]))


@reports(TORCHMETRICS, (220, 2170), "states of different lengths are cut or refused", on_both([4, 3.0]))
def _():
    def work(rank):
        metric = Everything()
        metric.update(torch.full((3 - 2 * rank, 5), 1.0 - rank))
        value = metric.compute()
        return [len(value) // 5, value.sum() / 5]

    return run_ranks(work)


X, Y = tensor([1.0, 2.0, 3.0, 4.0, 5.0, 5.0]), tensor([2.0, 1.0, 4.0, 3.0, 6.0, 6.0])


@reports(TORCHMETRICS, 2980, "correlations of ranks are merged wrong", on_both([float(f(X, Y)[0]) for f in (stats.pearsonr, stats.spearmanr, stats.kendalltau)]))
def _():
    def work(rank):
        part = tuple(x[:2] if rank == 0 else x[2:] for x in (X, Y))
        return [fed(m, part) for m in (tt.PearsonCorrCoef(), tt.SpearmanCorrCoef(), tt.KendallRankCorrCoef())]

    return run_ranks(work)


@reports(TORCHMETRICS, (2463, 3336, 3390), "a rank without data, or with fewer updates, hangs or breaks the others", on_both([[1.0, 2.0], 0.75, 3.0, [[1, 0], [0, 1]]]))
def _():
    def work(rank):
        numbers, area, total, matrix = tt.CatMetric(), c.BinaryAUROC(), tt.SumMetric(), c.BinaryConfusionMatrix()
        if rank == 1:
            for value in (1.0, 2.0):
                numbers.update(value)
                total.update(value)
            area.update(tensor(SCORES[0] + SCORES[1]), tensor(TARGETS[0] + TARGETS[1]))
            matrix.update(tensor([0, 1]), tensor([0, 1]))
        return [m.compute() for m in (numbers, area, total, matrix)]

    return run_ranks(work)


@reports(LIGHTNING, 21838, "a mean over ranks does not weigh by samples", on_both(2.0))
def _():
    return run_ranks(lambda rank: fed(tt.MeanMetric(), *((x,) for x in ([1.0], [3.0, 2.0])[rank])))


@reports(IGNITE, 2803, "computing in the middle of an epoch counts twice what was seen before", on_both([3.0, 10.0]))
def _():
    def work(rank):
        total = tt.SumMetric()
        return [fed(total, (1.0 + rank,)), fed(total, (3.0 + rank,))]

    return run_ranks(work)


@reports(TORCHMETRICS, 3199, "sync_on_compute=False reads the other ranks", [1.0, 3.0])
def _():
    return run_ranks(lambda rank: fed(tt.SumMetric(sync_on_compute=False), (1.0 + 2 * rank,)))


@reports(TORCHMETRICS, (2063, 2643), "totals of processes cannot be merged without a process group", [12 / 19, 12 / 19])
def _():
    batches = [([0, 1, 1, 0, 0, 1], [0, 1, 0, 1, 0, 1]), ([0, 0, 0, 0, 0, 1], [0, 1, 0, 1, 0, 1]), ([0, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 1])]
    parts = [c.BinaryF1Score() for _ in batches]
    for metric, (preds, target) in zip(parts, batches):
        metric.update(tensor(preds), tensor(target))
    whole, states = parts[0].clone(), parts[0].clone()
    for part in parts[1:]:
        whole.merge_state(part)
        states.merge_state(copy.deepcopy(part.state_dict()))
    return [whole.compute(), states.compute()]  # 6 hits of 9 predictions and 10 targets


@reports("allenai/OLMo", 279, "each state of each metric is gathered by itself", on_both([1, 0.75]))
def _():
    def work(rank):
        tally = tt.MetricCollection({"p": c.BinaryPrecision(), "r": c.BinaryRecall(), "loss": tt.MeanMetric().bind(value="loss"), "a": c.BinaryAccuracy()})
        tally.update(preds=tensor([1, rank]), target=tensor([1, 1]), loss=1.0)
        with counted() as traffic:
            value = tally.compute()["r"]
        return [traffic.collectives, value]

    return run_ranks(work)


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
