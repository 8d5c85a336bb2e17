"""The CPU form and the device form of every kernel give the same, on awkward numbers too."""

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchtally.kernels import (
    add_on_device,
    add_on_host,
    channel_argmax,
    count_on_device,
    count_on_host,
    count_pairs_on_host,
    in_top_k,
    in_top_k_on_host,
    row_argmax,
    runs_on_device,
    runs_on_host,
)

FLOATS = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
ordinary = settings(max_examples=150, deadline=None)

# Few values, so that ties are common: zeros of both signs, infinities, subnormals, neighbours, all-negative rows.
FINITE = [0.0, -0.0, 1.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1e-7, -1e-7, 65504.0, -65504.0, float("inf"), float("-inf")]


def with_nan(x: Tensor, where: list[tuple[int, int, bool]]) -> Tensor:
    """NaN at some places, with the sign bit set or not: as float16 arithmetic and padding make them."""
    for row, column, negative in where:
        if x.numel():
            nan = torch.full((), float("nan"), dtype=x.dtype)
            nan = torch.copysign(nan, torch.full((), -1.0 if negative else 1.0, dtype=x.dtype))
            x[row % x.shape[0], column % x.shape[1]] = nan
    return x


@st.composite
def matrices(draw, nan=True, least_rows=0):
    rows, columns = draw(st.integers(least_rows, 9)), draw(st.integers(1, 17))
    pool = draw(st.sampled_from([FINITE, [x for x in FINITE if x < 0], [0.0, -0.0], [1.0, 2.0, 3.0]]))
    values = draw(st.lists(st.sampled_from(pool), min_size=rows * columns, max_size=rows * columns))
    x = torch.tensor(values, dtype=torch.float64).reshape(rows, columns).to(draw(st.sampled_from(FLOATS)))
    if nan and rows:
        x = with_nan(x, draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 16), st.booleans()), max_size=3)))
    layout = draw(st.sampled_from(["plain", "transposed", "strided", "offset", "expanded"]))
    if layout == "transposed":
        return x.t().contiguous().t()
    if layout == "strided":
        return torch.stack([x, x], 2)[:, :, 0] if x.numel() else x
    if layout == "offset":
        return torch.cat([x[:, :1], x], 1)[:, 1:]
    if layout == "expanded" and rows:
        return x[:1].expand(rows, columns)
    return x


@ordinary
@given(matrices())
def test_row_argmax(scores):
    best, nan_row = row_argmax(scores)
    wide = scores.double()
    has_nan = wide.isnan().any(1)
    if len(scores):
        np.testing.assert_array_equal(best, np.argmax(wide.numpy(), 1))  # the first of ties; a NaN before all
        np.testing.assert_array_equal(best, scores.max(1).indices.numpy())  # the device form
        np.testing.assert_array_equal(scores.max(1).values.isnan().numpy(), has_nan.numpy())
    assert nan_row == (int(has_nan.nonzero()[0]) if has_nan.any() else None)
    assert best.dtype == np.int64


def test_row_argmax_of_large_matrices():
    """Beyond the sizes at which the forms change their way."""
    generator = torch.Generator().manual_seed(0)
    for dtype in FLOATS:
        for rows, columns in ((300, 20), (3, 5000), (1, 300_000), (5000, 2)):
            scores = torch.randn(rows, columns, generator=generator).to(dtype)
            spoiled = [with_nan(scores.clone(), [(rows // 2, columns - 1, True)]), with_nan(scores.clone(), [(rows - 1, 0, False)])]
            for x in (scores, -scores.abs() - 1, *spoiled):
                best, nan_row = row_argmax(x)
                np.testing.assert_array_equal(best, np.argmax(x.double().numpy(), 1))
                bad = x.isnan().any(1)
                assert nan_row == (int(bad.nonzero()[0]) if bad.any() else None)


@ordinary
@given(matrices(nan=False, least_rows=1), st.integers(1, 17), st.integers(0, 10**6))
@example(torch.zeros(2, 5), 3, 1)
def test_in_top_k(scores, k, seed):
    rows, columns = scores.shape
    k = min(k, columns)
    target = torch.from_numpy(np.random.default_rng(seed).integers(0, columns, rows))
    order = np.argsort(-scores.double().numpy(), axis=1, kind="stable")[:, :k]
    want = (order == target.numpy()[:, None]).any(1)
    np.testing.assert_array_equal(in_top_k(scores, target, k).numpy(), want)
    values = (scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores).numpy()
    np.testing.assert_array_equal(in_top_k_on_host(values, target.numpy(), k), want)


def test_in_top_k_over_many_classes():
    """More columns than the byte lanes of the CPU form can count."""
    generator = torch.Generator().manual_seed(0)
    for columns in (2039, 2040, 2041, 5000):
        scores = torch.randint(0, 50, (20, columns), generator=generator).float()
        target = torch.randint(0, columns, (20,), generator=generator)
        for k in (1, 5, columns // 3, columns):
            order = np.argsort(-scores.numpy(), axis=1, kind="stable")[:, :k]
            want = (order == target.numpy()[:, None]).any(1)
            np.testing.assert_array_equal(in_top_k(scores, target, k).numpy(), want)
            np.testing.assert_array_equal(in_top_k_on_host(scores.numpy(), target.numpy(), k), want)


def test_a_nan_ranks_above_all_numbers():
    scores = torch.tensor([[1.0, float("nan"), 3.0]])
    assert in_top_k(scores, torch.tensor([2]), 1).tolist() == [False]
    assert in_top_k(scores, torch.tensor([2]), 2).tolist() == [True]
    assert in_top_k(scores, torch.tensor([1]), 1).tolist() == [True]


@ordinary
@given(st.integers(1, 300), st.integers(0, 2000), st.integers(0, 10**6))
def test_counts(bins, n, seed):
    rng = np.random.default_rng(seed)
    into, values = rng.integers(0, 100, bins), rng.integers(0, bins, n)
    host, device = into.copy(), torch.from_numpy(into.copy())
    count_on_host(host, values)
    count_on_device(device, torch.from_numpy(values))
    want = into + np.array([(values == b).sum() for b in range(bins)])
    np.testing.assert_array_equal(host, want)
    np.testing.assert_array_equal(device.numpy(), want)


@ordinary
@given(st.integers(1, 300), st.integers(0, 2000), st.integers(0, 10**6))
def test_sums(bins, n, seed):
    rng = np.random.default_rng(seed)
    into, places, weight = rng.random(bins), rng.integers(0, bins, n), rng.random(n)
    host, device = into.copy(), torch.from_numpy(into.copy())
    add_on_host(host, places, weight)
    add_on_device(device, torch.from_numpy(places), torch.from_numpy(weight))
    want = into + np.array([weight[places == b].sum() for b in range(bins)])
    np.testing.assert_allclose(host, want, rtol=1e-12)
    np.testing.assert_allclose(device.numpy(), want, rtol=1e-12)


@ordinary
@given(st.integers(0, 1 << 30), st.integers(1, 3), st.integers(1, 9), st.sampled_from(FLOATS), st.booleans())
def test_channel_argmax(seed, n, classes, dtype, nan):
    g = torch.Generator().manual_seed(seed)
    pool = torch.tensor(FINITE, dtype=torch.float64)
    scores = pool[torch.randint(len(pool), (n, classes, 41, 25), generator=g)].to(dtype)
    if nan:
        scores.view(-1)[seed % scores.numel()] = float("nan")
        assert channel_argmax(scores) is None
    else:
        np.testing.assert_array_equal(channel_argmax(scores), scores.max(1).indices.flatten().numpy())


def test_channel_argmax_over_several_blocks_and_256_classes():
    scores = torch.randn(2, 256, 300, 130, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(channel_argmax(scores), scores.max(1).indices.flatten().numpy())
    scores[1, 7, 299, 129] = float("nan")  # the last pixel
    assert channel_argmax(scores) is None


def test_channel_argmax_leaves_other_layouts_alone():
    scores = torch.randn(2, 3, 64, 64)
    assert channel_argmax(scores) is not None
    assert channel_argmax(scores.contiguous(memory_format=torch.channels_last)) is None
    assert channel_argmax(scores[:, :, ::2]) is None
    assert channel_argmax(scores[:, :, :8, :8].contiguous()) is None
    assert channel_argmax(torch.randn(1, 257, 32, 32)) is None
    assert channel_argmax(torch.randn(0, 3, 64, 64)) is None


@ordinary
@given(st.integers(0, 1 << 30), st.integers(1, 256), st.sampled_from([np.uint8, np.int32, np.int64]))
def test_count_pairs(seed, size, dtype):
    r = np.random.default_rng(seed)
    first, second = r.integers(0, size, 50), r.integers(0, size, 50)
    want = np.zeros((size, size), np.int64)
    np.add.at(want, (first, second), 1)
    if size <= np.iinfo(dtype).max + 1:
        np.testing.assert_array_equal(count_pairs_on_host(first.astype(dtype), second.astype(np.uint8), size), want)


@ordinary
@given(st.lists(st.integers(1, 40), max_size=30), st.integers(0, 300))
@example([], 0)
@example([1], 0)
@example([2], 200)
def test_runs_of_sorted_numbers(sizes, singles):
    """With few ties and with many, where the host's form goes different ways."""
    lengths = [1] * singles + sizes if singles % 2 else sizes + [1] * singles
    values = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths, dtype=torch.int64))
    ends = np.cumsum(lengths, dtype=np.int64)
    expected = np.repeat(ends - lengths, lengths), np.repeat(ends - 1, lengths)
    for found in (runs_on_host(values.numpy()), runs_on_device(values)):
        for places, right in zip(found, expected):
            np.testing.assert_array_equal(places, right)
