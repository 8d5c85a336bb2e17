"""Curves, areas and operating points of awkward scores: ties, infinities, huge and tiny, all alike, any dtype, one class, one sample, none."""

import warnings

import numpy as np
import torch
from cases import elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor

from torchtally import classification as c

ordinary = settings(max_examples=40, deadline=None, derandomize=True)
FORMS = st.sampled_from([tuple, elsewhere])
FLOATS = st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16])
LOGITS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-7, 1e-30, -1e-30, 1e30, -1e30, 30.0, 40.0, -40.0, np.inf, -np.inf]
PROBABILITIES = [0.0, 1.0, 0.5, 0.25, 1e-30, 1e-45, 1 - 2.0**-24, 1 - 2.0**-53, 0.1, 0.7]


@st.composite
def samples(draw, pool, most=20):
    """Scores of a pool in some dtype, and labels; often one class, often one score."""
    n = draw(st.integers(0, most))
    pool = draw(st.sampled_from([pool, pool[:1], pool[3:5]]))
    x = torch.tensor(draw(st.lists(st.sampled_from(pool), min_size=n, max_size=n)), dtype=torch.float64).to(draw(FLOATS))
    classes = draw(st.sampled_from([[0, 1], [0, 1], [0, 1], [0], [1]]))
    return x, torch.tensor(draw(st.lists(st.sampled_from(classes), min_size=n, max_size=n)), dtype=torch.int64)


def fed(metric, form, *columns, parts=2):
    metric.set_dtype(torch.float64)
    for batch in zip(*(x.tensor_split(parts) for x in columns)):
        metric.update(*form(batch))
    value = metric.compute()
    return value.as_subclass(Tensor).numpy() if isinstance(value, Tensor) else [v.as_subclass(Tensor).numpy() for v in value]


def ranked(x):
    """The order of scores, for scikit-learn, which takes no infinities; -0 and 0 are one."""
    return np.unique(x.double().numpy() + 0.0, return_inverse=True)[1].astype(float)


def sklearn(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one class only
        return function(*args, **options)


def check_exact(x, y, form, from_logits, parts):
    order, labels = ranked(x), y.numpy()
    both = len(set(labels.tolist())) == 2
    told = {"from_logits": from_logits}
    area = fed(c.BinaryAUROC(**told), form, x, y, parts=parts)
    np.testing.assert_allclose(area, sklearn(sk.roc_auc_score, labels, order) if both else np.nan, rtol=1e-12)
    precision = fed(c.BinaryAveragePrecision(**told), form, x, y, parts=parts)
    np.testing.assert_allclose(precision, sklearn(sk.average_precision_score, labels, order) if labels.any() else 0.0, rtol=1e-12)
    fpr, tpr, at = fed(c.BinaryROC(**told), form, x, y, parts=parts)
    if len(x):
        want = sklearn(sk.roc_curve, labels, order, drop_intermediate=False)
        np.testing.assert_allclose(fpr, want[0], rtol=1e-12)
        np.testing.assert_allclose(tpr, want[1], rtol=1e-12)
    assert np.isfinite(at).all() and (at >= 0).all() and (at <= 1).all() and (np.diff(at[1:]) <= 0).all()
    p, r, t = fed(c.BinaryPrecisionRecallCurve(**told), form, x, y, parts=parts)
    assert len(p) == len(r) == len(t) + 1 and p[-1] == 1 and r[-1] == 0
    if len(x):
        want = sklearn(sk.precision_recall_curve, labels, order)
        np.testing.assert_allclose(p, want[0], rtol=1e-12)
        np.testing.assert_allclose(r, want[1], rtol=1e-12)


@ordinary
@given(samples(LOGITS), FORMS, st.integers(1, 4))
def test_exact_curves_of_logits(drawn, form, parts):
    check_exact(*drawn, form, True, parts)


@ordinary
@given(samples(PROBABILITIES), FORMS, st.integers(1, 4))
def test_exact_curves_of_probabilities(drawn, form, parts):
    check_exact(*drawn, form, False, parts)


@ordinary
@given(
    samples(PROBABILITIES),
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]), min_size=2, max_size=6, unique=True),
    FORMS,
    st.integers(1, 3),
)
def test_binned_curves_count_scores_at_or_above_each_threshold(drawn, thresholds, form, parts):
    x, y = drawn
    p, r, t = fed(c.BinaryPrecisionRecallCurve(thresholds, from_logits=False), form, x, y, parts=parts)
    scores, labels = x.double().numpy(), y.numpy().astype(bool)
    for i, at in enumerate(t):
        chosen = scores >= np.float64(at) if x.dtype is torch.float64 else scores.astype(np.float32) >= np.float32(at)
        hit = (chosen & labels).sum()
        assert r[i] == (hit / labels.sum() if labels.any() else 1.0)
        assert p[i] == hit / chosen.sum() if chosen.any() else np.isnan(p[i])


@ordinary
@given(samples(LOGITS), FORMS, st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]))
def test_operating_points_are_points_of_the_curve(drawn, form, least):
    x, y = drawn
    scores, labels = ranked(x), y.numpy().astype(bool)
    chosen = [scores >= s for s in np.unique(scores)]
    hits = [((k & labels).sum(), k.sum(), (~k & ~labels).sum()) for k in chosen]
    if labels.any():
        precisions = [h / k for h, k, _ in hits if h / labels.sum() >= least]
        recalls = [h / labels.sum() for h, k, _ in hits if h / k >= least]
        value, at = fed(c.BinaryPrecisionAtFixedRecall(least, from_logits=True), form, x, y)
        np.testing.assert_allclose(value, max(precisions, default=0.0), rtol=1e-12)
        assert np.isnan(at) == (value == 0)
        value, _ = fed(c.BinaryRecallAtFixedPrecision(least, from_logits=True), form, x, y)
        np.testing.assert_allclose(value, max(recalls, default=0.0), rtol=1e-12)
    if labels.any() and not labels.all():
        points = [(0, 1.0), *((h / labels.sum(), m / (~labels).sum()) for h, _, m in hits)]
        value, _ = fed(c.BinarySensitivityAtSpecificity(least, from_logits=True), form, x, y)
        np.testing.assert_allclose(value, max(a for a, b in points if b >= least), rtol=1e-12)
        value, _ = fed(c.BinarySpecificityAtSensitivity(least, from_logits=True), form, x, y)
        np.testing.assert_allclose(value, max((b for a, b in points if a >= least), default=0.0), rtol=1e-12)


@ordinary
@given(st.integers(0, 1 << 30), st.integers(0, 8), st.integers(2, 4), FLOATS, FORMS, st.booleans())
def test_columns_of_classes_and_labels(seed, n, columns, dtype, form, several):
    """Each column is a binary problem of its own; undefined ones are in no mean."""
    g = np.random.default_rng(seed)
    x = torch.from_numpy(g.choice([0.0, 1.0, -1.0, 3.0, -3.0, 0.5], (n, columns))).to(dtype)
    if several:
        y = torch.from_numpy(g.integers(0, columns, n))
        own, make = [y == k for k in range(columns)], c.MulticlassAUROC
        e = x.double().numpy()
        others = [np.logaddexp.reduce(np.delete(e, k, 1), 1) for k in range(columns)]
        order = [torch.from_numpy((e[:, k] - others[k]).round(9)) for k in range(columns)]
    else:
        y = torch.from_numpy(g.integers(0, 2, (n, columns)))
        own, make, order = [y[:, k] == 1 for k in range(columns)], c.MultilabelAUROC, list(x.T)
    want = [sk.roc_auc_score(a.numpy(), ranked(s)) if bool(a.any()) and not bool(a.all()) else np.nan for a, s in zip(own, order)]
    np.testing.assert_allclose(fed(make(columns, average="none", from_logits=True), form, x, y), want, rtol=1e-12)
    mean = np.nanmean(want) if not np.isnan(want).all() else np.nan
    np.testing.assert_allclose(fed(make(columns, average="macro", from_logits=True), form, x, y), mean, rtol=1e-12)


@ordinary
@given(samples(LOGITS), st.sampled_from([[0.0, 0.5, 0.9], [0.25, 1.0], [0.1, 0.2, 0.3, 0.7]]), FORMS)
def test_binned_curves_of_scores_that_are_taken_as_they_are(drawn, thresholds, form):
    """With `normalization=None` scores may be of any size, infinite too."""
    x, y = drawn
    p, r, _ = fed(c.BinaryPrecisionRecallCurve(thresholds, normalization=None), form, x, y)
    scores, labels = x.double().numpy(), y.numpy().astype(bool)
    for i, at in enumerate(thresholds):
        chosen = scores >= (at if x.dtype is torch.float64 else np.float32(at))
        hit = (chosen & labels).sum()
        assert r[i] == (hit / labels.sum() if labels.any() else 1.0)
        assert p[i] == hit / chosen.sum() if chosen.any() else np.isnan(p[i])
