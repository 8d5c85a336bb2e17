"""Reads that wait longer than they should: what goes on waiting for what, and what comes next."""

import datetime
import os
import signal
import time
from functools import partial

import torch
from torch import distributed as dist
from torch import tensor
from users_metrics import Total

import torchtally as tt
from ranks.harness import DIED, Raised, run_ranks
from torchtally import reduction


def sums(timeout=None, **more):
    return tt.MetricCollection({"a": tt.SumMetric(timeout=timeout), "b": tt.CatMetric(timeout=timeout), **more})


def timed_out(read):
    """Whether a read raised RankTimeout."""
    try:
        read()
    except tt.RankTimeout:
        return True
    return False


def with_patience(metrics):
    for m in metrics.values():
        m.timeout = 20.0
    return metrics


def test_what_is_saved_or_fetched_after_a_time_out_is_a_read_of_its_own():
    def work(rank):
        short = 20.0 if rank else 0.2
        first, second, third = sums(short), sums(short), sums(short)
        for metrics in (first, second, third):
            metrics.update(1.0)
        alone = tt.SumMetric(timeout=short)
        alone.update(3.0)
        dist.barrier()
        if rank:
            time.sleep(1.0)
        late = [timed_out(first.compute)]
        saved = with_patience(first).state_dict(reduce=True)["a.total"]
        dist.barrier()
        if rank:
            time.sleep(1.0)
        late.append(timed_out(second.compute))
        fetched = second.fetch()
        if not rank:  # the other one has read it already
            assert with_patience(second).compute()["a"] == 2.0
        dist.barrier()
        if rank:
            time.sleep(1.0)
        late += [timed_out(partial(m.state_dict, reduce=True)) for m in (alone, third)]
        if not rank:
            alone.timeout = 20.0
            late += [timed_out(partial(m.state_dict, reduce=True)) for m in (alone, with_patience(third))]
        return late, saved, fetched.result()["a"], with_patience(first).compute()["a"]

    first, second = run_ranks(work)
    assert first == [[True, True, True, True, False, False], 2.0, 2.0, 2.0]
    assert second == [[False] * 4, 2.0, 2.0, 2.0]


def test_an_error_that_follows_a_time_out_is_not_that_of_the_next_read():
    def work(rank):
        metric = tt.MaxMetric(timeout=20.0) if rank else tt.SumMetric(timeout=0.2)
        after = sums(20.0)
        after.update(1.0)
        dist.barrier()
        if rank:
            time.sleep(1.0)
        try:
            metric.compute()
        except tt.RankError as error:
            return type(error).__name__, after.compute()["a"]

    assert run_ranks(work) == [["RankTimeout", 2.0], ["RankError", 2.0]]


def unreadable(number):
    raise LookupError(f"no {number} here")


class Odd:
    """What cannot be unpickled."""

    def __reduce__(self):
        return unreadable, (7,)


class Things(tt.Metric):
    def __init__(self):
        super().__init__()
        self.add_state("things", [], None)

    def update(self, x):
        self.things.append(x)

    def compute(self):
        return len(self.things)


def test_states_that_cannot_be_unpacked_raise_the_same_at_every_read():
    def work(rank):
        metric = Things()
        metric.update(Odd())
        said = []
        for read in (metric.compute, metric.compute, lambda: metric.fetch().result()):
            try:
                read()
            except LookupError as error:
                said.append(str(error))
        metric.reset()
        metric.update(tensor(1.0))
        return said, metric.compute(), metric.fetch().result()

    assert run_ranks(work) == [[["no 7 here"] * 3, 2, 2]] * 2


def test_a_rank_that_dies_before_the_first_fetch_is_waited_for_as_long_as_by_the_group():
    def work(rank):
        group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=4))
        metric = tt.SumMetric(process_group=group)
        metric.update(1.0)
        metric.compute()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        fetched = metric.fetch()
        try:
            fetched.result(timeout=30.0)
        except tt.RankError as error:
            return type(error).__name__, str(error), metric.metric_state["total"]

    survivor, killed = run_ranks(work)
    assert killed == DIED
    assert not isinstance(survivor, Raised | str), survivor
    kind, said, total = survivor
    assert (kind, total) == ("RankError", 1.0)
    assert "SumMetric, on rank 0 of 2: a collective failed (a rank did not come within 4 s, the time-out of the group)" in said


def test_a_second_refusal_is_told_of_the_rank_that_refuses_then():
    class Shy(Total):
        def _snapshot(self):
            return {"total": lambda: None} if shy else super()._snapshot()

    shy = False

    def work(rank):
        nonlocal shy
        metric, said = Shy(), []
        metric.update(1.0)
        for bad in (1, 0, 1):
            shy = rank == bad
            if rank != bad:
                time.sleep(0.2)
            for read in (metric.compute, lambda: metric.fetch().result()):
                try:
                    read()
                except tt.RankError as error:
                    said.append(str(error))
        shy = False
        return said, metric.compute()

    first, second = run_ranks(work)
    assert not isinstance(first, Raised | str), first
    assert first == second
    said, after = first
    there, elsewhere = "on rank 1: Shy is not readable there", "(elsewhere not readable there"  # of two, the first counts as usual
    assert [part in text for part, text in zip([there, there, elsewhere, elsewhere, there, there], said)] == [True] * 6
    assert after == 2.0


def test_a_read_that_is_broken_off_is_followed_by_no_other():
    """What this rank called next would meet the collective that the others are at, of another size: gloo ends a process for that."""

    def broken(self, *args):
        raise (KeyboardInterrupt if self.aside is False else torch.OutOfMemoryError)("no more")
        yield

    def work(rank):
        samples, other = sums(1.0), tt.SumMetric(timeout=1.0)
        samples.update(1.0)
        other.update(1.0)
        rest, said = reduction.Reduction._largest, []
        dist.barrier()
        if rank == 0:
            reduction.Reduction._largest = broken
        for n, read in enumerate((samples.compute, samples.compute, other.compute, samples.fetch, other.fetch)):
            try:
                found = read()
                if n > 2:
                    found.result(timeout=1.0 if rank else 20.0)
            except BaseException as error:
                said.append((type(error).__name__, str(error)))
            if n == 0:
                reduction.Reduction._largest = rest
            elif n == 2 and rank == 0:
                reduction.Reduction._largest = broken
        other.sync_on_compute = False
        return [kind for kind, _ in said], [text for _, text in said if "broken off on this rank" in text], other.compute()

    (kinds, told, own), (others, _, alone) = run_ranks(work)
    assert kinds == ["KeyboardInterrupt", "RankError", "RankError", "RankError", "RankError"]
    assert [text.partition(",")[0] for text in told] == ["MetricCollection of a", "MetricCollection of a", "SumMetric"]
    assert set(others) == {"RankTimeout"}
    assert own == alone == 1.0


def test_sync_and_all_steps_of_a_tracker_go_on_after_a_time_out():
    def work(rank):
        short = 20.0 if rank else 0.2
        metric, tracker = tt.SumMetric(timeout=short), tt.MetricTracker(tt.MaxMetric(timeout=short), maximize=True)
        tracker.increment()
        tracker.update(1.0 + rank)
        metric.update(1.0)
        out = []
        for read in (metric.sync, tracker.compute_all, lambda: tracker.over_ranks().compute_all()):
            dist.barrier()
            if rank:
                time.sleep(1.0)
            try:
                found = read()
            except tt.RankTimeout:
                for m in (metric, *tracker):
                    m.timeout = 20.0
                found = read()
                for m in (metric, *tracker):
                    m.timeout = short
            out.append(metric.compute() if found is None else found)
        metric.timeout = 20.0
        metric.unsync()
        return [*out, metric.compute()]

    assert run_ranks(work) == [[2.0, [2.0], [2.0], 2.0]] * 2


def test_the_value_of_a_batch_and_that_of_all_are_no_pair():
    def work(rank):
        metric = tt.SumMetric(dist_sync_on_step=True)
        try:
            return metric(1.0) if rank else metric.compute()
        except tt.RankError as error:
            return str(error), metric.update_count, dist.barrier()

    for said, updates, _ in run_ranks(work):
        assert "on rank 1: SumMetric is SumMetric() of one batch (elsewhere SumMetric())" in said
        assert updates in (0, 1)
