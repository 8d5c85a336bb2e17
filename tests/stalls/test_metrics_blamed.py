"""Whose metric waits, and at which line: torchmetrics by version, and this project's own."""

from collections import Counter
from pathlib import Path

import pytest
import torch

pretend_cuda = pytest.importorskip("torchtally.stalls.sources.pretend").pretend_cuda
torchmetrics = pytest.importorskip("torchmetrics")
VERSION = ".".join(torchmetrics.__version__.split(".")[:2])


def waits_of_an_update(metric_class):
    """(kind, text of the innermost line, function it is in) → count, for one update with a loss on the device."""
    with pretend_cuda() as recorder:
        average = metric_class().to("cuda")
        loss = torch.ones((), device="cuda")
        before = len(recorder.stalls)
        average.update(loss)  # the line to blame
        stalls = recorder.stalls[before:]
    for stall in stalls:
        assert stall.site.code == "average.update(loss)  # the line to blame"
        assert stall.site.file == __file__
        assert stall.metric == f"{metric_class.__name__} average"
        assert Path(stall.inner.file).name == "aggregation.py"
    return Counter((s.kind, s.inner.code, s.inner.function) for s in stalls)


@pytest.mark.skipif(VERSION != "1.6", reason="speaks of torchmetrics 1.6")
def test_torchmetrics_1_6_copies_the_default_weight_and_reads_two_flags():
    assert waits_of_an_update(torchmetrics.MeanMetric) == {
        ("host_to_device", "weight = torch.as_tensor(weight, dtype=self.dtype, device=self.device)", "update"): 1,
        ("read", "if nans.any() or nans_weight.any():", "_cast_and_nan_check_input"): 2,
    }


@pytest.mark.skipif(VERSION != "1.9", reason="speaks of torchmetrics 1.9")
def test_torchmetrics_1_9_reads_two_flags():
    assert waits_of_an_update(torchmetrics.MeanMetric) == {("read", "if nans.any() or nans_weight.any():", "_cast_and_nan_check_input"): 2}


def test_our_own_does_not_wait():
    torchtally = pytest.importorskip("torchtally")
    if not hasattr(torchtally, "MeanMetric"):
        pytest.skip("has no metrics yet")
    assert waits_of_an_update(torchtally.MeanMetric) == {}


def test_a_metric_is_called_by_its_key_attribute_or_variable():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.train_loss = torchmetrics.MeanMetric()

        def step(self, loss):
            self.train_loss.update(loss)

    class Plain:
        def __init__(self):
            self.losses = {"val": torchmetrics.MeanMetric().to("cuda")}

        def step(self, loss):
            for m in self.losses.values():
                m.update(loss)

    with pretend_cuda() as recorder:
        loss = torch.ones((), device="cuda")
        collection = torchmetrics.MetricCollection({"mean": torchmetrics.MeanMetric(), "max": torchmetrics.MaxMetric()}).to("cuda")
        module, plain, alone = Module().to("cuda"), Plain(), torchmetrics.SumMetric().to("cuda")
        several = [torchmetrics.MinMetric().to("cuda")]
        before = len(recorder.stalls)
        collection.update(loss)
        module.step(loss)
        plain.step(loss)
        alone.update(loss)
        several[0].update(loss)
        found = Counter(s.metric for s in recorder.stalls[before:] if s.kind == "read")
    assert set(found) == {"MeanMetric mean", "MaxMetric max", "MeanMetric train_loss", "MeanMetric val", "SumMetric alone", "MinMetric several[0]"}
    assert set(found.values()) == {2}


class Disagreement(torchmetrics.Metric):
    """A user's own metric, with a wait of its own."""

    def __init__(self):
        super().__init__()
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, x):
        if x.max() > 0:
            self.total += x.sum()

    def compute(self):
        return self.total


def test_a_metric_of_ones_own_is_blamed_at_its_own_line():
    with pretend_cuda() as recorder:
        disagreement = Disagreement().to("cuda")
        x = torch.ones(2, device="cuda")
        before = len(recorder.stalls)
        disagreement.update(x)
        (stall,) = recorder.stalls[before:]
    assert (stall.site.code, stall.metric) == ("if x.max() > 0:", "Disagreement disagreement")


def test_a_functional_form_is_named_by_its_function():
    from torchmetrics.functional import mean_squared_error
    from torchmetrics.functional.classification import multiclass_confusion_matrix

    with pretend_cuda() as recorder:
        x = torch.ones(4, dtype=torch.long, device="cuda")
        mean_squared_error(x, x)
        multiclass_confusion_matrix(x, x, num_classes=3, validate_args=False)
        found = {s.metric for s in recorder.stalls}
    assert found == {"multiclass_confusion_matrix"}
