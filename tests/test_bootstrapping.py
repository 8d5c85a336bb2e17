"""BootStrapper: what it resamples, what it says of the spread, and that nothing waits."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from test_laws import assert_equal
from test_wrappers import both, numbers
from torch import tensor
from users_metrics import MeanError

import torchtally as tt
from torchtally import classification as c
from torchtally.stalls import pretend_cuda
from torchtally.testing import assert_no_stalls
from torchtally.wrappers.draws import STRATEGIES, _times, words

METRICS = {
    "counts": lambda: c.BinaryAccuracy(),
    "rows": lambda: c.BinaryAccuracy(from_logits=False),
    "moments": lambda: tt.MeanSquaredError(),
    "samples": lambda: c.BinaryAUROC(),
    "users": lambda: MeanError(),
    "collection": lambda: both(),
}


def data(count=3, size=40, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [(torch.rand(size, generator=g), torch.randint(0, 2, (size,), generator=g)) for _ in range(count)]


def drawn(seed, strategy, replicates, sizes):
    """The counts that a seed gives, batch by batch."""
    return [STRATEGIES[strategy](seed, 0, k, replicates, n, torch.device("cpu")).numpy() for k, n in enumerate(sizes, 1)]


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_draws_are_those_of_the_bootstrap(strategy):
    """As SciPy's: how often rows are taken, and that replicates, rows, updates, ranks and seeds have nothing to do with each other."""
    replicates, rows = 300, 400
    draw = lambda seed=0, rank=0, update=1: STRATEGIES[strategy](seed, rank, update, replicates, rows, torch.device("cpu")).numpy()  # noqa: E731
    times = draw()
    n = times.size
    share = stats.poisson(1.0) if strategy == "poisson" else stats.binom(rows, 1 / rows)
    expected = np.array([*(share.pmf(k) for k in range(5)), share.sf(4)]) * n
    seen = np.array([*((times == k).sum() for k in range(5)), (times > 4).sum()])
    # of the multinomial's counts, which are tied in each replicate, the statistic is smaller
    assert ((seen - expected) ** 2 / expected).sum() < stats.chi2(5).ppf(0.9999)
    if strategy == "multinomial":
        assert (times.sum(1) == rows).all()
    else:
        assert abs(times.sum(1).var() / rows - 1) < 5 * np.sqrt(2 / replicates) and abs(times.sum(0).var() / replicates - 1) < 5 * np.sqrt(2 / rows)
    limit = 5 / np.sqrt(n)
    for other in (draw(seed=1), draw(seed=1 << 40), draw(rank=1), draw(update=2), draw(update=3), np.roll(times, 1, 0), np.roll(times, 1, 1), np.roll(times, 7, 1)):
        assert abs(np.corrcoef(times.ravel(), other.ravel())[0, 1]) < limit + (1 / rows if strategy == "multinomial" else 0)
    assert (draw(update=torch.tensor(5)) == draw(update=5)).all()  # a compiled update counts on the device
    assert (STRATEGIES[strategy](1 << 40, 3, 7, replicates, rows, None) == draw(1 << 40, 3, 7)).all()  # the host form


@pytest.mark.parametrize("count", [1 << 16])
def test_words_are_spread_evenly_and_their_bits_are_independent(count):
    drawn = words(12345, 3, 77, 16, count, torch.device("cpu"))
    assert int(drawn.min()) >= 0 and int(drawn.max()) < 1 << 32
    uniform = drawn.double().numpy() / 2**32
    assert stats.kstest(uniform.ravel(), "uniform").pvalue > 1e-4
    bits = np.stack([(drawn.numpy() >> k & 1).ravel() for k in range(32)]).astype(float)
    table = np.corrcoef(bits)
    assert np.abs(table - np.eye(32)).max() < 5.5 / np.sqrt(bits.shape[1])
    assert np.abs(bits.mean(1) - 0.5).max() < 5 * 0.5 / np.sqrt(bits.shape[1])
    products = [(0x12345678, 0x9ABCDEF1), (0xFFFFFFFF, 0xFFFFFFFF), (1, 0x21F0AAAD)]
    assert [_times(a, b) for a, b in products] == [a * b % 2**32 for a, b in products]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("replicates", [4, 25])
@pytest.mark.parametrize("name", METRICS)
def test_replicates_are_the_metric_over_rows_taken_as_often_as_drawn(name, replicates, strategy):
    batches = data()
    metric = tt.BootStrapper(METRICS[name](), replicates, raw=True, quantile=[0.1, 0.5], sampling_strategy=strategy, seed=3)
    for batch in batches:
        metric.update(*batch)
    want = []
    times = drawn(3, strategy, replicates, [40] * 3)
    for r in range(replicates):
        one = METRICS[name]()
        for batch, counts in zip(batches, times):
            one.update(*(x.repeat_interleave(torch.from_numpy(counts[r])) for x in batch))
        want.append(numbers(one.compute()))
    every = torch.stack([torch.stack(x) for x in want], 1)  # values, replicates
    found = metric.compute()
    assert list(found) == ["mean", "std", "quantile", "raw"]
    assert_equal(numbers(found["raw"]), [*every])
    assert_equal(numbers(found["mean"]), [*every.mean(1)])
    assert_equal(numbers(found["std"]), [*every.std(1)])
    assert_equal(numbers(found["quantile"]), [torch.quantile(x, tensor([0.1, 0.5]).double()) for x in every])
    assert_equal(numbers(metric.fetch().result()["mean"]), [*every.mean(1)])
    metric.reset()
    assert metric.update_count == 0


@pytest.mark.parametrize("replicates", [5, 30])
def test_the_spread_is_that_of_the_binomial(replicates):
    """200 rows of which 60 % are right: the standard deviation of a rate is sqrt(p q / n)."""
    stds = []
    for seed in range(20):
        metric = tt.BootStrapper(c.MulticlassAccuracy(2, average="micro"), replicates, seed=seed)
        for _ in range(4):
            metric.update(torch.ones(50, dtype=torch.long), (torch.arange(50) % 5 < 3).long())
        stds.append(metric.compute()["std"])
    assert float(torch.stack(stds).square().mean().sqrt()) == pytest.approx((0.6 * 0.4 / 200) ** 0.5, rel=0.3)


@pytest.mark.parametrize("replicates", [3, 25])
def test_seeds_and_generators_repeat(replicates):
    def value(**options):
        metric = tt.BootStrapper(c.BinaryAccuracy(from_logits=False), replicates, **options)
        for batch in data():
            metric.update(*batch)
        return metric.compute()["mean"]

    assert value(seed=1) == value(seed=1) != value(seed=2)
    assert value(generator=torch.Generator().manual_seed(1)) == value(generator=torch.Generator().manual_seed(1))
    torch.manual_seed(5)
    first = value()
    torch.manual_seed(5)
    assert value() == first


@pytest.mark.parametrize("replicates", [3, 25])
def test_survives_and_merges(replicates):
    def fed(metric, batches):
        for batch in batches:
            metric.update(*batch)
        return metric

    batches = data()
    want = fed(tt.BootStrapper(c.BinaryAccuracy(from_logits=False), replicates, raw=True, seed=1), batches).compute()
    for survive in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):  # the draws go on where they were
        part = survive(fed(tt.BootStrapper(c.BinaryAccuracy(from_logits=False), replicates, raw=True, seed=1), batches[:1]))
        assert_equal(numbers(fed(part, batches[1:]).compute()), numbers(want))
    saved = fed(tt.BootStrapper(c.BinaryAccuracy(from_logits=False), replicates, raw=True, seed=1), batches)
    loaded = tt.BootStrapper(c.BinaryAccuracy(from_logits=False), replicates, raw=True, seed=2)
    loaded.load_state_dict(saved.state_dict())
    assert_equal(numbers(loaded.compute()), numbers(want))
    loaded.merge_state(saved)
    assert_equal(numbers(loaded.compute()["raw"]), numbers(want["raw"]))  # every row twice
    tally = tt.MetricCollection({"b": saved, "a": c.BinaryAccuracy()}, prefix="val_")
    assert list(tally.compute()) == ["val_mean", "val_std", "val_raw", "val_a"]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("replicates", [3, 25])
def test_nothing_waits_on_a_device(name, replicates):
    batches = data()
    host = tt.BootStrapper(METRICS[name](), replicates, seed=1)
    with pretend_cuda():
        metric = tt.BootStrapper(METRICS[name](), replicates, seed=1).to("cuda")
        moved = [tuple(x.cuda() for x in batch) for batch in batches]
        with assert_no_stalls():
            for batch in moved:
                metric.update(*batch)
            pending = metric.fetch(reset=True)
            metric(*moved[0])
        for batch in batches:
            host.update(*batch)
        assert_equal(numbers(pending.result()), numbers(host.compute()), 1e-5)


def test_forward_is_of_the_batch_and_accumulates():
    for replicates in (3, 25):
        metric = tt.BootStrapper(c.BinaryAccuracy(from_logits=False), replicates, seed=0)
        right, wrong = (tensor([1.0] * 9), tensor([1] * 9)), (tensor([1.0] * 9), tensor([0] * 9))
        assert metric(*right)["mean"] == 1.0
        assert metric(*wrong)["mean"] == 0.0
        assert metric.update_count == 2
        assert 0.0 < metric.compute()["mean"] < 1.0
        with pytest.raises(ValueError, match=r"rows|target"):
            metric.update(right[0], right[1][:3])
        assert metric.update_count == 2


def test_vectors_one_replicate_and_valid_rows():
    metric = tt.BootStrapper(c.MulticlassRecall(3, average=None), 21, quantile=0.5, seed=0)
    metric.update(tensor([0, 1, 2, 0]), tensor([0, 1, 2, 1]))
    assert {n: tuple(x.shape) for n, x in metric.compute().items()} == {"mean": (3,), "std": (3,), "quantile": (3,)}
    one = tt.BootStrapper(tt.MeanMetric(), 1, seed=0)
    one.update(tensor([1.0, 1.0]), valid=1)
    assert one.compute()["std"].isnan()
    with pytest.raises(ValueError, match="no entry of the batch has rows"):
        one.update(3.0)


@pytest.mark.parametrize(
    "options",
    [
        {"num_bootstraps": 0},
        {"num_bootstraps": True},
        {"mean": "no"},
        {"quantile": [0.5, 1.5]},
        {"sampling_strategy": "jackknife"},
        {"seed": 1, "generator": torch.Generator()},
        {"base_metric": 3},
    ],
)
def test_wrong_arguments_say_what_was_expected(options):
    with pytest.raises(ValueError, match="expected"):
        tt.BootStrapper(**{"base_metric": tt.MeanMetric(), **options})


def test_values_that_differ_in_form_can_only_be_had_raw():
    metric = tt.BootStrapper(c.BinaryROC(), 3, seed=0)
    metric.update(*data()[0])
    with pytest.raises(ValueError, match=r"Ask for raw=True, mean=False, std=False"):
        metric.compute()
    raw = tt.BootStrapper(c.BinaryROC(), 3, mean=False, std=False, raw=True, seed=0)
    raw.update(*data()[0])
    assert len(raw.compute()["raw"]) == 3
