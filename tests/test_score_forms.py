"""The fast ways of sorting and counting scores on the host give what plain ones give."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchtally.statistics import curves
from torchtally.statistics.score_histogram import Cells
from torchtally.statistics.scores import log_odds

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, 1e-45, -1e-45, 1e30, -1e30, float(np.nextafter(np.float32(1), np.float32(0)))]


def plain(scores, mark):
    """By definition: at each distinct score, from the highest on, how many marks of each kind are at or above it."""
    scores, mark = scores[mark >= 0], mark[mark >= 0]
    at = np.unique(scores + 0.0)[::-1]
    return [((scores >= t) & (mark == 1)).sum() for t in at], [((scores >= t) & (mark == 0)).sum() for t in at], at


@pytest.mark.parametrize("radix", [1 << 15, 1], ids=["NumPy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(st.tuples(st.one_of(st.sampled_from(SPECIAL), st.floats(-8, 8, width=32)), st.integers(-1, 1)), max_size=30),
    inside=st.booleans(),
)
def test_falling_thresholds(data, inside, radix, dtype):
    scores = np.array([min(abs(s), 1.0) if inside else s for s, _ in data], dtype)
    mark = np.array([m for _, m in data], np.int8)
    before, curves._RADIX = curves._RADIX, radix
    try:
        tp, fp, at = curves._falling(scores, mark)
    finally:
        curves._RADIX = before
    want = plain(scores, mark)
    assert tp.tolist() == want[0] and fp.tolist() == want[1] and (at == want[2]).all() and at.dtype == dtype


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40), st.lists(st.floats(-0.5, 1.5, width=32), min_size=1, max_size=40))
def test_cells_find_what_searching_finds(thresholds, scores):
    at = tuple(sorted(thresholds))  # some alike, some closer than cells are
    cells = Cells(at)
    for dtype in (np.float32, np.float64):
        x = np.array([*scores, *thresholds, 0.0, 1.0], dtype)
        want = np.searchsorted(np.array(at), x.astype(np.float64), "right")
        assert cells.find(x, False).tolist() == want.tolist()
        inside = (x >= 0) & (x <= 1)
        assert cells.find(x[inside], True).tolist() == want[inside].tolist()


def test_equal_distances_need_no_search():
    for count in (2, 5, 200, 1000):
        at = tuple(torch.linspace(0, 1, count).tolist())
        assert Cells(at).base is not None
        x = np.random.default_rng(0).random(10000).astype(np.float32)
        assert (Cells(at).find(x, True) == np.searchsorted(np.array(at), x, "right")).all()


def test_log_odds_stay_apart_where_probabilities_round():
    logits = torch.tensor([[0.0, 1.0], [0.0, 50.0], [0.0, 51.0], [0.0, 2000.0], [-torch.inf, 0.0], [0.0, torch.inf]], dtype=torch.float64)
    odds = log_odds(logits)
    torch.testing.assert_close(odds[:4, 1], logits[:4, 1])
    torch.testing.assert_close(odds[:4, 0], -logits[:4, 1])
    assert bool((odds[:, 1].diff() > 0)[:4].all()) and bool((odds[4:, 1] > 1e200).all()) and bool((odds[4:, 0] < -1e200).all())
    three = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    p = three.softmax(1)
    torch.testing.assert_close(log_odds(three), p.log() - (-p).log1p())
