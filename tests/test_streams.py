"""Streams: work on one is ordered after work on another where both touch the same totals, by the device and never by the host."""

import pytest
import torch
import torch._dynamo.testing
from torch import tensor
from users_metrics import Total

import torchtally as tt
from torchtally import classification as c
from torchtally import stalls
from torchtally.ledger import Ledger
from torchtally.outside import enrol
from torchtally.stalls.sources.pretend import streams
from torchtally.testing import assert_no_stalls


def tally():
    return tt.MetricCollection(
        {
            "accuracy": c.MulticlassAccuracy(num_classes=3, average="micro"),
            "loss": tt.MeanMetric().bind(value="loss"),
            "user": Total().bind(x="loss"),
        }
    )


BATCH = {"preds": tensor([0, 1, 2, 2]), "target": tensor([0, 2, 2, 1]), "loss": tensor(0.5)}


@pytest.fixture
def waits(monkeypatch):
    """Pairs of streams, (who waits, for whom)."""
    told = []
    with stalls.pretend_cuda():
        monkeypatch.setattr(streams.Stream, "wait_stream", lambda self, other: told.append((self, other)))
        yield told


READS = {
    "fetch": lambda m: m.fetch(),
    "cut": lambda m: m.fetch(reset=True),
    "compute": lambda m: m.compute(),
    "state_dict": lambda m: m.state_dict(),
    "reset": lambda m: m.reset(),
    "clone": lambda m: m.clone(),
    "forward": lambda m: m(**{n: x.to("cuda") for n, x in BATCH.items()}),
    "merge": lambda m: m.merge_state(m.clone()),
    "host": lambda m: m.to("cpu"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_on_another_stream_comes_after_the_updates_and_before_the_next(waits, read):
    metrics, side = tally().to("cuda"), torch.cuda.Stream()
    first = torch.cuda.current_stream()
    batch = {n: x.to("cuda") for n, x in BATCH.items()}
    with torch.cuda.stream(side):
        metrics.update(**batch)
    assert set(waits) == {(side, first)}  # the totals were made on the first
    waits.clear()
    read(metrics)
    assert set(waits) == {(first, side)}
    waits.clear()
    if metrics.device.type == "cuda":
        with torch.cuda.stream(side):
            metrics.update(**batch)
        assert set(waits) == {(side, first)}


def test_one_stream_waits_for_nobody_and_the_host_never(waits):
    metrics = tally()
    with torch.cuda.stream(torch.cuda.Stream()):
        metrics.to("cuda")
        batch = {n: x.to("cuda") for n, x in BATCH.items()}
        with assert_no_stalls():
            for _ in range(100):
                metrics.update(**batch)
            metrics.fetch(reset=True)
    assert waits == []
    with assert_no_stalls():
        for stream in [torch.cuda.Stream() for _ in range(4)] * 2:
            with torch.cuda.stream(stream):
                metrics.update(**batch)
        pending = metrics.fetch()
    assert len(waits) == 18  # eight updates and a read, each of the shared ledger and of the user's metric
    assert pending.result() == {"accuracy": 0.5, "loss": 0.5, "user": 4.0}


def test_what_waits_stays_reserved_for_the_stream_that_settles_it(waits, monkeypatch):
    reserved = []
    metrics, side = (
        tt.MetricCollection({"accuracy": c.MulticlassAccuracy(num_classes=3), "seen": tt.CatMetric().bind(value="loss")}).to("cuda"),
        torch.cuda.Stream(),
    )
    with torch.cuda.stream(side):
        metrics.update(**{n: x.to("cuda") for n, x in BATCH.items()})
        waiting = [piece[0].data_ptr() for line in metrics.ledger.lines for piece in line.pieces]
        samples = [x.data_ptr() for pieces in metrics.ledger.samples.values() for x in pieces]
        flats = [x.data_ptr() for x in metrics.ledger.flats.values()]
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "record_stream", lambda self, stream: reserved.append(self.data_ptr()))
        metrics.compute()
    assert {*waiting, *samples, *flats} <= set(reserved)
    assert waiting
    assert samples


def test_a_capture_waits_for_no_stream_outside(waits):
    metrics, batch = tally().to("cuda"), {n: x.to("cuda") for n, x in BATCH.items()}
    del metrics._modules["user"]  # users' metrics count their updates in Python
    metrics.update(**batch)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        metrics.update(**batch)
    assert waits == []


@pytest.mark.skipif(torch.__version__ < (2, 11), reason="PyTorch 2.6 compiles this one anew for each size; docs/versions.md")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_update_meets_other_streams_when_it_runs_and_before_it_adds(monkeypatch, backend):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    metric, met, meet = c.BinaryF1Score(), [], Ledger.meet
    ledger = metric.ledger
    ledger.on_cpu, ledger.number = False, enrol(ledger)  # as on a device: nothing is compiled for a pretended one
    monkeypatch.setattr(
        Ledger, "meet", lambda self: meet(self) if torch.compiler.is_compiling() else met.append((self is ledger, int(self.clock.ticks)))
    )
    compiled = torch.compile(lambda *batch: metric.update(*batch), backend=counter, fullgraph=True)
    for n in (4, 4, 7, 9, 3):
        compiled(torch.ones(n), torch.ones(n, dtype=torch.int64))
    assert met == [(True, n) for n in range(5)]
    assert counter.frame_count <= 2
    ledger.on_cpu = True
    assert metric.update_count == 5
    assert metric.compute() == 1
