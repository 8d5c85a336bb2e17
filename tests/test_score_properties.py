"""Calibration and label ranking on awkward numbers: edges of bins, ties, infinities, extremes."""

import math
from fractions import Fraction

import numpy as np
import torch
from cases import elsewhere
from class_references import close
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor

from torchtally import classification as c

ordinary = settings(max_examples=100, deadline=None)
FORMS = st.sampled_from([tuple, elsewhere])


def fed(metric, form, *columns, parts=2):
    for batch in zip(*(torch.as_tensor(x).tensor_split(parts) for x in columns)):
        metric.update(*form(batch))
    return metric.compute().as_subclass(Tensor)


@st.composite
def confidences(draw):
    """Bins, and probabilities of which many lie on their edges or next to them."""
    bins = draw(st.integers(1, 12))
    edge = st.integers(0, bins).map(lambda k: k / bins)
    beside = st.tuples(edge, st.sampled_from([0.0, 1.0])).map(lambda pair: math.nextafter(*pair))
    return bins, draw(st.lists(st.tuples(st.one_of(edge, beside, st.floats(0, 1)), st.booleans()), min_size=1, max_size=30))


@ordinary
@given(confidences(), FORMS, st.sampled_from([torch.float64, torch.float32, torch.float16]))
def test_every_confidence_is_in_its_bin(drawn, form, dtype):
    bins, samples = drawn
    p = torch.tensor([p for p, _ in samples], dtype=torch.float64).to(dtype)
    y = torch.tensor([int(y) for _, y in samples])
    held = [(float(x), int(t)) for x, t in zip(p, y)]
    edges = [i / bins for i in range(bins + 1)]  # the float64 nearest to each edge
    gaps = []
    for i in range(bins):
        inside = [(Fraction(x), t) for x, t in held if (x > edges[i] or not i) and x <= edges[i + 1]]
        gaps.append((abs(sum(x for x, _ in inside) - sum(t for _, t in inside)), len(inside)))
    n = len(held)
    assert sum(k for _, k in gaps) == n
    close(fed(c.BinaryCalibrationError(bins, "l1", from_logits=False), form, p, y), float(sum(g for g, _ in gaps) / n))
    close(fed(c.BinaryCalibrationError(bins, "max", from_logits=False), form, p, y), float(max(g / k for g, k in gaps if k)))


@ordinary
@given(st.integers(0, 1 << 30), st.integers(1, 6), st.integers(2, 7), FORMS, st.sampled_from([torch.float16, torch.float32, torch.float64]))
def test_rankings_are_scikit_learns_whatever_the_scores(seed, n, labels, form, dtype):
    r = np.random.default_rng(seed)
    pool = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1e-7, 65504.0, -65504.0, np.inf, -np.inf])
    x, y = torch.from_numpy(r.choice(pool, (n, labels))).to(dtype), r.integers(0, 2, (n, labels))
    order = np.unique(x.double().numpy(), return_inverse=True)[1].reshape(x.shape)  # scikit-learn takes no infinities
    for cls, reference in (
        (c.MultilabelCoverageError, sk.coverage_error),
        (c.MultilabelRankingAveragePrecision, sk.label_ranking_average_precision_score),
        (c.MultilabelRankingLoss, sk.label_ranking_loss),
    ):
        close(fed(cls(labels), form, x, y), reference(y, order))


@ordinary
@given(st.integers(0, 1 << 30), st.integers(2, 5), st.booleans(), FORMS)
def test_hinge_loss_of_margins_of_any_size(seed, classes, squared, form):
    r = np.random.default_rng(seed)
    x, y = r.normal(size=(8, classes)) * 10.0 ** r.integers(-8, 9), r.integers(0, classes, 8)
    others = np.where(np.arange(classes) == y[:, None], -np.inf, x)
    loss = np.maximum(0, 1 - (x[np.arange(8), y] - others.max(1)))
    want = (loss**2 if squared else loss).mean()
    metric = c.MulticlassHingeLoss(classes, squared, from_logits=False)
    metric.set_dtype(torch.float64)
    np.testing.assert_allclose(fed(metric, form, x, y), want, rtol=1e-12)
