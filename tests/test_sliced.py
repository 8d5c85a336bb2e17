"""Sliced: one metric for each slice of the data, and the total."""

import copy
import pickle

import cases
import pytest
import torch
import torch._dynamo.testing
from cases import CASES
from test_laws import assert_equal
from test_wrappers import both, numbers
from torch import tensor
from torch.utils._python_dispatch import TorchDispatchMode
from users_metrics import MeanError

import torchtally as tt
from torchtally import classification as c
from torchtally import wrappers as w
from torchtally.stalls import pretend_cuda
from torchtally.testing import assert_no_stalls
from torchtally.wrappers.by_rows import by_row

NAMES = ["de", "en", "fr"]
METRICS = {
    "rows": lambda: c.BinaryAccuracy(from_logits=False),
    "errors": lambda: tt.MeanAbsoluteError(),
    "counts": lambda: c.BinaryAccuracy(),
    "moments": lambda: tt.PearsonCorrCoef(),
    "samples": lambda: c.BinaryAUROC(),
    "extremes": lambda: tt.MaxMetric().bind(value="preds"),
    "users": lambda: MeanError(),
    "collection": lambda: both(),
}
every = pytest.mark.parametrize("name", METRICS)


def batches(count=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    sizes = [5 + k for k in range(count)]
    return [
        {
            "preds": torch.rand(n, generator=g),
            "target": torch.randint(0, 2, (n,), generator=g),
            "index": torch.randint(0, 3, (n,), generator=g),
        }
        for n in sizes
    ]


def sliced(name, data=(), slices=NAMES, **options):
    metric = w.Sliced(METRICS[name](), slices=slices, **options)
    for batch in data:
        metric.update(**batch)
    return metric


def reference(name, data, extra=()):
    """A metric for each slice, given its rows only."""
    out = {}
    for place, label in [*enumerate(NAMES), (None, "total")]:
        metric = METRICS[name]()
        for batch in data:
            rows = batch["index"].eq(place) if place is not None else batch["index"].ge(0) & batch["index"].lt(3)
            if rows.any():
                entry = {k: x[rows] for k, x in batch.items() if k != "index"}
                metric.update(**({"value": entry["preds"]} if name == "extremes" else entry))
        value = metric.compute()
        out |= {f"{label}_{k}": x for k, x in value.items()} if isinstance(value, dict) else {label: value}
    return out


def same(got, want, tolerance=1e-6):
    assert list(got) == list(want)
    assert_equal(numbers(got), numbers(want), tolerance)


@every
def test_each_slice_has_its_own_value_and_the_total_that_of_all(name):
    data = batches()
    metric = sliced(name, data)
    same(metric.compute(), reference(name, data))
    same(metric.fetch().result(), reference(name, data))
    assert metric.update_count == 4
    assert list(sliced(name, data, total=False).compute()) == list(reference(name, data))[: 6 if name == "collection" else 3]
    metric.reset()
    assert metric.update_count == 0
    metric.update(**data[0])
    if name != "moments":
        same(metric.compute(), reference(name, data[:1]))


@every
def test_forward_gives_the_values_of_the_batch(name):
    data = batches()
    metric = sliced(name)
    for batch in data:
        value = metric(**batch)
        if name not in ("moments", "users", "samples"):
            same(value, reference(name, [batch]))
    same(metric.compute(), reference(name, data))


@every
def test_slices_survive_and_merge(name):
    data = batches()
    for survive in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        other = survive(sliced(name, data[:2]))
        for batch in data[2:]:
            other.update(**batch)
        same(other.compute(), reference(name, data))
    loaded = sliced(name)
    loaded.load_state_dict(sliced(name, data[:2]).state_dict())
    loaded.merge_state(sliced(name, data[2:]))
    same(loaded.compute(), reference(name, data))
    with pytest.raises(ValueError, match="expected"):
        loaded.merge_state(sliced(name, slices=["a", "b", "c"]))


@every
def test_nothing_waits_on_a_device(name):
    data = batches()
    with pretend_cuda():
        moved = [{k: x.cuda() for k, x in batch.items()} for batch in data]
        metric = sliced(name).to("cuda")
        with assert_no_stalls():
            for batch in moved:
                metric.update(**batch)
            if metric._stacked and metric.slots.at_once:
                metric(**moved[0])
                metric.reset()
                for batch in moved:
                    metric.update(**batch)
            pending = metric.fetch() if name != "samples" else None
        same((pending or metric.fetch()).result(), reference(name, data), 1e-5)
        here = sliced(name).to("cuda")
        with assert_no_stalls():
            for batch, host in zip(moved, data):
                here.update(**{**batch, "index": host["index"]})
        same(here.fetch().result(), reference(name, data), 1e-5)


def test_the_device_may_be_far_behind(monkeypatch):
    """Batches whose index has not come yet are kept, and nothing that reads or saves loses them."""
    data = batches(6)
    want = reference("samples", data)
    with pretend_cuda():
        monkeypatch.setattr("torchtally.valid.Unseen.here", False)
        moved = [{k: x.cuda() for k, x in batch.items()} for batch in data]
        for read in (
            lambda m: m.compute(),
            lambda m: pickle.loads(pickle.dumps(m)).compute(),
            lambda m: _reloaded(m.state_dict()),
            lambda m: m.to("cpu").compute(),
            lambda m: tt.MetricCollection({"m": m}).compute(),
            lambda m: _merged(m),
        ):
            metric = sliced("samples").to("cuda")
            for batch in moved:
                metric.update(**batch)
            assert len(metric._waiting) == 6
            assert metric.update_count == 6
            same({n: x.cpu() for n, x in read(metric).items()}, want)
        metric = sliced("samples").to("cuda")
        metric.update(**moved[0])
        metric.reset()
        assert metric.update_count == 0


def _reloaded(states):
    metric = sliced("samples")
    metric.load_state_dict(states)
    return metric.compute()


def _merged(metric):
    other = sliced("samples").to("cuda")
    other.merge_state(metric)
    return other.compute()


@pytest.mark.parametrize("batched", [False, True], ids=["one", "more"])
def test_the_whole_batch_tells_whether_scores_are_logits(batched):
    """Rows of one slice between 0 and 1 are logits where another slice has some outside, on the host and on a device alike."""
    preds, target, index = tensor([0.2, 0.4, -3.0, 2.0, 0.6]), tensor([1, 0, 0, 1, 0]), tensor([0, 0, 1, 1, 0])
    right = torch.tensor([True, False, True, True, False])  # above 0, as logits
    want = {"de": right[index == 0].float().mean(), "en": right[index == 1].float().mean(), "fr": tensor(0.0), "total": right.float().mean()}
    make = (lambda: c.BinaryF1Score()) if batched else (lambda: c.BinaryAccuracy())
    host = w.Sliced(make(), NAMES)
    host.update(preds, target, index=index)
    assert_equal(host.slots.metric_state["scored"].tolist(), [1, 1, 0])
    assert_equal(host.slots.metric_state["logits"].tolist(), [1, 1, 0])
    if not batched:
        same(host.compute(), want)
    with pretend_cuda():
        for way in ("index there", "index here"):
            there = w.Sliced(make(), NAMES).to("cuda")
            p, t, i = preds.cuda(), target.cuda(), index.cuda()
            with assert_no_stalls():
                there(p, t, index=i)
                there.reset()
                there.update(p, t, index=i if way == "index there" else index)
            same({n: x.cpu() for n, x in there.compute().items()}, host.compute())
            assert {n: x.tolist() for n, x in there.slots.metric_state.items()} == {n: x.tolist() for n, x in host.slots.metric_state.items()}
    both_readings = w.Sliced(make(), NAMES)
    both_readings.update(preds, target, index=index)
    both_readings.update(preds.sigmoid(), target, index=index)
    with pytest.warns(tt.FaultWarning, match="2 of 4 batches had scores outside"):
        both_readings.compute()


def test_an_index_of_no_slice():
    data = batches(2)
    bad = {**data[1], "index": data[1]["index"].clone()}
    bad["index"][0], bad["index"][2] = 3, -1
    metric = sliced("counts", data[:1])
    with pytest.raises(tt.FaultError, match=r"2 of 6 rows have an index of no slice; expected 0 to 2"):
        metric.update(**bad)
    same(metric.compute(), reference("counts", data[:1]))
    with pretend_cuda():
        for name in ("counts", "rows"):
            _found_on_a_device(name, data, bad)


def _found_on_a_device(name, data, bad):
    device = sliced(name).to("cuda")
    for batch in (data[0], bad):
        device.update(**{k: x.cuda() for k, x in batch.items()})
    with pytest.raises(tt.FaultError, match=r"2 values were in rows that belong to no slice and kept out, first in update 2") as caught:
        device.compute()
    same({k: x.cpu() for k, x in caught.value.values.items()}, reference(name, [data[0], bad]))


def test_rows_that_do_not_count():
    (batch,) = batches(1)
    kept = {k: x[:3] for k, x in batch.items()}
    for valid in (3, torch.arange(5) < 3):
        metric = sliced("counts")
        metric.update(**batch, valid=valid)
        same(metric.compute(), reference("counts", [kept]))
    with pretend_cuda():
        metric = sliced("counts").to("cuda")
        moved = {k: x.cuda() for k, x in batch.items()}
        mask = (torch.arange(5) < 3).cuda()
        with assert_no_stalls():
            metric.update(**moved, valid=mask)
        same({k: x.cpu() for k, x in metric.compute().items()}, reference("counts", [kept]))


@pytest.mark.parametrize("name", ["counts", "users", "collection"])
def test_a_refused_batch_changes_no_slice(name):
    data = batches()
    metric = sliced(name, data)
    wrong = {**data[0], "target": data[0]["target"][:2]}
    for call in (metric.update, metric):
        with pytest.raises((ValueError, RuntimeError)):
            call(**wrong)
    impossible = {**data[0], "target": data[0]["target"].clone()}
    impossible["target"][-1] = 7
    if name == "counts":
        with pytest.raises(tt.FaultError):
            metric.update(**impossible)
    same(metric.compute(), reference(name, data))


def test_in_a_collection_with_other_entries():
    data = batches()
    tally = tt.MetricCollection(
        {"all": c.BinaryAccuracy(), "by": sliced("counts", by="language"), "loss": tt.MeanMetric().bind(value="loss")}, prefix="val_"
    )
    for batch in data:
        tally.update(batch["preds"], batch["target"], language=batch["index"], loss=1.0)
    want = reference("counts", data)
    found = tally.compute()
    assert list(found) == ["val_all", "val_de", "val_en", "val_fr", "val_total", "val_loss"]
    assert float(found["val_all"]) == float(found["val_total"]) == pytest.approx(float(want["total"]))
    assert_equal(numbers(list(tally.fetch(reset=True).result().values())[1:5]), numbers(want))
    assert tally["by"]["en"].compute() == 0.0


def test_one_slice_as_a_metric():
    data = batches()
    for name in ("counts", "users"):
        metric = sliced(name, data)
        want = reference(name, data)
        assert_equal(metric["en"].compute(), want["en"])
        assert_equal(metric[2].compute(), want["fr"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: w.Sliced(tt.MeanMetric(), 0),
        lambda: w.Sliced(tt.MeanMetric(), ["a", "a"]),
        lambda: w.Sliced(tt.MeanMetric(), ["a", "total"]),
        lambda: w.Sliced(tt.MeanMetric(), "ab"),
        lambda: w.Sliced("mean", 3),
        lambda: w.Sliced(tt.MeanMetric(), 3).update(tensor([1.0])),
        lambda: w.Sliced(tt.MeanMetric(), 3).update(tensor([1.0]), index=tensor([0.5])),
        lambda: w.Sliced(tt.MeanMetric(), 3).update(tensor([1.0]), index=[[0]]),
        lambda: w.Sliced(tt.MeanMetric(), 3).update(tensor([1.0, 2.0]), index=tensor([0])),
    ],
)
def test_wrong_arguments_say_what_was_expected(make):
    with pytest.raises(ValueError, match="expected"):
        make()


def test_names_by_number_and_a_list_as_index():
    metric = tt.Sliced(tt.MeanMetric(), 2)
    metric.update(tensor([1.0, 2.0, 4.0]), index=[1, 0, 1])
    assert metric.compute() == {"0": tensor(2.0), "1": tensor(2.5), "total": tensor(7 / 3)}


@pytest.mark.parametrize("case", [case for case in CASES if by_row(case.make())], ids=lambda case: case.name)
def test_rows_added_each_alone_give_what_slices_give(case):
    """Over every metric of which rows can be added each alone: on a device the same as by the host."""
    batch = cases.batches(case, (9,))[0]
    index = tensor([0, 1, 1, 0, 2, 1, 0, 0, 1])
    if any(len(x) != 9 for x in batch):
        pytest.skip("takes more than rows")
    metric, host = w.Sliced(case.make(), 4), w.Sliced(case.make(), 4)
    metric.update(*cases.elsewhere(batch), index=cases.elsewhere((index,))[0])
    host.update(*batch, index=index)
    assert_equal([x.as_subclass(torch.Tensor) for x in numbers(metric.compute())], numbers(host.compute()), max(case.tolerance, 1e-5))
    whole = case.make()
    whole.update(*batch)
    total = [x for n, x in host.compute().items() if n.startswith("total")]
    assert_equal(numbers(total), numbers(whole.compute()), max(case.tolerance, 1e-5))


@pytest.mark.parametrize("name", ["rows"])
def test_rows_compile_whole(name):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    metric = sliced(name)
    compiled = torch.compile(lambda preds, target, index: metric.update(preds, target, index=index), backend=counter, fullgraph=True)
    data = [*batches(2), *batches(2, seed=1), *batches(2, seed=2)]
    for batch in data:  # one compilation for each number of rows
        compiled(**batch)
    assert counter.frame_count <= 2
    same(metric.compute(), reference(name, data))


@pytest.mark.parametrize("many", [25, 80])  # one by one, and all in one pass
def test_many_slices_on_the_host(many):
    g = torch.Generator().manual_seed(0)
    preds, target, index = torch.rand(50, generator=g), torch.randint(0, 2, (50,), generator=g), torch.randint(0, many, (50,), generator=g)
    metric = tt.Sliced(c.BinaryAccuracy(from_logits=False), many)
    metric.update(preds, target, index=index)
    right = (preds > 0.5) == target
    want = [right[index == k].float().mean().nan_to_num() for k in range(many)] + [right.float().mean()]
    assert_equal(list(metric.compute().values()), want)
    target[3] = 5
    with pytest.raises(tt.FaultError):
        metric.update(preds, target, index=index)
    assert_equal(list(metric.compute().values()), want)


@pytest.mark.parametrize("make", [tt.MeanSquaredError, c.BinaryAccuracy, lambda: c.BinaryAccuracy(from_logits=False), tt.MeanMetric])
def test_an_update_on_the_host_asks_for_no_more_than_a_metric_of_each_slice_and_masks(make):
    class Counter(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += not str(function).startswith(("aten.detach", "aten.split", "aten.alias"))
            return function(*args, **(kwargs or {}))

    g = torch.Generator().manual_seed(0)
    index = torch.randint(0, 10, (128,), generator=g)
    batch = (torch.rand(128, generator=g), torch.randint(0, 2, (128,), generator=g))[: 1 if make is tt.MeanMetric else 2]
    metric, each = tt.Sliced(make(), 10), [make() for _ in range(10)]
    asked = []
    for update in (
        lambda: metric.update(*batch, index=index),
        lambda: [m.update(*(x[index == k] for x in batch)) for k, m in enumerate(each)],
    ):
        update()
        with Counter() as counter:
            for _ in range(20):
                update()
        asked.append(counter.count)
    assert asked[0] <= asked[1]
    assert_equal(list(metric.compute().values())[:-1], [m.compute() for m in each])
