"""Aggregation metrics of torchmetrics without the NaN check: values, weights, copies, refusals."""

import copy
import pickle

import pytest
import torch
import torchmetrics
from torchmetrics import CatMetric, MaxMetric, MeanMetric, MinMetric, RunningMean, SumMetric

import torchtally
from torchtally.adopt import suppress_nan_check
from torchtally.errors import TallyError
from torchtally.stalls import pretend_cuda

VALUES = torch.tensor([2.0, 5.0, -1.0])


@pytest.mark.parametrize(
    "metric, expected",
    [(MeanMetric, 2.0), (SumMetric, 6.0), (MaxMetric, 5.0), (MinMetric, -1.0), (CatMetric, [2.0, 5.0, -1.0])],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_values_are_those_of_the_class(metric, expected):
    made = suppress_nan_check(metric)()
    made.update(VALUES[:2])
    made.update(VALUES[2:])
    assert made.compute().tolist() == expected


@pytest.mark.parametrize("options", [{}, {"nan_strategy": "ignore"}, {"nan_strategy": "error"}], ids=str)
def test_weights_are_kept(options):
    mean = suppress_nan_check(MeanMetric)(**options)
    mean.update(torch.tensor([1.0, 3.0]), torch.tensor([3.0, 1.0]))
    assert mean.compute() == 1.5
    mean.reset()
    mean.update(2.0, weight=3)
    mean.update(6, weight=torch.tensor(1))
    assert mean.compute() == 3


def test_whole_numbers_are_averaged_in_the_metrics_dtype():
    mean = suppress_nan_check(MeanMetric)()
    mean.update(torch.tensor([1, 2]))
    assert mean.compute() == 1.5


def test_nan_stays_in():
    mean = suppress_nan_check(MeanMetric)(nan_strategy="ignore")
    mean.update(torch.tensor([1.0, float("nan")]))
    assert mean.compute().isnan()


class Doubled(MeanMetric):
    def update(self, value, weight=1.0):
        super().update(value * 2, weight)


def test_a_users_own_class_and_forward():
    made = suppress_nan_check(Doubled)()
    assert made(torch.tensor([1.0, 2.0])) == 3
    assert made(torch.tensor([4.0])) == 8
    assert made.compute() == pytest.approx(14 / 3)


def test_name_identity_and_repr():
    cls = suppress_nan_check(MeanMetric)
    assert cls is suppress_nan_check(MeanMetric) is suppress_nan_check(cls)
    assert issubclass(cls, MeanMetric)
    assert (cls.__name__, repr(cls())) == ("NoNanMeanMetric", "NoNanMeanMetric()")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: m.clone()], ids=["deepcopy", "pickle", "clone"])
def test_copies_go_on_by_themselves(copied):
    mean = suppress_nan_check(MeanMetric)()
    mean.update(torch.tensor(1.0))
    other = copied(mean)
    other.update(torch.tensor(4.0))
    assert type(other) is type(mean)
    assert (mean.compute(), other.compute()) == (1, 2.5)


def test_it_works_in_a_collection_and_a_running_window():
    members = torchmetrics.MetricCollection({"mean": suppress_nan_check(MeanMetric)(), "max": suppress_nan_check(MaxMetric)()})
    members.update(VALUES)
    assert members.compute() == {"mean": 2, "max": 5}
    window = torchmetrics.wrappers.Running(suppress_nan_check(SumMetric)(), window=2)
    for value in VALUES:
        window.update(value)
    assert window.compute() == 4


def test_the_reads_go_and_weights_given_as_tensors_leave_no_wait():
    def waits(metric):
        with pretend_cuda() as seen:
            metric = metric.to("cuda")
            value = torch.ones(4, device="cuda")
            weight = torch.ones_like(value)
            before = seen.count
            metric.update(value, weight)
            return seen.count - before

    assert waits(MeanMetric()) == 2
    assert waits(suppress_nan_check(MeanMetric)()) == 0


def test_a_cpu_tensor_joins_a_state_on_a_gpu_without_a_copy():
    with pretend_cuda() as seen:
        seconds = suppress_nan_check(MeanMetric)().to("cuda")
        before = seen.count
        value = torch.as_tensor(0.25)
        seconds.update(value, torch.ones_like(value))
        assert seen.count == before
        assert seconds.compute().item() == 0.25


@pytest.mark.parametrize(
    "wrong, words",
    [
        (MeanMetric(), r"an object; .* Write suppress_nan_check\(MeanMetric\)"),
        (RunningMean, r"Write Running\(suppress_nan_check\(MeanMetric\)\(\), window\)"),
        (torchmetrics.classification.BinaryAccuracy, "got BinaryAccuracy, which is not derived from BaseAggregator"),
        (torchtally.MeanMetric, "torchtally's MeanMetric, which never waits"),
        (int, "got int"),
        ("MeanMetric", "an object"),
    ],
    ids=["object", "running", "other metric", "torchtally", "int", "name"],
)
def test_other_classes_are_refused(wrong, words):
    with pytest.raises(TallyError, match=words):
        suppress_nan_check(wrong)
