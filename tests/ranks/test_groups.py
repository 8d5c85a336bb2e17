"""Metrics over other ranks than all: groups, meshes, and members of one collection that differ in them."""

import time

import pytest
import torch
from torch import distributed as dist
from torch import nn, tensor
from users_metrics import Total

import torchtally as tt
from ranks.harness import Raised, run_ranks
from torchtally import classification as c
from torchtally.wire import counted

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this build of PyTorch has no torch.distributed")
shards = pytest.mark.skipif(not hasattr(torch.cpu.Stream, "record_event"), reason="`fully_shard` of this PyTorch, as of 2.6, needs a device")


@pytest.fixture(scope="module")
def loaded():
    """What the forks need, imported once."""
    import torch.distributed.checkpoint.state_dict
    import torch.distributed.fsdp
    import torch.utils.checkpoint

    torch.optim.SGD([torch.zeros(1)], 0.1)  # imports the compiler


class Twice(tt.Metric):
    """A user's metric around another."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def update(self, x):
        self.inner.update(x)

    def compute(self):
        return 2 * self.inner.compute()

    def reset(self):
        super().reset()
        self.inner.reset()


def test_members_are_read_over_their_own_ranks(loaded):
    def work(rank):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
        metrics = tt.MetricCollection(
            {
                "across": tt.SumMetric(process_group=mesh["data"]),
                "along": tt.SumMetric(process_group=mesh["model"]),
                "again": tt.MeanMetric(process_group=mesh["data"]).bind(value="value"),
                "all": tt.SumMetric(),
                "mine": tt.SumMetric(sync_on_compute=False),
                "user": Total(process_group=mesh["model"]).bind(x="value"),
            }
        )
        metrics.update(value=float(rank))
        with counted() as traffic:
            values = metrics.compute()
        fetched = metrics.fetch(reset=True)
        metrics.update(value=100.0)
        whole = metrics.over_ranks().compute()
        try:
            tt.SumMetric(process_group=mesh).compute()
        except ValueError as error:
            said = str(error)
        return values, fetched.result(), traffic.collectives, whole, said

    for rank, found in enumerate(run_ranks(work, 4)):
        assert not isinstance(found, Raised), found
        values, fetched, collectives, whole, said = found
        across, along = float(rank % 2 * 2 + 2), (1.0 if rank < 2 else 5.0)
        assert values == {"across": across, "along": along, "again": across / 2, "all": 6.0, "mine": float(rank), "user": along}
        assert fetched == values
        assert whole == {"across": 200.0, "along": 200.0, "again": 100.0, "all": 400.0, "mine": 100.0, "user": 200.0}
        assert collectives <= 6
        assert "('data', 'model')" in said


def test_a_member_whose_ranks_are_others_changes_nothing_for_the_rest(tmp_path):
    def work(rank):
        pair, single = dist.new_group([0, 1]), [dist.new_group([r]) for r in range(3)][rank]
        metrics = tt.MetricCollection(
            {
                "pair": tt.SumMetric(process_group=pair),
                "single": tt.SumMetric(process_group=single),
                "all": tt.SumMetric(),
                "user": Total().bind(x="value"),
            }
        )
        metrics.update(value=float(rank + 1))
        values, fetched = metrics.compute(), metrics.fetch().result()
        tt.save(metrics, tmp_path / "totals.pt", reduce=True)
        dist.barrier()
        again = metrics.clone()
        again.load_state_dict(tt.load(tmp_path / "totals.pt"), spread=True)
        return values, fetched, again.compute()["all"], again.compute()["pair"]

    for rank, (values, fetched, every, pair) in enumerate(run_ranks(work, 3)):
        assert values == fetched == {"pair": 3.0, "single": rank + 1.0, "all": 6.0, "user": 6.0}
        assert (every, pair) == (6.0, 3.0)


def test_a_rank_outside_of_a_group_reads_its_own_and_saves_nothing(tmp_path):
    def work(rank):
        from torch.distributed.device_mesh import DeviceMesh

        out = []
        for n, group in enumerate((dist.new_group([1, 2]), DeviceMesh("cpu", [1, 2]))):
            metric = tt.MetricCollection({"sum": tt.SumMetric(process_group=group, timeout=20.0)})
            metric.update(rank + 1.0)
            if rank == 0:
                time.sleep(0.5)  # who writes last would win
            tt.save(metric, tmp_path / f"{n}.pt", reduce=True)
            out += [metric.compute()["sum"], metric.fetch().result()["sum"]]
            dist.barrier()
            out.append(tt.load(tmp_path / f"{n}.pt")["sum.total"])
        metric.add_metrics({"all": tt.SumMetric()})
        try:
            tt.save(metric, tmp_path / "both.pt", reduce=True)
        except ValueError as error:
            out.append(str(error).partition(", which")[0])
        return out

    outside = [1.0, 1.0, 5.0, 1.0, 1.0, 5.0, "torchtally.save: the first of all ranks has no totals of ['sum']"]
    assert run_ranks(work, 3) == [outside, [5.0] * 6, [5.0] * 6]


def test_what_is_made_of_other_metrics_is_fetched_without_waiting():
    def work(rank):
        hits, seen = tt.SumMetric(), tt.SumMetric()
        metrics = tt.MetricCollection({"share": hits / seen, "twice": Twice(tt.SumMetric()), "user": Total(), "sum": tt.SumMetric()})
        alone, wrapped = hits.clone() + 1.0, Twice(Total())
        hits.update(float(rank))
        seen.update(2.0)
        alone.update(1.0)
        wrapped.update(3.0)
        metrics["twice"].update(float(rank + 1))
        if rank:
            time.sleep(1.0)
        began = time.monotonic()
        fetched = [metrics.fetch(reset=True), alone.fetch(), wrapped.fetch(reset=True)]
        took, ready = time.monotonic() - began, [f.ready for f in fetched]
        metrics["twice"].update(50.0)
        wrapped.update(50.0)
        return took, ready, [f.result() for f in fetched], metrics["twice"].compute(), wrapped.compute()

    first, second = run_ranks(work)
    assert not isinstance(first, Raised), first
    took, ready, *values = first
    assert took < 0.9
    assert ready == [False] * 3
    assert values == second[2:]
    (in_collection, alone, wrapped), twice, wrapped_later = values
    assert in_collection == {"share": 0.25, "twice": 6.0, "user": 0.0, "sum": 0.0}
    assert (alone, wrapped) == (3.0, 12.0)
    assert (twice, wrapped_later) == (200.0, 200.0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.accuracy = c.MulticlassAccuracy(num_classes=3, average="micro")
        self.accuracy.persistent(True)
        self.error = c.MulticlassConfusionMatrix(num_classes=3)
        self.tally = tt.MetricCollection({"loss": tt.MeanMetric().bind(value="loss"), "matrix": c.MulticlassConfusionMatrix(num_classes=3)})

    def forward(self, x, y):
        out = self.layer(x)
        loss = nn.functional.cross_entropy(out, y)
        self.accuracy.update(out, y)
        self.tally.update(loss=loss, preds=out, target=y)
        return loss


def trained(model, rank):
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(2):
        g = torch.Generator().manual_seed(10 * rank + step)
        model(torch.randn(5, 4, generator=g), torch.randint(0, 3, (5,), generator=g)).backward()
        optimiser.step()
        optimiser.zero_grad()
    return model


def ddp(rank):
    return nn.parallel.DistributedDataParallel(Net())


def fsdp(rank):
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(Net(), device_id=torch.device("cpu"))


def fully_sharded(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = Net(), init_device_mesh("cpu", (2,))
    fully_shard(model.layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def from_meta(rank):
    with torch.device("meta"):
        model = Net()
    model.to_empty(device="cpu")
    model.layer.reset_parameters()
    return nn.parallel.DistributedDataParallel(model)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("wrap", [ddp, fsdp, pytest.param(fully_sharded, marks=shards), from_meta])
def test_metrics_inside_of_models_that_are_wrapped(wrap, loaded):
    def work(rank):
        torch.manual_seed(0)
        model = trained(wrap(rank), rank)
        inner = getattr(model, "module", model)
        saved = {n.removeprefix("module.") for n in model.state_dict()}
        return (
            inner.accuracy.update_count,
            inner.tally.compute()["matrix"].sum(),
            inner.tally.fetch().result()["loss"],
            inner.tally["loss"].compute(),
            saved,
        )

    for found in run_ranks(work):
        assert not isinstance(found, Raised | str), found
        updates, seen, fetched, loss, saved = found
        assert (updates, seen) == (2, 20)
        assert fetched == pytest.approx(loss)
        assert set(saved) == {"layer.weight", "layer.bias"} | {f"accuracy.{n}" for n in ("bad", "first_bad", "hit", "seen", "updates")}


@shards
@pytest.mark.filterwarnings("default")
def test_checkpoints_of_sharded_models_hold_what_is_persistent(tmp_path, loaded):
    def work(rank):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

        torch.manual_seed(0)
        model = trained(fully_sharded(rank), rank)
        model.tally.persistent(True)
        states = get_model_state_dict(model)
        mine = model.accuracy.metric_state["hit"].clone()
        totals = {"tally": model.tally.state_dict(reduce=True)}
        dcp.save(totals, checkpoint_id=tmp_path / "totals")
        model.accuracy.reset()
        set_model_state_dict(model, states)
        other = Net().tally
        into = {"tally": other.state_dict()}
        dcp.load(into, checkpoint_id=tmp_path / "totals")
        other.load_state_dict(into["tally"], spread=True)
        return (
            mine,
            model.accuracy.metric_state["hit"],
            other.compute()["matrix"].sum(),
            other["loss"].compute(),
            model.tally["loss"].compute(),
        )

    for found in run_ranks(work):
        assert not isinstance(found, Raised | str), found
        before, after, seen, loss, want = found
        assert before == after
        assert seen == 20
        assert loss == pytest.approx(want)


def test_entries_of_a_state_dict_are_attributes_too():
    """What saves sharded models looks each up by name."""
    from functools import reduce

    for metric, batch in ((tt.NormalizedRootMeanSquaredError(), (tensor([1.0, 2.0]), tensor([1.0, 3.0]))), (tt.MeanMetric(), (1.0,))):
        metric.update(*batch)
        for name, value in metric.state_dict().items():
            assert torch.equal(reduce(getattr, name.split("."), metric), value)
