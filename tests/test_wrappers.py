"""What holds for every wrapper, around metrics and around collections."""

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from test_laws import assert_equal, leaves
from torch import tensor
from users_metrics import MeanError

import torchtally as tt
from torchtally import classification as c
from torchtally import wrappers as w
from torchtally.stalls import pretend_cuda
from torchtally.testing import assert_no_stalls


@dataclass(frozen=True)
class Case:
    """A wrapper, batches for it, and its value over the last of them in full. `waits`: forward has to look at the data."""

    name: str
    make: Callable[[], Any]
    batch: Callable[[int, torch.Generator], tuple[Any, ...]]
    reference: Callable[[list[Any]], Any]
    merges: bool = True
    waits: bool = False


def pair(n, g):
    return torch.rand(n, generator=g), torch.randint(0, 2, (n,), generator=g)


def classes(n, g):
    return torch.randn(n, 3, generator=g), torch.randint(0, 3, (n,), generator=g)


def outputs(n, g):
    return torch.randn(n, 2, generator=g), torch.randn(n, 2, generator=g)


def tasks(n, g):
    (a, b), (x, y) = pair(n, g), outputs(n, g)
    return {"class": a, "age": x}, {"class": b, "age": y}


def joined(data):
    return [torch.cat(column) for column in zip(*data)]


def accuracy(preds, target):
    return ((preds > 0.5) == target).double().mean()


def squares(preds, target):
    return ((preds - target) ** 2).mean(0, dtype=torch.float64)


def recall(preds, target):
    return torch.stack([(preds.argmax(1) == target)[target == k].double().mean().nan_to_num() for k in range(3)])


def both():
    return tt.MetricCollection({"a": c.BinaryAccuracy(), "e": MeanError()}, prefix="val_")


def both_of(data):
    preds, target = joined(data)
    return {"val_a": accuracy(preds, target), "val_e": (preds - target).abs().mean()}


def flipped(preds):
    return 1 - preds


CASES = [
    Case("Running", lambda: w.Running(c.BinaryAccuracy(), 3), pair, lambda data: accuracy(*joined(data[-3:]))),
    Case("Running-moments", lambda: w.Running(tt.PearsonCorrCoef(), 2), pair, lambda data: torch.corrcoef(torch.stack(joined(data[-2:])).double())[0, 1]),
    Case("Running-users", lambda: w.Running(MeanError(), 2), pair, lambda data: (joined(data[-2:])[0] - joined(data[-2:])[1]).abs().mean()),
    Case("Running-collection", lambda: w.Running(both(), 2), pair, lambda data: both_of(data[-2:])),
    Case("Running-samples", lambda: w.Running(tt.CatMetric(), 2), lambda n, g: pair(n, g)[:1], lambda data: joined(data[-2:])[0]),
    Case("RunningMean", lambda: w.RunningMean(2), lambda n, g: pair(n, g)[:1], lambda data: joined(data[-2:])[0].double().mean()),
    Case("RunningSum", lambda: w.RunningSum(100), lambda n, g: pair(n, g)[:1], lambda data: joined(data)[0].double().sum()),
    Case("MinMax", lambda: w.MinMaxMetric(c.BinaryAccuracy()), pair, lambda data: dict.fromkeys(("raw", "max", "min"), accuracy(*joined(data)))),
    Case("Classwise", lambda: w.ClasswiseWrapper(c.MulticlassRecall(3, average=None), ["x", "y", "z"]), classes, lambda data: dict(zip("xyz", recall(*joined(data))))),
    Case("Multioutput", lambda: w.MultioutputWrapper(tt.MeanSquaredError(), 2), outputs, lambda data: squares(*joined(data))),
    Case("Multioutput-whole", lambda: w.MultioutputWrapper(tt.MeanSquaredError(), 2, remove_nans=False), outputs, lambda data: squares(*joined(data))),
    Case("Multioutput-collection", lambda: w.MultioutputWrapper(tt.MetricCollection([tt.MeanSquaredError()]), 2, remove_nans=False), outputs, lambda data: {"m": squares(*joined(data))}),
    Case("Multitask", lambda: w.MultitaskWrapper({"class": both(), "age": tt.MeanSquaredError()}), tasks, lambda data: {
        "class": both_of([(p["class"], t["class"]) for p, t in data]), "age": squares(*joined([(p["age"], t["age"]) for p, t in data])).mean()}),
    Case("Lambda", lambda: w.LambdaInputTransformer(both(), flipped), pair, lambda data: both_of([(1 - p, t) for p, t in data])),
    Case("BinaryTarget", lambda: w.BinaryTargetTransformer(c.BinaryAccuracy(), 0.5), pair, lambda data: accuracy(*joined(data))),
]  # fmt: skip
every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def batches(case, count=4, size=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [case.batch(size + k, generator) for k in range(count)]


def fed(case, data, metric=None):
    metric = metric or case.make()
    for batch in data:
        metric.update(*batch)
    return metric


def numbers(value):
    return [torch.as_tensor(x, dtype=torch.float64) for x in torch.utils._pytree.tree_leaves(value)]


def same(got, want, tolerance=1e-6):
    assert_equal(numbers(got), numbers(want), tolerance)


@every
def test_the_value_is_that_of_the_definition(case):
    data = batches(case)
    metric = fed(case, data)
    same(metric.compute(), case.reference(data))
    assert all(x.dtype in (torch.float32, torch.int64) for x in leaves(metric.compute()))
    same(metric.fetch().result(), case.reference(data))
    metric.reset()
    assert metric.update_count == 0
    if case.name == "MinMax":  # the extremes are of the whole experiment
        metric.reset_all()
    same(fed(case, data[:1], metric).compute(), case.reference(data[:1]))


@every
def test_forward_gives_the_value_of_the_batch_and_accumulates(case):
    data = batches(case)
    metric = case.make()
    for batch in data:
        value = metric(*batch)
        if case.name == "MinMax":
            value, want = value["raw"], case.reference([batch])["raw"]
        else:
            want = case.reference([batch])
        same(value, want)
    if case.name != "MinMax":
        same(metric.compute(), case.reference(data))


@every
@pytest.mark.parametrize("how", ["pickle", "deepcopy", "clone", "state_dict", "save", "half"])
def test_wrappers_survive(case, how, tmp_path):
    data = batches(case)
    metric = fed(case, data[:3])
    if how == "pickle":
        other = pickle.loads(pickle.dumps(metric))
    elif how == "deepcopy":
        other = copy.deepcopy(metric)
    elif how == "clone":
        other = metric.clone()
    elif how == "half":
        other = torch.nn.ModuleDict({"m": metric}).half()["m"]
    else:
        other = case.make()
        metric.persistent(True)
        if how == "save":
            tt.save(metric, tmp_path / "m.pt")
            states = tt.load(tmp_path / "m.pt")
        else:
            file = io.BytesIO()
            torch.save(metric.state_dict(), file)
            file.seek(0)
            states = torch.load(file, weights_only=True)
        other.load_state_dict(states)
        other.load_state_dict(states)
    same(fed(case, data[3:], other).compute(), case.reference(data))
    if other is not metric:
        same(metric.compute(), case.reference(data[:3]))


@every
def test_nothing_waits(case):
    data = batches(case)
    with pretend_cuda():
        moved = [tuple(torch.utils._pytree.tree_map(lambda x: x.cuda(), batch)) for batch in data]
        metric = case.make().to("cuda")
        assert metric.device.type == "cuda"
        with assert_no_stalls():
            for batch in moved:
                metric.update(*batch)
            if not case.waits:
                metric(*moved[0])
            metric.reset()
            for batch in moved:
                metric.update(*batch)
            pending = None if case.name in ("Running-samples", "MinMax") else metric.fetch()
        same((pending or fed(case, moved, case.make().to("cuda")).fetch()).result(), case.reference(data))
        if case.name == "MinMax":
            with assert_no_stalls():
                metric.fetch()
        same([x.cpu() for x in leaves(fed(case, moved, case.make().to("cuda")).compute())], case.reference(data))


@every
def test_wrappers_in_a_collection(case):
    data = batches(case)
    for how in ("update", "forward"):
        tally = tt.MetricCollection({"w": case.make(), "again": case.make()}, postfix="!")
        for batch in data:
            tally.update(*batch) if how == "update" else tally(*batch)
        if case.name == "MinMax" and how == "forward":
            continue  # every forward is a reading
        same(tally.compute(), [case.reference(data)] * 2)
        same(tally.fetch(reset=True).result(), [case.reference(data)] * 2)
        assert tally.update_count == 0
        again = pickle.loads(pickle.dumps(tally))
        same(fed(case, data, again).compute(), [case.reference(data)] * 2)
        other = tt.MetricCollection({"w": case.make(), "again": case.make()}, postfix="!")
        other.load_state_dict(again.state_dict())
        same(other.compute(), [case.reference(data)] * 2)


@every
def test_a_merge_of_parts_is_the_whole(case):
    data = batches(case, 2)
    a, b = fed(case, data[:1]), fed(case, data[1:])
    a.merge_state(b)
    same(a.compute(), case.reference(data))
    other = fed(case, data[:1])
    b.persistent(True)
    other.merge_state(b.state_dict())
    same(other.compute(), case.reference(data))
    with pytest.raises((ValueError, TypeError)):
        a.merge_state(w.ClasswiseWrapper(tt.CatMetric()) if case.name != "Classwise" else w.RunningMean())


@every
def test_a_refused_batch_changes_nothing(case):
    data = batches(case)
    if len(data[0]) == 1:
        return  # takes anything
    metric = fed(case, data)
    bad = data[0]
    bad = ({**bad[0], "age": bad[0]["age"][:2]}, bad[1]) if isinstance(bad[0], dict) else (bad[0], bad[1][:2])
    for call in (metric.update, metric):
        with pytest.raises((ValueError, RuntimeError)):
            call(*bad)
    same(metric.compute(), case.reference(data))


def test_isinstance_and_names():
    for case in CASES:
        assert isinstance(case.make(), w.WrapperMetric)
        assert case.make().__class__.__name__ in repr(case.make())
    assert issubclass(tt.MeanMetric, w.BaseAggregator)
    assert tt.aggregation.RunningMean is tt.RunningMean is w.RunningMean
    assert not isinstance(tt.MeanMetric(), w.WrapperMetric)


def test_rows_that_do_not_count():
    data = pair(6, torch.Generator().manual_seed(0))
    for make in (
        lambda: w.MinMaxMetric(c.BinaryAccuracy()),
        lambda: w.Running(c.BinaryAccuracy(), 3),
        lambda: w.LambdaInputTransformer(c.BinaryAccuracy()),
    ):
        for valid in (4, torch.arange(6) < 4):
            metric = make()
            metric.update(*data, valid=valid)
            value = metric.compute()
            same(value["raw"] if isinstance(value, dict) else value, accuracy(data[0][:4], data[1][:4]))


def test_extremes_are_those_of_all_readings():
    metric = w.MinMaxMetric(c.BinaryAccuracy())
    assert metric.compute()["min"] == torch.inf  # nothing was seen
    for right, kept in ((2, (0.5, 0.5)), (4, (0.5, 1.0)), (1, (0.25, 1.0))):
        metric.update(tensor([1] * right + [0] * (4 - right)), tensor([1] * 4))
        found = metric.fetch().result()
        assert (found["raw"], found["min"], found["max"]) == (right / 4, *kept)
        metric.reset()
    assert (float(metric.min_val), float(metric.max_val)) == (0.25, 1.0)
    assert list(metric.state_dict()) == ["lowest.0.best", "lowest.0.updates", "highest.0.best", "highest.0.updates"]
    again = w.MinMaxMetric(c.BinaryAccuracy())  # Lightning-AI/torchmetrics#3323
    again.load_state_dict(metric.state_dict())
    again.update(tensor([1]), tensor([1]))
    assert {k: float(x) for k, x in again.compute().items()} == {"raw": 1.0, "min": 0.25, "max": 1.0}
    many = w.MinMaxMetric(tt.MetricCollection([tt.MeanMetric(), tt.MaxMetric()]))
    for x in (2.0, 4.0):
        many.update(x)
        many.compute()
    assert {n: {k: float(x) for k, x in v.items()} for n, v in many.compute().items()} == {
        "MeanMetric": {"raw": 3.0, "max": 3.0, "min": 2.0},
        "MaxMetric": {"raw": 4.0, "max": 4.0, "min": 2.0},
    }
    with pytest.raises(RuntimeError, match="single number"):
        vector = w.MinMaxMetric(c.MulticlassRecall(3, average=None))
        vector.update(tensor([0, 1]), tensor([0, 1]))
        vector.compute()


def test_windows_keep_constant_memory_and_match_a_plain_list():
    for window in (1, 7, 64, 100):
        metric, seen = w.RunningMean(window), []
        slots = sum(x.numel() for x in metric.ring.ledger.flats.values())
        g = torch.Generator().manual_seed(0)
        for step in range(260):
            x = float(torch.randn((), generator=g))
            seen.append(x)
            metric.update(x if step % 3 else tensor([x], dtype=torch.float64))
            if step % 37 == 0:
                metric.update(tensor([x, x + 1.0], dtype=torch.float64))
                seen.append(x + 0.5)
                same(metric.compute(), _window_mean(seen, step, window), 1e-5)
        assert sum(x.numel() for x in metric.ring.ledger.flats.values()) == slots


def _window_mean(seen, step, window):
    """Every 37th step was followed by an update of two numbers."""
    weights = []
    for s in range(step + 1):
        weights += [1.0, 2.0] if s % 37 == 0 else [1.0]
    last = list(zip(seen, weights))[-window:]
    return tensor(sum(x * n for x, n in last) / sum(n for _, n in last))


def test_nan_in_a_window_leaves_with_its_batch():
    metric = tt.RunningMean(2, nan_strategy="error")
    with pytest.raises(tt.FaultError):
        metric.update(float("nan"))
    with pretend_cuda():
        metric = tt.RunningMean(2, nan_strategy="error").to("cuda")
        for x in (1.0, float("nan"), 3.0):
            metric.update(tensor(x).cuda())
        with pytest.raises(tt.FaultError, match="first in update 2"):
            metric.compute()
        metric.update(tensor(5.0).cuda())
        assert metric.compute() == 4.0
        ignoring = tt.RunningSum(2, nan_strategy=10.0).to("cuda")
        for x in (1.0, float("nan"), 3.0):
            ignoring.update(tensor(x).cuda())
        assert ignoring.compute() == 13.0


def test_weights_and_a_bound_name():
    tally = tt.MetricCollection({"loss": tt.Running(tt.MeanMetric().bind(value="loss"), 2), "accuracy": c.BinaryAccuracy()})
    for loss in (9.0, 1.0, 3.0):
        tally.update(loss=loss, preds=tensor([1]), target=tensor([1]))
    assert tally.compute() == {"loss": tensor(2.0), "accuracy": tensor(1.0)}
    metric = tt.RunningMean(2)
    metric.update(1.0, weight=3.0)
    metric.update(5.0, 1.0)
    assert metric.compute() == 2.0


def test_rows_with_nan_do_not_count_for_their_output():
    g = torch.Generator().manual_seed(0)
    preds, target = torch.randn(8, 3, generator=g), torch.randn(8, 3, generator=g)
    preds[1, 0] = target[2, 0] = preds[5, 2] = torch.nan
    want = torch.stack([((p - t) ** 2)[~(p - t).isnan()].mean() for p, t in zip(preds.T, target.T)])
    metric = tt.MultioutputWrapper(tt.MeanSquaredError(), 3)
    same(metric(preds, target), want)
    same(metric.compute(), want)
    same(metric(preds=preds, target=target), want)
    with pretend_cuda():
        device = tt.MultioutputWrapper(tt.MeanSquaredError(), 3).to("cuda")
        moved = preds.cuda(), target.cuda()
        with assert_no_stalls():
            device.update(*moved)
        same(device.fetch().result(), want)
        with assert_no_stalls():
            value = device(*moved)
        same(value.cpu(), want)
        same(device.compute().cpu(), want)
        assert device.update_count == 2
        kept = tt.MultioutputWrapper(tt.MeanSquaredError(), 3).to("cuda")
        kept.update(preds.cuda(), target.cuda(), valid=4)
        first = torch.stack([((p - t) ** 2)[:4][~(p - t)[:4].isnan()].mean() for p, t in zip(preds.T, target.T)])
        same(kept.compute().cpu(), first)
    wide = tt.MultioutputWrapper(tt.MeanSquaredError(), 2, output_dim=0, squeeze_outputs=False)
    wide.update(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0, 2.0], [1.0, 4.0]]))
    assert wide.compute().tolist() == [0.0, 2.0]
    with pytest.raises(ValueError, match="expected 3 outputs"):
        metric.update(preds[:, :2], target[:, :2])
    for wrong in ({"num_outputs": 0}, {"num_outputs": True}, {"remove_nans": 1}, {"squeeze_outputs": None}):
        with pytest.raises(ValueError, match="expected"):
            tt.MultioutputWrapper(tt.MeanSquaredError(), **{"num_outputs": 2, **wrong})


@pytest.mark.parametrize("make", [tt.MeanAbsoluteError, tt.PearsonCorrCoef, tt.R2Score, c.BinaryAccuracy, tt.MaxMetric, c.BinaryAUROC, MeanError])
def test_rows_with_nan_are_left_out_by_all_metrics(make):
    """On a device as on the host; without waiting, but for metrics that keep samples and users' own."""
    g = torch.Generator().manual_seed(0)
    preds, target = torch.rand(9, 2, generator=g), torch.randint(0, 2, (9, 2), generator=g).double()
    preds[1, 0] = preds[4, 1] = preds[7, 1] = torch.nan
    labels = target.long() if make in (c.BinaryAccuracy, c.BinaryAUROC) else target
    batch = (preds,) if make is tt.MaxMetric else (preds, labels)
    want = []
    for k in range(2):
        one = make()
        one.update(*(x[~preds[:, k].isnan(), k] for x in batch))
        want.append(one.compute())
    host = tt.MultioutputWrapper(make(), 2)
    same(host(*batch), torch.stack(want))
    with pretend_cuda():
        device, moved = tt.MultioutputWrapper(make(), 2).to("cuda"), [x.cuda() for x in batch]
        if make is not MeanError:
            with assert_no_stalls():
                device.update(*moved)
            same(device.compute().cpu(), torch.stack(want), 1e-5)
        with assert_no_stalls(at_most=0 if device.by_rows is not None else 20):
            same_value = device(*moved)
        same(same_value.cpu(), torch.stack(want), 1e-5)
        assert (device.by_rows is None) == (make in (c.BinaryAUROC, MeanError, tt.R2Score))
        padded = tt.MultioutputWrapper(make(), 2).to("cuda")
        padded.update(*moved, valid=torch.arange(9).cuda() < 6)
        cut = tt.MultioutputWrapper(make(), 2)
        cut.update(*(x[:6] for x in batch))
        same(padded.compute().cpu(), cut.compute(), 1e-5)


def test_class_names_around_collections():
    metric = tt.ClasswiseWrapper(
        tt.MetricCollection({"r": c.MulticlassRecall(2, average=None), "p": c.MulticlassPrecision(2, average=None)}), ["x", "y"]
    )
    metric.update(tensor([0, 1]), tensor([0, 1]))
    assert list(metric.compute()) == ["r_x", "r_y", "p_x", "p_y"]
    named = tt.ClasswiseWrapper(c.MulticlassRecall(2, average=None), prefix="recall-", postfix="-val")
    assert list(named.compute()) == ["recall-0-val", "recall-1-val"]
    with pytest.raises(ValueError, match="3 labels were given but the metric has 2"):
        tt.ClasswiseWrapper(c.MulticlassRecall(2, average=None), ["x", "y", "z"]).compute()
    with pytest.raises(ValueError, match="average=None"):
        tt.ClasswiseWrapper(c.MulticlassRecall(2)).compute()


@pytest.mark.parametrize(
    "make",
    [
        lambda: w.Running(3),
        lambda: w.Running(tt.MeanMetric(), 0),
        lambda: w.MinMaxMetric("accuracy"),
        lambda: w.ClasswiseWrapper(tt.MeanMetric(), labels="ab"),
        lambda: w.ClasswiseWrapper(tt.MeanMetric(), prefix=3),
        lambda: w.MultioutputWrapper(tt.MeanMetric(), 0),
        lambda: w.MultitaskWrapper({"a": tt.MeanMetric()}, prefix=1),
        lambda: tt.MetricTracker(tt.MeanSquaredError(), maximize="yes"),
        lambda: tt.MetricTracker(tt.MeanSquaredError(), maximize=[False]),
        lambda: tt.MetricTracker(both(), maximize=[False]),
        lambda: tt.MetricTracker(tt.MeanMetric()),
        lambda: w.MultitaskWrapper({"a": tt.MeanMetric()}).update({"a": 1.0}, {"b": 1.0}),
    ],
)
def test_wrong_arguments_say_what_was_expected(make):
    with pytest.raises(ValueError, match=r"expected|maximize="):
        make()


def test_wrong_types_of_tasks_and_transforms():
    for make in (
        lambda: w.MultitaskWrapper([tt.MeanMetric()]),
        lambda: w.MultitaskWrapper({"a": 3}),
        lambda: w.LambdaInputTransformer(tt.MeanMetric(), 3),
        lambda: w.BinaryTargetTransformer(tt.MeanMetric(), "a"),
        lambda: tt.MetricTracker(3),
    ):
        with pytest.raises(TypeError, match="expected"):
            make()


def test_tasks_are_named():
    metric = w.MultitaskWrapper({"a": tt.MeanSquaredError(), "b": both()}, prefix="x_", postfix="_y")
    assert list(metric.keys()) == ["x_a_y", "x_b_val_a_y", "x_b_val_e_y"]
    assert list(metric.keys(flatten=False)) == ["x_a_y", "x_b_y"]
    assert len(list(metric.values())) == 3
    assert list(metric.clone(prefix="z_").keys(flatten=False)) == ["z_a_y", "z_b_y"]


@every
def test_inference_mode_and_outside_mix(case):
    data = batches(case)
    with torch.inference_mode():
        metric = case.make()
        metric.update(*data[0])
        metric(*data[0])
        metric.compute()
        other = metric.clone()
        metric.reset()
        metric.update(*data[0])
    metric.update(*data[1])
    other.update(*data[1])
    other.reset()
    if case.name != "MinMax":  # it was read
        same(metric.compute(), case.reference(data[:2]))


@every
def test_wrappers_are_freed_without_the_garbage_collector_and_hold_no_graph(case):
    metric = case.make()
    for batch in batches(case):
        tracked = torch.utils._pytree.tree_map(lambda x: x.requires_grad_() * 1 if x.is_floating_point() else x, batch)
        metric.update(*tracked)
    metric(*tracked)
    value = metric.compute()
    metric.fetch().result()
    assert not any(x.requires_grad for x in leaves(value))
    assert not any(x.requires_grad for x in leaves(metric.metric_state))
    gone = weakref.ref(metric)
    gc.disable()
    try:
        del metric
        assert gone() is None
    finally:
        gc.enable()
