"""Wrappers, collections and compositions give torchmetrics' values, whatever is called in whatever order."""

import importlib
import random

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

pytest.importorskip("torchmetrics", minversion="1.9")


class Library:
    """The names of one library, wherever they are."""

    def __init__(self, name):
        parts = ("wrappers", "classification", "regression", "aggregation")
        self.modules = [importlib.import_module(f"{name}.{part}") for part in parts] + [importlib.import_module(name)]

    def __getattr__(self, name):
        return next(getattr(m, name) for m in self.modules if hasattr(m, name))


OURS, THEIRS = Library("torchtally"), Library("torchmetrics")


def yes_no(g, n):
    return torch.rand(n, generator=g), torch.randint(0, 2, (n,), generator=g)


def classes(g, n):
    return torch.randn(n, 3, generator=g), torch.randint(0, 3, (n,), generator=g)


def columns(g, n):
    return torch.randn(n, 2, generator=g), torch.randn(n, 2, generator=g)


def spoiled(g, n):
    preds, target = columns(g, n)
    return preds.masked_fill(torch.rand(n, 2, generator=g) < 0.2, torch.nan), target


def one_column(g, n):
    return torch.randn(n, generator=g), torch.randn(n, generator=g)


def numbers(g, n):
    return (torch.randn(n, generator=g),)


def tasks(g, n):
    (a, b), (x, y) = yes_no(g, n), one_column(g, n)
    return {"class": a, "age": x}, {"class": b, "age": y}


def several(m):
    return m.MetricCollection(
        [m.MulticlassAccuracy(3), m.MulticlassF1Score(3, average="macro"), m.MulticlassConfusionMatrix(3)], prefix="val_"
    )


def named(m):
    return m.MetricCollection({"mse": m.MeanSquaredError(), "mae": m.MeanAbsoluteError(), "r": m.PearsonCorrCoef()})


def composed(m):
    tp = m.BinaryPrecision()
    return 2 * (tp * m.BinaryRecall()) / (tp + m.BinaryRecall() + 1e-6) - abs(-m.BinaryAccuracy()) ** 2


EVERY = ("update", "forward", "compute", "reset")
FED = ("update", "compute", "reset")
CASES = {
    "RunningSum": (lambda m: m.RunningSum(window=3), numbers, EVERY),
    "RunningMean": (lambda m: m.RunningMean(window=2), numbers, EVERY),
    "Running": (lambda m: m.Running(m.MeanSquaredError(), window=2), one_column, EVERY),
    "MinMaxMetric": (lambda m: m.MinMaxMetric(m.BinaryAccuracy()), yes_no, ("update", "compute")),  # forward and reset: docs/differences.md
    "ClasswiseWrapper": (lambda m: m.ClasswiseWrapper(m.MulticlassRecall(3, average=None), labels=["a", "b", "c"]), classes, EVERY),
    "ClasswiseWrapper-prefix": (lambda m: m.ClasswiseWrapper(m.MulticlassRecall(3, average=None), prefix="p-"), classes, EVERY),
    "MultioutputWrapper": (lambda m: m.MultioutputWrapper(m.MeanAbsoluteError(), 2), columns, EVERY),
    "MultioutputWrapper-NaN": (lambda m: m.MultioutputWrapper(m.MeanSquaredError(), 2), spoiled, FED),
    "MultioutputWrapper-R2": (lambda m: m.MultioutputWrapper(m.R2Score(), 2), columns, EVERY),
    "MultitaskWrapper": (
        lambda m: m.MultitaskWrapper({"class": m.BinaryAccuracy(), "age": m.MeanSquaredError()}, prefix="p_"),
        tasks,
        EVERY,
    ),
    "LambdaInputTransformer": (
        lambda m: m.LambdaInputTransformer(m.BinaryAccuracy(), lambda p: 1 - p, lambda t: 1 - t),
        yes_no,
        EVERY,
    ),
    "BinaryTargetTransformer": (lambda m: m.BinaryTargetTransformer(m.BinaryAccuracy(), threshold=0), yes_no, EVERY),
    "MetricCollection": (several, classes, EVERY),
    "MetricCollection-named": (named, one_column, EVERY),
    "MetricCollection-nested": (lambda m: m.MetricCollection({"a": m.MeanSquaredError(), "b": named(m)}, postfix="!"), one_column, EVERY),
    "CompositionalMetric": (composed, yes_no, EVERY),
}


def same(got, want):
    if isinstance(want, dict):  # theirs sorts names
        got, want = ({name: values[name] for name in sorted(values)} for values in (got, want))
        assert list(got) == list(want)
    got, want = pytree.tree_leaves(got), pytree.tree_leaves(want)
    assert len(got) == len(want)
    for a, b in ((a, b) for a, b in zip(got, want) if a is not None or b is not None):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 60), marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_any_order_of_calls(name, seeds):
    make, batch, verbs = CASES[name]
    for seed in seeds:
        r, g = random.Random(f"{name} {seed}"), torch.Generator().manual_seed(seed)
        ours, theirs = make(OURS), make(THEIRS)
        since_reset = 0
        for _ in range(12):
            verb = r.choice(verbs) if since_reset else r.choice([v for v in verbs if v in ("update", "forward")])
            if verb in ("update", "forward"):
                data, since_reset = batch(g, r.choice([3, 8])), since_reset + 1
                same(*(getattr(metric, verb)(*data) for metric in (ours, theirs)))
            else:
                same(*(getattr(metric, verb)() for metric in (ours, theirs)))
                since_reset = 0 if verb == "reset" else since_reset


@pytest.mark.parametrize("make", [lambda m: m.BinaryAccuracy(), lambda m: m.MetricCollection([m.BinaryAccuracy(), m.BinaryF1Score()])])
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_trackers(make, maximize):
    g = torch.Generator().manual_seed(0)
    trackers = [m.MetricTracker(make(m), maximize=maximize) for m in (OURS, THEIRS)]
    for _ in range(4):
        data = [yes_no(g, 9) for _ in range(3)]
        for tracker in trackers:
            tracker.increment()
            for one in data[:2]:
                tracker.update(*one)
        same(*(tracker(*data[2]) for tracker in trackers))
        same(*(tracker.compute() for tracker in trackers))
    same(*(tracker.compute_all() for tracker in trackers))
    same(*(tracker.best_metric(return_step=True) for tracker in trackers))
    same(*(tracker.n_steps for tracker in trackers))


@pytest.mark.filterwarnings("ignore")
def test_bootstraps_have_the_same_mean_and_spread():
    g = torch.Generator().manual_seed(0)
    data = one_column(g, 400)
    values = []
    for m in (OURS, THEIRS):
        torch.manual_seed(1)
        metric = m.BootStrapper(m.MeanSquaredError(), num_bootstraps=300)
        metric.update(*data)
        values.append(metric.compute())
    assert set(values[0]) == set(values[1])
    np.testing.assert_allclose(*(float(v["mean"]) for v in values), rtol=0.03)
    np.testing.assert_allclose(*(float(v["std"]) for v in values), rtol=0.25)
