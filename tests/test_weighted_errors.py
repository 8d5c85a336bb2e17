"""Sample weights of regression metrics: scikit-learn's `sample_weight`, SciPy's `w` and `numpy.cov` of `aweights`."""

import functools
import math

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.special
import sklearn.metrics as sk
import torch
import weighted
from cases import elsewhere
from torch import Tensor
from weighted import ways

import torchtally as tt
from torchtally import functional as f
from torchtally import regression as r
from torchtally.faults import FaultError


def concordance(t, p, sample_weight):
    c = np.cov(p, t, aweights=sample_weight)
    gap = np.average(p, weights=sample_weight) - np.average(t, weights=sample_weight)
    return 2 * c[0, 1] / (c[0, 0] + c[1, 1] + gap**2)


def pearson(t, p, sample_weight):
    c = np.cov(p, t, aweights=sample_weight)
    return c[0, 1] / np.sqrt(c[0, 0] * c[1, 1])


def spread(t, w):
    return np.sqrt(np.cov(t, aweights=w, ddof=0))


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
    (r.LogCoshError, {}, lambda t, p, sample_weight: np.average(np.log(np.cosh(p - t)), weights=sample_weight)),
    *(
        (r.MinkowskiDistance, {"p": x}, lambda t, p, sample_weight, x=x: scipy.spatial.distance.minkowski(p, t, x, sample_weight))
        for x in (1, 2, 3.5)
    ),
    *(
        (r.TweedieDevianceScore, {"power": x}, functools.partial(sk.mean_tweedie_deviance, power=x))
        for x in (-1.0, 0.0, 1.0, 1.5, 2.0, 3.0)
    ),
    (r.R2Score, {}, sk.r2_score),
    (r.ExplainedVariance, {}, sk.explained_variance_score),
    (r.RelativeSquaredError, {}, lambda t, p, sample_weight: 1 - sk.r2_score(t, p, sample_weight=sample_weight)),
    (r.RelativeSquaredError, {"squared": False}, lambda t, p, sample_weight: np.sqrt(1 - sk.r2_score(t, p, sample_weight=sample_weight))),
    (r.PearsonCorrCoef, {}, pearson),
    (r.ConcordanceCorrCoef, {}, concordance),
    *(
        (
            r.NormalizedRootMeanSquaredError,
            {"normalization": unit},
            lambda t, p, sample_weight, of=of: sk.root_mean_squared_error(t, p, sample_weight=sample_weight) / of(t, sample_weight),
        )
        for unit, of in {
            "mean": lambda t, w: np.average(t, weights=w),
            "range": lambda t, w: np.ptp(t[w > 0]),
            "std": spread,
            "l2": lambda t, w: np.sqrt((w * t**2).sum()),
        }.items()
    ),
    (r.CriticalSuccessIndex, {"threshold": 0.5}, lambda t, p, sample_weight: sk.jaccard_score(t >= 0.5, p >= 0.5, sample_weight=sample_weight)),
]
errors = pytest.mark.parametrize(("cls", "options", "reference"), ERRORS)


def amounts(*shape, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return [(torch.rand(shape, generator=g, dtype=torch.float64) + 0.1).to(dtype) for _ in range(2)]


def value(*batch, **how):
    return np.asarray(weighted.value(*batch, **how).as_subclass(Tensor))


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
@pytest.mark.parametrize("how", ["raw_values", "uniform_average", "variance_weighted"])
def test_columns_of_shares_of_variance(how, way):
    preds, target = amounts(50, 3)
    weight, each = torch.rand(50).double(), torch.rand(50, 3).double()
    for cls, reference in ((r.R2Score, sk.r2_score), (r.ExplainedVariance, sk.explained_variance_score)):
        want = reference(target, preds, sample_weight=weight, multioutput=how)
        np.testing.assert_allclose(value(cls(multioutput=how, weighted=True), preds, target, weight, way=way), want, rtol=1e-12)
        want = [reference(target[:, k], preds[:, k], sample_weight=each[:, k]) for k in range(3)]
        got = value(cls(multioutput="raw_values", weighted=True), preds, target, each, way=way)
        np.testing.assert_allclose(got, want, rtol=1e-12)


@ways
@pytest.mark.parametrize(
    ("cls", "reference", "options"),
    [
        (r.PearsonCorrCoef, pearson, {}),
        (r.ConcordanceCorrCoef, concordance, {}),
        (r.LogCoshError, lambda t, p, w: np.average(np.log(np.cosh(p - t)), weights=w), {}),
        (
            r.NormalizedRootMeanSquaredError,
            lambda t, p, w: sk.root_mean_squared_error(t, p, sample_weight=w) / np.ptp(t),
            {"normalization": "range"},
        ),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_columns_of_others(cls, reference, options, way):
    preds, target = amounts(50, 3)
    weight, each = torch.rand(50).double(), torch.rand(50, 3).double() + 0.1
    for given, full in ((weight, weight[:, None].expand(50, 3)), (each, each)):
        want = [reference(target[:, k].numpy(), preds[:, k].numpy(), full[:, k].numpy()) for k in range(3)]
        np.testing.assert_allclose(value(cls(**options, num_outputs=3, weighted=True), preds, target, given, way=way), want, rtol=1e-12)


@ways
def test_moments_are_right_far_from_zero(way):
    preds, target = amounts(90)
    weight = torch.rand(90).double()
    for offset, tolerance in ((1e6, 1e-9), (1e8, 1e-7)):
        p, t = preds + offset, target + offset
        exact_p, exact_t = (p - offset).numpy(), (t - offset).numpy()  # what is left of them in float64
        for cls, reference in ((r.PearsonCorrCoef, pearson), (r.ConcordanceCorrCoef, concordance), (r.R2Score, sk.r2_score)):
            want = reference(exact_t, exact_p, sample_weight=weight.numpy())
            np.testing.assert_allclose(value(cls(weighted=True), p, t, weight, way=way), want, rtol=tolerance)


def rows(n=40, d=4):
    g = torch.Generator().manual_seed(3)
    return (*(torch.rand(n, d, generator=g, dtype=torch.float64) + 0.05 for _ in range(2)), torch.rand(n, generator=g, dtype=torch.float64))


@ways
def test_rows(way):
    left, right, weight = batch = rows()
    p, q, w = (x.numpy() for x in batch)
    p_, q_ = p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)
    divergence = scipy.special.rel_entr(p_, q_).sum(1)
    middle = scipy.spatial.distance.jensenshannon(p_, q_, axis=1) ** 2
    cosine = 1 - np.array([scipy.spatial.distance.cosine(a, b) for a, b in zip(p, q)])
    spread_of = abs(p[:, :, None] - p[:, None]).mean((1, 2)) / 2
    ranked = abs(p - q[:, :1]).mean(1) - spread_of
    for cls, scores, data in (
        (r.KLDivergence, divergence, (left, right)),
        (r.JensenShannonDivergence, middle, (left, right)),
        (r.CosineSimilarity, cosine, (left, right)),
    ):
        got = value(cls(reduction="mean", weighted=True), *data, weight, way=way)
        np.testing.assert_allclose(got, np.average(scores, weights=w), rtol=1e-12)
        np.testing.assert_allclose(value(cls(reduction="sum", weighted=True), *data, weight, way=way), (scores * w).sum(), rtol=1e-12)
    got = value(r.ContinuousRankedProbabilityScore(weighted=True), left, right[:, 0], weight, way=way)
    np.testing.assert_allclose(got, np.average(ranked, weights=w), rtol=1e-12)


@ways
def test_events_along_a_dimension(way):
    preds, target = amounts(12, 5)
    weight = torch.rand(12, 5).double()
    want = [sk.jaccard_score(t > 0.5, p > 0.5, sample_weight=w) for t, p, w in zip(target, preds, weight)]
    metric = r.CriticalSuccessIndex(0.5, keep_sequence_dim=0, weighted=True)
    np.testing.assert_allclose(value(metric, preds, target, weight, way=way), want, rtol=1e-12)


@ways
def test_impossible_pairs_without_weight_are_no_fault(way):
    preds, target, weight = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([2.0, 1.0, 5.0]), torch.tensor([1.0, 0.0, 3.0])
    live = weight > 0
    want = sk.mean_tweedie_deviance(target[live].double(), preds[live].double(), power=2, sample_weight=weight[live].double())
    metric = r.TweedieDevianceScore(2, weighted=True)
    np.testing.assert_allclose(value(metric, preds, target, weight, way=way, parts=1), want, rtol=1e-12)
    with pytest.raises(FaultError, match="impossible"):
        value(metric, preds, target, way=way, parts=1)


@ways
def test_a_share_of_variance_asks_for_two_pairs_that_have_a_weight(way):
    preds, target = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])
    assert np.isnan(value(r.R2Score(weighted=True), preds, target, torch.tensor([3.0, 0.0]), way=way, parts=1))
    assert value(r.R2Score(weighted=True), preds, target, torch.tensor([0.01, 0.01]), way=way, parts=1) == 1


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: r.R2Score(adjusted=2, weighted=True), "R2Score: weighted is True, but adjusted=2 asks how many samples there are"),
        (lambda: r.KLDivergence(reduction="none", weighted=True), "KLDivergence: weighted is True, but reduction='none' lists the value"),
        (lambda: r.CosineSimilarity(None, weighted=True), "CosineSimilarity: weighted is True, but reduction=None lists the value"),
        (lambda: r.SpearmanCorrCoef(weighted=True), "SpearmanCorrCoef: .*weighted.*no agreed definition"),
        (lambda: r.KendallRankCorrCoef(weighted=True), "KendallRankCorrCoef: .*weighted.*no agreed definition"),
    ],
)
def test_where_weights_make_no_sense(make, why):
    with pytest.raises(ValueError, match=why):
        make()


def test_weights_of_rows_say_what_was_expected():
    left, right, _ = rows()
    with pytest.raises(ValueError, match=r"KLDivergence: weight has shape \(40, 4\); expected \(40,\), one for each row"):
        r.KLDivergence(weighted=True).update(left, right, torch.ones(40, 4))


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
    weight[2] = 0.0
    for cls, options, _ in ERRORS:
        metric = cls(**options, weighted=True).set_dtype(torch.float64)
        if metric.is_differentiable:
            assert torch.autograd.gradcheck(lambda x, m=metric: m(x, target, weight), preds)
    got = f.mean_squared_error(preds, target, weight=weight)
    np.testing.assert_allclose(got.detach(), sk.mean_squared_error(target, preds.detach(), sample_weight=weight), rtol=1e-6)
    got = f.r2_score(preds, target, weight=weight)
    np.testing.assert_allclose(got.detach(), sk.r2_score(target, preds.detach(), sample_weight=weight), rtol=1e-6)
    columns = amounts(7, 2)
    got = f.pearson_corrcoef(*columns, weight=weight)
    np.testing.assert_allclose(got, [pearson(t.numpy(), p.numpy(), weight.numpy()) for p, t in zip(*(x.T for x in columns))], rtol=1e-6)


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
    moments = tt.MetricCollection([cls(weighted=True) for cls in (r.MeanSquaredError, r.R2Score, r.PearsonCorrCoef, r.RelativeSquaredError)])
    moments.update(preds=preds, target=target, weight=weight)
    np.testing.assert_allclose(moments.compute()["R2Score"], sk.r2_score(target, preds, sample_weight=weight), rtol=1e-6)
    assert len({s for m in moments.values() for s, _ in m.needs() if type(s).__name__ == "WeightedPairMoments"}) == 1
