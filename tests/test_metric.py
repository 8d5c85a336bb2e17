"""The base of users' own metrics, composition, gradients, DDP, and what an import costs and loads."""

import copy
import functools
import gc
import pickle
import subprocess
import sys
import weakref

import pytest
import torch
from cases import elsewhere
from torch import Tensor, nn
from users_metrics import Doubled, Everything, Flipped, Fussy, MeanError, OneState, Percent, Streak

import torchtally as tt
from torchtally import classification as c

X, Y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 6.0])  # |error| 0, 2, 3


# ---- as people write them for torchmetrics
def test_sum_states():
    metric = MeanError()
    assert metric(X, Y) == pytest.approx(5 / 3)
    metric.update(X, X)
    assert metric.compute() == pytest.approx(5 / 6)
    assert metric.update_count == 2 and metric.update_called
    assert metric.metric_state == {"total": torch.tensor(5.0), "count": torch.tensor(6)}
    metric.reset()
    assert metric.update_count == 0 and metric.total == 0 and metric.count == 0
    assert metric(X, Y) == pytest.approx(5 / 3)


@pytest.mark.parametrize(
    "how, default, values, want",
    [
        ("sum", torch.tensor(0.0), ([1.0], [2.0, 3.0], [4.0]), 10.0),
        ("max", torch.tensor(float("-inf")), ([1.0], [5.0, 3.0], [4.0]), 5.0),
        ("min", torch.tensor(float("inf")), ([1.0], [5.0, -3.0], [4.0]), -3.0),
        ("mean", torch.tensor(0.0), ([1.0], [2.0, 4.0], [5.0]), 3.0),
        ("cat", torch.zeros(0), ([1.0], [2.0, 3.0], [4.0]), [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_reductions(how, default, values, want):
    values = [torch.tensor(v) for v in values]
    forward, batches = OneState(how, default), []
    for v in values:
        single = OneState(how, default)
        single.update(v)
        batches.append(single)
        assert forward(v).tolist() == single.compute().tolist()
    assert forward.compute().tolist() == want
    merged = batches[0]
    for other in batches[1:]:
        merged.merge_state(other)
    assert merged.compute().tolist() == want
    assert merged.update_count == 3
    from_dict = OneState(how, default)
    if how != "mean":  # a dict does not say how many updates it stands for
        for other in [OneState(how, default) for _ in values]:
            other.update(values[0])
        from_dict.merge_state({"x": torch.as_tensor(want)})
        assert from_dict.compute().tolist() == want
    # Over ranks, with a faked gather of two.
    synced = OneState(how, default, distributed_available_fn=lambda: True, dist_sync_fn=lambda x, group=None: [x, x + 1])
    synced.update(values[0])
    assert synced.compute().tolist() == {"sum": 3.0, "max": 2.0, "min": 1.0, "mean": 1.5, "cat": [1.0, 2.0]}[how]
    assert synced.x.tolist() == values[0].tolist() if how == "cat" else synced.x == 1.0


def test_reductions_by_none_and_by_a_function():
    def spread(stacked):
        return stacked.amax(0) - stacked.amin(0)

    for how, want in ((None, [3.0, 7.0]), (spread, 4.0)):
        a, b = OneState(how, torch.tensor(0.0)), OneState(how, torch.tensor(0.0))
        assert a(torch.tensor([2.0, 4.0])) == 3.0
        assert a(torch.tensor([3.0])) == 3.0
        b.update(torch.tensor([7.0]))
        assert a.compute() == 3.0  # forward of such states runs update twice and merges nothing
        a.merge_state(b)
        assert a.compute().tolist() == want
        synced = OneState(how, torch.tensor(0.0), distributed_available_fn=lambda: True, dist_sync_fn=lambda x, group=None: [x, x + 4])
        synced.update(torch.tensor(3.0))
        assert synced.compute().tolist() == want


@pytest.mark.parametrize("how", ["cat", None, lambda parts: [torch.cat(parts).flip(0)]])
def test_list_states(how):
    metric = Everything(how)
    for v in ([1.0], [2.0, 3.0], [4.0]):
        assert metric(torch.tensor(v)).tolist() == v
    assert metric.compute().tolist() == [1.0, 2.0, 3.0, 4.0]
    other = Everything(how)
    other.update(torch.tensor([5.0]))
    metric.merge_state(other)
    assert metric.compute().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert metric.update_count == 4
    again = Everything(how)
    again.load_state_dict(metric.state_dict())
    again.update(torch.tensor([6.0]))
    assert again.compute().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert metric.compute().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    synced = Everything(how, distributed_available_fn=lambda: True, dist_sync_fn=lambda x, group=None: [x, x + 10])
    synced.update(torch.tensor([1.0, 2.0]))
    assert sorted(synced.compute().tolist()) == [1.0, 2.0, 11.0, 12.0]
    assert [x.tolist() for x in synced.seen] == [[1.0, 2.0]]
    metric.reset()
    assert metric.compute().tolist() == []


def test_full_state_update_sees_the_whole_state():
    metric = Streak()
    assert [int(metric(torch.tensor(v))) for v in (1.0, 3.0, 2.0, 4.0)] == [1, 1, 1, 1]  # of each batch alone
    assert metric.compute() == 3  # 1, 3 and 4 were better than all before
    assert metric.best == 4.0 and metric.update_count == 4


def test_subclasses_that_call_super():
    class Signed(MeanError):
        def update(self, preds, target):
            super().update(preds * 2, target)

        def compute(self):
            return super().compute() + 1

    metric = Signed()
    assert metric(X, Y) == pytest.approx((1 + 4 + 0) / 3 + 1)
    metric.update(X, Y)
    assert metric.update_count == 2
    assert metric.compute() == pytest.approx(5 / 3 + 1)
    percent, flipped = Percent(3, average="micro"), Flipped(3, average="micro")
    p, y = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2])
    assert percent(p, y) == percent.compute() == 75.0
    assert flipped(p, y) == flipped.compute() == 0.25
    assert percent.update_count == flipped.update_count == 1
    with pytest.raises(tt.FaultError, match="Flipped"):
        flipped.update(p + 5, y)
    assert flipped.update_count == 1


def test_a_forward_of_its_own():
    metric = Doubled()
    assert metric(X) == 12.0
    assert metric.compute() == 6.0
    assert metric.update_count == 1


def test_states_keep_their_dtype_and_update_their_code():
    class Running(tt.Metric):
        def __init__(self):
            super().__init__()
            self.add_state("total", torch.zeros(2, dtype=torch.float64), "sum")
            self.add_state("hits", torch.zeros(3, dtype=torch.int32), "sum")
            self.window = 3  # plain attributes stay plain

        def update(self, x, *rest, scale=1.0, **more):
            self.total[0] += x.sum() * scale
            self.hits[1] += 1
            self.window += 1

        def compute(self):
            return self.total.sum() + self.hits.sum()

    metric = Running()
    holder = nn.Module()
    holder.m = metric
    holder.half().bfloat16()
    metric.update(torch.ones(2), 1, 2, scale=0.5, other=3)
    assert metric.total.dtype is torch.float64 and metric.hits.dtype is torch.int32
    assert metric.compute() == 2.0
    assert metric.window == 4
    metric.reset()
    assert metric.compute() == 0.0 and metric.window == 4
    metric.set_dtype(torch.float32)
    assert metric.total.dtype is torch.float32 and metric.hits.dtype is torch.int32
    assert tt.MetricCollection({"r": metric})(torch.ones(2), scale=2.0, x2=1)["r"] == 5.0


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda m: m.add_state("not a name", torch.zeros(1)), "not a Python identifier"),
        (lambda m: m.add_state("x", 0.0), "expected a tensor or an empty list"),
        (lambda m: m.add_state("x", [torch.zeros(1)]), "expected a tensor or an empty list"),
        (lambda m: m.add_state("x", torch.zeros(1), "median"), "expected one of"),
        (lambda m: MeanError(sync_on_compute="no"), "expected True or False"),
        (lambda m: MeanError(dist_sync_fn=3), "expected a function"),
        (lambda m: MeanError(distributed_available_fn=True), "expected a function"),
        (lambda m: MeanError(compute_with_cache=1), "expected True or False"),
        (lambda m: MeanError(threshold=1), "unexpected keyword arguments"),
        (lambda m: m.merge_state(3), "expects a metric or a dict"),
        (lambda m: m.merge_state(Everything()), "cannot take the state of Everything"),
        (lambda m: m.merge_state({"total": torch.zeros(())}), r"states \['count'\] are missing"),
        (lambda m: m.bind(loss="x"), "takes"),
    ],
)
def test_wrong_construction_and_use(make, message):
    with pytest.raises(ValueError, match=message):
        make(MeanError())


def test_what_is_not_defined_says_so():
    class Half(tt.Metric):
        def update(self, x):
            pass

    metric = Half()
    metric.update(1)
    with pytest.raises(NotImplementedError, match="Half does not define compute"):
        metric.compute()
    with pytest.raises(NotImplementedError, match="Metric does not define update"):
        tt.Metric().update()
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(MeanError())
    with pytest.raises(AttributeError, match="nothing"):
        MeanError().nothing  # noqa: B018
    with pytest.raises(AttributeError, match="nothing"):
        tt.MeanMetric().nothing  # noqa: B018


def test_a_failed_update_or_value_loses_nothing():
    metric = Fussy()
    metric.update(X, Y)
    for call in (metric.update, metric.forward):
        with pytest.raises(RuntimeError, match="too large"):
            call(X + 1000, Y)
        with pytest.raises(ValueError, match="differ in shape"):
            call(X, Y[:2])
        assert metric.update_count == 1 and metric.total == 5.0
    with pytest.raises(RuntimeError, match="above 10"):
        metric(X + 60, X)  # added; only its value cannot be had
    assert metric.update_count == 2 and metric.total == 185.0
    metric.update(X, X)
    with pytest.raises(RuntimeError, match="above 10"):
        metric.compute()
    for _ in range(10):
        metric.update(X, X)
    assert metric.compute() == pytest.approx(185 / 39)


# ---- over ranks, with a faked gather
def twice(x, group=None):
    return [x, x]


def test_sync_and_unsync():
    metric = MeanError(distributed_available_fn=lambda: True, dist_sync_fn=lambda x, group=None: [x, x + 1])
    metric.update(X, Y)
    metric.sync()
    assert (metric.total, metric.count) == (11.0, 7)
    with pytest.raises(RuntimeError, match="already synced"):
        metric.sync()
    with pytest.raises(RuntimeError, match="unsync before update"):
        metric.update(X, Y)
    assert metric.compute() == pytest.approx(11 / 7)
    metric.unsync()
    assert (metric.total, metric.count) == (5.0, 3)
    with pytest.raises(RuntimeError, match="not synced"):
        metric.unsync()
    with metric.sync_context():
        assert metric.count == 7
    assert metric.count == 3
    with metric.sync_context(should_sync=False):
        assert metric.count == 3
    with pytest.raises(KeyError), metric.sync_context(dist_sync_fn=twice):
        assert metric.count == 6
        raise KeyError
    assert metric.count == 3
    assert metric.compute() == pytest.approx(11 / 7)  # synced again for reading
    assert metric.count == 3
    metric.update(X, Y)
    assert metric.count == 6
    local = MeanError(distributed_available_fn=lambda: True, dist_sync_fn=twice, sync_on_compute=False)
    local.update(X, Y)
    assert local.compute() == pytest.approx(5 / 3)
    with local.sync_context():  # what was computed before is not what the ranks have together
        assert local.count == 6 and local.compute() == pytest.approx(5 / 3)
    with local.sync_context(dist_sync_fn=lambda x, group=None: [x, x + 1]):
        assert local.compute() == pytest.approx(11 / 7)
    assert local.compute() == pytest.approx(5 / 3)
    assert local(X, X) == 0.0
    each = MeanError(distributed_available_fn=lambda: True, dist_sync_fn=lambda x, group=None: [x, x + 1], dist_sync_on_step=True)
    assert each(X, Y) == pytest.approx(11 / 7)
    assert each.count == 3


def test_an_error_in_compute_leaves_the_metric_usable():
    metric = Fussy(distributed_available_fn=lambda: True, dist_sync_fn=twice)
    metric.update(X + 50, X)
    with pytest.raises(RuntimeError, match="above 10"):
        metric.compute()
    assert metric.count == 3
    for _ in range(5):
        metric.update(X, X)
    assert metric.compute() == pytest.approx(150 / 18)


def test_compute_is_cached_until_the_next_update():
    class Costly(MeanError):
        computed = 0

        def compute(self):
            Costly.computed += 1
            return super().compute()

    metric = Costly()
    metric.update(X, Y)
    assert metric.compute() == metric.compute()
    assert Costly.computed == 1
    metric.update(X, X)
    assert metric.compute() == pytest.approx(5 / 6)
    metric(X, X)
    assert metric.compute() == pytest.approx(5 / 9)
    metric.load_state_dict(Costly().state_dict())
    assert metric.compute().isnan()
    metric.reset()
    Costly.computed = 0
    uncached = Costly(compute_with_cache=False)
    uncached.update(X, Y)
    uncached.compute()
    uncached.compute()
    assert Costly.computed == 2


# ---- copies
def test_copies_are_independent():
    metric = MeanError()
    metric.update(X, Y)
    for copied in (copy.deepcopy(metric), metric.clone(), pickle.loads(pickle.dumps(metric))):
        copied.update(X, X)
        assert copied.compute() == pytest.approx(5 / 6)
    assert metric.compute() == pytest.approx(5 / 3)
    before = metric.metric_state["total"].clone()
    state = metric.state_dict()
    metric.update(X, Y)
    assert state["total"] == before


def test_metrics_are_freed_without_the_garbage_collector():
    gc.disable()
    try:
        for make, batch in ((MeanError, (X, Y)), (Everything, (X,)), (Streak, (X[0],)), (Doubled, (X,))):
            metric = make()
            metric(*batch)
            metric.update(*batch)
            metric.compute()
            gone = weakref.ref(metric)
            del metric
            assert gone() is None, make
        tally = tt.MetricCollection({"a": MeanError(), "b": c.BinaryAccuracy(), "e": 1 - c.BinaryAccuracy()})
        tally.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
        tally.compute()
        gone = weakref.ref(tally)
        del tally
        assert gone() is None
    finally:
        gc.enable()


def test_states_made_in_inference_mode():
    with torch.inference_mode():
        metric = MeanError()
        metric.update(X, Y)
        metric(X, Y)
        metric.reset()
        metric.update(X, Y)
    metric.update(X, Y)
    assert metric.compute() == pytest.approx(5 / 3)


# ---- gradients
def test_the_value_of_forward_carries_gradients_and_totals_do_not():
    for make in (MeanError, lambda: MeanError(compute_with_cache=False)):
        metric = make()
        w = torch.tensor(2.0, requires_grad=True)
        loss = metric(w * X, Y)
        loss.backward()
        assert w.grad == pytest.approx(float((X * (2 * X - Y).sign()).mean()))
        assert not metric.total.requires_grad
        assert not metric.compute().requires_grad
        assert not metric._forward_cache.requires_grad
        metric.update(w * X, Y)
        assert not metric.total.requires_grad and not metric.compute().requires_grad
        with torch.no_grad():
            assert not metric(w * X, Y).requires_grad
    everything = Everything()
    assert everything(w * X).requires_grad
    assert not any(x.requires_grad for x in everything.seen)
    tally = tt.MetricCollection({"mine": MeanError(), "n": Everything().bind(value="preds")})
    assert tally(preds=w * X, target=Y)["mine"].requires_grad
    assert not tally.compute()["mine"].requires_grad
    composed = MeanError() * 2
    assert composed(w * X, Y).requires_grad
    assert not composed.compute().requires_grad


def test_no_graph_is_kept_alive():
    leaf = torch.ones(3, requires_grad=True)
    metric, x, graph = Everything(), leaf * 2, weakref.ref(leaf)
    metric(x)
    metric.update(x)
    built_in = tt.MetricCollection({"mean": tt.MeanMetric(), "all": tt.CatMetric(), "max": tt.MaxMetric()})
    built_in(x)
    built_in.update(x)
    del x, leaf
    assert graph() is None  # the graph would hold its leaf


# ---- composition
OPERATORS = [
    (lambda a, b: a + b, 5.0, 1.0),
    (lambda a, b: a - b, 1.0, 1.0),
    (lambda a, b: a * b, 6.0, 1.0),
    (lambda a, b: a / b, 1.5, 1.0),
    (lambda a, b: a // b, 1.0, 1.0),
    (lambda a, b: a % b, 1.0, 1.0),
    (lambda a, b: a**b, 9.0, 1.0),
    (lambda a, b: a < b, False, 1.0),
    (lambda a, b: a <= b, False, 1.0),
    (lambda a, b: a > b, True, 1.0),
    (lambda a, b: a >= b, True, 1.0),
    (lambda a, b: a == b, False, 1.0),
    (lambda a, b: a != b, True, 1.0),
]


@pytest.mark.parametrize("operator, want, _", OPERATORS)
def test_arithmetic_with_metrics_numbers_and_tensors_on_either_side(operator, want, _):
    def three():
        return tt.MaxMetric()

    def two():
        return tt.MinMetric()

    for composed in (
        operator(three(), two()),
        operator(three(), 2),
        operator(three(), 2.0),
        operator(three(), torch.tensor(2.0)),
        operator(3.0, two()),
        operator(3, two()),
        operator(torch.tensor(3.0), two()),
    ):
        assert isinstance(composed, tt.CompositionalMetric)
        composed.update(torch.tensor([2.0, 3.0]))
        assert composed.compute().item() == want
        assert composed(torch.tensor([3.0, 2.0])).item() == want
        assert composed.update_count == 2
        composed.reset()
        assert composed.update_count == 0


def test_integers_and_single_operands():
    def counts(*xs):
        metric = OneState("sum", torch.tensor(0))
        for x in xs:
            metric.update(torch.tensor(x))
        return metric

    assert (counts(6) & counts(3)).compute() == 2
    assert (counts(6) | 1).compute() == 7
    assert (5 ^ counts(6)).compute() == 3
    assert (~counts(6)).compute() == -7
    assert abs(counts(-6)).compute() == 6
    assert (-counts(6)).compute() == -6
    assert (+counts(6)).compute() == 6
    vector = tt.CatMetric()
    vector.update(X)
    assert vector[1].compute() == 2.0
    assert vector[1:].compute().tolist() == [2.0, 3.0]
    assert (vector @ torch.ones(3)).compute() == 6.0
    assert (torch.ones(3) @ vector).compute() == 6.0


def test_one_metric_in_several_places_is_updated_once():
    p, r = c.MulticlassPrecision(3, average="micro"), c.MulticlassRecall(3)
    f = 2 * p * r / (p + r)
    assert f.leaves() == [p, r] or {id(x) for x in f.leaves()} == {id(p), id(r)}
    batch = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2])
    want = 2 * 0.75 * (2.5 / 3) / (0.75 + 2.5 / 3)
    assert f(*batch) == pytest.approx(want)
    assert p.update_count == r.update_count == 1
    f.update(preds=batch[0], target=batch[1])
    assert f.compute() == pytest.approx(want)
    other = pickle.loads(pickle.dumps(f))
    other.update(*batch)
    assert other.update_count == 3 and f.update_count == 2
    f.merge_state(other)
    assert f.update_count == 5 and f.compute() == pytest.approx(want)
    with pytest.raises(ValueError, match="same metrics"):
        f.merge_state(p + 1)
    assert "CompositionalMetric" in repr(f)
    saved = f.state_dict()
    new = 2 * (a := c.MulticlassPrecision(3, average="micro")) * (b := c.MulticlassRecall(3)) / (a + b)
    new.load_state_dict(saved)
    assert new.compute() == pytest.approx(want)
    assert f.fetch().result() == pytest.approx(want)


# ---- inside modules that DDP wraps
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.tally = tt.MetricCollection(
            {"accuracy": c.MulticlassAccuracy(2), "mine": MeanError().bind(preds="target"), "loss": tt.MeanMetric().bind(value="loss")}
        )

    def forward(self, x, y):
        out = self.layer(x)
        loss = nn.functional.cross_entropy(out, y)
        self.tally.update(preds=out, target=y, loss=loss)
        return loss


@pytest.fixture
def one_rank(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_ddp_neither_broadcasts_nor_casts_accumulators(one_rank):
    net = Net()
    wrapped = nn.parallel.DistributedDataParallel(net.bfloat16().float())
    assert not list(net.buffers())
    assert {n for n, _ in wrapped.named_parameters()} == {"module.layer.weight", "module.layer.bias"}
    ledger = net.tally.ledger
    for _ in range(3):
        wrapped(torch.randn(4, 3), torch.tensor([0, 1, 1, 0])).backward()
    assert net.tally.ledger is ledger and net.tally.update_count == 3
    assert {x.dtype for x in ledger.flats.values()} <= {torch.int64, torch.float64}
    assert net.tally["accuracy"].counts.sum() == 12 * 2 + net.tally["accuracy"].counts[0].sum()
    assert set(wrapped.state_dict()) == {"module.layer.weight", "module.layer.bias"}


# ---- torchmetrics' isinstance, and imports
def run(code):
    """Run a script in a fresh interpreter, with this project on its path."""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=env(), timeout=240)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.split()


@functools.cache
def env():
    import os

    import torchtally

    return {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(torchtally.__file__))}


@pytest.mark.parametrize(
    "order",
    [
        pytest.param("import torchtally as tt; import torchmetrics as tm", id="torchtally first"),
        pytest.param("import torchmetrics as tm; import torchtally as tt", id="torchmetrics first", marks=pytest.mark.slow),
    ],
)
def test_our_metrics_are_torchmetrics_metrics(order):
    pytest.importorskip("torchmetrics")
    code = (
        f"{order}\n"
        "from torchmetrics import Metric, MetricCollection\n"
        "class Mine(tt.Metric): pass\n"
        "made = [tt.MeanMetric(), tt.Accuracy(task='binary'), Mine(), tt.MaxMetric() - 1]\n"
        "print(all(isinstance(m, tm.Metric) and isinstance(m, Metric) for m in made), issubclass(tt.Metric, tm.Metric))\n"
        "print(isinstance(tm.MeanMetric(), tt.Metric), isinstance(tt.MetricCollection([tt.MeanMetric()]), tm.Metric))\n"
        "import copy, pickle, sys; print(isinstance(pickle.loads(pickle.dumps(made[0])), tm.Metric))\n"
        "print(sys.modules['torchmetrics.metric'].__spec__.loader.__class__.__name__)\n"
    )
    assert run(code) == ["True", "True", "False", "False", "True", "SourceFileLoader"]


def test_an_import_loads_none_of_the_extras():
    code = (
        "import torch, sys; before = set(sys.modules)\n"
        "import torchtally\n"
        "extras = ['torchmetrics', 'torcheval', 'ignite', 'lightning', 'pytorch_lightning', 'sklearn', 'scipy', 'matplotlib', 'rich', 'typer',"
        " 'jinja2', 'orjson', 'tensorboard', 'torchvision', 'pandas', 'torch._dynamo', 'torch._inductor', 'torchtally.stalls', 'torchtally.bench',"
        " 'torchtally.commands']\n"
        "print(*[m for m in extras if m in sys.modules and m not in before])\n"
        "m = torchtally.MetricCollection({'a': torchtally.MeanMetric(), 'b': torchtally.SumMetric()})\n"
        "m.update(1.0); m.compute(); m.fetch().result()\n"
        "print(*[m for m in extras if m in sys.modules and m not in before])\n"
    )
    assert run(code) == []


@pytest.mark.slow
def test_what_an_import_costs(capsys):
    """A report: milliseconds and megabytes beyond `import torch`. The machine is noisy, so only its order is asserted."""
    code = (
        "import resource, time, torch\n"
        "t, m = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "import torchtally\n"
        "print((time.process_time() - t) * 1000, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - m) / 1024)\n"
    )
    runs = sorted(tuple(map(float, run(code))) for _ in range(3))
    with capsys.disabled():
        print(f"\nimport torchtally adds {runs[1][0]:.0f} ms and {runs[1][1]:.1f} MB to import torch")
    assert runs[0][0] < 1000 and runs[0][1] < 50


def test_a_device_form_of_users_metrics_needs_nothing_of_ours():
    metric = MeanError()
    metric.update(*elsewhere((X, Y)))
    assert isinstance(metric.compute(), Tensor)
    assert float(metric.compute()) == pytest.approx(5 / 3)


def test_states_declared_with_values_start_anew_where_a_module_made_on_meta_is_put():
    class Own(tt.Metric):
        def __init__(self, **where):
            super().__init__()
            self.add_state("total", torch.zeros((), **where), "sum")
            self.add_state("best", torch.tensor(-torch.inf, **where), "max")
            self.add_state("seen", [], "cat")

        def update(self, x):
            self.total += x
            self.best = torch.maximum(self.best, x)
            self.seen.append(x)

        def compute(self):
            return self.total + self.best + len(self.seen)

    with torch.device("meta"):
        model, lost = torch.nn.ModuleList([Own(device="cpu")]), torch.nn.ModuleList([Own()])
    model.to_empty(device="cpu")
    for _ in range(2):
        model[0].update(torch.tensor(3.0))
        assert float(model[0].compute()) == 7.0
        model[0].reset()
    model[0].update(torch.tensor(3.0))
    model.to("meta").to_empty(device="cpu")
    model[0].update(torch.tensor(1.0))
    assert float(model[0].compute()) == 3.0
    with pytest.raises(NotImplementedError, match=r"Own: states \['total', 'best'\] were declared on the meta device.*device='cpu'"):
        lost.to_empty(device="cpu")
