"""Agreement, exact match and curves against scikit-learn, over averages and ignore_index."""

import warnings

import numpy as np
import pytest
import torch
from cases import elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

import torchtally as tt
from torchtally import functional as f
from torchtally.faults import FaultError

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


# ---- curves
BOTH_FORMS = pytest.mark.parametrize("form", [tuple, elsewhere], ids=["host", "device"])


def tied_scores(ignore=None, columns=None, seed=0, n=60):
    """Probabilities with many ties, yes/no targets, and which count."""
    rng = np.random.default_rng(seed)
    shape = (n,) if columns is None else (n, columns)
    scores, y = rng.integers(0, 11, shape).astype(np.float32) / 10, rng.integers(0, 2, shape)
    scores = np.where(rng.random(shape) < 0.3, np.float32(0.9) * y, scores).astype(np.float32)
    if ignore is not None:
        y = np.where(rng.random(shape) < 0.3, ignore, y)
    return scores, y, np.ones(shape, bool) if ignore is None else y != ignore


def fed_in_parts(metric, scores, y, form):
    metric.set_dtype(torch.float64)
    for a, b in zip(torch.from_numpy(scores).split(9), torch.from_numpy(y).split(9)):
        metric.update(*form((a, b)))
    return metric.compute()


def rounded_down(scores, thresholds):
    """The place of the last threshold that is not above each score."""
    return np.searchsorted(np.sort(np.asarray(thresholds, np.float32)), scores.astype(np.float32), "right")


UNSORTED = [0.75, 0.1, 0.5, 0.9]


@BOTH_FORMS
@pytest.mark.parametrize("thresholds", [None, 6, UNSORTED, torch.tensor(UNSORTED)], ids=["exact", "number", "list", "tensor"])
@pytest.mark.parametrize("ignore", [None, -1, 255])
def test_yes_no_areas(ignore, thresholds, form):
    scores, y, live = tied_scores(ignore)
    at = None if thresholds is None else np.linspace(0, 1, 6) if isinstance(thresholds, int) else UNSORTED
    ranks, want_y = (scores if at is None else rounded_down(scores, at))[live], y[live]
    for max_fpr in (None, 0.05, 0.4, 1.0):
        metric = tt.classification.BinaryAUROC(max_fpr, thresholds, ignore)
        close(fed_in_parts(metric, scores, y, form), sk.roc_auc_score(want_y, ranks, max_fpr=max_fpr))
    metric = tt.classification.BinaryAveragePrecision(thresholds, ignore)
    close(fed_in_parts(metric, scores, y, form), sk.average_precision_score(want_y, ranks))
    got = f.auroc(torch.from_numpy(scores), torch.from_numpy(y), "binary", thresholds=thresholds, ignore_index=ignore)
    close(got, sk.roc_auc_score(want_y, ranks))


@BOTH_FORMS
@pytest.mark.parametrize("ignore", [None, -1])
def test_yes_no_curves(ignore, form):
    scores, y, live = tied_scores(ignore)
    fpr, tpr, thresholds = fed_in_parts(tt.classification.BinaryROC(ignore_index=ignore), scores, y, form)
    want = sk.roc_curve(y[live], scores[live], drop_intermediate=False)
    close(fpr, want[0])
    close(tpr, want[1])
    close(thresholds, [1.0, *want[2][1:]])
    got = fed_in_parts(tt.classification.BinaryPrecisionRecallCurve(ignore_index=ignore), scores, y, form)
    for a, b in zip(got, sk.precision_recall_curve(y[live], scores[live])):
        close(a, b)


@BOTH_FORMS
@pytest.mark.parametrize("thresholds", [11, UNSORTED])
def test_curves_at_thresholds_count_scores_on_them(thresholds, form):
    scores, y, _ = tied_scores()
    at = np.linspace(0, 1, 11).astype(np.float32) if thresholds == 11 else np.float32(thresholds)
    above = scores >= at[:, None]
    tp, fp = (above & (y == 1)).sum(1), (above & (y == 0)).sum(1)
    precision, recall, got_at = fed_in_parts(tt.classification.BinaryPrecisionRecallCurve(thresholds), scores, y, form)
    close(got_at, at)
    close(precision, [*(tp / (tp + fp)), 1.0])
    close(recall, [*(tp / y.sum()), 0.0])
    fpr, tpr, got_at = fed_in_parts(tt.classification.BinaryROC(thresholds), scores, y, form)
    close(got_at, at[::-1])
    close(fpr, fp[::-1] / (1 - y).sum())
    close(tpr, tp[::-1] / y.sum())


@BOTH_FORMS
@pytest.mark.parametrize("ignore", [None, -1])
@pytest.mark.parametrize("thresholds", [None, UNSORTED], ids=["exact", "binned"])
@pytest.mark.parametrize("average", AVERAGES)
def test_areas_of_labels(average, thresholds, ignore, form):
    scores, y, live = tied_scores(ignore, 3)
    ranks = scores if thresholds is None else rounded_down(scores, thresholds)
    for name, reference in (("AUROC", sk.roc_auc_score), ("AveragePrecision", sk.average_precision_score)):
        each = [reference(y[live[:, k], k], ranks[live[:, k], k]) for k in range(3)]
        support = [np.count_nonzero(y[live[:, k], k]) for k in range(3)]
        want = {"none": each, "macro": np.mean(each), "weighted": np.average(each, weights=support)}.get(average)
        want = reference(y[live], ranks[live]) if want is None else want
        metric = getattr(tt.classification, "Multilabel" + name)(3, average, thresholds, ignore)
        close(fed_in_parts(metric, scores, y, form), want)


@BOTH_FORMS
@pytest.mark.parametrize("ignore", [None, -1])
@pytest.mark.parametrize("thresholds", [None, UNSORTED], ids=["exact", "binned"])
@pytest.mark.parametrize("logits", [True, False])
@pytest.mark.parametrize("average", ["macro", "weighted", "none"])
def test_areas_of_classes(average, logits, thresholds, ignore, form):
    """Class 3 never occurs: it has no area and is in no average."""
    rng = np.random.default_rng(5)
    given_scores = rng.normal(size=(60, 4)).astype(np.float32) * 2
    scores = torch.from_numpy(given_scores).double().softmax(1).numpy()
    if not logits:
        given_scores = scores = scores.astype(np.float32)
    y = rng.integers(0, 3, 60)
    y = np.where(rng.random(60) < 0.3, -1, y) if ignore is not None else y
    live = y >= 0
    ranks = scores if thresholds is None else rounded_down(scores, thresholds)
    for name, reference in (("AUROC", sk.roc_auc_score), ("AveragePrecision", sk.average_precision_score)):
        each = [reference(y[live] == k, ranks[live, k]) for k in range(3)]
        support = [np.count_nonzero(y == k) for k in range(3)]
        want = {"none": [*each, np.nan], "macro": np.mean(each), "weighted": np.average(each, weights=support)}[average]
        metric = getattr(tt.classification, "Multiclass" + name)(4, average, thresholds, ignore)
        close(fed_in_parts(metric, given_scores, y, form), want)


@BOTH_FORMS
def test_large_logits_are_ranked_not_saturated(form):  # Lightning-AI/torchmetrics#2819
    logits, y = np.array([50.0, 51.0, 52.0, 53.0], np.float32), np.array([0, 1, 0, 1])
    close(fed_in_parts(tt.classification.BinaryAUROC(), logits, y, form), 0.75)
    pair = np.stack([-logits, logits], 1)
    close(fed_in_parts(tt.classification.MulticlassAUROC(2), pair, y, form), 0.75)
    thresholds = fed_in_parts(tt.classification.BinaryROC(), logits / 50, y, form)[2]
    close(thresholds, [1.0, *1 / (1 + np.exp(-logits[::-1].astype(np.float64) / 50))])


@BOTH_FORMS
@pytest.mark.parametrize("thresholds", [None, 5])
def test_one_class_has_no_area(thresholds, form):  # Lightning-AI/torchmetrics#2494, #1891
    scores = np.array([0.2, 0.9, 0.4], np.float32)
    for y in (np.ones(3, np.int64), np.zeros(3, np.int64)):
        for max_fpr in (None, 0.1):
            assert fed_in_parts(tt.classification.BinaryAUROC(max_fpr, thresholds), scores, y, form).isnan()
        close(fed_in_parts(tt.classification.BinaryAveragePrecision(thresholds), scores, y, form), float(y[0]))
    recall = fed_in_parts(tt.classification.BinaryPrecisionRecallCurve(thresholds), scores, np.zeros(3, np.int64), form)[1]
    close(recall[:-1], np.ones(len(recall) - 1))


def test_nothing_seen_has_no_area():
    for thresholds in (None, 5):
        empty = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
        assert tt.classification.BinaryAUROC(thresholds=thresholds)(*empty).isnan()
        assert tt.classification.BinaryAveragePrecision(thresholds=thresholds)(*empty) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([-np.inf, -1e30, -1.0, 0.0, 1e-30, 0.5, 1.0, 1e30, np.inf]), st.integers(0, 1)), min_size=1))
def test_areas_whatever_the_ties_and_extremes(data):
    scores, y = np.array([s for s, _ in data], np.float32), np.array([t for _, t in data])
    ranks = np.unique(scores, return_inverse=True)[1]
    for form in (tuple, elsewhere):
        if 0 < y.sum() < len(y):
            close(fed_in_parts(tt.classification.BinaryAUROC(), scores, y, form), sk.roc_auc_score(y, ranks))
        if y.sum():
            close(fed_in_parts(tt.classification.BinaryAveragePrecision(), scores, y, form), sk.average_precision_score(y, ranks))


def test_a_collection_sorts_once_for_all_curves():
    scores, y, _ = tied_scores()
    tally = tt.MetricCollection(
        {"a": tt.classification.BinaryAUROC(), "p": tt.classification.BinaryAveragePrecision(), "r": tt.classification.BinaryROC()}
    )
    for a, b in zip(torch.from_numpy(scores).split(9), torch.from_numpy(y).split(9)):
        tally.update(a, b)
    for _ in range(2):
        got = tally.compute()
        close(got["a"], sk.roc_auc_score(y, scores))
        close(got["p"], sk.average_precision_score(y, scores))
    tally.update(torch.from_numpy(1 - scores), torch.from_numpy(y))
    close(tally.compute()["a"], sk.roc_auc_score([*y, *y], [*scores, *(1 - scores)]))


@pytest.mark.parametrize("metric", [tt.classification.BinaryAUROC(), tt.classification.BinaryAUROC(thresholds=5)], ids=["exact", "binned"])
def test_impossible_scores_and_targets_are_refused_or_kept_out(metric):
    good = torch.tensor([0.1, 0.8]), torch.tensor([0, 1])
    for bad in ((torch.tensor([0.3, torch.nan]), good[1]), (good[0], torch.tensor([0, 2]))):
        metric.reset()
        with pytest.raises(FaultError, match="expected"):
            metric.update(*bad)
        metric.update(*good)
        metric.update(*elsewhere(bad))
        with pytest.raises(FaultError, match="1 value was impossible") as caught:
            metric.compute()
        assert float(caught.value.values) == 1.0
    with pytest.raises(ValueError, match="floating-point"):
        metric.update(good[1], good[1])
    with pytest.raises(ValueError, match="integer or boolean"):
        metric.update(good[0], good[0])
    with pytest.raises(ValueError, match="equal shapes"):
        metric.update(good[0], good[1][:1])


@pytest.mark.parametrize("thresholds", [1, True, [], [0.1, 1.5], torch.zeros(2, 2), "automatic"])
def test_thresholds_that_are_refused(thresholds):
    with pytest.raises(ValueError, match="expected None for exact curves"):
        tt.classification.BinaryAUROC(thresholds=thresholds)
