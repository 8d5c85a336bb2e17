"""Streams and threads on a real GPU: slow work on one stream is seen by a read on another, without the host waiting for it."""

import threading

import pytest
import torch

import torchtally as tt
from torchtally import classification as c
from torchtally.testing import assert_no_stalls

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
LONG = 20_000_000  # cycles: some 10 ms


def tally():
    return tt.MetricCollection(
        {
            "accuracy": c.MulticlassAccuracy(num_classes=5, average="micro"),
            "seen": tt.CatMetric().bind(value="x"),
            "sum": tt.SumMetric().bind(value="x"),
        }
    ).to("cuda")


def test_a_read_on_another_stream_sees_slow_updates():
    metrics, side = tally(), torch.cuda.Stream()
    for turn in range(20):
        with torch.cuda.stream(side), assert_no_stalls():
            torch.cuda._sleep(LONG)
            x = torch.full((1000,), 1.0 + turn, device="cuda")
            labels = torch.full((1000,), turn % 5, device="cuda")
            metrics.update(x=x, preds=labels, target=labels)
            del x, labels
        with assert_no_stalls():
            pending = metrics.fetch(reset=True)
            junk = [torch.full((1000,), -1.0, device="cuda") for _ in range(50)]  # takes memory that was let go too early
        with torch.cuda.stream(side):
            more = [torch.full((1000,), -1.0, device="cuda") for _ in range(50)]
        found = pending.result()
        assert found["sum"] == 1000.0 * (1 + turn)
        assert found["accuracy"] == 1.0
        assert found["seen"].tolist() == [1.0 + turn] * 1000
        del junk, more


def test_another_thread_reads_cuts_while_training_goes_on():
    metrics, side, rounds = tally(), torch.cuda.Stream(), 500
    stop, cuts = threading.Event(), []

    def read():
        while True:
            last = stop.is_set()
            cuts.append(metrics.fetch(reset=True).result())
            if last:
                return

    reader = threading.Thread(target=read)
    reader.start()
    with torch.cuda.stream(side):
        labels, x = torch.arange(5, device="cuda"), torch.ones(5, device="cuda")
        for _ in range(rounds):
            metrics.update(x=x, preds=labels, target=labels)
    stop.set()
    reader.join()
    assert sum(cut["sum"] for cut in cuts) == 5 * rounds
    assert all(len(cut["seen"]) == cut["sum"] for cut in cuts)
