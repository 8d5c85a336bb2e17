"""Confidence intervals of rates: SciPy's, and numbers worked by hand."""

import sys
from math import nan, sqrt

import numpy as np
import pytest
import torch
from cases import elsewhere
from scipy import stats
from torch import Tensor

import torchtally as tt
from torchtally import classification as c
from torchtally.faults import FaultError


def bounds(metric, *batch, way=tuple, **options):
    metric.set_dtype(torch.float64).update(*way(batch))
    return [np.asarray(x.as_subclass(Tensor)) for x in metric.interval(**options)]


def by_scipy(part, whole, level, method):
    """SciPy's intervals; all is possible of nothing."""
    found = [
        stats.binomtest(int(k), int(n)).proportion_ci(level, method) if n else (0.0, 1.0) for k, n in zip(np.ravel(part), np.ravel(whole))
    ]
    return [np.reshape(column, np.shape(part)) for column in zip(*found)]


def test_a_number_worked_by_hand():
    """8 of 10 at 95 %: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n), z = 1.959964."""
    z, n, p = 1.959963984540054, 10, 0.8
    middle, reach = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    preds, target = torch.ones(10, dtype=torch.long), torch.tensor([1] * 8 + [0] * 2)
    got = bounds(c.BinaryAccuracy(), preds, target)
    np.testing.assert_allclose(got, [(middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)], rtol=1e-12)
    np.testing.assert_allclose(got, [0.4901625, 0.9433178], atol=1e-7)
    np.testing.assert_allclose(bounds(c.BinaryAccuracy(), preds, target, method="exact"), [0.4439045, 0.9747893], atol=1e-7)


SHARES = {
    "Accuracy": lambda tp, fp, fn, tn: (tp, tp + fn),
    "Precision": lambda tp, fp, fn, tn: (tp, tp + fp),
    "Recall": lambda tp, fp, fn, tn: (tp, tp + fn),
    "Specificity": lambda tp, fp, fn, tn: (tn, tn + fp),
    "NegativePredictiveValue": lambda tp, fp, fn, tn: (tn, tn + fn),
    "HammingDistance": lambda tp, fp, fn, tn: (fn, tp + fn),
    "JaccardIndex": lambda tp, fp, fn, tn: (tp, tp + fp + fn),
}


@pytest.mark.parametrize("way", [tuple, elsewhere], ids=["host", "device"])
@pytest.mark.parametrize("method", ["wilson", "exact"])
@pytest.mark.parametrize("name", SHARES)
def test_rates_of_classes_and_of_all(name, method, way):
    g = torch.Generator().manual_seed(0)
    preds, target = torch.randint(0, 3, (40,), generator=g), torch.randint(0, 3, (40,), generator=g)
    table = np.zeros((4, 4))  # class 3 never occurs
    np.add.at(table, (target.numpy(), preds.numpy()), 1)
    tp = table.diagonal()
    cells = tp, table.sum(0) - tp, table.sum(1) - tp, 40 - table.sum(0) - table.sum(1) + tp
    part, whole = SHARES[name](*cells)
    cls = getattr(c, f"Multiclass{name}")
    for level in (0.5, 0.95, 0.999):
        got = bounds(cls(4, average="none"), preds, target, way=way, level=level, method=method)
        np.testing.assert_allclose(got, by_scipy(part, whole, level, method), atol=1e-10)
        got = bounds(cls(4, average="micro"), preds, target, way=way, level=level, method=method)
        np.testing.assert_allclose(got, by_scipy(part.sum(), whole.sum(), level, method), atol=1e-10)


@pytest.mark.parametrize("method", ["wilson", "exact"])
def test_ends(method):
    ones, zeros = torch.ones(5, dtype=torch.long), torch.zeros(5, dtype=torch.long)
    low, high = bounds(c.BinaryAccuracy(), ones, ones, method=method)
    assert 0 < low < 1 and high == 1
    low, high = bounds(c.BinaryAccuracy(), ones, zeros, method=method)
    assert low == 0 and 0 < high < 1
    assert [float(x) for x in c.BinaryAccuracy().interval(method=method)] == [0.0, 1.0]
    low, high = bounds(c.BinaryRecall(zero_division=nan), ones, zeros, method=method)  # no positives
    assert (low, high) == (0, 1)


def test_samples_labels_and_names():
    preds, target = torch.tensor([[1, 0, 1], [1, 1, 1]]), torch.tensor([[1, 0, 0], [1, 1, 1]])
    got = bounds(c.BinaryAccuracy(multidim_average="samplewise"), preds, target)
    np.testing.assert_allclose(got, by_scipy([2, 3], [3, 3], 0.95, "wilson"), atol=1e-12)
    metric = c.MultilabelPrecision(3, average="none", labels=["a", "b", "c"])
    metric.update(preds, target)
    low, high = metric.interval()
    assert list(low) == list(high) == ["a", "b", "c"]
    np.testing.assert_allclose([float(low["c"]), float(high["c"])], by_scipy(1, 2, 0.95, "wilson"), rtol=1e-6)


def test_exact_match():
    preds, target = torch.tensor([[0, 1], [2, 1], [1, 1]]), torch.tensor([[0, 1], [2, 2], [1, 1]])
    for method in ("wilson", "exact"):
        np.testing.assert_allclose(
            bounds(c.MulticlassExactMatch(3), preds, target, method=method), by_scipy(2, 3, 0.95, method), atol=1e-10
        )


def test_it_reads_what_compute_reads():
    tally = tt.MetricCollection({"accuracy": tt.Accuracy("binary"), "recall": tt.Recall("binary")})
    for _ in range(3):
        tally.update(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 0, 1, 0]))
    low, high = tally["accuracy"].interval()
    assert low.dtype == torch.float32 and low < tally.compute()["accuracy"] < high
    np.testing.assert_allclose([float(low), float(high)], by_scipy(9, 12, 0.95, "wilson"), rtol=1e-6)
    before = tally["accuracy"].compute()
    assert torch.equal(tally.compute()["accuracy"], before)
    wrong = c.BinaryAccuracy()
    wrong.update(*elsewhere((torch.tensor([1, 1]), torch.tensor([1, 7]))))
    with pytest.raises(FaultError, match="1 value was impossible"):
        wrong.interval()


def test_most_intervals_hold_the_truth():
    """Of 400 samples of 30 decisions, Wilson's 90 % intervals hold the truth about 90 % of the time, exact ones at least that."""
    rng = np.random.default_rng(0)
    right = torch.from_numpy(rng.random((400, 30)) < 0.7).long()
    metric = c.BinaryAccuracy(multidim_average="samplewise")
    metric.update(right, torch.ones_like(right))
    cover = {
        m: float(((low <= 0.7) & (high >= 0.7)).double().mean()) for m in ("wilson", "exact") for low, high in [metric.interval(0.9, m)]
    }
    assert 0.85 < cover["wilson"] < 0.95 and cover["exact"] >= max(0.88, cover["wilson"])


def test_what_has_no_closed_form_says_so(monkeypatch):
    for metric, what in (
        (c.BinaryF1Score(), "BinaryF1Score.interval: the metric has no closed form"),
        (c.MulticlassRecall(3), "MulticlassRecall.interval: average='macro' has no closed form"),
        (c.BinaryRecall(weighted=True), "BinaryRecall.interval: a share of weights has no closed form"),
        (c.BinaryStatScores(), "BinaryStatScores.interval: the metric has no closed form"),
    ):
        with pytest.raises(ValueError, match=rf"{what}. Use BootStrapper\(metric, quantile=…\)"):
            metric.interval()
    with pytest.raises(ValueError, match=r"BinaryRecall.interval: level is 95; expected a number between 0 and 1"):
        c.BinaryRecall().interval(95)
    with pytest.raises(ValueError, match=r"BinaryRecall.interval: method is 'wald'; expected 'wilson' or 'exact'"):
        c.BinaryRecall().interval(method="wald")
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs SciPy: pip install scipy. method='wilson' does not"):
        c.BinaryRecall().interval(method="exact")
