"""Wrappers over real ranks: the totals inside are reduced together, whoever asks."""

import test_sliced as slices
import torch
from test_wrappers import CASES, batches, both, fed, numbers
from torch import distributed as dist
from users_metrics import Total

import torchtally as tt
from ranks.harness import Raised, run_ranks
from torchtally.wire import counted


def differs(got, want):
    got, want = numbers(got), numbers(want)
    return len(got) != len(want) or not all(torch.allclose(a, b, atol=1e-6, equal_nan=True) for a, b in zip(got, want))


def halves(case, rank):
    """The data of this rank, and of both; of windows, one batch each."""
    data = batches(case, 2 if case.name.startswith("Running") else 4)
    return data[rank::2], data


def test_wrappers_over_two_ranks():
    def work(rank):
        wrong = {}
        for case in CASES:
            mine, whole = halves(case, rank)
            want = case.reference(whole)
            alone, tally = fed(case, mine), tt.MetricCollection({"w": case.make(), "v": case.make()})
            for batch in mine:
                tally.update(*batch)
            alone.persistent(True)
            found = {
                "compute": differs(alone.compute(), want),
                "fetch": differs(alone.fetch().result(), want),
                "collection": differs(tally.compute(), [want, want]),
                "fetched collection": differs(tally.fetch().result(), [want, want]),
                "states": differs(fed(case, [], _loaded(case, alone.state_dict(reduce=True))).compute(), want),
            }
            if any(found.values()):
                wrong[case.name] = found
        return wrong

    def _loaded(case, states):
        other = case.make()
        other.load_state_dict(states, spread=True)
        return other

    for found in run_ranks(work):
        assert not isinstance(found, Raised), found
        assert not found


def test_a_tracker_and_its_steps_are_read_in_one_go():
    def work(rank):
        tracker = tt.MetricTracker(tt.MetricCollection([tt.classification.BinaryAccuracy(), tt.classification.BinaryHammingDistance()]))
        for step in range(5):
            tracker.increment()
            tracker.update(torch.tensor([1]), torch.tensor([int(step < 2 or rank == 0)]))
        with counted() as traffic:
            values = tracker.compute_all()
        return (
            traffic.collectives,
            values["BinaryAccuracy"].tolist(),
            tracker.best_metric(True)[1],
            tracker.over_ranks().compute_all()["BinaryAccuracy"].tolist(),
        )

    for found in run_ranks(work):
        assert list(found) == [1, [1.0, 1.0, 0.5, 0.5, 0.5], {"BinaryAccuracy": 0, "BinaryHammingDistance": 0}, [1.0, 1.0, 0.5, 0.5, 0.5]]


def test_what_must_stay_local_stays_local():
    def work(rank):
        metric = tt.Running(tt.MeanMetric(sync_on_compute=False), window=2)
        metric.update(2.0 * rank + 1)
        users = tt.Running(both(), 2)
        users.update(torch.tensor([0.9]), torch.tensor([rank]))
        low = tt.MinMaxMetric(tt.MeanMetric())
        low.update(float(rank))
        low.compute()
        low.reset()
        low.update(4.0)
        return metric.compute().item(), users.compute()["val_a"].item(), {k: float(x) for k, x in low.compute().items()}

    assert run_ranks(work) == [[1.0 + 2 * r, 0.5, {"raw": 4.0, "max": 4.0, "min": 0.5}] for r in range(2)]


def test_extremes_are_of_the_ranks_and_of_the_data_that_the_values_are_of():
    def work(rank):
        out = []
        for inside in (tt.SumMetric(), Total()):
            metric = tt.MinMaxMetric(inside)
            empty = metric.compute(), metric.fetch().result()  # no rank has seen anything
            if rank:
                metric.update(3.0)
            out += [*({k: float(x) for k, x in values.items()} for values in empty), metric.compute(), metric.fetch().result()]
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        for options in ({"process_group": pairs[rank // 2]}, {"sync_on_compute": False}):
            metric = tt.MinMaxMetric(tt.SumMetric(**options))
            metric.update(float(rank))
            for _ in range(2):
                found = metric.compute()
            out.append(found)
        return out

    nothing, three = {"raw": 0.0, "max": -torch.inf, "min": torch.inf}, {"raw": 9.0, "max": 9.0, "min": 9.0}
    for rank, found in enumerate(run_ranks(work, 4)):
        assert not isinstance(found, Raised), found
        assert found[:8] == [nothing, nothing, three, three] * 2
        assert found[8:] == [{"raw": x, "max": x, "min": x} for x in ([1.0, 1.0, 5.0, 5.0][rank], float(rank))]


def test_slices_over_ranks():
    def work(rank):
        wrong = {}
        for name in ("counts", "moments", "samples", "users", "collection"):
            data = slices.batches(4)
            metric = slices.sliced(name, data[rank::2])
            tally = tt.MetricCollection({"s": slices.sliced(name, data[rank::2])})
            want = slices.reference(name, data)
            found = [metric.compute(), metric.fetch().result(), tally.compute(), tally.fetch().result(), metric(**data[0]) and None]
            wrong |= {f"{name} {k}": x for k, x in enumerate(found[:4]) if differs(x, want)}
        return wrong

    for found in run_ranks(work):
        assert not isinstance(found, Raised), found
        assert not found


def test_ranks_draw_independently():
    def work(rank):
        metric = tt.BootStrapper(tt.classification.BinaryAccuracy(from_logits=False), 25, seed=0)
        for _ in range(2):
            metric.update(torch.ones(50), torch.arange(50) % 2)
        return metric.replicates.ledger.flats[torch.int64, "sum"].tolist(), metric.compute()["mean"].item(), metric.fetch().result()["mean"]

    (a, mean, later), (b, same, _) = run_ranks(work)
    assert a != b
    assert mean == same
    assert abs(mean - later) < 1e-6
