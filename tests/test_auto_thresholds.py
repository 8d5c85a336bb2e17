"""`thresholds="auto"`: exact up to a budget, then exact for scores rounded down to fixed limits, however the data came."""

import numpy as np
import pytest
import torch
from cases import elsewhere, rounding
from class_references import close
from sklearn import metrics as sk

import torchtally as tt
from torchtally import classification as c
from torchtally.stalls import pretend_cuda
from torchtally.statistics.auto_curves import BUDGET, ROOM, AutoSamples, limits
from torchtally.statistics.scores import Scores
from torchtally.testing import assert_no_stalls

BOTH_FORMS = pytest.mark.parametrize("form", [tuple, elsewhere], ids=["host", "device"])


def data(logits, columns=None, n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n if columns is None else (n, columns))
    x = rng.normal(size=y.shape) * 2 + y
    return (x if logits else 1 / (1 + np.exp(-x))).astype(np.float32), y


def down(scores, steps=64):
    """Each score rounded down to a limit."""
    at = np.array(limits(steps))
    return at[np.searchsorted(at, scores.astype(np.float64), "right") - 1]


def fed(metric, scores, y, form=tuple, step=30):
    metric.set_dtype(torch.float64)
    for a, b in zip(torch.from_numpy(scores).split(step), torch.from_numpy(y).split(step)):
        metric.update(*form((a, b)))
    return metric


@BOTH_FORMS
@pytest.mark.parametrize("logits", [True, False])
def test_exact_within_the_budget_and_rounded_beyond(logits, form):
    scores, y = data(logits)
    close(fed(c.BinaryAUROC(thresholds="auto"), scores, y, form).compute(), sk.roc_auc_score(y, scores))
    rounded = down(scores)
    for budget in (5, 500, 1990):  # of 2000 bytes
        metric = fed(rounding(c.BinaryAUROC, budget=budget), scores, y, form)
        close(metric.compute(), sk.roc_auc_score(y, rounded))
        close(fed(rounding(c.BinaryAveragePrecision, budget=budget), scores, y, form).compute(), sk.average_precision_score(y, rounded))
        assert sum(map(len, metric.score)) * 5 <= budget
    fpr, tpr, at = fed(rounding(c.BinaryROC), scores, y, form).compute()
    want = sk.roc_curve(y, rounded, drop_intermediate=False)
    close(fpr, want[0])
    close(tpr, want[1])
    close(at[1:], 1 / (1 + np.exp(-want[2][1:])) if logits else want[2][1:])


@BOTH_FORMS
def test_labels_and_classes(form):
    scores, y = data(True, 3)
    want = [sk.roc_auc_score(y[:, k], down(scores[:, k])) for k in range(3)]
    close(fed(rounding(c.MultilabelAUROC, 3, "none"), scores, y, form).compute(), want)
    close(fed(rounding(c.MultilabelAUROC, 3, "micro"), scores, y, form).compute(), sk.roc_auc_score(y.ravel(), down(scores).ravel()))
    of_class = y[:, 0] + y[:, 1]
    exact = torch.from_numpy(scores).double().softmax(1).numpy()
    odds = np.log(exact) - np.log1p(-exact)
    want = [sk.roc_auc_score(of_class == k, down(odds[:, k])) for k in range(3)]
    close(fed(rounding(c.MulticlassAUROC, 3, "none"), scores, of_class, form).compute(), want)


def test_merged_parts_that_fit_are_rounded_if_the_whole_does_not():
    scores, y = data(False)
    parts = [fed(rounding(c.BinaryAUROC, budget=1200), scores[i::2], y[i::2]) for i in range(2)]
    assert all(not p.reached for p in parts)
    parts[0].merge_state(parts[1])
    close(parts[0].compute(), sk.roc_auc_score(y, down(scores)))
    full, fits = (
        fed(rounding(c.BinaryAUROC, budget=500), scores[:300], y[:300]),
        fed(rounding(c.BinaryAUROC, budget=500), scores[300:350], y[300:350]),
    )
    fits.merge_state(full)
    close(fits.compute(), sk.roc_auc_score(y[:350], down(scores[:350])))
    again = rounding(c.BinaryAUROC, budget=500).set_dtype(torch.float64)
    again.load_state_dict(full.state_dict())
    close(fed(again, scores[300:], y[300:]).compute(), sk.roc_auc_score(y, down(scores)))
    again.reset()
    close(fed(again, scores[:50], y[:50]).compute(), sk.roc_auc_score(y[:50], scores[:50]))


def test_the_error_has_the_bound_that_is_stated():
    """An area is off by at most half the share of the pairs of a positive and a negative that are rounded to one limit."""
    scores, y = data(False, n=5000)
    rounded = down(scores)
    _, at = np.unique(rounded, return_inverse=True)
    pos, neg = np.bincount(at, y), np.bincount(at, 1 - y)
    bound = (pos * neg).sum() / (2 * y.sum() * (1 - y).sum())
    off = abs(sk.roc_auc_score(y, rounded) - sk.roc_auc_score(y, scores))
    assert off <= bound < 2e-3 and off < 1e-4


def test_limits_are_close_in_probabilities_and_in_logits():
    at = np.array(limits(64))
    assert at[0] == -np.inf and at[-1] == np.inf and (np.diff(at) > 0).all() and {0.0, 1.0} <= set(at)
    inside = at[(at > -64) & (at < 64)]
    assert np.diff(inside).max() <= 1 / 64
    p = at[(at > 1e-30) & (at < 1 - 1e-12)]
    assert np.diff(np.log(p) - np.log1p(-p)).max() < 1 / 64 + 1e-3
    assert len(at) < 20000


def test_counts_have_room_however_many_columns():
    for columns in (1, 80, 1000, 5000):
        statistic = AutoSamples(Scores(labels=columns), BUDGET)
        (shape,) = [s.shape for n, s in statistic.slots().items() if n == "reached"]
        assert shape[1] == columns and np.prod(shape) * 8 <= ROOM


def test_a_device_is_never_waited_for():
    scores, y = data(True)
    with pretend_cuda():
        tally = tt.MetricCollection({"a": rounding(c.BinaryAUROC), "p": rounding(c.BinaryPrecisionRecallCurve)}).to("cuda")
        batches = [(a.to("cuda"), b.to("cuda")) for a, b in zip(torch.from_numpy(scores).split(30), torch.from_numpy(y).split(30))]
        with assert_no_stalls():
            for batch in batches:
                tally.update(*batch)
            tally(*batches[0])
            pending = tally.fetch()
        want = sk.precision_recall_curve(np.r_[y, y[:30]], down(np.r_[scores, scores[:30]]))
        close(pending.result()["p"][0], want[0])
        close(pending.result()["p"][1], want[1])
