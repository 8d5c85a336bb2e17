"""Reads one after the other: what is remembered from one to the next, and what is looked at anew."""

import gc
import threading
import weakref

import pytest
import torch
from torch import distributed as dist
from torch import nn, tensor

import torchtally as tt
from ranks.harness import run_ranks
from torchtally import classification as c
from torchtally import wire
from torchtally.wire import counted

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this build of PyTorch has no torch.distributed")


class Users(tt.Metric):
    """A user's metric."""

    def __init__(self, **options):
        super().__init__(**options)
        self.add_state("total", torch.zeros(()), "sum")

    def update(self, value):
        self.total += value

    def compute(self):
        return self.total


def sums(**options):
    return tt.MetricCollection({n: tt.SumMetric(**options).bind(value=n) for n in "abc"})


def test_what_changed_since_the_last_read_is_seen():
    """Rank r holds r + 1, ten and a hundred times as much in a, b and c."""

    def work(rank):
        pair = dist.new_group([0, 1])
        metrics, mine, out = sums(), rank + 1.0, []

        def read(change=lambda: None):
            metrics.compute()  # so that there is something to remember
            change()
            out.append(metrics.compute())

        metrics.update(a=mine, b=10 * mine, c=100 * mine)
        read()
        read(lambda: setattr(metrics["b"], "sync_on_compute", False))
        read(lambda: setattr(metrics["b"], "sync_on_compute", True))
        read(lambda: setattr(metrics["c"], "process_group", pair))
        read(lambda: setattr(metrics["c"], "process_group", None))
        read(lambda: setattr(metrics["a"], "dist_sync_fn", lambda x, group=None: [x, x]))
        read(lambda: setattr(metrics["a"], "dist_sync_fn", None))
        read(metrics["b"].reset)
        read(lambda: metrics["c"].update(1000.0))
        read(metrics.reset)
        read(lambda: metrics.update(a=1.0, b=2.0, c=3.0))
        read(metrics["a"].sync)
        read(metrics["a"].unsync)
        read(lambda: metrics.add_metrics({"d": tt.MaxMetric().bind(value="a")}))
        read(lambda: metrics.update(a=mine, b=0.0, c=0.0))
        metrics["d"].inside = nn.Identity()  # a module inside, of which nothing is known
        read(lambda: metrics.load_state_dict(metrics.state_dict()))
        return out

    whole = {"a": 6.0, "b": 60.0, "c": 600.0}
    after = {"a": 3.0, "b": 6.0, "c": 9.0}
    more = {"a": 9.0, "b": 6.0, "c": 9.0, "d": 3.0}
    for rank, found in enumerate(run_ranks(work, 3)):
        mine = rank + 1.0
        assert found == [
            whole,
            {**whole, "b": 10 * mine},
            whole,
            {**whole, "c": 300.0 if rank < 2 else 100 * mine},
            whole,
            {**whole, "a": 2 * mine},
            whole,
            {**whole, "b": 0.0},
            {**whole, "b": 0.0, "c": 3600.0},
            {"a": 0.0, "b": 0.0, "c": 0.0},
            after,
            after,
            after,
            {**after, "d": float("-inf")},
            more,
            more,
        ]


def test_a_member_read_after_its_collection_sees_what_other_ranks_added_since():
    """Some ranks have a batch more than others, and the collection was read before it."""

    def work(rank):
        metrics = tt.MetricCollection({"a": tt.SumMetric(timeout=10.0), "b": tt.CatMetric(), "all": Users()})
        metrics.update(1.0)
        out = [metrics.compute()["all"]]
        if rank:
            metrics.update(10.0)
        out += [metrics["a"].compute(), metrics["b"].compute(), metrics["all"].compute()]
        if not rank:
            metrics.update(100.0)
        return [*out, metrics.compute()["a"], metrics.state_dict(reduce=True)["a.total"]]

    assert run_ranks(work) == [[2.0, 12.0, [1.0, 1.0, 10.0], 12.0, 112.0, 112.0]] * 2


def test_a_collection_with_users_metrics_is_read_at_once_though_another_thread_updates():
    class Slow(Users):
        def compute(self):
            if update is not None:
                thread = threading.Thread(target=update, args=(5.0,))
                thread.start()
                thread.join(0.2)
            return self.total

    update = None

    def work(rank):
        nonlocal update
        metrics = tt.MetricCollection({"slow": Slow(), "user": Users(timeout=10.0), "least": tt.MinMaxMetric(tt.SumMetric(timeout=10.0))})
        metrics.update(1.0)
        update = metrics.update if rank else None
        with counted() as traffic:
            values = metrics.compute()
        update = None
        return values["slow"], values["user"], values["raw"], traffic.collectives

    assert run_ranks(work) == [[2.0, 2.0, 2.0, 2]] * 2


@pytest.mark.parametrize("few", [8, 1], ids=["gathered", "reduced"])
def test_few_ranks_gather_what_many_reduce(few):
    def work(rank):
        wire.FEW, reduced, reduce = few, [], wire.Wire._reduce
        wire.Wire._reduce = lambda self, x, how: (reduced.append(x), reduce(self, x, how))[1]
        metrics = tt.MetricCollection({"matrix": c.MulticlassConfusionMatrix(num_classes=3), "loss": tt.MeanMetric().bind(value="loss"), "worst": tt.MaxMetric().bind(value="loss")})
        metrics.update(preds=tensor([rank, 1]), target=tensor([2, 1]), loss=float(rank))
        with counted() as traffic:
            values = metrics.compute()
        assert len(reduced) == (few == 1)
        other = tt.MetricCollection([tt.SumMetric()] if rank else [tt.MeanMetric()])
        try:
            other.compute()
        except tt.RankError as error:
            return values, metrics.fetch().result(), traffic.collectives, str(error)

    for values, fetched, collectives, said in run_ranks(work, 3):
        assert values == fetched == {"matrix": [[0, 0, 0], [0, 3, 0], [1, 1, 1]], "loss": 1.0, "worst": 2.0}
        assert collectives == 1
        assert "MeanMetric is missing" in said or "SumMetric is" in said


class Longest(tt.Metric):
    def __init__(self):
        super().__init__()
        self.add_state("length", tensor(0), "max")

    def update(self, value):
        self.length = torch.maximum(self.length, tensor(len(value)))

    def compute(self):
        return self.length


def test_metrics_that_were_read_over_ranks_are_freed_when_dropped():
    def work(rank):
        gc.disable()
        dropped = []
        for make, batch in ((tt.SumMetric, 1.0), (Longest, "abc"), (lambda: tt.MetricCollection([Longest(), tt.SumMetric()]), "abc")):
            metrics = make()
            if isinstance(metrics, tt.Metric):
                metrics.update(batch)
            for _ in range(2):
                metrics.compute()
            metrics.fetch().result()
            dropped.append(weakref.ref(metrics))
            del metrics
        return [ref() is None for ref in dropped]

    assert run_ranks(work) == [[True] * 3] * 2
