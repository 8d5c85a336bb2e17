"""Every backend and device, on a pretend device: NCCL carried by gloo refuses host tensors as NCCL does."""

import pytest
import torch
from torch import distributed as dist
from torch import tensor

import torchtally as tt
from ranks.harness import Raised, run_ranks
from torchtally import classification as c
from torchtally import stalls
from torchtally.testing import assert_no_stalls
from torchtally.wire import counted


def tally(**options):
    return tt.MetricCollection(
        {
            "accuracy": c.BinaryAccuracy(**options),
            "matrix": c.MulticlassConfusionMatrix(num_classes=40, **options).bind(preds="labels", target="labels"),
            "loss": tt.MeanMetric(**options).bind(value="loss"),
            "largest": tt.MaxMetric(**options).bind(value="loss"),
            "all": tt.CatMetric(**options).bind(value="loss"),
        }
    )


def batch_of(rank, device):
    return {
        "preds": tensor([1, 0], device=device),
        "target": tensor([1, rank], device=device),
        "labels": tensor([rank, 39], device=device),
        "loss": tensor(float(rank), device=device),
    }


def feed(metrics, rank, device):
    metrics.update(**batch_of(rank, device))


def right(values):
    matrix = values.pop("matrix")
    assert [matrix[0][0], matrix[1][1], matrix[39][39], sum(map(sum, matrix))] == [1, 1, 2, 4]
    assert values == {"accuracy": 0.75, "loss": 0.5, "largest": 1.0, "all": [0.0, 1.0]}


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl", "gloo"])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_backend_reads_every_device(backend, device):
    def work(rank):
        metrics = tally().to(device)
        feed(metrics, rank, device)
        metrics["loss"].update(100.0 - 100.0)  # host values join
        metrics["loss"].reset()
        feed(metrics, rank, device)
        metrics.reset()
        feed(metrics, rank, device)
        with counted() as traffic:
            values = metrics.compute()
        assert {x.device.type for x in values.values()} == {device}
        values = {n: x.cpu() for n, x in values.items()}
        fetched = metrics.fetch(reset=True)
        feed(metrics, 1 - rank, device)
        own = dist.new_group([rank], use_local_synchronization=True)
        alone = tt.SumMetric(process_group=own).to(device)
        alone.update(float(rank))
        return values, fetched.result(), traffic.collectives, alone.compute(), metrics["largest"].compute()

    for rank, found in enumerate(run_ranks(work, backend=backend, within=stalls.pretend_cuda)):
        assert not isinstance(found, Raised | str), found
        values, fetched, collectives, alone, largest = found
        right(values)
        right(fetched)
        assert collectives == 3  # the head, the large counts, and what is gathered
        assert (alone, largest) == (rank, 1.0)


def test_ranks_may_hold_their_totals_on_different_devices():
    """With one backend for all devices everything travels by the host; NCCL is given the device of each rank."""

    def work(rank):
        device = "cuda" if rank else "cpu"
        metrics = tally().to(device)
        feed(metrics, rank, device)
        values = metrics.compute()
        assert {x.device.type for x in values.values()} == {device}
        return {n: x.cpu() for n, x in values.items()}, metrics.fetch().result()

    for backend in ("gloo", "nccl"):
        for found in run_ranks(work, backend=backend, within=stalls.pretend_cuda):
            assert not isinstance(found, Raised | str), found
            right(found[0])
            right(found[1])


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_fetch_makes_the_host_wait_for_nothing(backend):
    def work(rank):
        metrics = tally().to("cuda")
        feed(metrics, rank, "cuda")
        metrics.fetch().result()
        more = batch_of(rank, "cuda")
        with assert_no_stalls():
            fetched = metrics.fetch(reset=True)
            metrics.update(**more)
        return fetched.result()

    for found in run_ranks(work, backend=backend, within=stalls.pretend_cuda):
        assert not isinstance(found, Raised | str), found
        right(found)


def test_users_metrics_on_a_device_read_under_nccl():
    class Mean(tt.Metric):
        def __init__(self):
            super().__init__()
            self.add_state("total", torch.zeros(()), "sum")
            self.add_state("seen", [], "cat")

        def update(self, x):
            self.total += x.sum()
            self.seen.append(x)

        def compute(self):
            return self.total, self.seen[0].sum() if len(self.seen) == 1 else torch.cat(self.seen).sum()

    def work(rank):
        metric = Mean().to("cuda")
        metric.update(tensor([1.0 + rank, 2.0], device="cuda"))
        total, seen = metric.compute()
        assert total.is_cuda
        assert seen.is_cuda
        return total.cpu(), seen.cpu()

    assert run_ranks(work, backend="nccl", within=stalls.pretend_cuda) == [[7.0, 7.0]] * 2
