"""Ranks that come late, never, or not to the end: an error that says who, and totals that are still there."""

import os
import signal
import time

import torch
from torch import distributed as dist
from torch import tensor
from users_metrics import Total

import torchtally as tt
from ranks.harness import DIED, HANGS, Raised, run_ranks
from torchtally import classification as c
from torchtally import distributed, reduction


def test_a_late_rank_times_out_and_reading_again_goes_on():
    def work(rank):
        metrics = tt.MetricCollection({"accuracy": c.BinaryAccuracy(timeout=0.3), "loss": tt.MeanMetric(timeout=0.3).bind(value="loss")})
        metrics.update(preds=tensor([1, 0]), target=tensor([1, rank]), loss=float(rank))
        said = None
        if rank:
            time.sleep(1.5)
        try:
            return said, metrics.compute()
        except tt.RankTimeout as error:
            assert isinstance(error, TimeoutError)
            said = str(error)
        for m in metrics.values():
            m.timeout = 30.0
        local = metrics["loss"].clone()
        local.sync_on_compute = False
        return said, metrics.compute(), local.compute()

    (said, late, own), (nothing, there) = run_ranks(work)
    assert nothing is None
    assert late == there == {"accuracy": 0.75, "loss": 0.5}
    assert own == 0.0
    for part in ("MetricCollection of accuracy, loss", "rank 0 of 2", "did not come within 0.3 s", "intact"):
        assert part in said


def test_updates_between_a_time_out_and_the_next_read_are_in_the_next_read():
    def work(rank):
        metric = tt.SumMetric(timeout=0.3)
        metric.update(1.0)
        if rank:
            time.sleep(1.0)
        first = None
        try:
            first = metric.compute()
        except tt.RankTimeout:
            pass
        metric.timeout = 30.0
        metric.update(10.0)
        return first, metric.compute()

    assert run_ranks(work) == [[None, 22.0], [2.0, 22.0]]


def test_a_killed_rank_is_an_error_and_the_totals_stay():
    def work(rank):
        metric = tt.MetricCollection({"total": tt.SumMetric()})
        metric.update(2.0)
        metric.compute()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        out = []
        for _ in range(2):
            try:
                metric.compute()
            except tt.RankError as error:
                out.append(str(error))
        metric["total"].sync_on_compute = False
        metric.update(1.0)
        return out, metric.compute(), metric.state_dict()["total.total"]

    survivor, killed = run_ranks(work)
    assert killed == DIED
    assert not isinstance(survivor, Raised | str), survivor
    texts, values, saved = survivor
    assert len(texts) == 2
    assert "MetricCollection of total, on rank 0 of 2: a collective failed" in texts[0]
    assert values == {"total": 3.0}
    assert saved == 3.0


def test_a_rank_killed_in_the_middle_of_a_read_is_an_error_and_the_totals_stay():
    """The head has come from all ranks; one dies before it gives its samples."""

    def work(rank):
        metric = tt.MetricCollection({"all": tt.CatMetric(), "sum": tt.SumMetric()})
        metric.update(tensor([1.0 + rank]))
        if rank == 1:
            distributed.Wire.all_gather = lambda self, x: os.kill(os.getpid(), signal.SIGKILL)
        try:
            metric.compute()
        except tt.RankError as error:
            said = str(error)
        for m in metric.values():
            m.sync_on_compute = False
        return said, metric.compute(), metric["all"].state_dict()["value"][0]

    survivor, killed = run_ranks(work)
    assert killed == DIED
    assert not isinstance(survivor, Raised | str), survivor
    said, values, saved = survivor
    assert "MetricCollection of all, sum, on rank 0 of 2: a collective failed" in said
    assert values == {"all": [1.0], "sum": 1.0}
    assert saved == [1.0]


def test_a_fetch_whose_other_rank_dies_says_so():
    def work(rank):
        metric = tt.MetricCollection({"sum": tt.SumMetric()})
        metric.update(1.0)
        metric.fetch().result()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        fetched = metric.fetch()
        try:
            fetched.result(timeout=30.0)
        except tt.RankError as error:
            return str(error), fetched.ready, metric["sum"].metric_state["total"]

    survivor, killed = run_ranks(work)
    assert killed == DIED
    assert not isinstance(survivor, Raised | str), survivor
    assert "MetricCollection of sum, on rank 0 of 2" in survivor[0]
    assert survivor[1:] == [True, 1.0]


def test_a_rank_that_cannot_give_its_totals_tells_the_others():
    def work(rank):
        metrics = tt.MetricCollection({"all": tt.CatMetric(), "sum": tt.SumMetric()})
        metrics.update(tensor([1.0]))
        whole = reduction.Reduction._payload

        def full(self):
            raise torch.OutOfMemoryError("no memory left")

        if rank == 1:
            reduction.Reduction._payload = full
        said = []
        for read in (metrics.compute, lambda: metrics.fetch().result(timeout=30.0)):
            try:
                read()
            except tt.RankError as error:
                said.append(str(error))
        reduction.Reduction._payload = whole
        return said, metrics.compute()

    for found in run_ranks(work):
        assert not isinstance(found, Raised | str), found
        said, after = found
        assert after == {"all": [1.0, 1.0], "sum": 2.0}
        assert len(said) == 2
        assert all("on rank 1: all is not readable there (OutOfMemoryError: no memory left)" in text for text in said)


def test_a_fetch_that_finds_no_network_says_so_and_compute_works():
    def work(rank):
        def unreachable(*args):
            raise RuntimeError("no address for this host")

        distributed.PrivateWire = unreachable
        metric = tt.SumMetric()
        metric.update(1.0)
        try:
            metric.fetch().result()
        except tt.RankError as error:
            return str(error), metric.compute()

    for found in run_ranks(work):
        assert not isinstance(found, Raised | str), found
        assert "cannot be reached by gloo" in found[0]
        assert "(no address for this host)" in found[0]
        assert found[1] == 2.0


def test_one_rank_that_raises_in_compute_disturbs_nobody():
    class Shy(tt.Metric):
        def __init__(self, rank):
            super().__init__()
            self.add_state("total", torch.zeros(()), "sum")
            self.shy = rank == 1

        def update(self, x):
            self.total += x

        def compute(self):
            if self.shy:
                raise ArithmeticError("not today")
            return self.total

    def work(rank):
        metrics = tt.MetricCollection({"shy": Shy(rank), "sum": tt.SumMetric().bind(value="x")})
        metrics.update(x=1.0)
        found = []
        for _ in range(2):
            for read in (metrics.compute, lambda: metrics.fetch().result()):
                try:
                    found.append(read())
                except ArithmeticError as error:
                    found.append(str(error))
            metrics["shy"].shy = False
            metrics.update(x=1.0)
        return found, metrics["shy"].total

    first, second = run_ranks(work)
    assert not isinstance(first, Raised | str), first
    assert not isinstance(second, Raised | str), second
    before, after = {"shy": 2.0, "sum": 2.0}, {"shy": 4.0, "sum": 4.0}
    assert first == [[before, before, after, after], 3.0]
    assert second == [["not today", "not today", after, after], 3.0]


def test_an_error_in_compute_leaves_the_metric_usable():
    class Picky(Total):
        def compute(self):
            if self.total < 3:
                raise ArithmeticError("too little")
            return self.total

    def work(rank):
        metric = Picky()
        metric.update(1.0)
        try:
            metric.compute()
        except ArithmeticError:
            pass
        else:
            raise AssertionError("nothing was raised")
        try:
            metric.fetch().result()
        except ArithmeticError:
            pass
        metric.update(2.0)
        return metric.compute(), metric.total

    assert run_ranks(work) == [[6.0, 3.0]] * 2


def test_a_rank_that_raises_before_it_reads_does_not_hang_the_others_forever():
    def work(rank):
        metric = tt.MeanMetric(timeout=1.0)
        metric.update(1.0)
        if rank == 1:
            raise KeyError("in the user's code")
        try:
            return metric.compute()
        except tt.RankTimeout as error:
            return str(error)

    told, raised = run_ranks(work)
    assert told != HANGS
    assert "MeanMetric, on rank 0 of 2: a rank did not come within 1" in told
    assert raised.kind == "KeyError"


def test_groups_are_let_go():
    def work(rank):
        import gc
        import weakref

        metric = tt.SumMetric(process_group=dist.new_group([0, 1]))
        metric.update(1.0)
        value = metric.compute()
        gone = weakref.ref(metric.process_group)
        dist.destroy_process_group(metric.process_group)
        metric.process_group = None
        value += metric.compute()
        gc.collect()
        return value, gone() is None

    assert run_ranks(work) == [[4.0, True]] * 2
