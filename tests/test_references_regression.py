"""Regression metrics against SciPy, scikit-learn and NumPy in float64, and their gradients."""

import warnings

import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics as sk
import torch
from cases import elsewhere

import torchtally as tt
from torchtally import functional as f
from torchtally import regression as r


def pairs(n=211, columns=None, seed=0, offset=0.0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    shape = (n,) if columns is None else (n, columns)
    target = torch.randn(shape, generator=g, dtype=torch.float64)
    return (target + 0.3 * torch.randn(shape, generator=g, dtype=torch.float64) + offset).to(dtype), (target + offset).to(dtype)


def amounts(n=211, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, generator=g, dtype=torch.float64) + 0.1, torch.rand(n, generator=g, dtype=torch.float64) + 0.1


def streamed(metric, *batch, device_form=False, size=37):
    for part in zip(*(x.split(size) for x in batch)):
        metric.update(*(elsewhere(part) if device_form else part))
    return torch.as_tensor(np.asarray(metric.set_dtype(torch.float64).compute())).numpy()


def concordance(p, t):
    return 2 * np.cov(p, t)[0, 1] / (p.var(ddof=1) + t.var(ddof=1) + (p.mean() - t.mean()) ** 2)


def rmse(p, t):
    return np.sqrt(((p - t) ** 2).mean(0))


PAIRS = [
    (r.MeanSquaredError(), sk.mean_squared_error),
    (r.MeanSquaredError(squared=False), rmse),
    (r.MeanAbsoluteError(), sk.mean_absolute_error),
    (r.SymmetricMeanAbsolutePercentageError(), lambda p, t: (2 * abs(p - t) / (abs(p) + abs(t))).mean()),
    (r.WeightedMeanAbsolutePercentageError(), lambda p, t: abs(p - t).sum() / abs(t).sum()),
    (r.LogCoshError(), lambda p, t: np.log(np.cosh(p - t)).mean()),
    (r.MinkowskiDistance(1), lambda p, t: abs(p - t).sum()),
    (r.MinkowskiDistance(2.5), lambda p, t: np.linalg.norm(p - t, 2.5)),
    (r.R2Score(), lambda p, t: sk.r2_score(t, p)),
    (r.R2Score(adjusted=5), lambda p, t: 1 - (1 - sk.r2_score(t, p)) * (len(t) - 1) / (len(t) - 6)),
    (r.ExplainedVariance(), lambda p, t: sk.explained_variance_score(t, p)),
    (r.RelativeSquaredError(), lambda p, t: 1 - sk.r2_score(t, p)),
    (r.RelativeSquaredError(squared=False), lambda p, t: np.sqrt(1 - sk.r2_score(t, p))),
    (r.PearsonCorrCoef(), lambda p, t: scipy.stats.pearsonr(p, t).statistic),
    (r.ConcordanceCorrCoef(), concordance),
    (r.NormalizedRootMeanSquaredError("mean"), lambda p, t: rmse(p, t) / t.mean()),
    (r.NormalizedRootMeanSquaredError("range"), lambda p, t: rmse(p, t) / np.ptp(t)),
    (r.NormalizedRootMeanSquaredError("std"), lambda p, t: rmse(p, t) / t.std()),
    (r.NormalizedRootMeanSquaredError("l2"), lambda p, t: rmse(p, t) / np.linalg.norm(t)),
    (r.SpearmanCorrCoef(), lambda p, t: scipy.stats.spearmanr(p, t).statistic),
    (r.KendallRankCorrCoef(), lambda p, t: scipy.stats.kendalltau(p, t).statistic),
    (r.TweedieDevianceScore(), sk.mean_squared_error),
    (r.CriticalSuccessIndex(0.25), lambda p, t: sk.jaccard_score(t >= 0.25, p >= 0.25)),
]
AMOUNTS = [
    (r.MeanAbsolutePercentageError(), lambda p, t: sk.mean_absolute_percentage_error(t, p)),
    (r.MeanSquaredLogError(), sk.mean_squared_log_error),
    *((r.TweedieDevianceScore(x), lambda p, t, x=x: sk.mean_tweedie_deviance(t, p, power=x)) for x in (-1.0, 1.0, 1.5, 2.0, 3.0)),
]


@pytest.mark.parametrize("device_form", [False, True])
@pytest.mark.parametrize("metric, reference", PAIRS, ids=lambda x: repr(x) if isinstance(x, tt.Metric) else "")
def test_pairs(metric, reference, device_form):
    metric = metric.clone()
    p, t = pairs()
    np.testing.assert_allclose(streamed(metric, p, t, device_form=device_form), reference(p.numpy(), t.numpy()), rtol=1e-12)


@pytest.mark.parametrize("device_form", [False, True])
@pytest.mark.parametrize("metric, reference", AMOUNTS, ids=lambda x: repr(x) if isinstance(x, tt.Metric) else "")
def test_amounts(metric, reference, device_form):
    metric = metric.clone()
    p, t = amounts()
    np.testing.assert_allclose(streamed(metric, p, t, device_form=device_form), reference(p.numpy(), t.numpy()), rtol=1e-12)


@pytest.mark.parametrize("device_form", [False, True])
@pytest.mark.parametrize("offset", [1e6, 1e8])
@pytest.mark.parametrize("size", [1, 37, 40000])
def test_moments_are_right_far_from_zero(offset, size, device_form):
    p, t = pairs(101 if size == 1 else 20000, offset=offset)
    x, y = p.numpy() - offset, t.numpy() - offset  # exact: what is left of the digits of p and t
    wanted = {
        r.MeanSquaredError: ((x - y) ** 2).mean(),
        r.R2Score: 1 - ((x - y) ** 2).sum() / ((y - y.mean()) ** 2).sum(),
        r.ExplainedVariance: 1 - (x - y).var() / y.var(),
        r.PearsonCorrCoef: np.corrcoef(x, y)[0, 1],
        r.ConcordanceCorrCoef: concordance(x, y),
        r.RelativeSquaredError: ((x - y) ** 2).sum() / ((y - y.mean()) ** 2).sum(),
    }
    for cls, want in wanted.items():
        np.testing.assert_allclose(streamed(cls(), p, t, device_form=device_form, size=size), want, rtol=1e-12)
    merged = r.PearsonCorrCoef()
    for part in zip(p.chunk(7), t.chunk(7)):
        other = r.PearsonCorrCoef()
        other.update(*part)
        merged.merge_state(other)
    np.testing.assert_allclose(merged.set_dtype(torch.float64).compute(), wanted[r.PearsonCorrCoef], rtol=1e-12)


@pytest.mark.parametrize("device_form", [False, True])
@pytest.mark.parametrize("how", ["raw_values", "uniform_average", "variance_weighted"])
def test_outputs_are_found_in_the_first_batch(how, device_form):
    p, t = pairs(columns=3)
    t = t * torch.tensor([1.0, 2.0, 0.0], dtype=torch.float64)  # the last is constant
    for cls, reference in ((r.R2Score, sk.r2_score), (r.ExplainedVariance, sk.explained_variance_score)):
        np.testing.assert_allclose(
            streamed(cls(multioutput=how), p, t, device_form=device_form), reference(t, p, multioutput=how), rtol=1e-12, atol=1e-15
        )


@pytest.mark.parametrize("device_form", [False, True])
def test_columns(device_form):
    p, t = pairs(columns=3)
    for metric, reference in (
        (r.MeanSquaredError(num_outputs=3), lambda p, t: ((p - t) ** 2).mean()),
        (r.MeanAbsoluteError(num_outputs=3), lambda p, t: abs(p - t).mean()),
        (r.LogCoshError(num_outputs=3), lambda p, t: np.log(np.cosh(p - t)).mean()),
        (r.PearsonCorrCoef(num_outputs=3), lambda p, t: scipy.stats.pearsonr(p, t).statistic),
        (r.ConcordanceCorrCoef(num_outputs=3), concordance),
        (r.NormalizedRootMeanSquaredError("range", num_outputs=3), lambda p, t: rmse(p, t) / np.ptp(t)),
        (r.SpearmanCorrCoef(num_outputs=3), lambda p, t: scipy.stats.spearmanr(p, t).statistic),
        (r.KendallRankCorrCoef(num_outputs=3), lambda p, t: scipy.stats.kendalltau(p, t).statistic),
    ):
        want = [reference(a, b) for a, b in zip(p.numpy().T, t.numpy().T)]
        np.testing.assert_allclose(streamed(metric, p, t, device_form=device_form), want, rtol=1e-12)
    np.testing.assert_allclose(streamed(r.RelativeSquaredError(num_outputs=3), p, t), 1 - sk.r2_score(t, p), rtol=1e-12)


def test_rows():
    g = torch.Generator().manual_seed(0)
    p, q = (torch.rand(50, 6, generator=g, dtype=torch.float64) for _ in range(2))
    p[:, 0] = 0.0
    a, b = p.numpy(), q.numpy()
    a, b = a / a.sum(1, keepdims=True), b / b.sum(1, keepdims=True)
    divergence = scipy.special.rel_entr(a, b).sum(1)
    middle = (a + b) / 2
    mid = (scipy.special.rel_entr(a, middle) + scipy.special.rel_entr(b, middle)).sum(1) / 2
    cosine = np.diag(sk.pairwise.cosine_similarity(a, b))
    for cls, want in ((r.KLDivergence, divergence), (r.JensenShannonDivergence, mid), (r.CosineSimilarity, cosine)):
        np.testing.assert_allclose(streamed(cls(reduction="none"), p, q), want, rtol=1e-12)
        np.testing.assert_allclose(streamed(cls(reduction="mean"), p, q), want.mean(), rtol=1e-12)
        np.testing.assert_allclose(streamed(cls(reduction="sum"), p, q, device_form=True), want.sum(), rtol=1e-12)
    with np.errstate(divide="ignore"):
        logs = torch.from_numpy(np.log(a)), torch.from_numpy(np.log(b))
    np.testing.assert_allclose(streamed(r.KLDivergence(log_prob=True), *logs), divergence.mean(), rtol=1e-12)
    np.testing.assert_allclose(streamed(r.JensenShannonDivergence(log_prob=True), *logs), mid.mean(), rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_ranked_probability_score_is_the_mean_over_pairs(offset):
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 7, generator=g, dtype=torch.float64) + offset, torch.randn(40, generator=g, dtype=torch.float64) + offset
    a, b = x.numpy(), y.numpy()[:, None]
    want = (abs(a - b).mean(1) - abs(a[:, :, None] - a[:, None]).mean((1, 2)) / 2).mean()
    np.testing.assert_allclose(streamed(r.ContinuousRankedProbabilityScore(), x, y), want, rtol=1e-12, atol=1e-15)


def test_critical_success_index_along_a_dimension():
    p, t = torch.tensor([[0.9, 0.1], [0.6, 0.7]]), torch.tensor([[0.8, 0.7], [0.2, 0.1]])
    metric = r.CriticalSuccessIndex(0.5, keep_sequence_dim=0)
    metric.update(p, t)
    metric.update(p[:1], t[:1])
    assert metric.compute().tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("n", [1, 2, 3, 64, 257])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16])
def test_ranks_with_ties(n, levels, dtype):
    g = torch.Generator().manual_seed(n + levels)
    p, t = ((torch.randint(0, levels, (n,), generator=g) - levels // 2).to(dtype) for _ in range(2))
    a, b = p.double().numpy(), t.double().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant data
        rho = scipy.stats.spearmanr(a, b).statistic if n > 1 else np.nan
        tau = {v: scipy.stats.kendalltau(a, b, variant=v).statistic for v in "bc"}
    np.testing.assert_allclose(streamed(r.SpearmanCorrCoef(), p, t), rho, rtol=1e-12, atol=1e-15)
    for variant, want in tau.items():
        got = streamed(r.KendallRankCorrCoef(variant), p, t)
        if len(np.unique(a)) > 1 and len(np.unique(b)) > 1:
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
        else:
            assert np.isnan(got)
    signs = np.sign(a[:, None] - a) * np.sign(b[:, None] - b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(streamed(r.KendallRankCorrCoef("a"), p, t), signs.sum() / abs(signs).sum(), rtol=1e-12)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_kendall_p_value(alternative):
    g = torch.Generator().manual_seed(0)
    p = torch.randint(0, 9, (80,), generator=g)
    t = p + torch.randint(0, 12, (80,), generator=g)
    want = scipy.stats.kendalltau(p, t, method="asymptotic", alternative=alternative)
    got = f.kendall_rank_corrcoef(p, t, t_test=True, alternative=alternative)
    np.testing.assert_allclose([float(x) for x in got], [want.statistic, want.pvalue], rtol=1e-5)


@pytest.mark.parametrize("variant", "abc")
@pytest.mark.parametrize("n", [2, 5])
def test_kendall_p_value_of_constants_is_undefined(variant, n):
    assert [float(x) for x in f.kendall_rank_corrcoef(torch.ones(n), torch.arange(float(n)), variant, True)] == pytest.approx(
        [np.nan] * 2, nan_ok=True
    )


def test_nan_has_no_rank():
    p, t = torch.tensor([1.0, float("nan"), 3.0]), torch.tensor([1.0, 2.0, 3.0])
    assert f.spearman_corrcoef(p, t).isnan()
    assert f.kendall_rank_corrcoef(p, t).isnan()


def test_zero_and_minus_zero_are_tied():
    p, t = torch.tensor([-0.0, 0.0, 1.0]), torch.tensor([1.0, 2.0, 3.0])
    np.testing.assert_allclose(f.spearman_corrcoef(p, t), scipy.stats.spearmanr(p, t).statistic, rtol=1e-6)


def test_log_cosh_at_both_ends():
    p = torch.tensor([1e-9, 800.0], dtype=torch.float64)
    for i, want in ((0, 0.5e-18), (1, 800 - np.log(2))):
        got = r.LogCoshError().set_dtype(torch.float64)(p[i : i + 1], torch.zeros(1, dtype=torch.float64))
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_constant_targets():
    constant, moving = torch.full((5,), 1.3), torch.arange(5.0)
    assert f.r2_score(constant, constant) == 1 and f.r2_score(moving, constant) == 0
    assert f.explained_variance(constant + 1, constant) == 1 and f.explained_variance(moving, constant) == 0
    assert f.pearson_corrcoef(moving, constant).isnan() and f.concordance_corrcoef(moving, constant) == 0
    assert f.r2_score(moving[:1], moving[:1]).isnan()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.bool])
def test_whole_numbers_do_not_wrap(dtype):
    g = torch.Generator().manual_seed(0)
    p, t = (torch.randint(0, 250, (90,), generator=g).to(dtype) for _ in range(2))
    for cls in (r.MeanAbsoluteError, r.MeanSquaredError, r.R2Score, r.PearsonCorrCoef, r.SpearmanCorrCoef):
        want = streamed(cls(), p.double(), t.double())
        np.testing.assert_allclose(streamed(cls(), p, t), want, rtol=1e-14)
        np.testing.assert_allclose(streamed(cls(), p, t, device_form=True), want, rtol=1e-12)


@pytest.mark.parametrize("metric", [m for m, _ in PAIRS + AMOUNTS if m.is_differentiable], ids=repr)
def test_gradients(metric):
    p, t = (x[:9].requires_grad_() for x in amounts(seed=3))
    metric = metric.clone().set_dtype(torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: metric.one_shot(a, b), (p, t))
    assert torch.autograd.gradcheck(lambda a, b: metric(a, b), (p, t))
    assert not metric.compute().requires_grad
    assert not any(x.requires_grad for x in metric.metric_state.values() if isinstance(x, torch.Tensor))


def test_gradients_of_several_outputs_and_rows():
    p, t = (x.requires_grad_() for x in pairs(7, columns=3))
    q = t.detach().exp().requires_grad_()
    for metric, a, b in (
        (r.R2Score(multioutput="raw_values"), p, t),
        (r.PearsonCorrCoef(num_outputs=3), p, t),
        (r.CosineSimilarity("none"), p, t),
        (r.KLDivergence(), q, (p.detach().exp()).requires_grad_()),
        (r.JensenShannonDivergence(), q, (p.detach().exp()).requires_grad_()),
    ):
        metric.set_dtype(torch.float64)
        assert torch.autograd.gradcheck(lambda a, b, m=metric: m(a, b), (a, b))


def test_gradients_through_a_collection():
    p, t = pairs(20)
    p.requires_grad_()
    members = {"mse": r.MeanSquaredError(), "pearson": r.PearsonCorrCoef(), "rank": r.SpearmanCorrCoef()}
    both = tt.MetricCollection({**members, "best": tt.MaxMetric().bind(value="preds")})
    values = both(preds=p, target=t)
    assert values["mse"].requires_grad and not values["rank"].requires_grad and not values["best"].requires_grad
    values["mse"].backward()
    torch.testing.assert_close(p.grad, 2 * (p - t).detach() / 20, rtol=1e-5, atol=1e-7)
    after = both.compute()
    assert not any(x.requires_grad for x in after.values())
    torch.testing.assert_close(after["mse"], values["mse"].detach())


def test_members_share_moments():
    members = [
        r.MeanSquaredError(),
        r.R2Score(),
        r.PearsonCorrCoef(),
        r.ExplainedVariance(),
        r.ConcordanceCorrCoef(),
        r.RelativeSquaredError(),
    ]
    five = tt.MetricCollection(members)
    assert sum(type(s).__name__ == "PairMoments" for s, _ in five.ledger.keys) == 1
    p, t = pairs(columns=3)
    five = tt.MetricCollection([r.MeanSquaredError(), r.R2Score()])
    five.update(p, t)
    values = five.compute()
    np.testing.assert_allclose(values["R2Score"], sk.r2_score(t, p), rtol=1e-6)
    np.testing.assert_allclose(values["MeanSquaredError"], sk.mean_squared_error(t, p), rtol=1e-6)


@pytest.mark.parametrize("update", [tuple, elsewhere])
def test_impossible_deviances(update):
    metric = r.TweedieDevianceScore(1.5)
    good = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])
    metric.update(*good)
    with pytest.raises(tt.FaultError, match="predictions above 0"):
        metric.update(*update((torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0]))))
        metric.compute()


def test_refused_batches():
    with pytest.raises(ValueError, match="equal shapes"):
        r.MeanSquaredError().update(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ValueError, match=r"expected \(N,\)"):
        r.PearsonCorrCoef().update(torch.zeros(2, 2), torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"expected \(N, 3\)"):
        r.PearsonCorrCoef(num_outputs=3).update(torch.zeros(2, 2), torch.zeros(2, 2))
    with pytest.raises(ValueError, match="complex"):
        r.MeanSquaredError().update(torch.zeros(2, dtype=torch.complex64), torch.zeros(2))
    with pytest.raises(ValueError, match="num_outputs"):
        r.LogCoshError(num_outputs=3.5)
    with pytest.raises(ValueError, match="power"):
        r.TweedieDevianceScore(power=0.5)


@pytest.mark.parametrize("device_form", [False, True])
@pytest.mark.parametrize("cls", [r.R2Score, r.ExplainedVariance])
def test_outputs_of_an_empty_batch(cls, device_form):
    nothing = torch.zeros(0, 3), torch.zeros(0, 3)
    assert streamed(cls(multioutput="raw_values"), *nothing, device_form=device_form).shape == (3,)
    metric = cls(multioutput="raw_values")
    p, t = pairs(9, columns=3)
    want = streamed(cls(multioutput="raw_values"), p, t)
    for batch in (nothing, (p, t), nothing):
        metric.update(*(elsewhere(batch) if device_form else batch))
    np.testing.assert_allclose(metric.compute(), want, rtol=1e-6)
