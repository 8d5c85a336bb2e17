"""Moments of pairs, added block by block on the host, against two passes over all of them in as many digits as there are."""

import numpy as np
import pytest
import torch

from torchtally import regression as r
from torchtally.statistics.moments import Moments, PairMoments
from torchtally.statistics.pairs import BLOCK

N = 3 * BLOCK + 100


def drawn(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(N), rng.standard_normal(N)


def _cases():
    t, noise = drawn(0)
    rising = np.linspace(-1e4, 1e4, N)
    return {
        "alike": (t + 0.5 * noise, t),
        "at 1e6": (t + 0.5 * noise + 1e6, t + 1e6),
        "at 1e8": (t + 0.5 * noise + 1e8, t + 1e8),
        "near": (t + 1e-6 * noise, t),
        "near at 1e8": (t + 1e-3 * noise + 1e8, t + 1e8),
        "unrelated": (noise, t),
        "opposite": (-t + 1e-3 * noise, t),
        "hardly varying": (1e-3 * t + 1e-3 * noise, t),
        "hardly varying at 1e6": (1e-3 * t + 1e6, t + 1e6),
        "targets hardly vary": (noise, 1e-3 * t),
        "biased": (t + 0.5 * noise + 1e3, t),
        "biased at 1e8": (t + 0.5 * noise - 1e8, t + 1e8),
        "growing": (rising + noise, rising + t),
        "far, then near": (np.where(rising < 0, 1e7, 0) + noise, np.where(rising < 0, 1e7, 0) + t),
        "of other scales": (1e9 * (t + noise), t),
        "huge": (1e150 * (t + noise), 1e150 * t),
        "tiny": (1e-150 * (t + noise), 1e-150 * t),
        "one far off": (np.where(np.arange(N) == 5, 1e9, t + noise), t),
        "first far off": (np.where(np.arange(N) == 0, -1e9, t + noise), np.where(np.arange(N) == 0, -1e9, t)),
    }


CASES = _cases()


def moments_of(p, t, sizes):
    metric = r.PearsonCorrCoef()
    at = 0
    for size in sizes:
        metric.update(p[at : at + size], t[at : at + size])
        at += size
    assert at == len(p)
    return Moments(metric.metric_state["PairMoments.moments"])


@pytest.mark.parametrize("sizes", [(N,), (BLOCK, BLOCK, N - 2 * BLOCK), (3000, 1, N - 3001), (100,) * (N // 100) + (N % 100,)], ids=len)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", CASES)
def test_against_two_passes(case, dtype, sizes):
    p, t = (torch.from_numpy(x).to(dtype) for x in CASES[case])
    if not (p.isfinite().all() and p.any() and t.any()):
        pytest.skip("beyond the dtype")
    found = moments_of(p, t, sizes)
    x, y = (z.double().numpy().astype(np.longdouble) for z in (p, t))
    a, b = x - x.mean(), y - y.mean()
    aa, bb = (a**2).sum(), (b**2).sum()
    near = {"rtol": 1e-12, "atol": 0}
    np.testing.assert_allclose(float(found.count), N)
    np.testing.assert_allclose(float(found.preds), float(aa), **near)
    np.testing.assert_allclose(float(found.target), float(bb), **near)
    np.testing.assert_allclose(float(found.squared_error), float(((x - y) ** 2).sum()), **near)
    np.testing.assert_allclose(float(found.joint), float((a * b).sum()), rtol=0, atol=1e-12 * float(np.sqrt(aa) * np.sqrt(bb)))
    spread = float(np.sqrt(aa / N) + np.sqrt(bb / N))
    np.testing.assert_allclose(float(found.gap), float((x - y).mean()), rtol=1e-12, atol=1e-13 * spread)
    np.testing.assert_allclose(float(found.mean_target), float(y.mean()), rtol=1e-12, atol=1e-13 * spread)


@pytest.mark.parametrize("shape", [(9000, 3), (40, 300), (3, 20_000), (1, 5), (130, 64), (2, 2)])
@pytest.mark.parametrize("layout", ["plain", "transposed", "strided"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_several_outputs(shape, layout, dtype):
    """More pairs than outputs, and more outputs than pairs, which are worked on along the other side."""
    rows, outputs = shape
    g = torch.Generator().manual_seed(1)
    t = torch.randn(rows, outputs, generator=g, dtype=torch.float64) + 1e4 * torch.arange(outputs)
    p = t + 0.5 * torch.randn(rows, outputs, generator=g, dtype=torch.float64)
    p, t = p.to(dtype), t.to(dtype)
    if layout == "transposed":
        p, t = p.T.contiguous().T, t.T.contiguous().T
    elif layout == "strided":
        p, t = torch.stack([p, p], 2)[..., 0], torch.stack([t, t], 2)[..., 0]
    kept = p.clone(), t.clone()
    metric, error = r.PearsonCorrCoef(num_outputs=outputs), r.MeanAbsoluteError(num_outputs=outputs)
    half = rows // 2
    for batch in ((p[:half], t[:half]), (p[half:], t[half:])):
        metric.update(*batch)
        error.update(*batch)
    found = Moments(metric.metric_state["moments"])
    x, y = (z.double().numpy().astype(np.longdouble) for z in (p, t))
    a, b = x - x.mean(0), y - y.mean(0)
    for got, want in ((found.preds, a * a), (found.target, b * b), (found.squared_error, (x - y) ** 2)):
        np.testing.assert_allclose(got, want.sum(0).astype(float), rtol=1e-12, atol=1e-14)
    scale = np.sqrt((a * a).sum(0) * (b * b).sum(0)).astype(float)
    np.testing.assert_allclose((found.joint.numpy() - (a * b).sum(0).astype(float)) / (scale + 1e-300), 0, atol=1e-12)
    np.testing.assert_allclose(error.set_dtype(torch.float64).compute(), abs(x - y).mean(0).astype(float), rtol=1e-12)
    assert torch.equal(p, kept[0]) and torch.equal(t, kept[1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("n", [1, 2, 5000, N])
def test_constants_deviate_by_nothing(n, dtype):
    moving = torch.arange(n).remainder(7)
    for p, t in ((torch.full((n,), 3), moving), (moving, torch.full((n,), 3)), (torch.full((n,), 3), torch.full((n,), 100))):
        for shift in (0.0, 0.7) if dtype is not torch.int64 else (0,):
            p, t = (x.to(dtype) + shift for x in (p, t))
            found = moments_of(p, t, (n,))
            assert not p.equal(p[:1].expand(n)) or (found.preds == 0 and found.joint == 0)
            assert not t.equal(t[:1].expand(n)) or (found.target == 0 and found.joint == 0)


def test_what_is_read_between_updates_is_whole():
    """Of one output the host goes on from the slots in Python numbers, and gives them back when read."""
    p, t = (torch.from_numpy(x)[:9000] for x in CASES["at 1e6"])
    metric = r.PearsonCorrCoef()
    for at in range(0, 9000, 3000):
        metric.update(p[at : at + 3000], t[at : at + 3000])
        other = metric.clone()
        table, again = metric.metric_state["PairMoments.moments"].clone(), other.metric_state["PairMoments.moments"].clone()
        assert table[0] == at + 3000 and torch.equal(table, again)
        assert torch.equal(metric.metric_state["PairMoments.moments"], table)
        fresh = r.PearsonCorrCoef()
        fresh.load_state_dict({k: v.clone() for k, v in metric.metric_state.items()})
        np.testing.assert_allclose(fresh.compute(), metric.compute(), rtol=1e-12)
    merged = r.PearsonCorrCoef()
    merged.update(p, t)
    merged.merge_state(metric)
    assert merged.metric_state["PairMoments.moments"][0] == 18000
    metric.reset()
    assert not metric.metric_state["PairMoments.moments"].any()
    assert PairMoments(2).lane() is None
