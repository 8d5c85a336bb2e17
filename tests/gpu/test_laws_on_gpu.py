"""Law 1 on a real GPU, by torch's own signs: nothing but reading waits, reading waits once, and values are those of the CPU in float64."""

import pytest
import torch
from cases import CASES, batches, numbers, scores
from test_laws import as_numbers, assert_equal, fed, leaves
from torch.utils import _pytree as pytree

import torchtally as tt
from torchtally import classification as c
from torchtally.classification.curve_formula import DrawnFormula

SIZES = (3, 3, 12)


def moved(batch):
    return tuple(x.to("cuda") for x in batch)


def distance(got, want):
    """The largest difference of two values, as a part of what exceeds 1."""
    got, want = as_numbers(got), as_numbers(want)
    return float(((got - want).abs() / want.abs().clamp(min=1.0)).nan_to_num(0.0).amax()) if len(want) else 0.0


def on_host(value):
    assert all(x.is_cuda for x in leaves(value))
    return [x.cpu() for x in leaves(value)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_waits_but_reading(gpu, case, note):
    host = batches(case, SIZES)
    data = [moved(batch) for batch in host]
    metric = case.make().to("cuda")
    metric.set_dtype(torch.float64)
    with gpu.none():
        for batch in data:
            metric.update(*batch)
        if not case.sized_by_data:
            metric(*data[0])
            metric.fetch(reset=True)
        metric.reset()
        for batch in data:
            metric.update(*batch)
        pending = None if case.sized_by_data else metric.fetch()
    with gpu.counted() as waits:
        value = metric.compute()
    apart = case.sized_by_data or case.name == "CatMetric" or isinstance(metric, DrawnFormula)
    assert waits.seen <= 1 + apart  # how long these are, or what they are called, is read apart
    want = fed(case, host, case.make().set_dtype(torch.float64)).compute()
    note(waits=waits.seen, difference=distance(on_host(value), want))
    assert_equal(on_host(value), leaves(want), case.tolerance)
    if pending is not None:
        got = [torch.as_tensor(x, dtype=torch.float64) for x in pytree.tree_leaves(pending.result())]
        assert_equal(as_numbers(got), as_numbers(want), case.tolerance)


def five():
    rates = {
        name: getattr(tt, name)(task="multiclass", num_classes=5, average="macro")
        for name in ("Accuracy", "Precision", "Recall", "F1Score")
    }
    return tt.MetricCollection({"loss": tt.MeanMetric().bind(value="loss"), **rates})


def five_batch(g):
    preds, target = scores(32, g)
    return {"loss": torch.randn((), generator=g), "preds": preds, "target": target}


def fifty_means():
    return tt.MetricCollection({f"m{i}": tt.MeanMetric().bind(value=f"m{i}") for i in range(50)})


def fifty_means_batch(g):
    return {f"m{i}": x for i, x in enumerate(numbers(50, g)[0])}


def samples():
    """Exact curves, which keep what they see, and counts beside them."""
    areas = {"auroc": c.MulticlassAUROC(5), "precision": c.MulticlassAveragePrecision(5), "matrix": c.MulticlassConfusionMatrix(5)}
    return tt.MetricCollection({**areas, "losses": tt.CatMetric().bind(value="loss")})


COLLECTIONS = [(five, five_batch), (fifty_means, fifty_means_batch), (samples, five_batch)]


@pytest.mark.parametrize("make, batch", COLLECTIONS, ids=lambda x: x.__name__)
def test_nothing_of_a_collection_waits_but_reading(gpu, make, batch, note):
    g = torch.Generator().manual_seed(0)
    host = [batch(g) for _ in range(70)]  # more than may wait together
    data = [{n: x.to("cuda") for n, x in b.items()} for b in host]
    tally, plain = make().to("cuda").set_dtype(torch.float64), make().set_dtype(torch.float64)
    other = make().to("cuda")
    with gpu.none():
        for b in data:
            tally.update(**b)
        tally(**data[0])
        tally.fetch(reset=True)
        for b in data[:40]:
            tally.update(**b)
        for b in data[40:]:
            other.update(**b)
        tally.merge_state(other)
        pending = tally.fetch()
    for b in host:
        plain.update(**b)
    want = plain.compute()
    with gpu.counted() as waits:
        got = tally.compute()
    assert waits.seen <= (2 if make is samples else 1)
    note(waits=waits.seen, difference=distance(on_host(got), want))
    assert_equal(on_host(got), leaves(want))
    assert_equal([torch.as_tensor(x, dtype=y.dtype) for x, y in zip(pending.result().values(), leaves(want))], leaves(want))


def test_python_numbers_wait_for_nothing(gpu):
    metric = tt.MeanMetric().to("cuda")
    with gpu.none():
        for i in range(2000):
            metric.update(float(i))
        pending = metric.fetch()
    assert pending.result() == 999.5


def test_padded_rows_known_only_to_the_gpu_wait_for_nothing(gpu):
    preds, target = moved(scores(8, torch.Generator().manual_seed(0)))
    mask = torch.arange(8, device="cuda") < 5
    metric = c.MulticlassAccuracy(5).to("cuda")
    with gpu.none():
        metric.update(preds, target, valid=mask)
    assert_equal(
        metric.compute().cpu(), tt.functional.accuracy(preds[:5].cpu(), target[:5].cpu(), task="multiclass", num_classes=5, average="macro")
    )


def test_impossible_labels_are_counted_and_stop_nothing(gpu):
    metric = c.MulticlassAccuracy(5, average="micro").to("cuda")
    preds, target = torch.tensor([0, 1, 2, 3], device="cuda"), torch.tensor([0, 1, 9, -4], device="cuda")
    with gpu.none():
        metric.update(preds[:2], target[:2])
        metric.update(preds, target)
    with gpu.counted() as waits, pytest.raises(tt.FaultError, match=r"2 values were .* first in update 2") as caught:
        metric.compute()
    assert waits.seen == 1
    assert float(caught.value.values) == 1.0
    assert torch.ones(1, device="cuda").item() == 1.0  # the device is well
