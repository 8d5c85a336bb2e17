"""What holds for weights of samples, whatever the metric: they are how often a sample counts."""

import functools
import math

import pytest
import torch
from cases import CASES, batches, elsewhere
from test_laws import as_numbers, assert_equal, fed, joined

from torchtally.faults import FaultError

WEIGHTED = [case for case in CASES if isinstance(case.make, functools.partial) and case.make.keywords.get("weighted")]
LISTED = ("samplewise", "kept")  # a value for each sample
SUMS = ("StatScores", "ConfusionMatrix", "MinkowskiDistance", "sum", "CosineSimilarity", "-l2", "ROC", "PrecisionRecallCurve")

each = pytest.mark.parametrize("case", WEIGHTED, ids=lambda case: case.name)
ways = pytest.mark.parametrize("way", [tuple, elsewhere], ids=["host", "device"])


def assert_same(got, want, tolerance=1e-6):
    """Whatever the dtypes: unweighted counts are whole numbers."""
    assert_equal(as_numbers(got), as_numbers(want), tolerance)


def unweighted(case):
    make = case.make
    return functools.partial(make.func, *make.args, **{k: v for k, v in make.keywords.items() if k != "weighted"})()


def samples(case, weight):
    """Batches with these weights, a function of their number of rows."""
    return [(*batch[:-1], weight(batch[-1])) for batch in batches(case, (9, 1, 14))]


def whole_numbers(weight):
    return torch.randint(0, 4, weight.shape, generator=torch.Generator().manual_seed(len(weight)))


def repeated(batch):
    *data, weight = batch
    return tuple(x.repeat_interleave(weight, 0) for x in data)


@each
@ways
def test_weights_of_one_and_none_are_no_weights(case, way):
    want = fed(case, (b[:-1] for b in batches(case)), unweighted(case)).compute()
    assert_same(fed(case, (way((*b[:-1], torch.ones_like(b[-1]))) for b in batches(case))).compute(), want, case.tolerance)
    assert_same(fed(case, (way(b[:-1]) for b in batches(case))).compute(), want, case.tolerance)


@each
@ways
def test_whole_weights_are_repetitions(case, way):
    if any(word in case.name for word in LISTED):
        pytest.skip("lists samples")
    if case.name.startswith("ConcordanceCorrCoef"):
        pytest.skip("divides by the degrees of freedom of weights of any scale")
    data = samples(case, whole_numbers)
    want = fed(case, map(repeated, data), unweighted(case)).compute()
    assert_same(fed(case, map(way, data)).compute(), want, case.tolerance)


@each
@ways
def test_what_has_no_weight_is_left_out(case, way):
    if any(word in case.name for word in LISTED):
        pytest.skip("lists samples")
    data = samples(case, lambda weight: weight * (whole_numbers(weight) > 1))
    chosen = [tuple(x[batch[-1] > 0] for x in batch) for batch in data]
    assert_same(fed(case, map(way, data)).compute(), fed(case, chosen).compute(), case.tolerance)


@each
def test_the_scale_of_weights_does_not_matter(case):
    if any(word in case.name for word in SUMS):
        pytest.skip("a sum of weights")
    small, large = samples(case, lambda weight: weight / 1024), samples(case, lambda weight: weight * 4096)
    assert_same(fed(case, small).compute(), fed(case, large).compute(), case.tolerance)


@each
@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_weights_are_refused_or_counted(case, bad):
    data = samples(case, lambda weight: weight)
    spoiled = (*data[0][:-1], data[0][-1].clone())
    at = next(i for i, target in enumerate(spoiled[1]) if (target != -1).any())  # the weights of ignored elements do not matter
    spoiled[-1][at] = bad
    metric = fed(case, data)
    want = metric.compute()
    with pytest.raises(FaultError, match=rf"{type(metric).__name__}: weight is {bad} at .*; expected finite numbers of at least 0"):
        metric.update(*spoiled)
    assert_equal(metric.compute(), want, 0)
    assert metric.update_count == len(data)
    metric.update(*elsewhere(spoiled))
    with pytest.raises(FaultError, match=r"impossible weights .* first in update 4") as error:
        metric.compute()
    spoiled[-1][at] = 0.0
    assert_equal(error.value.values, fed(case, [*data, spoiled]).compute(), case.tolerance)


@each
def test_weights_are_refused_where_they_were_not_asked_for(case):
    metric = unweighted(case)
    batch = joined(samples(case, torch.ones_like))
    with pytest.raises(ValueError, match=rf"{type(metric).__name__}: update was given a weight, but without weighted=True"):
        metric.update(*batch)
    assert metric.update_count == 0
