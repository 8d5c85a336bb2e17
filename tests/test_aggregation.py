"""Means, sums, extremes and concatenation: NaN, weights, faults, host numbers, precision. References are NumPy in float64."""

import copy
import functools
import warnings
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
import torch
from cases import elsewhere
from torch import Tensor

import torchtally as tt
from torchtally.stalls import pretend_cuda

STRATEGIES = ("error", "warn", "ignore", "disable", 2.5, -1)

on_host_and_device = pytest.mark.parametrize("wrap", [tuple, elsewhere], ids=["host", "device"])
strategies = pytest.mark.parametrize("strategy", STRATEGIES)


def quiet(metric):
    """compute() without the warnings of nan_strategy="warn"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tt.FaultWarning)
        return metric.compute()


def feed(metric, wrap, *batches):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tt.FaultWarning)
        for batch in batches:
            metric.update(*wrap(batch))
    return metric


def reference(cls, strategy, batches):
    """The value by definition, in float64."""
    v = np.concatenate([np.broadcast_to(b[0].double().numpy(), np.broadcast_shapes(*(x.shape for x in b))).ravel() for b in batches])
    w = np.concatenate(
        [
            np.broadcast_to((b[1] if len(b) > 1 else torch.ones(())).double().numpy(), np.broadcast_shapes(*(x.shape for x in b))).ravel()
            for b in batches
        ]
    )
    if not isinstance(strategy, str):
        v = np.where(np.isnan(v), float(strategy), v)
        v, w = v[~np.isnan(w)], w[~np.isnan(w)]
    elif strategy != "disable":
        keep = ~(np.isnan(v) | np.isnan(w))
        v, w = v[keep], w[keep]
    if cls is tt.MeanMetric:
        return (v * w).sum() / w.sum()
    if cls is tt.SumMetric:
        return v.sum()
    if cls is tt.MaxMetric:
        return v.max()
    if cls is tt.MinMetric:
        return v.min()
    return v


def close(got, want):
    got = got.as_subclass(Tensor) if isinstance(got, Tensor) else got
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=1e-6, atol=1e-6, equal_nan=True)


HOLED = [torch.tensor([1.0, nan, 3.0]), torch.tensor([4.0, 5.0, 6.0]), torch.tensor([nan, -2.0, nan]), torch.tensor(7.0), torch.tensor(nan)]


@on_host_and_device
@strategies
@pytest.mark.parametrize("cls", [tt.MeanMetric, tt.SumMetric, tt.MaxMetric, tt.MinMetric, tt.CatMetric])
def test_nan_strategies(cls, strategy, wrap):
    batches = [(x.clone(),) for x in HOLED]
    metric = cls(nan_strategy=strategy)
    if strategy == "error" and wrap is tuple:
        for batch in batches:
            if batch[0].isnan().any():
                with pytest.raises(tt.FaultError, match=cls.__name__):
                    metric.update(*batch)
            else:
                metric.update(*batch)
        close(metric.compute(), reference(cls, "ignore", [b for b in batches if not b[0].isnan().any()]))
        return
    feed(metric, wrap, *batches)
    for (given,), before in zip(batches, HOLED):
        close(given, before)  # callers' tensors are not touched
    if strategy == "error":
        with pytest.raises(tt.FaultError, match=r"4 values were NaN and kept out, first in update 1") as raised:
            metric.compute()
        close(raised.value.values, reference(cls, strategy, batches))
    elif strategy == "warn" and wrap is not tuple:
        with pytest.warns(tt.FaultWarning, match=r"4 values were NaN and kept out, first in update 1"):
            close(metric.compute(), reference(cls, strategy, batches))
    else:
        close(metric.compute(), reference(cls, strategy, batches))


WEIGHTS = {
    "same shape": [torch.tensor([1.0, 0.5, 2.0]), torch.tensor([0.0, 3.0, 1.0]), torch.tensor([1.0, 1.0, 4.0])],
    "holed": [torch.tensor([1.0, 0.5, 2.0]), torch.tensor([nan, 3.0, 1.0]), torch.tensor([nan, 1.0, 4.0])],
    "one for all": [torch.tensor(2.0), torch.tensor(0.5), torch.tensor(1.0)],
    "integers": [torch.tensor([1, 0, 2]), torch.tensor([1, 3, 1]), torch.tensor([1, 1, 4])],
    "wider": [torch.ones(2, 1), torch.tensor([[2.0], [1.0]]), torch.ones(2, 3)],
}


@on_host_and_device
@pytest.mark.parametrize("strategy", ["warn", "ignore", "disable", 2.5])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_mean_with_weights(kind, strategy, wrap):
    batches = list(zip(HOLED, WEIGHTS[kind]))
    close(quiet(feed(tt.MeanMetric(nan_strategy=strategy), wrap, *batches)), reference(tt.MeanMetric, strategy, batches))
    whole = [(torch.tensor([3.0, 1.0, 2.0]), w) for w in WEIGHTS[kind]]
    close(quiet(feed(tt.MeanMetric(nan_strategy=strategy), wrap, *whole)), reference(tt.MeanMetric, strategy, whole))


@on_host_and_device
def test_numbers_as_weights_and_values(wrap):
    metric = tt.MeanMetric()
    metric.update(*wrap((torch.tensor([1.0, 2.0]), 0.5)))
    metric.update(*wrap((3.0, torch.tensor([1.0, 2.0]))))
    metric.update(*wrap((torch.tensor(4.0), torch.tensor(2.0))))
    metric.update(5, 3)
    close(metric.compute(), (0.5 * 3 + 3 * 3 + 4 * 2 + 5 * 3) / (1 + 3 + 2 + 3))


def test_lists_and_numpy_numbers():
    for given, total in (([1.0, 2.0], 3.0), (np.float32(1.5), 1.5), (np.float64(2.5), 2.5), (np.array([1.0, 4.0]), 5.0), (True, 1.0)):
        size = np.size(given)
        close(tt.SumMetric()(given), total)
        close(tt.MeanMetric()(given), total / size)
        close(tt.MaxMetric()(given), np.max(given))
        close(tt.MinMetric()(given), np.min(given))
        close(tt.CatMetric()(given), np.atleast_1d(given))


@pytest.mark.parametrize("strategy", ["error", "warn"])
def test_a_host_number_that_is_nan_is_reported_at_once_and_loses_nothing(strategy):
    for cls in (tt.MeanMetric, tt.SumMetric, tt.MaxMetric, tt.MinMetric, tt.CatMetric):
        metric = cls(nan_strategy=strategy)
        metric.update(2.0)
        if strategy == "error":
            with pytest.raises(tt.FaultError, match="NaN"):
                metric.update(nan)
            assert metric.update_count == 1
        else:
            with pytest.warns(tt.FaultWarning):
                metric.update(nan)
        metric.update(2.0)
        close(metric.compute().unique(), [2.0] if cls is not tt.SumMetric else [4.0])


def test_infinities():
    for wrap in (tuple, elsewhere):
        for cls, want in ((tt.SumMetric, inf), (tt.MeanMetric, inf), (tt.MaxMetric, inf), (tt.MinMetric, 1.0)):
            close(feed(cls(), wrap, (torch.tensor([1.0, inf]),), (torch.tensor(2.0),)).compute(), want)
        close(feed(tt.SumMetric(), wrap, (torch.tensor([-inf, inf]),)).compute(), nan)  # a sum of infinities is not a fault
        close(feed(tt.MaxMetric(), wrap, (torch.tensor([-inf]),)).compute(), -inf)


@on_host_and_device
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype, wrap):
    values = torch.tensor([0, 1, 1, 200, 255, 3]).to(dtype)
    exact = values.double()
    close(feed(tt.SumMetric(), wrap, (values[:4],), (values[4:],)).compute(), exact.sum())
    close(feed(tt.MeanMetric(), wrap, (values[:4],), (values[4:],)).compute(), exact.mean())
    close(feed(tt.MaxMetric(), wrap, (values[:4],), (values[4:],)).compute(), exact.max())
    close(feed(tt.MinMetric(), wrap, (values[:4],), (values[4:],)).compute(), exact.min())
    close(feed(tt.CatMetric(), wrap, (values[:4],), (values[4:],)).compute().double(), exact)


def test_before_the_first_update():
    close(tt.MeanMetric().compute(), nan)
    close(tt.SumMetric().compute(), 0.0)
    close(tt.MaxMetric().compute(), -inf)
    close(tt.MinMetric().compute(), inf)
    assert tt.CatMetric().compute().tolist() == []


@on_host_and_device
def test_concatenation_keeps_rows(wrap):
    rows = torch.arange(6.0).view(3, 2)
    close(feed(tt.CatMetric(), wrap, (rows[:2],), (rows[2:],)).compute(), rows)
    assert feed(tt.CatMetric(nan_strategy="ignore"), wrap, (torch.tensor([[1.0, nan]]),)).compute().tolist() == [1.0]


# ---- faults on a device
@pytest.mark.parametrize("at", [1, 3, 64, 65, 70, 130])
@pytest.mark.parametrize("size", [1, 3])
def test_the_first_update_with_nan_is_named_wherever_it_falls(at, size):
    """In the middle of waiting pieces, at the edges of folding, with scalars and vectors, alone and in a collection."""
    alone = tt.MeanMetric(nan_strategy="error")
    tally = tt.MetricCollection({k: tt.MeanMetric(nan_strategy="error").bind(value=k) for k in "ab"})
    for i in range(1, 141):
        bad = i == at or i == 139
        value = torch.full((size,) if size > 1 else (), nan if bad else float(i))
        alone.update(*elsewhere((value,)))
        tally.update(a=elsewhere((torch.ones_like(value),))[0], b=elsewhere((value,))[0])
    message = rf"{2 * size} values were NaN and kept out, first in update {at}\. "
    for metric, name in ((alone, "MeanMetric"), (tally, "b")):
        with pytest.raises(tt.FaultError, match=f"^{name}: {message}"):
            metric.compute()
        with pytest.raises(tt.FaultError, match=f"^{name}: {message}"):
            metric.fetch().result()
    good = [i for i in range(1, 141) if i not in (at, 139)]
    with pytest.raises(tt.FaultError) as raised:
        tally.compute()
    close(raised.value.values["b"], sum(good) / len(good))
    close(raised.value.values["a"], 1.0)
    tally.reset()
    tally.update(a=1.0, b=2.0)
    assert {k: float(v) for k, v in tally.compute().items()} == {"a": 1.0, "b": 2.0}  # a reset forgets the faults too


def test_the_first_update_is_named_among_batches_of_unequal_size_numbers_and_large_batches():
    kinds = [torch.ones(3), torch.ones(5), 1.0, torch.ones(10_000), torch.ones(3), torch.ones(3, dtype=torch.float64), 2.0, torch.ones(3)]
    for at in (0, 1, 3, 4, 5, 7):
        metric = tt.MeanMetric(nan_strategy="error")
        tally = tt.MetricCollection({"mean": tt.MeanMetric(nan_strategy="error").bind(value="x"), "other": tt.SumMetric().bind(value="y")})
        counted = elsewhere((torch.ones(3),))[0]
        for i, x in enumerate(kinds):
            if isinstance(x, Tensor):
                x = torch.full_like(x, nan) if i == at else x
                x = elsewhere((x,))[0]
            metric.update(x)
            tally.update(x=x, y=1.0)
            tally.update(x=1.0, y=counted)
        with pytest.raises(tt.FaultError, match=rf"first in update {at + 1}\."):
            metric.compute()
        with pytest.raises(tt.FaultError, match=rf"first in update {2 * at + 1}\."):
            tally.compute()


def test_forward_counts_faults_too():
    metric = tt.MeanMetric(nan_strategy="error")
    for i in range(5):
        metric(*elsewhere((torch.tensor([1.0, nan if i == 3 else 2.0]),)))
    with pytest.raises(tt.FaultError, match=r"1 value was NaN and kept out, first in update 4"):
        metric.compute()


def test_merged_faults_add_up():
    parts = [feed(tt.MeanMetric(nan_strategy="error"), elsewhere, (torch.tensor([nan, 1.0]),)) for _ in range(3)]
    parts[0].merge_state(parts[1])
    parts[0].merge_state(parts[2])
    with pytest.raises(tt.FaultError, match="3 values were NaN"):
        parts[0].compute()
    again = tt.MeanMetric(nan_strategy="error")
    again.load_state_dict(parts[0].state_dict())
    with pytest.raises(tt.FaultError, match="3 values were NaN"):
        again.compute()


# ---- precision
def test_host_sums_are_compensated():
    for given in (float, torch.tensor, functools.partial(torch.tensor, dtype=torch.float64)):
        total, mean = tt.SumMetric(), tt.MeanMetric()
        total.set_dtype(torch.float64)
        for x in [1e16, *[1.0] * 1000, -1e16]:
            x = x if given is float else given(x, dtype=torch.float64)
            total.update(x)
            mean.update(x)
        assert float(total.compute()) == 1000.0
        assert mean.fetch().result() == pytest.approx(1000 / 1002, abs=1e-15)


def test_many_small_numbers_are_summed_exactly():
    metric = tt.SumMetric()
    for _ in range(10_000):
        metric.update(0.1)
    assert metric.fetch().result() == float(Fraction(0.1) * 10_000)
    apart = tt.MetricCollection({"a": tt.SumMetric().bind(value="a"), "b": tt.MeanMetric().bind(value="b")})
    for x in [1e16, *[1.0] * 5000, -1e16]:
        apart.update(a=x, b=x)
    assert apart.fetch().result() == {"a": 5000.0, "b": 5000 / 5002}


@on_host_and_device
def test_float32_values_are_summed_in_float64(wrap):
    x = torch.full((3000,), 0.1)
    metric = feed(tt.SumMetric(), wrap, *[(x,)] * 20)
    assert metric.fetch().result() == pytest.approx(60_000 * float(x[0]), rel=1e-13)
    half = torch.full((1001,), 1.0, dtype=torch.bfloat16)
    close(feed(tt.SumMetric(), wrap, (half,), (half,)).compute(), 2002.0)


def test_counts_go_beyond_31_bits():
    mean = tt.MeanMetric()
    one = torch.ones(1).expand(1 << 20)
    for _ in range(3):
        mean.update(one, weight=2.0**31)
    assert mean.weight == 3 * 2.0**51
    accuracy = tt.classification.MulticlassAccuracy(5, average="none")
    states = accuracy.state_dict()
    states["counts"] = torch.full_like(states["counts"], 2**40)
    accuracy.load_state_dict(states)
    accuracy.update(torch.tensor([0]), torch.tensor([1]))
    assert accuracy.counts[1, 0] == 2**40 + 1
    assert accuracy.counts.dtype == torch.int64
    close(accuracy.compute()[0], 1.0)
    micro = tt.classification.MulticlassStatScores(5, average="micro")
    micro.load_state_dict({**micro.state_dict(), "hit": torch.tensor(2**33), "seen": torch.tensor(2**34)})
    assert micro.compute().tolist() == [2**33, 2**33, 4 * 2**34 - 2**33, 2**33, 2**34]


def test_large_counts_of_a_batch():
    """A batch of more than 2^24 elements, which a float32 count could not tell apart."""
    n = (1 << 24) + 3
    yes = torch.ones(1, dtype=torch.uint8).expand(n)
    close(tt.SumMetric()(yes.view(n)) - n, 0.0)
    metric = tt.SumMetric()
    metric.update(*elsewhere((yes,)))
    assert metric.fetch().result() == n


# ---- a device
def stalls_of(recorder):
    return [s.operator for s in recorder.stalls]


def test_python_numbers_and_cpu_tensors_cost_no_device_work():
    with pretend_cuda() as recorder:
        metrics = [cls().to("cuda") for cls in (tt.MeanMetric, tt.SumMetric, tt.MaxMetric, tt.MinMetric)]
        tally = tt.MetricCollection({"a": tt.MeanMetric().bind(value="a"), "b": tt.SumMetric().bind(value="b")}).to("cuda")
        device = torch.empty(0, device="cuda").device
        work = []
        before = len(recorder.stalls)

        class Counter(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                views = ("aten.slice", "aten.view", "aten.detach", "aten.alias")
                if any(isinstance(x, Tensor) and x.device == device for x in args) and not str(function).startswith(views):
                    work.append(str(function))
                return function(*args, **(kwargs or {}))

        with Counter():
            for i in range(8):
                for metric in metrics:
                    metric.update(0.5 + i)
                    metric.update(i)
                    metric.update(torch.tensor(1.0))
                    metric.update(torch.ones(3))
                tally.update(a=0.5, b=torch.tensor(1.0))
        assert not work
        assert recorder.stalls[before:] == []
        assert all(m.ledger.device == device for m in metrics)
        values = [float(m.compute()) for m in metrics]
        assert float(tally.compute()["b"]) == 8.0
    numbers = [x for i in range(8) for x in (0.5 + i, i, 1.0, 1.0, 1.0, 1.0)]
    np.testing.assert_allclose(values, [np.mean(numbers), np.sum(numbers), max(numbers), min(numbers)], rtol=1e-6)


@pytest.mark.parametrize("strategy", ["error", "ignore", 2.5])
def test_updates_on_a_device_never_wait_and_give_what_the_host_gives(strategy):
    batches = [(x,) for x in HOLED] * 14
    weighted = [(x, w) for x, w in zip(HOLED, WEIGHTS["holed"])] * 22
    with pretend_cuda() as recorder:
        for cls, data in [(c, batches) for c in (tt.MeanMetric, tt.SumMetric, tt.MaxMetric, tt.MinMetric, tt.CatMetric)] + [
            (tt.MeanMetric, weighted)
        ]:
            metric = cls(nan_strategy=strategy).to("cuda")
            moved = [tuple(x.to("cuda") for x in batch) for batch in data]
            before = len(recorder.stalls)
            for batch in moved:
                metric.update(*batch)
            pending = metric.fetch()
            assert recorder.stalls[before:] == []
            want = reference(cls, strategy, data)
            if strategy == "error":
                with pytest.raises(tt.FaultError, match="NaN and kept out, first in update 1"):
                    metric.compute()
            else:
                close(metric.compute().cpu(), want)
                close(pending.result(), want)


def test_host_numbers_and_device_tensors_mix():
    with pretend_cuda():
        for cls, want in (
            (tt.MeanMetric, 3.0),
            (tt.SumMetric, 15.0),
            (tt.MaxMetric, 5.0),
            (tt.MinMetric, 1.0),
            (tt.CatMetric, [1, 2, 3, 4, 5]),
        ):
            metric = cls().to("cuda")
            metric.update(1.0)
            metric.update(torch.tensor([2.0, 3.0], device="cuda"))
            metric.update(torch.tensor(4.0))
            metric.update(torch.tensor(5.0, device="cuda"))
            value = metric.compute()
            assert value.is_cuda
            close(value.cpu(), want)
            close(metric.fetch().result(), want)
            other = copy.deepcopy(metric)
            other.to("cpu")
            close(other.compute(), want)


def test_tensors_on_two_devices_are_refused_at_once():
    with pretend_cuda():
        metric = tt.MeanMetric().to("cuda")
        metric.update(2.0)
        for value, weight in ((torch.ones(3, device="cuda"), torch.ones(3)), (torch.ones(3), torch.ones(3, device="cuda"))):
            with pytest.raises(ValueError, match=r"MeanMetric: .*cpu.*cuda:0|MeanMetric: .*cuda:0.*cpu"):
                metric.update(value, weight)
        metric.update(torch.tensor(4.0), torch.ones(3, device="cuda"))  # one number is a host value
        metric.update(torch.full((3,), 4.0, device="cuda"), torch.tensor(1.0))
        close(metric.compute().cpu(), (2 + 6 * 4) / 7)
        cpu = tt.MeanMetric()
        with pytest.raises(ValueError, match=r"MeanMetric: .*\.to\('cuda:0'\)"):
            cpu.update(torch.ones(3, device="cuda"))
        assert cpu.update_count == 0


def test_a_weight_that_does_not_broadcast_is_refused_at_once():
    for wrap in (tuple, elsewhere):
        metric = tt.MeanMetric()
        metric.update(1.0)
        with pytest.raises(ValueError, match="MeanMetric: weight has shape"):
            metric.update(*wrap((torch.ones(3), torch.ones(2))))
        close(metric.compute(), 1.0)


@pytest.mark.parametrize("bad", ["drop", None, True, [1], "nan"])
def test_impossible_strategies(bad):
    with pytest.raises(ValueError, match="nan_strategy is"):
        tt.MeanMetric(nan_strategy=bad)


def test_text_is_refused():
    for cls in (tt.MeanMetric, tt.SumMetric, tt.MaxMetric, tt.CatMetric):
        metric = cls()
        metric.update(1.0)
        with pytest.raises((TypeError, ValueError), match=cls.__name__):
            metric.update("1.0")
        assert metric.update_count == 1


@pytest.mark.parametrize("strategy", ["warn", "ignore"])
def test_concatenation_where_nan_was_left_out_of_some_batches(strategy):
    metric = tt.CatMetric(nan_strategy=strategy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.update(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        metric.update(torch.tensor([[float("nan"), 5.0]]))
        metric.update(torch.zeros(0))
    assert metric.compute().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
