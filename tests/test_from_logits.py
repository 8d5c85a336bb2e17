"""Scores are probabilities or logits as `from_logits` says; where it says nothing, a batch decides, and having decided both ways is reported."""

import inspect
import math
import pickle

import numpy as np
import pytest
import torch
from cases import elsewhere
from sklearn import metrics as sk
from torch import Tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f
from torchtally.faults import FaultWarning
from torchtally.stalls import pretend_cuda

NEEDED = {"num_classes": 3, "num_labels": 2, "beta": 2.0, "num_groups": 2, "min_precision": 0.5, "min_recall": 0.5}
NEEDED |= {"min_sensitivity": 0.5, "min_specificity": 0.5}
TOLD = [
    cls
    for name in c.__all__
    if not issubclass(cls := getattr(c, name), c.tasks.ClassificationTask) and "from_logits" in inspect.signature(cls.__init__).parameters
]
SMALL = (torch.tensor([0.4]), torch.tensor([1])), (torch.tensor([-2.0, 3.0]), torch.tensor([0, 1]))  # Lightning-AI/torchmetrics#1604
WAYS = {"host": tuple, "device": elsewhere}
ways = pytest.mark.parametrize("way", WAYS)


def fed(metric, batches, way="host"):
    for batch in batches:
        metric.update(*WAYS[way](batch))
    return metric


def number(x):
    return x.as_subclass(Tensor).item()


def test_every_yes_no_metric_and_every_curve_can_be_told():
    names = {cls.__name__ for cls in TOLD}
    scored = {n for n in c.__all__ if n.startswith(("Binary", "Multilabel")) and "Ranking" not in n and "Coverage" not in n}
    scored |= {n for n in c.__all__ if n.startswith("Multiclass") and "thresholds" in inspect.signature(getattr(c, n).__init__).parameters}
    assert scored | {"MulticlassCalibrationError", "MulticlassHingeLoss"} <= names


@pytest.mark.parametrize("cls", TOLD, ids=lambda cls: cls.__name__)
def test_what_is_told_must_be_true_false_or_none(cls):
    options = {n: x for n, x in NEEDED.items() if n in inspect.signature(cls.__init__).parameters}
    with pytest.raises(ValueError, match=rf"{cls.__name__}: from_logits is 'yes'; expected True, False or None"):
        cls(**options, from_logits="yes")
    assert "from_logits=True" in repr(cls(**options, from_logits=True))


@ways
def test_told_logits_are_logits_in_every_batch(way):
    assert number(fed(c.BinaryAccuracy(from_logits=True), SMALL, way).compute()) == 1.0
    assert number(fed(tt.Accuracy("binary", from_logits=True), SMALL, way).compute()) == 1.0


@ways
def test_told_logits_have_the_values_of_their_probabilities(way):
    r = np.random.default_rng(0)
    x, y = r.normal(size=(64, 2)).astype(np.float32), r.integers(0, 2, (64, 2))
    p = 1 / (1 + np.exp(-x.astype(np.float64)))
    batches = list(zip(torch.from_numpy(x).split(2), torch.from_numpy(y).split(2)))
    got = fed(c.MultilabelF1Score(2, from_logits=True, threshold=0.7), batches, way).compute()
    assert number(got) == pytest.approx(sk.f1_score(y, p > 0.7, average="macro"))
    got = fed(c.MultilabelAveragePrecision(2, from_logits=True, thresholds=1001), batches, way).compute()
    assert number(got) == pytest.approx(np.mean([sk.average_precision_score(y[:, k], np.floor(p[:, k] * 1000)) for k in range(2)]))
    one = [(a[:, 0], b[:, 0]) for a, b in batches]
    for said, scores in ((True, x), (False, p.astype(np.float32))):
        data = [(torch.from_numpy(s), b) for s, (_, b) in zip(np.split(scores[:, 0], 32), one)]
        _, _, thresholds = fed(c.BinaryROC(from_logits=said), data, way).compute()
        np.testing.assert_allclose(thresholds.as_subclass(Tensor)[1:], np.unique(p[:, 0])[::-1], rtol=1e-6)


@ways
def test_told_logits_of_classes_within_the_unit_interval_are_softmaxed(way):
    r = np.random.default_rng(1)
    x, y = r.random((50, 3)).astype(np.float32), r.integers(0, 3, 50)
    p = np.exp(x.astype(np.float64))
    p /= p.sum(1, keepdims=True)
    batch = torch.from_numpy(x), torch.from_numpy(y)
    for said, scores in ((True, p), (False, x)):
        want = np.mean([sk.roc_auc_score(y == k, scores[:, k]) for k in range(3)])
        assert number(fed(c.MulticlassAUROC(3, from_logits=said), [batch], way).compute()) == pytest.approx(want)


@ways
@pytest.mark.parametrize("many", [False, True])
def test_batches_read_both_ways_are_reported_with_their_counts(way, many):
    batches = [*SMALL, *SMALL[1:] * (70 if many else 0)]
    metric = fed(c.BinaryAccuracy(), batches, way)
    said = rf"BinaryAccuracy: {len(batches) - 1} of {len(batches)} batches had scores outside \[0, 1\] .*from_logits"
    with pytest.warns(FaultWarning, match=said):
        value = metric.compute()
    assert number(value) == pytest.approx((2 * len(batches) - 2) / (2 * len(batches) - 1))
    with pytest.warns(FaultWarning, match=said):
        metric.fetch().result()
    metric.reset()
    fed(metric, SMALL[1:], way).compute()


@ways
def test_one_reading_is_no_fault(way):
    for metric in (c.BinaryAccuracy(), c.BinaryAUROC(thresholds=5), c.BinaryAUROC()):
        fed(metric, [SMALL[1], (torch.tensor([]), torch.tensor([], dtype=torch.int64)), SMALL[1]], way).compute()
        metric.reset()
        fed(metric, [SMALL[0]] * 3 + [(torch.tensor([0.2]), torch.tensor([0]))], way).compute()
    labels = fed(c.BinaryAccuracy(), [(torch.tensor([1, 0]), torch.tensor([1, 0])), SMALL[1]], way)
    assert number(labels.compute()) == 1.0


@ways
def test_curves_report_binned_batches_and_decide_exact_ones_together(way):
    with pytest.warns(FaultWarning, match="BinaryAUROC: 1 of 2 batches"):
        fed(c.BinaryAUROC(thresholds=5), SMALL, way).compute()
    assert number(fed(c.BinaryAUROC(), SMALL, way).compute()) == 1.0


def test_readings_are_merged_saved_and_shared():
    first, second = (fed(c.BinaryF1Score(), [batch]) for batch in SMALL)
    first.compute()
    second.compute()
    first.merge_state(pickle.loads(pickle.dumps(second)))
    other = c.BinaryF1Score()
    other.load_state_dict(first.state_dict())
    for metric in (first, other):
        with pytest.warns(FaultWarning, match="1 of 2 batches"):
            metric.compute()
    tally = tt.MetricCollection([c.BinaryAccuracy(), c.BinaryRecall(), c.BinaryPrecision(from_logits=True)])
    fed(tally, SMALL)
    with pytest.warns(FaultWarning, match="BinaryAccuracy, BinaryRecall: 1 of 2"):
        assert tally.compute()["BinaryPrecision"] == 1.0
    quiet = fed(c.BinaryAccuracy(validate_args=False), SMALL)
    quiet.compute()


def test_updates_that_decide_do_not_wait():
    with pretend_cuda():
        metric = c.BinaryAccuracy().to("cuda")
        for batch in SMALL:
            metric.update(*(x.to("cuda") for x in batch))
        with pytest.warns(FaultWarning, match="1 of 2 batches"):
            metric.compute()


@ways
@pytest.mark.parametrize("thresholds", ["none", None, 5])
@pytest.mark.parametrize("wrong", [1.5, -0.1, math.inf, math.nan])
def test_told_probabilities_outside_the_unit_interval_are_kept_out(way, thresholds, wrong):
    options = {} if thresholds == "none" else {"thresholds": thresholds}
    metric = (c.BinaryAccuracy if thresholds == "none" else c.BinaryAUROC)(from_logits=False, **options)
    good = torch.tensor([0.9, 0.1]), torch.tensor([1, 0])
    metric.update(*WAYS[way](good))
    bad = torch.tensor([0.2, wrong, 0.7]), torch.tensor([0, 0, 1])
    if way == "host":
        with pytest.raises(tt.FaultError, match="expected"):
            metric.update(*bad)
        assert number(metric.compute()) == 1.0
        return
    metric.update(*elsewhere(bad))
    with pytest.raises(tt.FaultError, match="1 value was impossible") as raised:
        metric.compute()
    assert number(raised.value.values) == 1.0


def test_ignored_scores_may_be_anything():
    preds, target = torch.tensor([0.9, -7.0, 0.2]), torch.tensor([1, -1, 0])
    for way in WAYS:
        assert number(fed(c.BinaryAccuracy(ignore_index=-1, from_logits=False), [(preds, target)], way).compute()) == 1.0
        assert number(fed(c.BinaryAUROC(ignore_index=-1, from_logits=False), [(preds, target)], way).compute()) == 1.0


def test_functions_and_fronts_take_it_where_it_matters():
    preds, target = torch.tensor([0.4, 0.6]), torch.tensor([1, 1])
    assert f.binary_accuracy(preds, target, from_logits=True) == 1.0
    assert f.accuracy(preds, target, task="binary", from_logits=False) == 0.5
    assert f.accuracy(torch.eye(3), torch.arange(3), task="multiclass", num_classes=3, from_logits=True) == 1.0
    assert tt.Accuracy("multiclass", num_classes=3, from_logits=True)(torch.eye(3), torch.arange(3)) == 1.0  # the highest score wins anyway


@ways
def test_a_batch_that_is_all_padding_is_not_read(way):
    padding = torch.tensor([0.0, 0.0]), torch.tensor([-1, -1])
    for metric in (c.BinaryAccuracy(ignore_index=-1), c.BinaryAUROC(thresholds=5, ignore_index=-1)):
        fed(metric, [SMALL[1], padding, SMALL[1]], way).compute()
