"""Updates from other streams, compiled, and captured in a CUDA graph give the values of plain ones on the CPU."""

import threading

import pytest
import torch
from cases import batches as case_batches
from test_laws import assert_equal, fed, leaves, of_each_that_stays_small
from test_laws_no_stalls import replayed
from test_laws_on_gpu import fifty_means, fifty_means_batch, five, five_batch, samples

COLLECTIONS = pytest.mark.parametrize("make, batch", [(five, five_batch), (fifty_means, fifty_means_batch)], ids=["five", "fifty_means"])


def on_gpu(batch):
    return {name: x.to("cuda") for name, x in batch.items()}


def batches(batch, n):
    g = torch.Generator().manual_seed(0)
    return [batch(g) for _ in range(n)]


def on_cpu(make, data):
    plain = make().set_dtype(torch.float64)
    for b in data:
        plain.update(**b)
    return leaves(plain.compute())


def busy(cycles=20_000_000):
    """Give the current stream some milliseconds of work, so that whoever does not wait for it is too early."""
    if hasattr(torch.cuda, "_sleep"):
        torch.cuda._sleep(cycles)


@COLLECTIONS
def test_updates_on_one_stream_are_read_on_another(gpu, make, batch):
    """Nobody orders the streams: the totals do that themselves."""
    host = batches(batch, 100)
    tally = make().to("cuda").set_dtype(torch.float64)
    data = [on_gpu(b) for b in host]
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for done, b in enumerate(data, 1):
        with torch.cuda.stream(side):
            if done % 40 == 0:
                busy()
            tally.update(**b)
            for x in b.values():
                x.zero_()  # callers may overwrite theirs at once
        if done in (50, 100):
            assert_equal([x.cpu() for x in leaves(tally.compute())], on_cpu(make, host[:done]))


@COLLECTIONS
def test_one_thread_reads_while_another_updates(gpu, make, batch):
    host = batches(batch, 10)
    tally, data = make().to("cuda"), [on_gpu(b) for b in host]
    torch.cuda.synchronize()
    seen, over = [], threading.Event()

    def read():
        with torch.cuda.stream(torch.cuda.Stream()):
            while not (seen and over.is_set()):
                seen.append(tally.fetch().result())

    reader = threading.Thread(target=read)
    tally.update(**data[0])  # so that there is something to read
    reader.start()
    for b in data[1:] * 20:
        tally.update(**b)
    over.set()
    reader.join()
    want = on_cpu(make, [host[0], *host[1:] * 20])
    assert_equal([torch.as_tensor(x, dtype=torch.float64) for x in tally.fetch().result().values()], want)


@COLLECTIONS
def test_what_is_fetched_on_a_stream_comes_after_its_work(gpu, make, batch):
    host = batches(batch, 5)
    tally, side = make().to("cuda"), torch.cuda.Stream()
    data = [on_gpu(b) for b in host]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), gpu.none():
        busy()
        for b in data:
            tally.update(**b)
        first = tally.fetch(reset=True)
        for b in data[:2]:
            tally.update(**b)
        second = tally.fetch()
    for pending, seen in ((first, host), (second, host[:2])):
        assert_equal([torch.as_tensor(x, dtype=torch.float64) for x in pending.result().values()], on_cpu(make, seen))


def test_a_compiled_update_is_one_graph(real_gpu):
    host = batches(five_batch, 6)
    tally = five().to("cuda").set_dtype(torch.float64)
    update = torch.compile(lambda loss, preds, target: tally.update(loss=loss, preds=preds, target=target), fullgraph=True)
    for b in host:
        update(**on_gpu(b))
    assert tally.update_count == 6
    assert_equal([x.cpu() for x in leaves(tally.compute())], on_cpu(five, host))


@pytest.mark.parametrize("make", [five, samples])
def test_compiled_updates_on_one_stream_are_read_on_another(real_gpu, make):
    """Samples, too, which the graph hands out."""
    host = batches(five_batch, 40)
    tally = make().to("cuda").set_dtype(torch.float64)
    data = [on_gpu(b) for b in host]
    update = torch.compile(lambda loss, preds, target: tally.update(loss=loss, preds=preds, target=target), fullgraph=True)
    update(**data[0])
    tally.reset()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for done, b in enumerate(data, 1):
        with torch.cuda.stream(side):
            if done % 20 == 0:
                busy()
            update(**b)
        if done in (20, 40):
            assert_equal([x.cpu() for x in leaves(tally.compute())], on_cpu(make, host[:done]))


@of_each_that_stays_small
def test_a_captured_update_counts_every_replay(gpu, case):
    data = case_batches(case, (7, 7, 7, 7))
    metric = replayed(case, data)
    assert_equal([x.cpu() for x in leaves(metric.compute())], fed(case, data).compute(), case.tolerance)
    assert metric.update_count == len(data)


@COLLECTIONS
def test_a_captured_update_of_a_collection_counts_every_replay(gpu, make, batch):
    host = batches(batch, 8)
    tally = make().to("cuda").set_dtype(torch.float64)
    static = on_gpu(host[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        tally.update(**static)
    torch.cuda.current_stream().wait_stream(side)
    tally.reset()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tally.update(**static)
    tally.reset()
    for b in host:
        for name, x in b.items():
            static[name].copy_(x)
        graph.replay()
    assert_equal([x.cpu() for x in leaves(tally.compute())], on_cpu(make, host))
    assert tally.update_count == 8
