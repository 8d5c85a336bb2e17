"""Reading over ranks: right values, few collectives, whatever each rank has seen."""

import warnings

import pytest
import torch
from torch import distributed as dist
from torch import tensor

import torchtally as tt
from ranks.harness import Raised, run_ranks
from torchtally import classification as c
from torchtally import head
from torchtally import regression as r
from torchtally.head import HEAD
from torchtally.wire import counted

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this build of PyTorch has no torch.distributed")


def tally(**more):
    return tt.MetricCollection(
        {
            "accuracy": c.MulticlassAccuracy(num_classes=5, average="micro"),
            "precision": c.MulticlassPrecision(num_classes=5, average="none"),
            "recall": c.MulticlassRecall(num_classes=5),
            "matrix": c.MulticlassConfusionMatrix(num_classes=5),
            "loss": tt.MeanMetric().bind(value="loss"),
            **more,
        }
    )


def batch(seed, n=8, classes=5):
    g = torch.Generator().manual_seed(seed)
    return {"preds": torch.randn(n, classes, generator=g), "target": torch.randint(0, classes, (n,), generator=g), "loss": float(seed)}


def plain(values):
    return {n: v.tolist() for n, v in values.items()}


def of_one_process(seeds):
    """What the same batches give without ranks."""
    metrics = tally()
    for seed in seeds:
        metrics.update(**batch(seed))
    return plain(metrics.compute())


def approx(values):
    return {n: pytest.approx(v, nan_ok=True) if not isinstance(v, list) or not isinstance(v[0], list) else v for n, v in values.items()}


@pytest.mark.parametrize("seeds", [[[1, 2], [3]], [[], [1, 2, 3]], [[], []], [[1], [], [2, 3, 4]]], ids=str)
def test_ranks_together_give_what_one_process_gives_in_one_collective(seeds):
    def work(rank):
        metrics = tally()
        for seed in seeds[rank]:
            metrics.update(**batch(seed))
        with counted() as traffic:
            whole = metrics.compute()
        with counted() as one_by_one:
            alone = {n: m.compute() for n, m in metrics.items()}
        with counted() as again:
            metrics["loss"].compute()
        later = metrics.fetch(reset=True)
        metrics.update(**batch(9))
        return whole, alone, later.result(), [traffic.collectives, traffic.bytes], one_by_one.collectives, again.collectives

    want = approx(of_one_process([s for each in seeds for s in each]))
    for whole, alone, later, (collectives, sent), one_by_one, again in run_ranks(work, len(seeds)):
        assert whole == want
        assert alone == want
        assert later == want
        assert (collectives, sent) == (1, HEAD * 8)
        assert one_by_one == 1  # one read for all members: other ranks may have counted since the collection was read
        assert again == 1  # and a second question is a new read


def test_lightnings_order_costs_one_collective():
    def work(rank):
        metrics = tally()
        out = []
        for epoch in range(2):
            if rank or epoch:
                metrics.update(**batch(rank + 2 * epoch))
            with counted() as traffic:
                values = {n: m.compute() for n, m in metrics.items()}
                for m in metrics.values():
                    m.reset()
            out.append((values, traffic.collectives))
        return out

    for (first, one), (second, two) in run_ranks(work):
        assert (one, two) == (1, 1)
        assert first == approx(of_one_process([1]))
        assert second == approx(of_one_process([2, 3]))


def test_extremes_and_moments_cost_one_collective_and_what_is_large_or_grows_one_more():
    def work(rank):
        out = []
        for metric, value in (
            (c.MulticlassConfusionMatrix(num_classes=60), (torch.full((3,), rank), torch.full((3,), 59))),
            (tt.MaxMetric(), (float(rank),)),
            (tt.MinMetric(), (torch.tensor([float(rank), 5.0]),)),
            (tt.CatMetric(), (torch.arange(rank + 1.0),)),
            (r.PearsonCorrCoef(), pairs(rank, 1)),
            (r.PearsonCorrCoef(num_outputs=150), pairs(rank, 150)),
        ):
            metric.update(*value)
            with counted() as traffic:
                result = metric.compute()
            out.append((result, traffic.collectives, metric.fetch().result()))
        return out

    both = [torch.cat(x) for x in zip(pairs(0, 150), pairs(1, 150))]
    want = r.PearsonCorrCoef(num_outputs=150)(*both).tolist()
    one = r.PearsonCorrCoef()(*(torch.cat(x) for x in zip(pairs(0, 1), pairs(1, 1)))).item()
    for matrix, largest, smallest, samples, moments, many in run_ranks(work):
        assert [matrix[0][59][0], matrix[0][59][1], sum(map(sum, matrix[0]))] == [3, 3, 6]
        assert matrix[0] == matrix[2]
        assert largest == [1.0, 1, 1.0]
        assert smallest == [0.0, 1, 0.0]
        assert samples == [[0.0, 0.0, 1.0], 2, [0.0, 0.0, 1.0]]
        assert matrix[1] == 2
        assert moments == [pytest.approx(one), 1, pytest.approx(one)]
        assert many == [pytest.approx(want), 2, pytest.approx(want)]


def pairs(rank, columns):
    g = torch.Generator().manual_seed(rank)
    shape = (7 + rank,) if columns == 1 else (7 + rank, columns)
    return torch.randn(shape, generator=g), torch.randn(shape, generator=g)


def test_numbers_travel_in_float64_without_loss():
    whole = tensor([0, 1, -1, (1 << 63) - 1, -(1 << 63), (1 << 53) + 1])
    assert head.from_floats(head.as_floats(whole), torch.int64).equal(whole)
    broken = tensor([0.1, torch.inf, -torch.inf, 1e-45], dtype=torch.float32)
    assert head.from_floats(head.as_floats(broken), torch.float32).equal(broken)


def test_counts_are_exact_and_sums_keep_infinities():
    huge = [(1 << 61) + 1, -5, (1 << 32) - 1]

    def work(rank):
        metric = c.MulticlassConfusionMatrix(num_classes=1)
        metric.ledger.views()[0].matrix.view(-1)[:3] = tensor(huge)
        metric.ledger.tick()
        states = {}
        with metric.sync_context():
            states = metric.metric_state["matrix"].view(-1)[:3].tolist()
        total = tt.SumMetric(nan_strategy="disable")
        total.update(torch.inf if rank else 1.0)
        return states, total.compute()

    assert run_ranks(work) == [[[2 * x for x in huge], torch.inf]] * 2


def test_members_that_share_on_some_ranks_only_are_read_apart():
    def work(rank):
        metrics = tally()
        metrics.update(**batch(rank))
        out = []
        if rank:  # the others do not know
            metrics["accuracy"].update(tensor([1, 1]), tensor([1, 2]))
        with counted() as traffic:
            out.append({n: m.compute() for n, m in metrics.items()})
        out.append(metrics.compute())
        out.append(metrics.fetch().result())
        for m in metrics.values():
            if m is not metrics["loss"]:
                m.reset()
        if rank:
            metrics.update(**batch(5))
        out.append(metrics.compute())
        return out, traffic.collectives

    want = of_one_process([0, 1])
    alone = c.MulticlassAccuracy(num_classes=5, average="micro")
    for seed in (0, 1):
        alone.update(*list(batch(seed).values())[:2])
    alone.update(tensor([1, 1]), tensor([1, 2]))
    want["accuracy"] = float(alone.compute())
    after = of_one_process([5])
    after["loss"] = (0 + 1 + 5) / 3
    for (one_by_one, whole, later, last), collectives in run_ranks(work):
        assert one_by_one == approx(want)
        assert whole == approx(want)
        assert later["accuracy"] == pytest.approx(want["accuracy"])
        assert later["matrix"] == want["matrix"]
        assert last == approx(after)
        assert collectives == 2


@pytest.mark.parametrize(
    "make, names",
    [
        (lambda r: {"a": c.MulticlassAccuracy(num_classes=5 + (r == 1)), "b": tt.SumMetric()}, ["a is", "num_classes=6", "rank 1:"]),
        (lambda r: {"a": c.MulticlassAccuracy(num_classes=5, average="micro" if r else "macro")}, ["a is", "average='micro'"]),
        (lambda r: {"a": tt.SumMetric(), **({"c": tt.MaxMetric()} if r == 2 else {})}, ["c is MaxMetric", "rank 2:"]),
        (lambda r: dict([("a", tt.SumMetric()), ("c", tt.MeanMetric())][:: 1 if r else -1]), ["order", "rank 0:"]),
    ],
    ids=["argument", "average", "missing", "order"],
)
def test_different_metrics_raise_the_same_on_every_rank(make, names):
    def work(rank):
        metrics = tt.MetricCollection(make(rank))
        try:
            metrics.compute()
        except tt.RankError as error:
            fetched = metrics.fetch()
            try:
                fetched.result()
            except tt.RankError:
                dist.barrier()  # the group still works
                return str(error)
        return None

    found = run_ranks(work, 3)
    for text in found:
        assert not isinstance(text, Raised), text
        assert all(name in text for name in names)
        assert text == found[0]


def test_what_was_kept_out_is_raised_on_every_rank_with_its_first_update():
    def work(rank):
        metric = tt.MetricCollection({"accuracy": c.MulticlassAccuracy(num_classes=3, average="micro")})
        metric.update(tensor([1]), tensor([1]))
        if rank == 1:
            metric["accuracy"].ledger.strict = [False]  # on the CPU an impossible label raises at once: let it pass, as on a device
            metric.update(tensor([1, 2]), tensor([7, 2]))
            metric["accuracy"].ledger.strict = [True]
        out = []
        for read in (metric.compute, lambda: metric.fetch().result(), metric["accuracy"].compute):
            try:
                read()
            except tt.FaultError as error:
                out.append(str(error))
        return out

    for found in run_ranks(work):
        assert len(found) == 3
        assert all("1 value was impossible" in text and "first in update 2" in text for text in found)


def test_scores_read_as_logits_on_one_rank_only_are_reported_on_all():
    def work(rank):
        metric = tt.MetricCollection([c.BinaryAccuracy(), c.BinaryAUROC(thresholds=5)])
        for _ in range(rank + 1):
            metric.update(tensor([0.4, 0.9]) - 3 * rank, tensor([1, 1]))
        out = []
        for read in (metric.compute, lambda: metric.fetch().result(), metric["BinaryAccuracy"].compute):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                read()
            out.append(sorted(str(w.message).partition(" batches had scores outside [0, 1]")[0] for w in found))
        return out

    both = ["BinaryAUROC: 2 of 3", "BinaryAccuracy: 2 of 3"]
    assert run_ranks(work) == [[both, both, both[1:]]] * 2


def test_fetch_does_not_wait_for_the_other_ranks():
    import time

    def work(rank):
        metrics = {"small": tally(), "large": c.MulticlassConfusionMatrix(num_classes=60), "samples": tt.CatMetric()}
        metrics["small"].update(**batch(rank))
        metrics["large"].update(tensor([1]), tensor([59]))
        metrics["samples"].update(tensor([float(rank)]))
        if rank:
            time.sleep(1.5)
        began = time.monotonic()
        fetched = {n: m.fetch(reset=True) for n, m in metrics.items()}
        took = time.monotonic() - began
        ready = [f.ready for f in fetched.values()]
        metrics["small"].update(**batch(7))
        metrics["samples"].update(tensor([9.0]))
        heard = []
        fetched["samples"].then(heard.append)
        try:
            early = fetched["small"].result(timeout=0.05)
        except TimeoutError:
            early = None
        values = {n: f.result() for n, f in fetched.items()}
        return took, ready, early, values, heard, metrics["samples"].compute()

    (took, ready, early, values, heard, after), (_, _, _, other, _, _) = run_ranks(work)
    assert took < 1.0
    assert ready == [False] * 3
    assert early is None
    assert values == other
    assert values["small"]["loss"] == 0.5
    assert values["large"][59][1] == 2
    assert values["samples"] == [0.0, 1.0] == heard[0]
    assert after == [9.0, 9.0]


def test_options_of_a_read():
    def work(rank):
        out = {}
        pair = dist.new_group([0, 1])
        other = dist.new_group([1, 2])
        value = float(rank + 1)

        def total(**options):
            metric = tt.SumMetric(**options)
            metric.update(value)
            return metric

        out["all"] = total().compute()
        out["local"] = total(sync_on_compute=False).compute()
        out["pair"] = total(process_group=pair).compute()
        if rank:
            out["other"] = total(process_group=other).compute()
        from torch.distributed.device_mesh import init_device_mesh

        out["mesh"] = total(process_group=init_device_mesh("cpu", (3,))).compute()
        step = total(dist_sync_on_step=True)
        out["step"] = step(10 * value)
        out["after step"] = step.compute()
        both = tt.MetricCollection({"a": tt.SumMetric(dist_sync_on_step=True)})
        out["steps"] = both(value)["a"]
        out["gathered"] = total(dist_sync_fn=lambda x, group=None: [x, x]).compute()
        out["unavailable"] = total(distributed_available_fn=lambda: False).compute()
        synced = total()
        synced.sync()
        out["synced"] = synced.compute()
        synced.unsync()
        synced.sync_on_compute = False
        out["unsynced"] = synced.compute()
        return out

    found = run_ranks(work, 3)
    for rank, out in enumerate(found):
        assert not isinstance(out, Raised), out
        mine = rank + 1.0
        assert out["all"] == out["mesh"] == out["synced"] == out["steps"] == 6.0
        assert out["local"] == out["unavailable"] == out["unsynced"] == mine
        assert out["pair"] == (3.0 if rank < 2 else mine)
        assert out.get("other", 5.0) == 5.0
        assert (out["step"], out["after step"]) == (60.0, 66.0)
        assert out["gathered"] == 2 * mine


class Everything(tt.Metric):
    """A user's metric with states of every kind."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_state("total", tensor(0.0, dtype=torch.float64), "sum")
        self.add_state("mean", tensor(0.0), "mean")
        self.add_state("best", tensor(-torch.inf), "max")
        self.add_state("least", tensor(torch.inf), "min")
        self.add_state("seen", [], "cat")
        self.add_state("pieces", [], None)
        self.add_state("stacked", tensor(0.0), None)
        self.add_state("longest", [], longest)
        self.add_state("spread", tensor(0.0), spread)

    def update(self, *values):
        x = tensor(values)
        self.total += x.sum()
        self.mean = self.stacked = self.spread = x.mean()
        self.best, self.least = torch.maximum(self.best, x.max()), torch.minimum(self.least, x.min())
        self.seen.append(x)
        self.pieces.append(x)
        self.longest.append(x)

    def compute(self):
        return {n: self.__dict__[n] for n in self._defaults}


def longest(pieces):
    return max(pieces, key=len, default=tensor([]))


def spread(stacked):
    return stacked.max() - stacked.min()


def test_users_states_of_every_kind_uneven_and_empty():
    data = [[(1.0, 2.0), (5.0,)], [(4.0, 8.0, 3.0)], []]

    def work(rank):
        metric = Everything()
        for values in data[rank]:
            metric.update(*values)
        with counted() as traffic:
            value = metric.compute()
        later = metric.fetch(reset=True).result()
        inside = tt.MetricCollection({"user": Everything(), "loss": tt.MeanMetric().bind(value="loss")})
        if rank == 2:
            inside["user"].update(1.0, 2.0)
        with counted() as both:
            joint = inside.compute()
        return value, traffic.collectives, later, metric.update_count, joint["seen"], joint["total"], both.collectives

    for value, collectives, later, updates, seen, total, both in run_ranks(work, 3):
        assert collectives == 2
        assert updates == 0
        assert value == {
            "total": 23.0,
            "mean": pytest.approx(10 / 3),
            "best": 8.0,
            "least": 1.0,
            "seen": [[1.0, 2.0, 5.0, 4.0, 8.0, 3.0]],
            "pieces": [[1.0, 2.0], [5.0], [4.0, 8.0, 3.0]],
            "stacked": [5.0, 5.0, 0.0],
            "longest": [4.0, 8.0, 3.0],
            "spread": 5.0,
        }
        assert {k: v for k, v in later.items() if k != "mean"} == {k: v for k, v in value.items() if k != "mean"}
        assert (seen, total, both) == ([[1.0, 2.0]], 3.0, 2)


def test_repeated_reads_see_what_other_ranks_added_meanwhile():
    def work(rank):
        user, sums = Everything(), tt.SumMetric()
        out = []
        for step in range(3):
            if rank == 1:
                user.update(1.0)
                sums.update(step)
            out.append((user.compute()["total"], sums.compute()))
        return out

    assert run_ranks(work) == [[[1.0, 0.0], [2.0, 1.0], [3.0, 3.0]]] * 2


def test_another_thread_reads_all_ranks_while_each_trains():
    """Cuts of all ranks add up, though each rank is at another step."""

    def work(rank):
        import threading

        metrics, cuts = tally(), []

        def read():
            cuts.extend(metrics.fetch(reset=True).result() for _ in range(15))

        reader = threading.Thread(target=read)
        reader.start()
        for step in range(400 * (rank + 1)):
            metrics.update(**batch(step % 5))
        reader.join()
        cuts.append(metrics.fetch(reset=True).result())
        return [sum(map(sum, cut["matrix"])) for cut in cuts]

    first, second = run_ranks(work)
    assert first == second
    assert len(first) == 16
    assert sum(first) == 8 * 1200
