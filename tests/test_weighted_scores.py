"""Sample weights of exact match, calibration, hinge losses, label rankings, fairness and rounded curves: scikit-learn's `sample_weight`, or NumPy."""

import numpy as np
import pytest
import torch
from cases import rounding
from scipy.integrate import trapezoid
from sklearn import metrics as sk
from test_auto_thresholds import down
from test_references_scores import softmax
from torch.nn.functional import one_hot
from weighted import close, value, ways

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f


def random(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def classes(*shape, below=2, seed=1):
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


@ways
def test_exact_match(way):
    preds, target, weight = random(80, 3), classes(80, 3), random(80, seed=2)
    want = sk.accuracy_score(target, preds > 0.5, sample_weight=weight)
    close(value(c.MultilabelExactMatch(3, weighted=True), preds, target, weight, way=way), want)
    labels = classes(80, 2, below=3, seed=3)
    guesses = labels.where(random(80, 2, seed=4) < 0.7, 0)
    want = np.average((labels == guesses).all(1), weights=weight)
    close(value(c.MulticlassExactMatch(3, weighted=True), guesses, labels, weight, way=way), want)
    close(f.exact_match(guesses, labels, "multiclass", num_classes=3, weight=weight), want, 1e-6)
    images, truth, of_positions = random(9, 2, 4), classes(9, 2, 4), random(9, 4, seed=5)
    right = ((images > 0.5) == truth).all(1)
    for given, full in ((of_positions, of_positions), (weight[:9], weight[:9, None].expand(9, 4))):
        close(value(c.MultilabelExactMatch(2, weighted=True), images, truth, given, way=way), np.average(right, weights=full))
    each = c.MultilabelExactMatch(2, multidim_average="samplewise", weighted=True)
    close(value(each, images, truth, of_positions, way=way), [np.average(r, weights=w) for r, w in zip(right, of_positions)])


def test_weights_of_exact_match_say_what_was_expected():
    preds, target = random(9, 2, 4), classes(9, 2, 4)
    with pytest.raises(ValueError, match=r"MultilabelExactMatch: weight has shape \(9, 2, 4\); expected \(9,\) or \(9, 4\), one for each row"):
        c.MultilabelExactMatch(2, weighted=True).update(preds, target, torch.ones(9, 2, 4))
    with pytest.raises(ValueError, match="MulticlassExactMatch: weighted is True, but multidim_average='samplewise' lists the value"):
        c.MulticlassExactMatch(3, "samplewise", weighted=True)
    metric = c.MultilabelExactMatch(2, weighted=True)
    metric.update(preds, target, torch.ones(9))
    with pytest.raises(ValueError, match=r"a share of weights has no closed form"):
        metric.interval()


def calibration(confidence, right, weight, bins, norm):
    gaps, shares = [], []
    for i in range(bins):
        inside = (confidence <= (i + 1) / bins) & ((confidence > i / bins) if i else True)
        if weight[inside].sum():
            gaps.append(abs(np.average(right[inside], weights=weight[inside]) - np.average(confidence[inside], weights=weight[inside])))
            shares.append(weight[inside].sum() / weight.sum())
    gaps, shares = np.array(gaps), np.array(shares)
    return {"l1": (gaps * shares).sum(), "l2": np.sqrt((gaps**2 * shares).sum()), "max": gaps.max()}[norm]


@ways
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_calibration(norm, way):
    preds, target, weight = random(120), classes(120), random(120, seed=2)
    weight[:20] = 0.0
    want = calibration(*(x.numpy() for x in (preds, target, weight)), 8, norm)
    close(value(c.BinaryCalibrationError(8, norm, weighted=True), preds, target, weight, way=way), want)
    scores, labels = random(120, 3) * 6 - 3, classes(120, below=3)
    p = softmax(scores.numpy())
    want = calibration(p.max(1), p.argmax(1) == labels.numpy(), weight.numpy(), 8, norm)
    close(value(c.MulticlassCalibrationError(3, 8, norm, weighted=True), scores, labels, weight, way=way), want)


@ways
def test_hinge_losses(way):
    scores, target, weight = random(90) * 6 - 3, classes(90), random(90, seed=2)
    want = sk.hinge_loss(target * 2 - 1, scores, sample_weight=weight)
    close(value(c.BinaryHingeLoss(from_logits=False, weighted=True), scores, target, weight, way=way), want)
    squared = np.average(np.maximum(0, 1 - scores.numpy() * (target * 2 - 1).numpy()) ** 2, weights=weight)
    close(value(c.BinaryHingeLoss(True, from_logits=False, weighted=True), scores, target, weight, way=way), squared)
    scores, target = random(90, 4) * 6 - 3, classes(90, below=4)
    want = sk.hinge_loss(target, scores, labels=range(4), sample_weight=weight)
    close(value(c.MulticlassHingeLoss(4, from_logits=False, weighted=True), scores, target, weight, way=way), want)
    want = [sk.hinge_loss(x * 2 - 1, scores[:, k], sample_weight=weight) for k, x in enumerate(one_hot(target, 4).T)]
    metric = c.MulticlassHingeLoss(4, multiclass_mode="one-vs-all", from_logits=False, weighted=True)
    close(value(metric, scores, target, weight, way=way), want)
    scores.requires_grad_()
    metric = c.MulticlassHingeLoss(4, weighted=True).set_dtype(torch.float64)
    assert torch.autograd.gradcheck(lambda x: metric(x, target[:7], weight[:7]), scores[:7])


@ways
def test_label_rankings(way):
    preds, target, weight = random(70, 5).round(decimals=1), classes(70, 5), random(70, seed=2)
    batch = preds, target, weight
    assert target.sum(1).eq(0).any()
    plain = weight.numpy()
    want = sk.coverage_error(target, preds, sample_weight=plain)
    close(value(c.MultilabelCoverageError(5, weighted=True), *batch, way=way), want)
    want = sk.label_ranking_average_precision_score(target, preds, sample_weight=plain)
    close(value(c.MultilabelRankingAveragePrecision(5, weighted=True), *batch, way=way), want)
    want = sk.label_ranking_loss(target, preds, sample_weight=plain)
    close(value(c.MultilabelRankingLoss(5, weighted=True), *batch, way=way), want)
    close(f.multilabel_ranking_loss(*batch[:2], 5, weight=weight), want, 1e-6)
    images, truth, of_positions = preds.view(10, 7, 5).movedim(2, 1), target.view(10, 7, 5).movedim(2, 1), weight.view(10, 7)
    close(value(c.MultilabelRankingLoss(5, weighted=True), images, truth, of_positions, way=way), want)
    with pytest.raises(ValueError, match=r"MultilabelRankingLoss: weight has shape \(70, 5\); expected \(70,\), one for each row"):
        c.MultilabelRankingLoss(5, weighted=True).update(preds, target, torch.ones(70, 5))


@ways
def test_fairness(way):
    preds, target, groups, weight = random(90), classes(90), classes(90, below=3, seed=4), random(90, seed=2)
    decided = preds > 0.5
    got = value(c.BinaryGroupStatRates(3, weighted=True), preds, target, groups, weight, way=way)
    chosen, found = [], []
    for k in range(3):
        here = groups == k
        tn, fp, fn, tp = sk.confusion_matrix(target[here], decided[here], sample_weight=weight[here].double()).ravel()
        close(got[f"group_{k}"], np.array([tp, fp, tn, fn]) / weight[here].sum().item())
        chosen.append(np.average(decided[here], weights=weight[here]))
        found.append(sk.recall_score(target[here], decided[here], sample_weight=weight[here]))
    got = value(c.BinaryFairness(3, weighted=True), preds, target, groups, weight, way=way)
    want = {
        f"{name}_{np.argmin(rates)}_{np.argmax(rates)}": min(rates) / max(rates) for name, rates in (("DP", chosen), ("EO", found))
    }
    assert got.keys() == want.keys()
    for name, x in want.items():
        close(got[name], x)
    got = f.demographic_parity(preds, groups, weight=weight)
    close(next(iter(got.values())), min(chosen) / max(chosen), 1e-6)
    tally = tt.MetricCollection([c.BinaryFairness(3, "demographic_parity", weighted=True), c.BinaryAccuracy(weighted=True)])
    tally.update(preds=preds, target=target, groups=groups, weight=weight)
    close(next(x for n, x in tally.compute().items() if "DP" in n), min(chosen) / max(chosen), 1e-6)


@ways
def test_curves_that_are_exact_within_a_budget_and_rounded_beyond(way):
    scores, target, weight = (random(400) * 8 - 4).float(), classes(400), random(400, seed=2)
    batch = scores, target, weight
    rounded = down(scores.numpy())
    close(value(c.BinaryAUROC(thresholds="auto", weighted=True), *batch, way=way, parts=9), sk.roc_auc_score(target, scores, sample_weight=weight))
    for budget in (13, 1300, 5100):  # of 5200 bytes
        metric = rounding(c.BinaryAUROC, budget=budget, weighted=True)
        close(value(metric, *batch, way=way, parts=9), sk.roc_auc_score(target, rounded, sample_weight=weight))
        assert sum(map(len, metric.scores)) * 13 <= budget
        got = value(rounding(c.BinaryAveragePrecision, budget=budget, weighted=True), *batch, way=way, parts=9)
        close(got, sk.average_precision_score(target, rounded, sample_weight=weight))
    fpr, tpr, at = value(rounding(c.BinaryROC, weighted=True), *batch, way=way, parts=9)
    want = sk.roc_curve(target, rounded, sample_weight=weight.numpy(), drop_intermediate=False)
    close(fpr, want[0])
    close(tpr, want[1])
    close(at[1:], 1 / (1 + np.exp(-want[2][1:])))
    many, truth, each = random(150, 3).float(), classes(150, 3), random(150, 3, seed=6)
    down_many = down(many.numpy())
    want = [sk.roc_auc_score(truth[:, k], down_many[:, k], sample_weight=each[:, k]) for k in range(3)]
    close(value(rounding(c.MultilabelAUROC, 3, "none", weighted=True), many, truth, each, way=way), want)


def equal_error(target, preds, weight):
    fpr, tpr, _ = sk.roc_curve(target, preds, sample_weight=weight, drop_intermediate=False)
    at = np.abs(fpr + tpr - 1).argmin()
    return (fpr[at] + 1 - tpr[at]) / 2


@ways
def test_points_of_curves(way):
    preds, target, weight = batch = random(90), classes(90), random(90, seed=2)
    close(value(c.BinaryEER(weighted=True), *batch, way=way), equal_error(*(x.numpy() for x in (target, preds, weight))))
    fpr, tpr, at = sk.roc_curve(target, preds, sample_weight=weight.numpy(), drop_intermediate=False)
    best, threshold = value(c.BinarySensitivityAtSpecificity(0.6, weighted=True), *batch, way=way)
    close(best, tpr[1 - fpr >= 0.6].max())
    assert best == tpr[at.tolist().index(threshold.item())]
    best, _ = value(c.BinarySpecificityAtSensitivity(0.6, weighted=True), *batch, way=way)
    close(best, (1 - fpr)[tpr >= 0.6].max())
    precision, recall, _ = sk.precision_recall_curve(target, preds, sample_weight=weight.numpy())
    close(value(c.BinaryPrecisionAtFixedRecall(0.4, weighted=True), *batch, way=way)[0], precision[recall >= 0.4].max())
    close(value(c.BinaryRecallAtFixedPrecision(0.5, weighted=True), *batch, way=way)[0], recall[precision >= 0.5].max())
    low, high = 0.05, 0.8
    fine = np.geomspace(low, high, 200001)
    want = trapezoid(np.interp(fine, fpr, tpr), np.log10(fine)) / np.log10(high / low)
    close(value(c.BinaryLogAUC((low, high), weighted=True), *batch, way=way), want, 1e-3)
