"""Agreement, exact match and curves against scikit-learn, over averages and ignore_index."""

import warnings

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

import torchtally as tt
from torchtally import functional as f

IGNORES = (None, -1, 2, 255)
AVERAGES = ("micro", "macro", "weighted", "none")


def close(got, want):
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=2e-6, atol=2e-6)


def in_parts(metric, preds, target):
    metric.set_dtype(torch.float64)
    for a, b in zip(preds.split(9), target.split(9)):
        metric.update(a, b)
    return metric.compute()


def classes(ignore, seed=0, n=60):
    """Predicted and true labels of 0..4, where 3 is never true and 4 occurs nowhere; and both without what is ignored."""
    rng = np.random.default_rng(seed)
    p, y = rng.integers(0, 4, n), rng.integers(0, 3, n)
    p = np.where(rng.random(n) < 0.4, y, p)
    if ignore in (-1, 255):
        y = np.where(rng.random(n) < 0.3, ignore, y)
    keep = np.ones(n, bool) if ignore is None else y != ignore
    return torch.from_numpy(p), torch.from_numpy(y), p[keep], y[keep]


def labels(ignore, seed=0, n=40):
    """Decisions and targets of three labels, and which count."""
    rng = np.random.default_rng(seed)
    p, y = rng.integers(0, 2, (n, 3)), rng.integers(0, 2, (n, 3))
    p = np.where(rng.random((n, 3)) < 0.5, y, p)
    if ignore == -1:
        y = np.where(rng.random((n, 3)) < 0.3, ignore, y)
    return torch.from_numpy(p), torch.from_numpy(y), p, y, np.ones((n, 3), bool) if ignore is None else y != ignore


# ---- agreement
@pytest.mark.parametrize("ignore", IGNORES)
@pytest.mark.parametrize("average", AVERAGES)
def test_jaccard_index_of_classes(average, ignore):
    preds, target, p, y = classes(ignore)
    counted = [k for k in range(5) if k != ignore]
    if average == "none":
        want = [0.0 if k == ignore else sk.jaccard_score(y, p, labels=[k], average="macro", zero_division=0) for k in range(5)]
        got = in_parts(tt.classification.MulticlassJaccardIndex(5, average, ignore), preds, target)
        assert got[[k for k in counted]].tolist() == pytest.approx([want[k] for k in counted])
        return
    occurring = [k for k in counted if k in {*p, *y}] if average == "macro" else counted
    want = sk.jaccard_score(y, p, labels=occurring, average=average, zero_division=0)
    close(in_parts(tt.classification.MulticlassJaccardIndex(5, average, ignore), preds, target), want)
    close(f.multiclass_jaccard_index(preds, target, 5, average, ignore), want)
    close(tt.JaccardIndex("multiclass", num_classes=5, average=average, ignore_index=ignore)(preds, target), want)


@pytest.mark.parametrize("ignore", [None, -1, 0, 1])
@pytest.mark.parametrize("average", AVERAGES)
def test_jaccard_index_of_labels(average, ignore):
    preds, target, p, y, live = labels(ignore)
    if average == "micro":
        want = sk.jaccard_score(y[live], p[live], zero_division=0) if ignore != 1 else 0.0
    else:
        each = [sk.jaccard_score(y[live[:, k], k], p[live[:, k], k], zero_division=0) if ignore != 1 else 0.0 for k in range(3)]
        support = [np.count_nonzero(y[live[:, k], k]) for k in range(3)]
        want = each if average == "none" else np.mean(each) if average == "macro" or ignore == 1 else np.average(each, weights=support)
    close(in_parts(tt.classification.MultilabelJaccardIndex(3, average=average, ignore_index=ignore), preds, target), want)
    close(f.multilabel_jaccard_index(preds, target, 3, 0.5, average, ignore), want)


@pytest.mark.parametrize("ignore", [None, -1])
def test_yes_no_agreement(ignore):
    preds, target, p, y, live = (x[:, 0] for x in labels(ignore))
    p, y = p[live], y[live]
    close(in_parts(tt.classification.BinaryJaccardIndex(ignore_index=ignore), preds, target), sk.jaccard_score(y, p))
    close(in_parts(tt.classification.BinaryMatthewsCorrCoef(ignore_index=ignore), preds, target), sk.matthews_corrcoef(y, p))
    for weights in (None, "none", "linear", "quadratic"):
        close(in_parts(tt.classification.BinaryCohenKappa(0.5, ignore, weights), preds, target), sk.cohen_kappa_score(y, p))
    close(f.binary_cohen_kappa(preds, target, 0.5, None, ignore), sk.cohen_kappa_score(y, p))


@pytest.mark.parametrize("zero_division", [0.0, 1.0])
def test_jaccard_index_of_nothing_is_zero_division(zero_division):
    none = torch.zeros(4, dtype=torch.int64)
    close(tt.classification.BinaryJaccardIndex(zero_division=zero_division)(none, none), zero_division)


@pytest.mark.parametrize("ignore", IGNORES)
def test_agreement_of_classes(ignore):
    preds, target, p, y = classes(ignore)
    close(in_parts(tt.classification.MulticlassMatthewsCorrCoef(5, ignore), preds, target), sk.matthews_corrcoef(y, p))
    close(f.multiclass_matthews_corrcoef(preds, target, 5, ignore), sk.matthews_corrcoef(y, p))
    for weights in (None, "linear", "quadratic"):
        want = sk.cohen_kappa_score(y, p, weights=weights, labels=range(5))
        if weights is not None and ignore == 2:
            # The matrix has no row of an ignored class, its column stays.
            assert np.isfinite(want)
        close(in_parts(tt.classification.MulticlassCohenKappa(5, ignore, weights), preds, target), want)
        close(tt.CohenKappa("multiclass", num_classes=5, weights=weights, ignore_index=ignore)(preds, target), want)
        close(f.multiclass_cohen_kappa(preds, target, 5, weights, ignore), want)


@pytest.mark.parametrize("ignore", [None, -1, 0])
def test_matthews_correlation_of_labels(ignore):
    preds, target, p, y, live = labels(ignore)
    close(in_parts(tt.classification.MultilabelMatthewsCorrCoef(3, 0.5, ignore), preds, target), sk.matthews_corrcoef(y[live], p[live]))


@pytest.mark.parametrize("preds, target", [([1, 0, 1], [1, 1, 1]), ([1, 1], [1, 1]), ([0, 0], [1, 1]), ([1, 1, 1], [1, 0, 1])])
def test_correlation_is_zero_where_nothing_varies(preds, target):  # Lightning-AI/torchmetrics#3384
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn's, of a single label
        want = sk.matthews_corrcoef(target, preds)
    assert want == 0
    close(tt.classification.BinaryMatthewsCorrCoef()(torch.tensor(preds), torch.tensor(target)), want)
    close(tt.classification.MulticlassMatthewsCorrCoef(2)(torch.tensor(preds), torch.tensor(target)), want)


def test_matthews_correlation_of_many():
    """Counts whose products are beyond float32 and int64."""
    metric = tt.classification.BinaryMatthewsCorrCoef().set_dtype(torch.float64)
    metric.update(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1]))
    metric.metric_state["counts"].mul_(3_000_000_000).add_(torch.tensor([[1], [1], [1], [1]]))
    hit, predicted, positive, seen = (3_000_000_000 * k + 1 for k in (1, 2, 2, 4))
    tn = seen - predicted - positive + hit
    exact = (hit * tn - (predicted - hit) * (positive - hit)) / (predicted * (seen - predicted) * positive * (seen - positive)) ** 0.5
    assert float(metric.compute()) == pytest.approx(exact, rel=1e-6, abs=1e-12)


# ---- exact match
@pytest.mark.parametrize("ignore", [None, -1, 2])
def test_exact_match_of_classes(ignore):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, (30, 2, 2))
    p = np.where(rng.random(y.shape) < 0.8, y, rng.integers(0, 4, y.shape))
    if ignore == -1:
        y = np.where(rng.random(y.shape) < 0.3, -1, y)
    right = ((p == y) | (y == ignore)).reshape(30, -1).all(1)
    assert 0 < right.mean() < 1
    preds, target = torch.from_numpy(p), torch.from_numpy(y)
    close(in_parts(tt.classification.MulticlassExactMatch(4, "global", ignore), preds, target), right.mean())
    close(in_parts(tt.classification.MulticlassExactMatch(4, "samplewise", ignore), preds, target), right)
    scores = torch.nn.functional.one_hot(preds, 4).movedim(-1, 1).float()
    close(f.multiclass_exact_match(scores, target, 4, "samplewise", ignore), right)


def test_exact_match_of_single_labels_is_accuracy():
    preds, target, p, y = classes(None)
    close(tt.ExactMatch("multiclass", num_classes=5)(preds, target), sk.accuracy_score(y, p))


@pytest.mark.parametrize("ignore", [None, -1, 0])
def test_exact_match_of_labels(ignore):
    preds, target, p, y, live = labels(ignore)
    right = ((p == y) | ~live).all(1)
    close(in_parts(tt.classification.MultilabelExactMatch(3, ignore_index=ignore), preds, target), right.mean())
    close(in_parts(tt.classification.MultilabelExactMatch(3, 0.5, "samplewise", ignore), preds, target), right)
    if ignore is None:
        close(f.multilabel_exact_match(preds, target, 3), sk.accuracy_score(y, p))
    images = [x.reshape(8, 5, 3).movedim(-1, 1) for x in (preds, target)]
    close(tt.ExactMatch("multilabel", num_labels=3, ignore_index=ignore)(*images), right.mean())
    close(f.multilabel_exact_match(*images, 3, 0.5, "samplewise", ignore), right.reshape(8, 5).mean(1))
