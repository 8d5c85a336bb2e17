"""Confidence intervals of collections and of metrics around metrics: SciPy's, resampled ones, and how often they hold the truth."""

import numpy as np
import pytest
import torch
from cases import elsewhere
from ranks.harness import run_ranks
from scipy import stats
from torch import Tensor, tensor

import torchtally as tt
from torchtally import classification as c
from torchtally.faults import FaultError
from torchtally.intervals import NoInterval
from torchtally.testing import assert_no_stalls
from torchtally.wire import counted
from torchtally.wrappers import (
    BootStrapper,
    ClasswiseWrapper,
    LambdaInputTransformer,
    MinMaxMetric,
    MultioutputWrapper,
    MultitaskWrapper,
    Running,
    Sliced,
)

NAMES = ["cat", "dog", "cow"]
G = torch.Generator().manual_seed(1)
PREDS, TARGET = torch.randint(0, 3, (60,), generator=G), torch.randint(0, 3, (60,), generator=G)
WAYS = pytest.mark.parametrize("way", [tuple, elsewhere], ids=["host", "device"])
METHODS = pytest.mark.parametrize("method", ["wilson", "exact"])


def by_scipy(part, whole, level=0.95, method="wilson"):
    return stats.binomtest(int(part), int(whole)).proportion_ci(level, method)


def hits(preds, target, k=None):
    """Right decisions among all, or among those whose target is k."""
    among = torch.ones_like(target, dtype=torch.bool) if k is None else target == k
    return int((preds == target)[among].sum()), int(among.sum())


def close(bounds, want):
    np.testing.assert_allclose([float(np.asarray(torch.as_tensor(x).as_subclass(Tensor))) for x in bounds], list(want), atol=1e-6)


def tally(**more):
    return tt.MetricCollection(
        {
            "accuracy": c.MulticlassAccuracy(3, average="micro"),
            "recall": c.MulticlassRecall(3, average="none", labels=NAMES),
            "f1": c.MulticlassF1Score(3),
            "mean": tt.MeanMetric().bind(value="loss"),
            **more,
        }
    )


@WAYS
@METHODS
def test_a_collection_gives_those_of_all_that_have_one(way, method):
    metrics = tally()
    metrics.update(**dict(zip(("preds", "target", "loss"), way((PREDS, TARGET, torch.rand(60))))))
    found = metrics.interval(0.9, method)
    assert list(found) == ["accuracy", "recall_cat", "recall_dog", "recall_cow"]
    close(found["accuracy"], by_scipy(*hits(PREDS, TARGET), 0.9, method))
    for k, name in enumerate(NAMES):
        close(found[f"recall_{name}"], by_scipy(*hits(PREDS, TARGET, k), 0.9, method))
    assert all(x.dtype == torch.float32 for bounds in found.values() for x in bounds)
    names = metrics.clone(prefix="val/").interval(0.9, method)
    assert list(names) == ["val/accuracy", "val/recall_cat", "val/recall_dog", "val/recall_cow"]
    metrics.reset()
    assert all([float(x) for x in bounds] == [0.0, 1.0] for bounds in metrics.interval(method=method).values())


def test_reading_waits_once_and_sends_once():
    from torchtally.stalls import pretend_cuda

    with pretend_cuda():
        metrics = tally().to("cuda")
        metrics.update(preds=PREDS.cuda(), target=TARGET.cuda(), loss=0.5)
        with assert_no_stalls(at_most=1) as seen:
            metrics.interval()
        assert len(seen.report("").stalls) == 1  # whether values were impossible
        with assert_no_stalls(at_most=2):
            found = metrics.interval(method="exact")  # and the counts, for SciPy
        assert found["accuracy"][0].is_cuda

    def work(rank):
        metrics = tally(spread=BootStrapper(c.MulticlassAccuracy(3, average="micro"), 20, seed=0))
        metrics.update(preds=PREDS[rank::2], target=TARGET[rank::2], loss=0.5)
        with counted() as traffic:
            found = metrics.interval()
        with counted() as alone:
            single = metrics["accuracy"].interval()
        return traffic.collectives, [x.tolist() for x in found["accuracy"]], [x.tolist() for x in single], alone.collectives

    for collectives, found, single, _ in run_ranks(work):
        assert collectives <= 2  # the head, and what does not fit into it
        close(found, by_scipy(*hits(PREDS, TARGET)))
        close(single, by_scipy(*hits(PREDS, TARGET)))


def test_members_apart_and_members_empty():
    metrics = tally()
    metrics.update(preds=PREDS, target=TARGET, loss=1.0)
    metrics["accuracy"].update(PREDS[:7], TARGET[:7])  # has totals of its own now
    more = hits(torch.cat([PREDS, PREDS[:7]]), torch.cat([TARGET, TARGET[:7]]))
    close(metrics.interval()["accuracy"], by_scipy(*more))
    close(metrics.interval()["recall_dog"], by_scipy(*hits(PREDS, TARGET, 1)))
    metrics["recall"].reset()
    assert [float(x) for x in metrics.interval()["recall_dog"]] == [0.0, 1.0]


def test_impossible_values_are_reported():
    metrics = tally()
    preds, target = elsewhere((tensor([1, 1]), tensor([1, 7])))
    metrics.update(preds=preds, target=target, loss=0.5)
    with pytest.raises(FaultError, match="1 value was impossible"):
        metrics.interval()


def test_what_is_refused():
    metrics = tt.MetricCollection({"f1": c.BinaryF1Score(), "mean": tt.MeanMetric()}, prefix="p/")
    with pytest.raises(ValueError, match=r"MetricCollection.interval: no metric has an interval in closed form. 'f1': BinaryF1Score.*'mean': Mean"):
        metrics.interval()
    with pytest.raises(NoInterval, match=r"MeanSquaredError.interval: the metric has no closed form. Use BootStrapper"):
        tt.MeanSquaredError().interval()
    with pytest.raises(NoInterval, match="an extreme has no closed form"):
        MinMaxMetric(c.BinaryAccuracy()).interval()
    with pytest.raises(ValueError, match=r"MetricCollection.interval: level is 95; expected a number between 0 and 1"):
        tally().interval(95)
    with pytest.raises(ValueError, match=r"Sliced.interval: method is 'wald'; expected 'wilson' or 'exact'"):
        Sliced(c.BinaryAccuracy(), 2).interval(method="wald")
    with pytest.raises(NoInterval, match="BinaryF1Score"):
        Sliced(c.BinaryF1Score(), 2).interval()


# ---- around metrics
@WAYS
@METHODS
@pytest.mark.parametrize("metric", [c.MulticlassAccuracy(3, average="micro"), tt.MetricCollection({"a": c.MulticlassAccuracy(3, average="micro")})])
def test_slices(metric, method, way):
    sliced = Sliced(metric, ["de", "en"])
    sliced.update(*way((PREDS, TARGET)), index=torch.arange(60) % 2)
    low, high = sliced.interval(method=method)
    end = "_a" if isinstance(metric, tt.MetricCollection) else ""
    for name, part in (("de", slice(0, None, 2)), ("en", slice(1, None, 2)), ("total", slice(None))):
        close((low[name + end], high[name + end]), by_scipy(*hits(PREDS[part], TARGET[part]), method=method))


def test_windows_and_steps():
    batches = [(PREDS[i : i + 10], TARGET[i : i + 10]) for i in range(0, 60, 10)]
    for metric in (c.MulticlassAccuracy(3, average="micro"), tt.MetricCollection({"a": c.MulticlassAccuracy(3, average="micro")})):
        single = not isinstance(metric, tt.MetricCollection)
        running, tracker = Running(metric, 2), tt.MetricTracker(metric)
        for batch in batches:
            running.update(*batch)
            tracker.increment()
            tracker.update(*batch)
        low, high = running.interval()
        close((low, high) if single else (low["a"], high["a"]), by_scipy(*hits(PREDS[40:], TARGET[40:])))
        now, every = tracker.interval(level=0.8), tracker.interval_all(0.8)
        close(now if single else now["a"], by_scipy(*hits(*batches[-1]), 0.8))
        lows, highs = every if single else every["a"]
        for k, batch in enumerate(batches):
            close((lows[k], highs[k]), by_scipy(*hits(*batch), 0.8))


def test_classes_tasks_outputs_and_transforms():
    classes = ClasswiseWrapper(c.MulticlassRecall(3, average="none"), NAMES, prefix="r/")
    classes.update(PREDS, TARGET)
    low, high = classes.interval()
    assert list(low) == ["r/cat", "r/dog", "r/cow"]
    close((low["r/dog"], high["r/dog"]), by_scipy(*hits(PREDS, TARGET, 1)))
    tasks = MultitaskWrapper({"kind": c.MulticlassAccuracy(3, average="micro"), "age": tt.MeanSquaredError()}, prefix="t/")
    tasks.update({"kind": PREDS, "age": torch.rand(3)}, {"kind": TARGET, "age": torch.rand(3)})
    low, high = tasks.interval()
    assert list(low) == ["t/kind"]
    close((low["t/kind"], high["t/kind"]), by_scipy(*hits(PREDS, TARGET)))
    outputs = MultioutputWrapper(c.MulticlassAccuracy(3, average="micro"), 2)
    outputs.update(torch.stack([PREDS, TARGET], 1), torch.stack([TARGET, TARGET], 1))
    low, high = outputs.interval()
    close((low[0], high[0]), by_scipy(*hits(PREDS, TARGET)))
    close((low[1], high[1]), by_scipy(60, 60))
    flipped = LambdaInputTransformer(c.BinaryAccuracy(), lambda p: 1 - p)
    flipped.update(tensor([0, 1, 1]), tensor([1, 0, 1]))
    close(flipped.interval(), by_scipy(2, 3))
    together = tt.MetricCollection({"classes": classes, "flipped": flipped})
    assert set(together.interval()) == {"r/cat", "r/dog", "r/cow", "flipped"}


# ---- resamples
@pytest.mark.parametrize("replicates", [4, 100])
def test_resampled_intervals_are_quantiles_of_the_resamples(replicates):
    metric = BootStrapper(c.BinaryAccuracy(), replicates, raw=True, seed=0)
    metric.update(tensor([1, 0, 1, 1, 0, 0, 1] * 6), tensor([1, 0, 0, 1, 1, 0, 1] * 6))
    values = metric.compute()["raw"].double().numpy()
    for level in (0.5, 0.95):
        low, high = metric.interval(level)
        np.testing.assert_allclose([low, high], np.quantile(values, [(1 - level) / 2, (1 + level) / 2]), rtol=1e-6)
    both = tt.MetricCollection({"plain": c.BinaryAccuracy(), "mse": BootStrapper(tt.MeanSquaredError(), 50, seed=1)})
    both.update(torch.tensor([0.9, 0.2, 0.4]), torch.tensor([1, 0, 1]))
    assert list(both.interval()) == ["plain", "mse"]
    with pytest.raises(TypeError):
        metric.interval(method="wilson")
    of_many = BootStrapper(tt.MetricCollection({"a": c.BinaryAccuracy(), "f": c.BinaryF1Score()}), 10, seed=0)
    of_many.update(tensor([1, 0, 1]), tensor([1, 1, 1]))
    low, high = of_many.interval()
    assert set(low) == set(high) == {"a", "f"} and low["f"] <= high["f"]


def test_how_often_intervals_hold_the_truth():
    """Of 2,000 samples of 40 decisions: within 3 standard errors of what SciPy's intervals do on the same samples, and those near the level.

    What a method does is summed over all outcomes, so the truth about Wilson's and Clopper and Pearson's is known exactly.
    """
    rng, n, level, samples = np.random.default_rng(0), 40, 0.9, 2000
    for p in (0.5, 0.9, 0.98):
        right = torch.from_numpy(rng.random((samples, n)) < p).long()
        metrics = tt.MetricCollection({"accuracy": c.BinaryAccuracy(multidim_average="samplewise")})
        metrics.update(right, torch.ones_like(right))
        for method in ("wilson", "exact"):
            low, high = metrics.interval(level, method)["accuracy"]
            seen = float(((low <= p) & (high >= p)).double().mean())
            outcomes = [by_scipy(k, n, level, method) for k in range(n + 1)]
            true = sum(stats.binom.pmf(k, n, p) for k, ci in enumerate(outcomes) if ci.low <= p <= ci.high)
            assert abs(seen - true) < 3 * np.sqrt(true * (1 - true) / samples) + 1e-9
            assert true >= (level if method == "exact" else level - 0.06)


def test_how_often_resampled_intervals_hold_the_truth():
    """Of 300 samples of 200 exponential numbers, 90 % intervals of 200 resamples hold the mean about 90 % of the time."""
    rng, held = np.random.default_rng(1), 0
    metric = BootStrapper(tt.MeanMetric(), 200, seed=0)
    for _ in range(300):
        metric.update(torch.from_numpy(rng.exponential(size=200)))
        low, high = metric.interval(0.9)
        held += int(low <= 1.0 <= high)
        metric.reset()
    assert 0.9 - 3 * np.sqrt(0.09 / 300) - 0.02 <= held / 300 <= 0.9 + 3 * np.sqrt(0.09 / 300)
