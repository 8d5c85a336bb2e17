"""What the rates of predictions against targets are by definition: counts by scikit-learn, then plain float64 division."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
from sklearn import metrics as sk

Counts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""True positives, false positives, false negatives, true negatives of each class."""

RATES = {  # metric: (part, whole) of tp, fp, fn, tn
    "Precision": lambda tp, fp, fn, tn: (tp, tp + fp),
    "Recall": lambda tp, fp, fn, tn: (tp, tp + fn),
    "Specificity": lambda tp, fp, fn, tn: (tn, tn + fp),
    "NegativePredictiveValue": lambda tp, fp, fn, tn: (tn, tn + fn),
    "F1Score": lambda tp, fp, fn, tn: (2 * tp, 2 * tp + fp + fn),
    "FBetaScore": lambda tp, fp, fn, tn: (5 * tp, 5 * tp + fp + 4 * fn),  # beta = 2
    "Accuracy": lambda tp, fp, fn, tn: (tp + tn, tp + fp + fn + tn),
    "HammingDistance": lambda tp, fp, fn, tn: (fp + fn, tp + fp + fn + tn),
}
ONE_CLASS_RATES = {  # of a class among several, "accuracy" asks for its own targets alone
    **RATES,
    "Accuracy": RATES["Recall"],
    "HammingDistance": lambda tp, fp, fn, tn: (fn, tp + fn),
}


def ratio(part: Any, whole: Any, undefined: float) -> np.ndarray:
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(part.shape, undefined), where=whole != 0)


def mean(score: np.ndarray, weight: np.ndarray, undefined: float) -> float:
    """The weighted mean of what is not NaN."""
    weight = np.where(np.isnan(score), 0.0, weight)
    if not weight.sum():
        return undefined
    return float((np.nan_to_num(score) * weight).sum() / weight.sum())


def undefined_of(name: str, zero_division: float) -> float:
    return 1 - zero_division if name == "HammingDistance" else zero_division


# ---- several classes
def top_k_labels(scores: np.ndarray, target: np.ndarray, k: int) -> np.ndarray:
    """The target where it is among the k best, the lower index first of ties; else the best."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.where((order == target[:, None]).any(1), target, order[:, 0])


def class_counts(preds: np.ndarray, target: np.ndarray, classes: int) -> Counts:
    if not len(target):
        zero = np.zeros(classes)
        return zero, zero, zero, zero
    tables = sk.multilabel_confusion_matrix(target, preds, labels=range(classes)).astype(np.float64)
    return tables[:, 1, 1], tables[:, 0, 1], tables[:, 1, 0], tables[:, 0, 0]


def multiclass(name: str, average: str, counts: Counts, zero_division: float, ignore: int | None) -> Any:
    """Over the classes: those that occur in predictions or targets, and are not the ignored one."""
    tp, fp, fn, _ = counts
    undefined = undefined_of(name, zero_division)
    if name == "StatScores":
        return stat_scores(average, counts)
    rate = ONE_CLASS_RATES[name]
    if average == "micro":
        return ratio(*rate(*(x.sum() for x in counts)), undefined)
    score = ratio(*rate(*counts), undefined)
    if average == "none":
        return score
    weight = tp + fn if average == "weighted" else (tp + fp + fn > 0).astype(float)
    if ignore is not None and 0 <= ignore < len(tp):
        weight = weight * (np.arange(len(tp)) != ignore)
    return mean(score, weight, undefined)


def stat_scores(average: str, counts: Counts) -> Any:
    tp, fp, fn, tn = counts
    rows = np.stack([tp, fp, tn, fn, tp + fn], -1)
    if average == "none":
        return rows
    if average == "micro":
        return rows.sum(0)
    if average == "macro":
        return rows.mean(0)
    support = tp + fn
    return (rows * support[:, None]).sum(0) / max(support.sum(), 1)


# ---- yes or no
def yes_no_counts(preds: np.ndarray, target: np.ndarray, counted: np.ndarray) -> Counts:
    """Per column of (N, L)."""
    yes, true = (preds == 1) & counted, (target == 1) & counted
    no, false = (preds != 1) & counted, (target != 1) & counted
    return tuple(x.sum(0).astype(float) for x in (yes & true, yes & false, no & true, no & false))


def binary(name: str, counts: Counts, zero_division: float) -> Any:
    if name == "StatScores":
        return stat_scores("micro", counts)
    return ratio(*RATES[name](*(x.sum() for x in counts)), undefined_of(name, zero_division))


def multilabel(name: str, average: str, counts: Counts, zero_division: float) -> Any:
    """Over all labels, whether they occur or not."""
    undefined = undefined_of(name, zero_division)
    if name == "StatScores":
        return stat_scores(average, counts)
    if average == "micro":
        return ratio(*RATES[name](*(x.sum() for x in counts)), undefined)
    score = ratio(*RATES[name](*counts), undefined)
    if average == "none":
        return score
    return mean(score, counts[0] + counts[2] if average == "weighted" else np.ones(len(score)), undefined)


# ---- scikit-learn's own word
def by_sklearn(name: str, average: str | None, preds: np.ndarray, target: np.ndarray, zero_division: float, labels: Any = None) -> Any:
    """Precision, recall or F score as scikit-learn gives it."""
    function = {
        "Precision": sk.precision_score,
        "Recall": sk.recall_score,
        "F1Score": sk.f1_score,
        "FBetaScore": functools.partial(sk.fbeta_score, beta=2.0),
    }[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(target, preds, average=None if average == "none" else average, zero_division=zero_division, labels=labels)


def close(got: Any, want: Any, where: Any = "") -> None:
    got = np.asarray(got.detach().double() if hasattr(got, "detach") else got, np.float64)
    np.testing.assert_allclose(got, np.asarray(want, np.float64), rtol=2e-6, atol=2e-6, equal_nan=True, err_msg=str(where))
