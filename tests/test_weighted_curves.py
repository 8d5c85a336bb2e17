"""Sample weights of everything that ranks scores: scikit-learn's `sample_weight`, exact and binned."""

import math

import numpy as np
import pytest
import torch
from cases import elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor
from torch.nn.functional import one_hot
from weighted import WAYS, close, value, ways

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f
from torchtally.faults import FaultError


def binary(n=80, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, generator=g).round(decimals=1), torch.randint(0, 2, (n,), generator=g), torch.rand(n, generator=g) * 3


def multiclass(n=80, classes=4, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, classes, generator=g).softmax(1), torch.randint(0, classes, (n,), generator=g), torch.rand(n, generator=g) * 3


def multilabel(n=80, labels=3, seed=2):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, labels, generator=g), torch.randint(0, 2, (n, labels), generator=g), torch.rand(n, generator=g) * 3


@ways
def test_binary(way):
    batch = preds, target, weight = binary()
    close(value(c.BinaryAUROC(weighted=True), *batch, way=way), sk.roc_auc_score(target, preds, sample_weight=weight))
    close(value(c.BinaryAUROC(0.3, weighted=True), *batch, way=way), sk.roc_auc_score(target, preds, sample_weight=weight, max_fpr=0.3))
    close(value(c.BinaryAveragePrecision(weighted=True), *batch, way=way), sk.average_precision_score(target, preds, sample_weight=weight))
    thresholds = torch.arange(11).div(10).round(decimals=1)  # every score is on one, so that nothing is rounded
    close(value(c.BinaryAUROC(None, thresholds, weighted=True), *batch, way=way), sk.roc_auc_score(target, preds, sample_weight=weight))
    got = value(c.BinaryAveragePrecision(thresholds, weighted=True), *batch, way=way)
    close(got, sk.average_precision_score(target, preds, sample_weight=weight))


@ways
@pytest.mark.parametrize("average", ["macro", "weighted", "none"])
def test_multiclass_and_multilabel(average, way):
    how = None if average == "none" else average
    preds, target, weight = multiclass()
    truth = one_hot(target, 4)
    for name, reference in (("AUROC", sk.roc_auc_score), ("AveragePrecision", sk.average_precision_score)):
        want = reference(truth, preds, average=how, sample_weight=weight.double().numpy())
        close(value(getattr(c, f"Multiclass{name}")(4, average, weighted=True), preds, target, weight, way=way), want)
        scores, truths, weights = multilabel()
        want = reference(truths, scores, average=how, sample_weight=weights.double().numpy())
        close(value(getattr(c, f"Multilabel{name}")(3, average, weighted=True), scores, truths, weights, way=way), want)


@ways
def test_weights_of_labels_and_of_pixels(way):
    preds, target, _ = multilabel()
    each = torch.rand(80, 3)
    want = [sk.roc_auc_score(target[:, k], preds[:, k], sample_weight=each[:, k]) for k in range(3)]
    close(value(c.MultilabelAUROC(3, "none", weighted=True), preds, target, each, way=way), want)
    want = sk.roc_auc_score(target.flatten(), preds.flatten(), sample_weight=each.flatten())
    close(value(c.MultilabelAUROC(3, "micro", weighted=True), preds, target, each, way=way), want)
    images, truth, of_images = torch.rand(6, 3, 4, 2).softmax(1), torch.randint(0, 3, (6, 4, 2)), torch.rand(6)
    full = of_images[:, None, None].expand(6, 4, 2).flatten()
    flat = images.movedim(1, -1).reshape(-1, 3)
    want = [sk.roc_auc_score(truth.flatten() == k, flat[:, k], sample_weight=full) for k in range(3)]
    close(value(c.MulticlassAUROC(3, "none", weighted=True), images, truth, of_images, way=way), want)
    close(value(c.MulticlassAUROC(3, "none", flat.double().unique(), weighted=True), images, truth, of_images, way=way), want)
    single = torch.rand(9, 1), torch.randint(0, 2, (9, 1)), torch.rand(9)
    single[1][:2] = torch.tensor([[0], [1]])
    want = sk.roc_auc_score(single[1][:, 0], single[0][:, 0], sample_weight=single[2])
    close(value(c.MultilabelAUROC(1, weighted=True), *single, way=way), want)


@ways
def test_curves(way):
    preds, target, weight = batch = binary()
    fpr, tpr, at = value(c.BinaryROC(weighted=True), *batch, way=way)
    want = sk.roc_curve(target, preds, sample_weight=weight.double(), drop_intermediate=False)
    for got, x in zip((fpr[1:], tpr[1:], at[1:]), (x[1:] for x in want)):
        np.testing.assert_allclose(np.asarray(got.as_subclass(Tensor)), x, rtol=1e-7)
    precision, recall, _ = value(c.BinaryPrecisionRecallCurve(weighted=True), *batch, way=way)
    want = sk.precision_recall_curve(target, preds, sample_weight=weight.double())
    close(precision, want[0])
    close(recall, want[1])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whole_weights_are_repetitions(data):
    n = data.draw(st.integers(1, 10))
    preds = torch.tensor(data.draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=n, max_size=n)))
    target = torch.tensor(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    weight = torch.tensor(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    for cls in (c.BinaryAUROC, c.BinaryAveragePrecision, c.BinaryEER, c.BinaryLogAUC):
        for options in ({}, {"thresholds": [0.0, 0.25, 0.5, 1.0]}):
            want = value(cls(**options), preds.repeat_interleave(weight), target.repeat_interleave(weight), parts=1)
            for way in WAYS:
                got = value(cls(**options, weighted=True), preds, target, weight, way=way, parts=1).as_subclass(Tensor)
                torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_impossible_and_ignored_weights():
    preds, target = torch.tensor([0.1, 0.9, 0.4, 0.6]), torch.tensor([0, 1, 1, -1])
    good = torch.tensor([1.0, 2.0, 3.0, math.nan])  # of an ignored element
    want = sk.roc_auc_score(target[:3], preds[:3], sample_weight=good[:3])
    for way in WAYS:
        close(value(c.BinaryAUROC(ignore_index=-1, weighted=True), preds, target, good, way=way, parts=1), want)
    for metric in (c.BinaryAUROC(ignore_index=-1, weighted=True), c.BinaryAUROC(None, 5, ignore_index=-1, weighted=True)):
        with pytest.raises(FaultError, match=r"BinaryAUROC: weight is -1.0 at \(1, 0\)"):
            metric.update(preds, target, torch.tensor([1.0, -1.0, 1.0, 1.0]))
        assert metric.update_count == 0
        metric.update(*elsewhere((preds, target, torch.tensor([1.0, -1.0, 1.0, 1.0]))))
        with pytest.raises(FaultError, match="1 value was impossible weights"):
            metric.compute()
    with pytest.raises(ValueError, match=r"without weighted=True all samples count the same"):
        c.BinaryAUROC().update(preds, target.clamp(min=0), good)


def test_in_collections_functions_and_by_name():
    preds, target, weight = multiclass()
    truth = one_hot(target, 4)
    tally = tt.MetricCollection(
        {
            "auroc": c.MulticlassAUROC(4, weighted=True),
            "precision": c.MulticlassAveragePrecision(4, weighted=True),
            "recall": c.MulticlassRecall(4, weighted=True),
            "each": c.MulticlassAUROC(4, "none", weighted=True, labels=["a", "b", "c", "d"]),
        }
    ).set_dtype(torch.float64)
    tally.update(preds=preds, target=target, weight=weight)
    found = tally.compute()
    close(found["auroc"], sk.roc_auc_score(truth, preds, sample_weight=weight))
    close(found["precision"], sk.average_precision_score(truth, preds, sample_weight=weight))
    close(found["recall"], sk.recall_score(target, preds.argmax(1), average="macro", sample_weight=weight))
    close(found["each_c"], sk.roc_auc_score(truth[:, 2], preds[:, 2], sample_weight=weight))
    want = sk.roc_auc_score(truth, preds, sample_weight=weight)
    np.testing.assert_allclose(f.auroc(preds, target, "multiclass", num_classes=4, weight=weight), want, rtol=1e-6)
    got = f.multilabel_eer(*multilabel()[:2], 3, labels=["a", "b", "c"])
    assert list(got) == ["a", "b", "c"]
