"""Sample weights of mean errors: scikit-learn's `sample_weight`."""

import math

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from cases import elsewhere
from torch import Tensor

import torchtally as tt
from torchtally import functional as f
from torchtally import regression as r
from torchtally.faults import FaultError

WAYS = {"host": tuple, "device": elsewhere}
ways = pytest.mark.parametrize("way", WAYS)

ERRORS = [
    (r.MeanSquaredError, {}, sk.mean_squared_error),
    (r.MeanSquaredError, {"squared": False}, sk.root_mean_squared_error),
    (r.MeanAbsoluteError, {}, sk.mean_absolute_error),
    (r.MeanAbsolutePercentageError, {}, sk.mean_absolute_percentage_error),
    (r.MeanSquaredLogError, {}, sk.mean_squared_log_error),
    (
        r.SymmetricMeanAbsolutePercentageError,
        {},
        lambda t, p, sample_weight: np.average(2 * abs(p - t) / (abs(p) + abs(t)), weights=sample_weight),
    ),
    (
        r.WeightedMeanAbsolutePercentageError,
        {},
        lambda t, p, sample_weight: (sample_weight * abs(p - t)).sum() / (sample_weight * abs(t)).sum(),
    ),
]
errors = pytest.mark.parametrize(("cls", "options", "reference"), ERRORS)


def amounts(*shape, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return [(torch.rand(shape, generator=g, dtype=torch.float64) + 0.1).to(dtype) for _ in range(2)]


def value(metric, *batch, way="host", parts=4):
    metric.set_dtype(torch.float64)
    for part in zip(*(x.tensor_split(parts) for x in batch)):
        metric.update(*WAYS[way](part))
    return np.asarray(metric.compute().as_subclass(Tensor))


@ways
@errors
def test_errors(cls, options, reference, way):
    preds, target = amounts(90)
    for weight in (torch.rand(90), torch.randint(0, 3, (90,)), torch.rand(90) < 0.5, torch.rand(90).half()):
        want = reference(target.numpy(), preds.numpy(), sample_weight=weight.double().numpy())
        np.testing.assert_allclose(value(cls(**options, weighted=True), preds, target, weight, way=way), want, rtol=1e-12)
    want = reference(target.numpy(), preds.numpy(), sample_weight=np.ones(90))
    np.testing.assert_allclose(value(cls(**options, weighted=True), preds, target, way=way), want, rtol=1e-12)


@ways
def test_columns_and_images(way):
    preds, target = amounts(50, 3)
    weight, each = torch.rand(50).double(), torch.rand(50, 3).double()
    for cls, reference in ((r.MeanSquaredError, sk.mean_squared_error), (r.MeanAbsoluteError, sk.mean_absolute_error)):
        want = reference(target, preds, sample_weight=weight, multioutput="raw_values")
        np.testing.assert_allclose(value(cls(num_outputs=3, weighted=True), preds, target, weight, way=way), want, rtol=1e-12)
        want = [reference(target[:, k], preds[:, k], sample_weight=each[:, k]) for k in range(3)]
        np.testing.assert_allclose(value(cls(num_outputs=3, weighted=True), preds, target, each, way=way), want, rtol=1e-12)
        want = reference(target.flatten(), preds.flatten(), sample_weight=weight.repeat_interleave(3))
        np.testing.assert_allclose(value(cls(weighted=True), preds, target, weight, way=way), want, rtol=1e-12)


@ways
def test_what_has_no_weight_has_no_say(way):
    preds, target, weight = torch.tensor([1.0, math.nan, 3.0]), torch.tensor([2.0, 1.0, 5.0]), torch.tensor([1.0, 0.0, 3.0])
    assert value(r.MeanAbsoluteError(weighted=True), preds, target, weight, way=way, parts=1) == 7 / 4
    assert np.isnan(value(r.MeanAbsoluteError(weighted=True), preds, target, torch.zeros(3), way=way, parts=1))
    assert r.MeanAbsoluteError(weighted=True).compute().isnan()


def test_impossible_weights():
    preds, target, bad = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]), torch.tensor([1.0, -1.0])
    metric = r.MeanSquaredError(weighted=True)
    with pytest.raises(FaultError, match=r"MeanSquaredError: weight is -1.0 at \(1,\); expected finite numbers of at least 0"):
        metric.update(preds, target, bad)
    assert metric.update_count == 0
    metric.update(*elsewhere((preds, target, bad.abs())))
    metric.update(*elsewhere((preds, target, bad)))
    with pytest.raises(FaultError, match=r"1 value was impossible weights .* first in update 2") as error:
        metric.compute()
    assert error.value.values == 2.0  # (1 + 4 + 1) / 3
    with pytest.raises(ValueError, match=r"MeanSquaredError: weight has shape \(3,\) but target has \(2,\); expected \(2,\)"):
        metric.update(preds, target, torch.ones(3))
    with pytest.raises(
        ValueError, match=r"MeanSquaredError: update was given a weight, but without weighted=True all samples count the same"
    ):
        r.MeanSquaredError().update(preds, target, bad)


def test_gradients_flow_and_functions_take_weights():
    preds, target = (x.requires_grad_(i == 0) for i, x in enumerate(amounts(7)))
    weight = torch.rand(7, dtype=torch.float64)
    for cls in (r.MeanSquaredError, r.MeanAbsoluteError, r.MeanSquaredLogError):
        metric = cls(weighted=True).set_dtype(torch.float64)
        assert torch.autograd.gradcheck(lambda x, m=metric: m(x, target, weight), preds)
    got = f.mean_squared_error(preds, target, weight=weight)
    np.testing.assert_allclose(got.detach(), sk.mean_squared_error(target, preds.detach(), sample_weight=weight), rtol=1e-6)


def test_collections_share_what_is_weighed():
    preds, target = amounts(40, dtype=torch.float32)
    weight = torch.rand(40)
    tally = tt.MetricCollection(
        {
            "mae": r.MeanAbsoluteError(weighted=True),
            "wmape": r.WeightedMeanAbsolutePercentageError(weighted=True),
            "plain": r.MeanAbsoluteError(),
        }
    )
    tally.update(preds=preds, target=target, weight=weight)
    found = tally.compute()
    np.testing.assert_allclose(found["mae"], sk.mean_absolute_error(target, preds, sample_weight=weight), rtol=1e-6)
    np.testing.assert_allclose(found["plain"], sk.mean_absolute_error(target, preds), rtol=1e-6)
    assert tally["mae"].needs()[0] in tally["wmape"].needs()
    assert "weighted=True" in repr(tally["mae"])
