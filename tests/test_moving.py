"""ExponentialMovingAverage: its law, since the order of updates counts, and what it does with weights, NaN, ranks and devices."""

import copy
import math
import pickle

import pytest
import torch
import torch._dynamo.testing
from test_laws import assert_equal
from torch import tensor

import torchtally as tt
from torchtally.stalls import pretend_cuda
from torchtally.testing import assert_no_stalls


def average(steps, decay, corrected=True):
    """By the definition: `steps` are lists of values with weights."""
    total = sum(decay ** (len(steps) - 1 - t) * sum(x * w for x, w in step) for t, step in enumerate(steps))
    mass = sum(decay ** (len(steps) - 1 - t) * sum(w for _, w in step) for t, step in enumerate(steps))
    return (total / mass if mass else math.nan) if corrected else total * (1 - decay)


def fed(metric, values, **options):
    for x in values:
        metric.update(x, **options)
    return metric


NUMBERS = [3.0, 1.0, 4.0, 1.5, 9.0, 2.0]


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("options, decay", [({"decay": 0.9}, 0.9), ({"decay": 0.0}, 0.0), ({"halflife": 2}, 0.5**0.5), ({"span": 3}, 0.5)])
def test_the_value_is_that_of_the_definition(options, decay, corrected):
    metric = fed(tt.ExponentialMovingAverage(**options, bias_correction=corrected), NUMBERS)
    want = average([[(x, 1.0)] for x in NUMBERS], decay, corrected)
    assert metric.fetch().result() == pytest.approx(want, rel=1e-14)
    mixed = tt.ExponentialMovingAverage(**options, bias_correction=corrected)
    for k, x in enumerate(NUMBERS):  # numbers, host tensors and those that only a device can look at, in turn
        mixed.update([x, tensor(x), tensor(x).as_subclass(Other)][k % 3])
    assert mixed.fetch().result() == pytest.approx(want, rel=1e-12)
    forwards = tt.ExponentialMovingAverage(**options)
    assert [float(forwards(x)) for x in NUMBERS] == NUMBERS
    assert forwards.fetch().result() == pytest.approx(average([[(x, 1.0)] for x in NUMBERS], decay), rel=1e-14)
    assert forwards.update_count == len(NUMBERS)


class Other(torch.Tensor):
    """Not the host's to look into."""


def test_it_is_pandas_adjusted_mean():
    pandas = pytest.importorskip("pandas")
    values = pandas.Series(torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist())
    assert fed(tt.ExponentialMovingAverage(halflife=5), values).fetch().result() == pytest.approx(values.ewm(halflife=5).mean().iloc[-1])
    assert fed(tt.ExponentialMovingAverage(span=5), values).fetch().result() == pytest.approx(values.ewm(span=5).mean().iloc[-1])


def test_weights_and_batches():
    metric = tt.ExponentialMovingAverage(0.5)
    metric.update(tensor([1.0, 3.0]), weight=tensor([1.0, 3.0]))
    metric.update(tensor([5.0, 7.0]), 2.0)
    steps = [[(1.0, 1.0), (3.0, 3.0)], [(5.0, 2.0), (7.0, 2.0)]]
    assert metric.compute() == pytest.approx(average(steps, 0.5))
    metric.update(tensor([100.0, 1.0]), valid=tensor([False, True]))
    assert metric.compute() == pytest.approx(average([*steps, [(1.0, 1.0)]], 0.5))


def test_missing_numbers_are_steps():
    ignoring = fed(tt.ExponentialMovingAverage(0.5, nan_strategy="ignore"), [4.0, math.nan, 1.0])
    assert ignoring.compute() == pytest.approx(average([[(4.0, 1.0)], [], [(1.0, 1.0)]], 0.5))
    with pytest.raises(tt.FaultError):
        tt.ExponentialMovingAverage(0.5, nan_strategy="error").update(math.nan)
    with pytest.warns(tt.FaultWarning):
        fed(tt.ExponentialMovingAverage(0.5), [4.0, math.nan])
    assert fed(tt.ExponentialMovingAverage(0.5, nan_strategy=2.0), [math.nan]).compute() == 2.0
    assert tt.ExponentialMovingAverage(0.5).compute().isnan()
    with pretend_cuda():
        device = tt.ExponentialMovingAverage(0.5, nan_strategy="error").to("cuda")
        data = [tensor(x).cuda() for x in (4.0, math.nan, 1.0)]
        with assert_no_stalls():
            for x in data:
                device.update(x)
            device(data[0])
            device.update(2.0)
            pending = device.fetch()
        with pytest.raises(tt.FaultError, match="first in update 2"):
            pending.result()


def test_survives_and_merges():
    want = average([[(x, 1.0)] for x in NUMBERS], 0.9)
    for survive in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: m.half(), _reloaded):
        metric = survive(fed(tt.ExponentialMovingAverage(0.9), NUMBERS[:3]))
        assert fed(metric, NUMBERS[3:]).fetch().result() == pytest.approx(want, rel=1e-14)
    one, two = fed(tt.ExponentialMovingAverage(0.5), [1.0, 2.0]), fed(tt.ExponentialMovingAverage(0.5), [8.0])
    one.merge_state(two)  # side by side: weights 1.5 and 1
    assert one.compute() == pytest.approx((2.0 + 0.5 + 8.0) / 2.5)
    one.reset()
    assert fed(one, [3.0]).compute() == 3.0


def _reloaded(metric):
    new = tt.ExponentialMovingAverage(0.9)
    new.load_state_dict(metric.state_dict())
    return new


def test_in_collections():
    tally = tt.MetricCollection({"smooth": tt.ExponentialMovingAverage(0.5).bind(value="loss"), "mean": tt.MeanMetric().bind(value="loss")})
    for k, x in enumerate(NUMBERS):
        tally.update(loss=x) if k % 2 else tally(loss=tensor(x))
    want = average([[(x, 1.0)] for x in NUMBERS], 0.5)
    assert tally.compute()["smooth"] == pytest.approx(want)
    assert tally.fetch(reset=True).result() == pytest.approx({"smooth": want, "mean": sum(NUMBERS) / len(NUMBERS)})
    running = tt.Running(tt.MeanMetric(), 2)
    assert tt.MetricCollection([tt.ExponentialMovingAverage(0.5), running])(2.0)["ExponentialMovingAverage"] == 2.0


def test_update_compiles_whole_at_most_twice():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    metric, plain = tt.ExponentialMovingAverage(0.9), tt.ExponentialMovingAverage(0.9)
    compiled = torch.compile(lambda x: metric.update(x), backend=counter, fullgraph=True)
    g = torch.Generator().manual_seed(0)
    for n in (4, 7, 9) * 4:
        x = torch.rand(n, generator=g)
        compiled(x)
        plain.update(x)
    assert counter.frame_count <= 2
    assert_equal(metric.compute(), plain.compute())


@pytest.mark.parametrize(
    "options", [{}, {"decay": 1.0}, {"decay": -0.1}, {"halflife": 0}, {"span": 0.5}, {"decay": 0.5, "span": 2}, {"decay": "fast"}]
)
def test_wrong_arguments_say_what_was_expected(options):
    with pytest.raises((ValueError, TypeError), match=r"expected|not supported"):
        tt.ExponentialMovingAverage(**options)
