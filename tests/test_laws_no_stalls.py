"""Law 1: update, forward, reset and fetch of every metric never make the host wait for the device."""

import pytest
import torch
from cases import CASES, batches
from test_laws import as_numbers, assert_equal, fed, leaves, of_each_that_grows, of_each_that_stays_small
from torch.utils import _pytree as pytree

from torchtally.stalls import pretend_cuda
from torchtally.testing import assert_no_stalls


@pytest.fixture(scope="module", autouse=True)
def device():
    with pretend_cuda():
        yield


def moved(batch):
    return tuple(x.to("cuda") for x in batch)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_never_waits(case):
    host = batches(case, (3, 3, 12))
    data = [moved(b) for b in host]
    metric = case.make().to("cuda")
    assert metric.device == torch.device("cuda", 0)
    with assert_no_stalls():
        for batch in data:
            metric.update(*batch)
        if not case.sized_by_data:
            metric.fetch(reset=True)
            metric(*data[0])
        metric.reset()
        for batch in data:
            metric.update(*batch)
        pending = None if case.sized_by_data else metric.fetch()
    pending = pending or metric.fetch()
    want = fed(case, host).compute()
    got = pending.result()
    assert_equal(as_numbers([torch.as_tensor(x) for x in pytree.tree_leaves(got)]), as_numbers(want), 1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_values_on_the_device_are_those_on_the_host(case):
    host = batches(case, (3, 3, 12))
    metric = case.make().to("cuda")
    for batch in host:
        metric.update(*moved(batch))
    value = metric.compute()
    assert all(x.is_cuda for x in leaves(value))
    assert_equal([x.cpu() for x in leaves(value)], fed(case, host).compute(), case.tolerance)


def replayed(case, data):
    """A metric whose update was captured in a CUDA graph and replayed over batches of one size."""
    metric, static = case.make().to("cuda"), moved(data[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        metric.update(*static)  # a capture wants everything to have run once
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        metric.update(*static)
    metric.reset()
    for batch in data:
        for x, new in zip(static, batch):
            x.copy_(new)
        graph.replay()
    return metric


@of_each_that_stays_small
def test_a_captured_update_counts_every_replay(case):
    data = batches(case, (7, 7, 7, 7))
    metric = replayed(case, data)
    assert_equal([x.cpu() for x in leaves(metric.compute())], fed(case, data).compute(), case.tolerance)
    assert metric.update_count == len(data)


@of_each_that_grows
def test_a_capture_keeps_no_samples_and_says_so(case):
    with pytest.raises(RuntimeError, match="the replay of a CUDA graph cannot append"):
        replayed(case, batches(case, (7, 7)))
