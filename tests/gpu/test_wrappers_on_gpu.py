"""Wrappers on a real GPU: the values of the host, and no waits."""

import pytest
import test_sliced as slices
import torch
from test_laws import assert_equal
from test_wrappers import CASES, batches, fed, numbers

import torchtally as tt
from torchtally import classification as c
from torchtally.testing import assert_no_stalls
from torchtally.throughput import Throughput

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def moved(batch):
    return torch.utils._pytree.tree_map(lambda x: x.cuda(), batch)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values_are_those_of_the_host_and_nothing_waits(case):
    data = batches(case)
    there = [moved(batch) for batch in data]
    metric = case.make().to("cuda")
    torch.cuda.synchronize()
    with assert_no_stalls():
        for batch in there:
            metric.update(*batch)
        pending = None if case.waits or case.name == "Running-samples" else metric.fetch()
    want = fed(case, data).compute()
    assert_equal(numbers((pending or metric.fetch()).result()), numbers(want), 1e-5)


@pytest.mark.parametrize("name", slices.METRICS)
def test_slices(name):
    data = slices.batches()
    metric = slices.sliced(name).to("cuda")
    there = [moved(batch) for batch in data]
    with assert_no_stalls():
        for batch in there:
            metric.update(**batch)
    assert_equal(numbers(metric.fetch().result()), numbers(slices.reference(name, data)), 1e-5)


@pytest.mark.parametrize("replicates", [3, 25])
def test_bootstraps(replicates):
    g = torch.Generator().manual_seed(0)
    data = [(torch.rand(64, generator=g), torch.randint(0, 2, (64,), generator=g)) for _ in range(3)]
    host, there = (tt.BootStrapper(c.BinaryAccuracy(from_logits=False), replicates, seed=0) for _ in range(2))
    there.to("cuda")
    on_device = [moved(batch) for batch in data]
    with assert_no_stalls():
        for batch in on_device:
            there.update(*batch)
    for batch in data:
        host.update(*batch)
    assert_equal(numbers(there.fetch().result()), numbers(host.compute()), 1e-5)


def test_events_tell_the_time_of_the_device():
    meter = Throughput(events=True)
    with assert_no_stalls():
        meter.start()
        for _ in range(5):
            torch.cuda._sleep(20_000_000)  # cycles: some 10 ms
            meter.update(samples=1)
    torch.cuda.synchronize()
    found = meter.fetch().result()
    assert 0.001 < found["step_time_p50_s"] < 0.1
    assert meter.update_count == 5
