"""Formulas over small totals on the host are worked out in NumPy: to the same as in tensors, also of nothing, of one class, and where 0/0 counts as anything."""

import itertools
from math import nan

import numpy as np
import pytest
import torch
from cases import CASES, batches
from torch import tensor

import torchtally as tt
from torchtally import classification as c
from torchtally.ledger import Ledger
from torchtally.statistics.class_counts import ClassCounts, Counts

NUMERIC = [case for case in CASES if getattr(case.make(), "in_numbers", False)]


def both_forms(metric):
    """The value of each form, in full precision."""
    metric.set_dtype(torch.float64)
    return [metric._finish(metric._read(metric.ledger, numbers)) for numbers in (True, False)]


def assert_alike(metric):
    in_numpy, in_tensors = both_forms(metric)
    assert isinstance(in_numpy, dict) == isinstance(in_tensors, dict)
    torch.testing.assert_close(in_numpy, in_tensors, rtol=1e-12, atol=0.0, equal_nan=True)
    for x in [in_numpy] if not isinstance(in_numpy, dict) else in_numpy.values():
        assert x.is_contiguous()


@pytest.mark.parametrize("case", NUMERIC, ids=lambda case: case.name)
def test_both_forms_give_the_same(case):
    metric = case.make()
    assert_alike(metric)  # of nothing
    for batch in batches(case):
        metric.update(*batch)
        assert_alike(metric)


AVERAGES = ["micro", "macro", "weighted", "none"]


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("rate", [c.MulticlassAccuracy, c.MulticlassPrecision, c.MulticlassSpecificity, c.MulticlassF1Score, c.MulticlassJaccardIndex])
def test_both_forms_average_alike(rate, average):
    absents = [None] if average == "micro" else [None, "skip", "keep", "zero", "nan"]
    for absent, undefined, ignored in itertools.product(absents, [0.0, 1.0, nan], [None, 1, -1]):
        options = {} if absent is None else {"absent": absent}
        metric = rate(num_classes=4, average=average, zero_division=undefined, ignore_index=ignored, **options)
        assert_alike(metric)
        metric.update(tensor([0, 0, 2, 1]), tensor([0, 1, 0, 1]))  # nothing is of class 3, class 2 is predicted only
        assert_alike(metric)


def test_what_is_common_is_worked_out_in_numpy():
    names = ["Accuracy", "Precision", "Recall", "F1Score", "Specificity", "HammingDistance", "StatScores", "ConfusionMatrix", "CohenKappa", "MatthewsCorrCoef"]
    for options in ({"task": "multiclass", "num_classes": 3}, {"task": "binary"}):
        for name in names:
            metric = getattr(tt, name)(**options)
            metric.update(tensor([0, 1]), tensor([1, 1]))
            assert isinstance(metric._read(metric.ledger, numbers=True), np.ndarray | np.generic), metric


def test_what_is_returned_is_not_the_memory_of_the_totals():
    metrics = tt.MetricCollection({n: c.MulticlassConfusionMatrix(num_classes=2) for n in "ab"})
    metrics.update(tensor([0, 1]), tensor([1, 1]))
    values = metrics.compute()
    values["a"] += 5
    assert metrics.compute()["a"].tolist() == values["b"].tolist() == [[0, 0], [1, 1]]


class InTensors(c.MulticlassAccuracy):
    """A user's, who was told of tensors."""

    def value(self, counts):
        return torch.where(counts.tp > 0, counts.tp, 0.0).sum()


class Halved(ClassCounts):
    """A user's statistic with totals of its own."""

    def totals(self, slots):
        found = super().totals(slots)
        return Counts(found.tp / 2, found.predicted, found.actual)


def test_those_who_write_formulas_and_statistics_are_given_tensors():
    mine = InTensors(num_classes=3)
    mine.update(tensor([0, 1, 2]), tensor([0, 1, 1]))
    assert mine.compute() == 2
    ledger = Ledger([(Halved(mine.statistics[0].input), ("preds", "target"))])
    assert ledger.keys[0][0].numbers(ledger.views_in_numpy()[0]) is None  # so that its totals are asked for


def test_default_dtypes_and_devices_are_kept():
    metric = c.BinaryAccuracy()
    metric.update(tensor([1, 0, 1]), tensor([1, 1, 1]))
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        metric.set_dtype(dtype)
        assert metric.compute().dtype is dtype
        assert metric.compute() == torch.tensor(2 / 3, dtype=torch.float64).to(dtype)
    with torch.device("meta"):  # where new tensors go does not matter to totals that are here
        assert metric.compute().device.type == "cpu"
