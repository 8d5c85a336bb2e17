"""torchmetrics' aggregators without their NaN check: the same values, weights kept, no look at the data."""

import copy
import math
import pickle

import pytest
import torch
import torchmetrics
from torch.utils._python_dispatch import TorchDispatchMode

from torchtally.adopt import suppress_nan_check
from torchtally.errors import TallyError

VALUES = torch.tensor([[1.0, 4.0], [2.0, 8.0]])


class Reads(TorchDispatchMode):
    """Counts the values that the host reads."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name, expected", [("MeanMetric", 3.75), ("SumMetric", 15.0), ("MaxMetric", 8.0), ("MinMetric", 1.0)])
def test_values_are_right_and_nothing_is_read(name, expected):
    metric = suppress_nan_check(getattr(torchmetrics, name))()
    with Reads() as reads:
        metric.update(VALUES[0])
        metric.update(VALUES[1])
    assert reads.count == 0
    assert metric.compute().item() == expected


def test_torchmetrics_itself_reads():
    metric = torchmetrics.MeanMetric()
    with Reads() as reads:
        metric.update(VALUES)
    assert reads.count > 0


def test_all_elements_are_kept_by_cat():
    metric = suppress_nan_check(torchmetrics.CatMetric)()
    metric.update(VALUES)
    assert metric.compute().flatten().tolist() == [1, 4, 2, 8]


def test_weights_are_kept_as_numbers_and_as_tensors():
    metric = suppress_nan_check(torchmetrics.MeanMetric)()
    metric.update(1.0, 3.0)
    metric.update(torch.tensor(3.0), torch.tensor(1.0))
    assert metric.compute().item() == 1.5


def test_whole_numbers_are_averaged_in_the_metrics_dtype():
    metric = suppress_nan_check(torchmetrics.MeanMetric)()
    metric.update(torch.tensor([1, 2]))
    assert metric.compute().item() == 1.5


def test_a_nan_makes_the_result_nan_instead_of_vanishing():
    metric = suppress_nan_check(torchmetrics.MeanMetric)()
    metric.update(torch.tensor([1.0, math.nan]))
    assert math.isnan(metric.compute().item())


def test_a_class_of_ones_own_keeps_what_it_changed():
    class Doubled(torchmetrics.SumMetric):
        def compute(self):
            return 2 * super().compute()

    metric = suppress_nan_check(Doubled)()
    metric.update(VALUES)
    assert metric.compute().item() == 30 and isinstance(metric, Doubled) and type(metric).__name__ == "NoNanDoubled"


def test_copies_and_pickles_keep_what_was_seen():
    metric = suppress_nan_check(torchmetrics.MeanMetric)()
    metric.update(VALUES)
    for same in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert type(same) is type(metric) and same.compute().item() == 3.75
        same.update(11.25)
        assert same.compute().item() == 5.25
    assert metric.compute().item() == 3.75


@pytest.mark.parametrize("wrong", [torchmetrics.Accuracy, int, torchmetrics.MeanMetric(), "MeanMetric"])
def test_what_has_no_nan_check_is_refused(wrong):
    with pytest.raises(TallyError, match="descends from torchmetrics' BaseAggregator"):
        suppress_nan_check(wrong)
