"""Regression metrics on awkward numbers: ties, infinities, constants, huge and tiny values, any dtype, one pair, none."""

import functools
import warnings

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from cases import CASES, elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor

from torchtally import regression as r
from torchtally.faults import FaultError

ordinary = settings(max_examples=20, deadline=None, derandomize=True)
FORMS = st.sampled_from([tuple, elsewhere])
HUGE, TINY = 1e30, 1e-30
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]


def moments(p, t):
    """Two-pass, in as many digits as there are, and near 0."""
    p, t = p.astype(np.longdouble) - t[0], t.astype(np.longdouble) - t[0]
    return (
        ((p - t) ** 2).sum(),
        ((t - t.mean()) ** 2).sum(),
        ((p - p.mean()) ** 2).sum(),
        ((p - p.mean()) * (t - t.mean())).sum(),
        p.mean() - t.mean(),
    )


def r2(p, t):
    error, total, *_ = moments(p, t)
    return np.nan if len(t) < 2 else float(error == 0) if total == 0 else 1 - error / total


def explained_variance(p, t):
    d = p.astype(np.longdouble) - t.astype(np.longdouble)
    left, total = ((d - d.mean()) ** 2).sum(), moments(p, t)[1]
    return float(left == 0) if total == 0 else 1 - left / total


def pearson(p, t):
    _, b, a, joint, _ = moments(p, t)
    return joint / np.sqrt(a) / np.sqrt(b)


def concordance(p, t):
    _, b, a, joint, apart = moments(p, t)
    n = len(t)
    return 2 * joint / (n - 1) / ((a + b) / (n - 1) + apart**2)


def log_cosh(p, t):
    d = abs(p - t)
    return np.where(d < 1, np.log1p(2 * np.sinh(np.minimum(d, 1) / 2) ** 2), np.logaddexp(d, -d) - np.log(2)).mean()


def hits(p, t):
    return ((p >= 0.5) & (t >= 0.5)).sum() / max(1, ((p >= 0.5) | (t >= 0.5)).sum())


PAIRS = {
    r.MeanSquaredError: lambda p, t: ((p.astype(np.longdouble) - t) ** 2).mean(),
    functools.partial(r.MeanSquaredError, squared=False): lambda p, t: np.sqrt(((p.astype(np.longdouble) - t) ** 2).mean()),
    r.MeanAbsoluteError: lambda p, t: abs(p.astype(np.longdouble) - t).mean(),
    r.LogCoshError: log_cosh,
    functools.partial(r.MinkowskiDistance, 3.0): lambda p, t: np.cbrt((abs(p.astype(np.longdouble) - t) ** 3).sum()),
    r.R2Score: r2,
    r.ExplainedVariance: explained_variance,
    r.RelativeSquaredError: lambda p, t: moments(p, t)[0] / moments(p, t)[1],
    r.PearsonCorrCoef: pearson,
    r.ConcordanceCorrCoef: concordance,
    r.SpearmanCorrCoef: lambda p, t: scipy.stats.spearmanr(p, t).statistic if len(p) > 1 else np.nan,
    r.KendallRankCorrCoef: lambda p, t: scipy.stats.kendalltau(p, t).statistic,
    r.SymmetricMeanAbsolutePercentageError: lambda p, t: (2 * abs(p - t) / np.maximum(abs(p) + abs(t), 1.17e-06)).mean(),
    functools.partial(r.CriticalSuccessIndex, 0.5): hits,
}


def name_of(make):
    return getattr(make, "__name__", None) or f"{make.func.__name__}-{[*make.args, *make.keywords.values()][0]}"


def fed(make, form, *columns, parts=2):
    metric = make()
    metric.set_dtype(torch.float64)
    for batch in zip(*(x.tensor_split(parts) for x in columns)):
        metric.update(*form(batch))
    return metric.compute().as_subclass(Tensor).numpy()


def wanted(reference, *columns):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(reference(*(x.numpy() for x in columns)), np.longdouble)


@st.composite
def tame(draw):
    """Numbers that every dtype holds, with ties, often all alike."""
    dtype = draw(st.sampled_from(DTYPES))
    n = draw(st.integers(1, 12))
    numbers = st.integers(0, 1) if dtype is torch.bool else st.integers(0 if dtype is torch.uint8 else -8, 8)
    column = st.one_of(st.lists(numbers, min_size=n, max_size=n), numbers.map(lambda x: [x] * n))
    scale = draw(st.sampled_from([1.0, 0.25])) if dtype.is_floating_point else 1
    return [(torch.tensor(draw(column)) * scale).to(dtype) for _ in range(2)]


@pytest.mark.parametrize("make, reference", PAIRS.items(), ids=map(name_of, PAIRS))
@ordinary
@given(tame(), FORMS, st.integers(1, 4))
def test_any_dtype_ties_and_constants(make, reference, columns, form, parts):
    want = wanted(reference, *(x.double() for x in columns))
    np.testing.assert_allclose(fed(make, form, *columns, parts=parts), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [HUGE, TINY])
@pytest.mark.parametrize("make, reference", PAIRS.items(), ids=map(name_of, PAIRS))
@ordinary
@given(st.integers(0, 1 << 30), FORMS, st.sampled_from([torch.float64, torch.float32]))
def test_huge_and_tiny_values(scale, make, reference, seed, form, dtype):
    g = torch.Generator().manual_seed(seed)
    p, t = ((torch.randn(9, generator=g) * scale).to(dtype) for _ in range(2))
    np.testing.assert_allclose(fed(make, form, p, t), wanted(reference, p.double(), t.double()).astype(np.float64), rtol=1e-9)


@pytest.mark.parametrize("offset", [1e6, 1e8])
@pytest.mark.parametrize("make", [m for m in PAIRS if m not in (r.SymmetricMeanAbsolutePercentageError,)], ids=name_of)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30), st.integers(3, 60), FORMS, st.integers(1, 5))
def test_offsets_cost_no_digits(offset, make, seed, n, form, parts):
    g = torch.Generator().manual_seed(seed)
    t = torch.randn(n, generator=g, dtype=torch.float64)
    p, t = t + 0.5 * torch.randn(n, generator=g, dtype=torch.float64) + offset, t + offset
    want = wanted(PAIRS[make], p, t)
    np.testing.assert_allclose(fed(make, form, p, t, parts=parts), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", PAIRS, ids=name_of)
def test_nothing_is_undefined(make):
    none = torch.zeros(0)
    for form in (tuple, elsewhere):
        value = fed(make, form, none, none, parts=1)
        assert value == 0 if name_of(make).startswith(("Minkowski", "Critical")) else np.isnan(value)  # a norm, or hits, of nothing


RANKS = [r.SpearmanCorrCoef, r.KendallRankCorrCoef]


@pytest.mark.parametrize(
    "make", [*RANKS, r.MeanAbsoluteError, r.MeanSquaredError, r.LogCoshError, r.R2Score, r.PearsonCorrCoef], ids=name_of
)
@ordinary
@given(st.integers(0, 1 << 30), st.sampled_from([torch.inf, -torch.inf]), st.sampled_from([0, 1]), FORMS)
def test_infinities(make, seed, infinity, where, form):
    """Ranks take them for what they are; errors are infinite, R² minus infinite or NaN, moments NaN."""
    columns = list(torch.randn(2, 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    columns[where][seed % 9] = infinity
    got = fed(make, form, *columns)
    if make in RANKS:
        np.testing.assert_allclose(got, wanted(PAIRS[make], *columns), rtol=1e-12, atol=1e-14)
    elif make in (r.R2Score, r.PearsonCorrCoef):
        assert np.isnan(got) or (make is r.R2Score and got == -np.inf and where == 0)
    else:
        assert got == np.inf


# ---- every regression metric
REGRESSION = [case for case in CASES if isinstance(case.make(), tuple(vars(r)[name] for name in r.__all__))]
AWKWARD = {
    "huge": lambda x: x * HUGE,
    "tiny": lambda x: x * TINY,
    "constant": lambda x: torch.full_like(x, 0.3),
    "zero": torch.zeros_like,
    "negative": lambda x: -x.abs(),
    "infinite": lambda x: x.index_fill(0, torch.tensor([0]), torch.inf),
    "minus infinite": lambda x: x.index_fill(0, torch.tensor([0]), -torch.inf),
    "NaN": lambda x: x.index_fill(0, torch.tensor([0]), torch.nan),
    "half": lambda x: x.half(),
    "one": lambda x: x[:1],
    "none": lambda x: x[:0],
}


def outcome(case, batches, form):
    """The value, or the complaint about the numbers."""
    metric = case.make()
    try:
        for batch in batches:
            metric.update(*form(batch))
        value = metric.compute()
    except FaultError as error:
        return str(error).partition(":")[0]
    return value if isinstance(value, Tensor) else torch.stack(value)


@pytest.mark.parametrize("case", REGRESSION, ids=lambda case: case.name)
def test_awkward_numbers_have_a_value_or_a_clear_complaint(case):
    """The same on the host and on a device, whichever of predictions and targets is awkward."""
    x, y, *weights = case.batch(6, torch.Generator().manual_seed(0))
    for how, z in AWKWARD.items():
        for pair in [(z(x), z(y))] if how in ("one", "none", "half") else [(z(x), y), (x, z(y)), (z(x), z(y))]:
            batch = (*pair, *(w[: len(pair[0])] for w in weights))
            host, device = (outcome(case, [batch], form) for form in (tuple, elsewhere))
            if isinstance(host, str):
                assert host == device, how
            else:
                torch.testing.assert_close(
                    device.as_subclass(Tensor), host, rtol=1e-5, atol=1e-7, equal_nan=True, msg=f"{how}: {{}}".format
                )


# ---- amounts above 0, and rows
def cosine(p, t):
    return ((p * t).sum(1) / np.linalg.norm(p, axis=1) / np.linalg.norm(t, axis=1)).mean()


def divergence(p, t):
    p, t = p / p.sum(1, keepdims=True), t / t.sum(1, keepdims=True)
    return scipy.special.rel_entr(p, t).sum(1).mean()


def jensen_shannon(p, t):
    p, t = p / p.sum(1, keepdims=True), t / t.sum(1, keepdims=True)
    return (scipy.special.rel_entr(p, (p + t) / 2) + scipy.special.rel_entr(t, (p + t) / 2)).sum(1).mean() / 2


def crps(p, t):
    return (abs(p - t[:, None]).mean(1) - abs(p[:, :, None] - p[:, None]).mean((1, 2)) / 2).mean()


def normalized(unit):
    return lambda p, t: np.sqrt(((p - t) ** 2).mean()) / unit(t)


AMOUNTS = {
    r.MeanAbsolutePercentageError: (lambda p, t: (abs(p - t) / np.maximum(t, 1.17e-06)).mean(), False),
    r.WeightedMeanAbsolutePercentageError: (lambda p, t: abs(p - t).sum() / max(t.sum(), 1.17e-06), False),
    r.MeanSquaredLogError: (lambda p, t: ((np.log1p(p) - np.log1p(t)) ** 2).mean(), False),
    **{
        functools.partial(r.TweedieDevianceScore, power): (lambda p, t, power=power: sk.mean_tweedie_deviance(t, p, power=power), False)
        for power in (0.0, 1.0, 1.5, 2.0, 3.0)
    },
    functools.partial(r.NormalizedRootMeanSquaredError, "mean"): (normalized(np.mean), False),
    functools.partial(r.NormalizedRootMeanSquaredError, "range"): (normalized(np.ptp), False),
    functools.partial(r.NormalizedRootMeanSquaredError, "std"): (normalized(np.std), False),
    functools.partial(r.NormalizedRootMeanSquaredError, "l2"): (normalized(np.linalg.norm), False),
    functools.partial(r.CosineSimilarity, "mean"): (cosine, True),
    functools.partial(r.KLDivergence, reduction="mean"): (divergence, True),
    functools.partial(r.JensenShannonDivergence, reduction="mean"): (jensen_shannon, True),
    r.ContinuousRankedProbabilityScore: (crps, True),
}


@pytest.mark.parametrize("make", AMOUNTS, ids=name_of)
@ordinary
@given(st.integers(0, 1 << 30), st.sampled_from([1.0, 100.0, HUGE, TINY]), st.sampled_from(DTYPES[:4]), FORMS, st.integers(1, 4))
def test_amounts_of_any_size(make, seed, scale, dtype, form, parts):
    reference, rows = AMOUNTS[make]
    scale = scale if dtype not in DTYPES[2:4] else 1.0  # halves hold no such numbers
    g = torch.Generator().manual_seed(seed)
    shape = (7, 4) if rows else (7,)
    p, t = (((torch.rand(shape, generator=g, dtype=torch.float64) + 0.1) * scale).to(dtype) for _ in range(2))
    if make is r.ContinuousRankedProbabilityScore:
        t = t[:, 0]
    np.testing.assert_allclose(fed(make, form, p, t, parts=parts), wanted(reference, p.double(), t.double()).astype(float), rtol=1e-9)
