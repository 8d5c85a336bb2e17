"""Every rate of every task against scikit-learn and the definitions, over averages, ignore_index, top_k, zero_division and input forms."""

import itertools
import random
from math import nan

import numpy as np
import pytest
import torch
from cases import elsewhere
from class_references import (
    RATES,
    binary,
    by_sklearn,
    class_counts,
    close,
    multiclass,
    multilabel,
    top_k_labels,
    yes_no_counts,
)
from sklearn import metrics as sk

import torchtally as tt
from torchtally import functional as f

NAMES = [*RATES, "StatScores"]
AVERAGES = ("micro", "macro", "weighted", "none")
ZERO_DIVISIONS = (0.0, 1.0, nan)
CLASSES = 6

names = pytest.mark.parametrize("name", NAMES)
averages = pytest.mark.parametrize("average", AVERAGES)
amounts = pytest.mark.parametrize("amount", [10, pytest.param(10**9, marks=pytest.mark.slow, id="all")])


def some(amount, seed, *choices):
    """Combinations of choices: all, or a fixed sample of them."""
    found = list(itertools.product(*choices))
    return found if amount >= len(found) else random.Random(repr(seed)).sample(found, amount)


def options_of(name, **options):
    return {"beta": 2.0, **options} if name == "FBetaScore" else options


def snake(name):
    return {
        "NegativePredictiveValue": "negative_predictive_value",
        "F1Score": "f1_score",
        "FBetaScore": "fbeta_score",
        "HammingDistance": "hamming_distance",
        "StatScores": "stat_scores",
        "ConfusionMatrix": "confusion_matrix",
    }.get(name, name.lower())


def both_doors(task, name, preds, target, **options):
    """The value of the class, over two batches, and of the function."""
    metric = getattr(tt.classification, task.capitalize() + name)(**options)
    for a, b in zip(preds.split(9), target.split(9)):
        metric.update(a, b)
    yield "class", metric.compute()
    yield "function", getattr(f, f"{task}_{snake(name)}")(preds, target, **options)


# ---- several classes
def scores_of(shape, seed=0):
    """Scores with ties, in which class 5 is never best and class 4 often; targets without classes 4 and 5."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, (shape[0], CLASSES, *shape[1:])).astype(np.float32)
    scores[:, 5] = -1
    target = rng.integers(0, 4, shape)
    return torch.from_numpy(scores), torch.from_numpy(target)


def rows_of(scores):
    return np.moveaxis(scores.numpy(), 1, -1).reshape(-1, CLASSES)


FORMS = ("logits", "probabilities", "half", "labels", "images", "image labels")


def multiclass_data(form, ignore):
    scores, target = scores_of((12, 2, 3) if "image" in form else (30,), seed=len(form))
    if ignore is not None and not 0 <= ignore < CLASSES:
        target[torch.from_numpy(np.random.default_rng(1).random(target.shape) < 0.3)] = ignore
    rows = rows_of(scores)
    preds = {"probabilities": scores.softmax(1), "half": scores.half(), "labels": scores.argmax(1), "image labels": scores.argmax(1)}
    return preds.get(form, scores), target, rows


def kept(rows, target, ignore, top_k):
    y = target.reshape(-1).numpy()
    keep = np.ones(len(y), bool) if ignore is None else y != ignore
    return top_k_labels(rows[keep], y[keep], top_k), y[keep]


@names
@averages
@amounts
def test_multiclass_over_everything(name, average, amount):
    choices = FORMS, (None, -1, 2, CLASSES, 255), (1, 2, 4), ZERO_DIVISIONS
    for form, ignore, top_k, zero_division in some(amount, (name, average), *choices):
        if top_k > 1 and "labels" in form:
            continue
        preds, target, rows = multiclass_data(form, ignore)
        counts = class_counts(*kept(rows, target, ignore, top_k), CLASSES)
        options = dict(num_classes=CLASSES, average=average, ignore_index=ignore, top_k=top_k, zero_division=zero_division)
        want = multiclass(name, average, counts, zero_division, ignore)
        for door, got in both_doors("multiclass", name, preds, target, **options_of(name, **options)):
            close(got, want, (door, form, options))


@names
@averages
@amounts
def test_multiclass_samplewise(name, average, amount):
    choices = ("images", "image labels"), (None, -1, 2), (1, 3), ZERO_DIVISIONS
    for form, ignore, top_k, zero_division in some(amount // 2, (name, average), *choices):
        if top_k > 1 and "labels" in form:
            continue
        preds, target, rows = multiclass_data(form, ignore)
        options = dict(num_classes=CLASSES, average=average, ignore_index=ignore, top_k=top_k, zero_division=zero_division)
        want = []
        for i, sample in enumerate(rows.reshape(len(target), -1, CLASSES)):
            counts = class_counts(*kept(sample, target[i], ignore, top_k), CLASSES)
            want.append(multiclass(name, average, counts, zero_division, ignore))
        for door, got in both_doors("multiclass", name, preds, target, multidim_average="samplewise", **options_of(name, **options)):
            close(got, want, (door, form, options))


@pytest.mark.parametrize("name", ["Precision", "Recall", "F1Score", "FBetaScore"])
@averages
def test_multiclass_as_scikit_learn_says(name, average):
    for ignore, zero_division in itertools.product((None, -1, 2), ZERO_DIVISIONS):
        preds, target, rows = multiclass_data("labels", ignore)
        p, y = kept(rows, target, ignore, 1)
        # Labels of an average: without `labels`, those that occur; an ignored one takes no part.
        labels = range(CLASSES) if average == "none" else sorted({*p, *y} - ({ignore} if average != "micro" else set()))
        want = by_sklearn(name, average, p, y, zero_division, labels)
        options = options_of(name, num_classes=CLASSES, average=average, ignore_index=ignore, zero_division=zero_division)
        for door, got in both_doors("multiclass", name, preds, target, **options):
            close(got, want, (door, options))


def test_multiclass_accuracy_as_scikit_learn_says():
    preds, target, rows = multiclass_data("logits", None)
    p, y = kept(rows, target, None, 1)
    close(f.multiclass_accuracy(preds, target, average="micro"), sk.accuracy_score(y, p))
    for k in (1, 2, 3):
        distinct = preds + torch.linspace(0.0, -0.1, CLASSES)  # scikit-learn breaks ties by the higher index
        want = sk.top_k_accuracy_score(y, distinct.numpy(), k=k, labels=range(CLASSES))
        close(f.multiclass_accuracy(preds, target, average="micro", top_k=k), want, k)
    everywhere = torch.arange(CLASSES)  # every class has a target: then macro accuracy is balanced accuracy
    p2, y2 = torch.cat([torch.from_numpy(p), everywhere.flip(0)]), torch.cat([target, everywhere])
    close(f.multiclass_accuracy(p2, y2, CLASSES), sk.balanced_accuracy_score(y2, p2))


@pytest.mark.parametrize("normalize", ["true", "pred", "all", "none", None])
def test_multiclass_confusion_matrix(normalize):
    for form, ignore in itertools.product(FORMS, (None, -1, 2, CLASSES)):
        preds, target, rows = multiclass_data(form, ignore)
        p, y = kept(rows, target, ignore, 1)
        want = sk.confusion_matrix(y, p, labels=range(CLASSES), normalize=None if normalize == "none" else normalize)
        options = dict(num_classes=CLASSES, ignore_index=ignore, normalize=normalize)
        for door, got in both_doors("multiclass", "ConfusionMatrix", preds, target, **options):
            close(got, want, (door, form, options))
            assert got.dtype == (torch.int64 if normalize in (None, "none") else torch.float32)


# ---- yes or no
def yes_no_data(form, shape, ignore, threshold, seed=0):
    """Predictions in a form, targets, and the decisions; the last label of four is never true nor predicted."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 16, shape).astype(np.float32) / 16
    target = rng.integers(0, 2, shape)
    if len(shape) > 1 and shape[1] == 4:
        p[:, 3], target[:, 3] = 0.01, 0
    decided = (p > threshold).astype(int) if form != "labels" else (p > 0.5).astype(int)
    if ignore is not None and ignore not in (0, 1):
        target[rng.random(shape) < 0.3] = ignore
    preds = {"labels": decided, "logits": np.log(p / (1 - p)).astype(np.float32) * 1.0}.get(form, p)
    if form == "logits":
        # A logit of exactly the threshold's is compared after rounding; and one batch must leave [0, 1] to be taken for logits.
        preds = np.where(np.isclose(p, threshold), preds - 1e-3, preds).astype(np.float32)
        preds[0].flat[0], decided[0].flat[0] = -4.0, 0
        for i in range(0, len(preds), 9):
            preds[i].flat[0], decided[i].flat[0] = -4.0, 0
    x = torch.from_numpy(np.ascontiguousarray(preds))
    return x.bool() if form == "labels" and seed % 2 else x, torch.from_numpy(target), decided


YES_NO = (("labels", "probabilities", "logits"), (None, -1, 0, 1), (0.5, 0.3125), ZERO_DIVISIONS)


@names
@amounts
def test_binary_over_everything(name, amount):
    for form, ignore, threshold, zero_division, shape in some(amount, name, *YES_NO, ((20,), (10, 2, 3))):
        preds, target, decided = yes_no_data(form, shape, ignore, threshold)
        y = target.numpy()
        counted = np.ones(shape, bool) if ignore is None else y != ignore
        options = options_of(name, threshold=threshold, ignore_index=ignore, zero_division=zero_division)
        want = binary(name, yes_no_counts(decided.reshape(-1, 1), y.reshape(-1, 1), counted.reshape(-1, 1)), zero_division)
        for door, got in both_doors("binary", name, preds, target, **options):
            close(got, want, (door, form, shape, options))
        if len(shape) > 1:
            rows = [yes_no_counts(*(x[i].reshape(-1, 1) for x in (decided, y, counted))) for i in range(len(y))]
            want = [binary(name, counts, zero_division) for counts in rows]
            for door, got in both_doors("binary", name, preds, target, multidim_average="samplewise", **options):
                close(got, want, (door, form, shape, "samplewise", options))


@names
@averages
@amounts
def test_multilabel_over_everything(name, average, amount):
    for form, ignore, threshold, zero_division, shape in some(amount, (name, average), *YES_NO, ((20, 4), (10, 4, 3))):
        preds, target, decided = yes_no_data(form, shape, ignore, threshold)
        y = target.numpy()
        counted = np.ones(shape, bool) if ignore is None else y != ignore
        options = options_of(name, num_labels=4, threshold=threshold, ignore_index=ignore, zero_division=zero_division, average=average)
        by_label = [np.moveaxis(x, 1, -1).reshape(-1, 4) for x in (decided, y, counted)]
        want = multilabel(name, average, yes_no_counts(*by_label), zero_division)
        for door, got in both_doors("multilabel", name, preds, target, **options):
            close(got, want, (door, form, shape, options))
        if len(shape) > 2:
            rows = [yes_no_counts(*(x[i].T for x in (decided, y, counted))) for i in range(len(y))]
            want = [multilabel(name, average, counts, zero_division) for counts in rows]
            for door, got in both_doors("multilabel", name, preds, target, multidim_average="samplewise", **options):
                close(got, want, (door, form, shape, "samplewise", options))


@pytest.mark.parametrize("name", ["Precision", "Recall", "F1Score", "FBetaScore"])
@pytest.mark.parametrize("zero_division", ZERO_DIVISIONS)
def test_binary_and_multilabel_as_scikit_learn_says(name, zero_division):
    preds, target, decided = yes_no_data("probabilities", (20, 4), None, 0.5)
    for average in AVERAGES:
        want = by_sklearn(name, average, decided, target.numpy(), zero_division)
        options = options_of(name, num_labels=4, average=average, zero_division=zero_division)
        for door, got in both_doors("multilabel", name, preds, target, **options):
            close(got, want, (door, options))
    for column in range(4):
        want = by_sklearn(name, "binary", decided[:, column], target[:, column].numpy(), zero_division)
        for door, got in both_doors("binary", name, preds[:, column], target[:, column], **options_of(name, zero_division=zero_division)):
            close(got, want, (door, column))
    if name == "Recall":
        close(f.multilabel_accuracy(preds, target, 4, average="micro"), (decided == target.numpy()).mean())
        close(f.multilabel_hamming_distance(preds, target, 4), sk.hamming_loss(target.numpy(), decided))


@pytest.mark.parametrize("normalize", ["true", "pred", "all", "none", None])
def test_binary_and_multilabel_confusion_matrices(normalize):
    plain = None if normalize == "none" else normalize
    for form, ignore in itertools.product(("labels", "probabilities", "logits"), (None, -1)):
        preds, target, decided = yes_no_data(form, (20, 4), ignore, 0.5)
        y = target.numpy()
        want = []
        for column in range(4):
            keep = y[:, column] != (ignore if ignore is not None else 99)
            want.append(sk.confusion_matrix(y[keep, column], decided[keep, column], labels=[0, 1], normalize=plain))
            options = dict(ignore_index=ignore, normalize=normalize)
            if form != "logits":  # one column alone may not leave [0, 1]
                for door, got in both_doors("binary", "ConfusionMatrix", preds[:, column], target[:, column], **options):
                    close(got, want[-1], (door, form, column, options))
        for door, got in both_doors("multilabel", "ConfusionMatrix", preds, target, num_labels=4, **options):
            close(got, want, (door, form, options))


# ---- the `task=` fronts
@names
def test_fronts_make_what_they_name(name):
    front, function = getattr(tt, name), getattr(f, snake(name))
    scores, target = scores_of((20,))
    yes, true, _ = yes_no_data("probabilities", (20, 4), None, 0.5)
    extra = {"beta": 2.0} if name == "FBetaScore" else {}
    for average in AVERAGES:
        made = front(task="multiclass", num_classes=CLASSES, average=average, **extra)
        want = getattr(f, f"multiclass_{snake(name)}")(scores, target, num_classes=CLASSES, average=average, **extra)
        close(made(scores, target), want)
        close(function(scores, target, task="multiclass", num_classes=CLASSES, average=average, **extra), want)
        want = getattr(f, f"multilabel_{snake(name)}")(yes, true, num_labels=4, average=average, **extra)
        close(front(task="multilabel", num_labels=4, average=average, **extra)(yes, true), want)
        close(function(yes, true, task="multilabel", num_labels=4, average=average, **extra), want)
    want = getattr(f, f"binary_{snake(name)}")(yes, true, **extra)
    close(front(task="binary", num_classes=2, **extra)(yes, true), want)  # what the task has no use for is left out
    close(function(yes, true, task="binary", **extra), want)


def test_the_default_average_of_fronts_is_micro_and_of_classes_macro():
    p, y = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 0, 2])
    close(tt.Accuracy(task="multiclass", num_classes=3)(p, y), 3 / 4)
    close(f.accuracy(p, y, task="multiclass", num_classes=3), 3 / 4)
    close(tt.classification.MulticlassAccuracy(num_classes=3)(p, y), 1 / 3)  # recall 1, undefined 0, 0
    close(f.multiclass_accuracy(p, y, 3), 1 / 3)


# ---- worked by hand
def test_decisions_at_the_threshold_are_no():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        p = torch.tensor([0.5, 0.25, 0.75], dtype=dtype)
        assert f.binary_stat_scores(p, torch.tensor([1, 1, 1])).tolist() == [1, 0, 0, 2, 3]
        close(f.binary_accuracy(torch.tensor([0.0, 5.0], dtype=dtype), torch.tensor([0, 1])), 1.0)  # logit 0 is probability 1/2


def test_thresholds_that_a_dtype_cannot_hold_are_compared_exactly():
    """0.7 lies between two float32 numbers: the one below is no, the one above is yes."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        near = torch.tensor(0.7, dtype=dtype)
        around = torch.stack([near, torch.nextafter(near.float(), torch.tensor(2.0)).to(dtype) if dtype is torch.float32 else near])
        want = [int(float(x) > 0.7) for x in around]
        got = f.binary_stat_scores(around, torch.ones(2, dtype=torch.long), threshold=0.7)
        assert got.tolist()[0] == sum(want), dtype


def test_threshold_ends():
    p, y = torch.tensor([0.0, 0.5, 1.0]), torch.tensor([1, 1, 1])
    assert f.binary_stat_scores(p, y, threshold=0.0).tolist()[0] == 2
    assert f.binary_stat_scores(p, y, threshold=1.0).tolist()[0] == 0
    logits = torch.tensor([-100.0, 0.0, 100.0])
    assert f.binary_stat_scores(logits, y, threshold=0.0).tolist()[0] == 3
    assert f.binary_stat_scores(logits, y, threshold=1.0).tolist()[0] == 0


def test_nothing_seen():
    """Of no data at all every rate is 0/0; a zero_division of nan says so."""
    for task, extra in (("Binary", {}), ("Multiclass", {"num_classes": 3}), ("Multilabel", {"num_labels": 3})):
        for name in RATES:
            for zero_division in ZERO_DIVISIONS:
                metric = getattr(tt.classification, task + name)(**options_of(name, zero_division=zero_division, **extra))
                want = 1 - zero_division if name == "HammingDistance" else zero_division
                close(metric.compute(), want, (task, name))
    assert tt.classification.MulticlassConfusionMatrix(3, normalize="true").compute().tolist() == [[0.0] * 3] * 3


def test_ignored_elements_do_not_count_where_the_number_of_classes_is_not_known():
    batch = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]), torch.tensor([1, -1, 0])
    for way in (tuple, elsewhere):
        metric = tt.classification.MulticlassAccuracy(average="micro", ignore_index=-1)
        metric.update(*way(batch))
        assert metric.compute().as_subclass(torch.Tensor) == 0.5
