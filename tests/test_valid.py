"""`update(..., valid=)`: padded rows do not count, whoever knows which they are."""

import pytest
import torch
from cases import CASES, batches
from torch import Tensor, tensor
from torch.utils import _pytree as pytree

import torchtally as tt
from torchtally import classification as c
from torchtally import stalls
from torchtally.testing import assert_no_stalls


def leaves(value):
    return [x for x in pytree.tree_leaves(value) if isinstance(x, Tensor)]


def assert_equal(got, want, tolerance=1e-6):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        torch.testing.assert_close(a.cpu(), b.cpu(), rtol=tolerance, atol=tolerance, equal_nan=True)


def rows_in(batch):
    return next(len(x) for x in batch if isinstance(x, list | tuple) or (isinstance(x, Tensor) and x.ndim))


def part_of(batch, places):
    """The rows of a batch at these places, written out."""
    rows = rows_in(batch)

    def part(x):
        if isinstance(x, Tensor):
            return x[places] if x.ndim and x.shape[0] == rows else x
        return type(x)(x[i] for i in places) if isinstance(x, list | tuple) and len(x) == rows else x

    return tuple(map(part, batch))


def fed(case, data, last, **options):
    metric = case.make()
    for batch in data:
        metric.update(*batch)
    metric.update(*last, **options)
    return metric


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_padded_rows_do_not_count(case):
    *data, last = batches(case)
    rows = rows_in(last)
    first, some = list(range(rows - 4)), [i for i in range(rows) if i % 3 != 1]
    for places, forms in (
        (first, [rows - 4, tensor(rows - 4), torch.arange(rows) < rows - 4, [i < rows - 4 for i in range(rows)]]),
        (some, [torch.arange(rows) % 3 != 1]),
    ):
        want = fed(case, data, part_of(last, places))
        for valid in forms:
            metric = fed(case, data, last, valid=valid)
            assert_equal(metric.compute(), want.compute(), case.tolerance)
            assert metric.update_count == len(data) + 1


@pytest.mark.parametrize("case", {type(c.make()): c for c in reversed(CASES)}.values(), ids=lambda case: case.name)
def test_padded_rows_do_not_count_in_forward_and_in_collections(case):
    *data, last = batches(case)
    rows = rows_in(last)
    some = [i for i in range(rows) if i % 3 != 1]
    for places, valid in ((list(range(rows - 4)), rows - 4), (some, torch.arange(rows) % 3 != 1)):
        part = part_of(last, places)
        want, of_batch = fed(case, data, part).compute(), fed(case, [], part).compute()
        alone, together = fed(case, data[:-1], data[-1]), tt.MetricCollection({"metric": case.make()})
        assert_equal(alone(*last, valid=valid), of_batch, case.tolerance)
        assert_equal(alone.compute(), want, case.tolerance)
        for batch in data:
            together.update(*batch)
        assert_equal(together(*last, valid=valid), of_batch, case.tolerance)
        assert_equal(together.compute(), want, case.tolerance)


@pytest.mark.parametrize("case", {c.make().statistics: c for c in reversed(CASES)}.values(), ids=lambda case: case.name)
def test_a_mask_on_a_device_does_the_same_without_waiting(case):
    *data, last = batches(case)
    rows = rows_in(last)
    keep = torch.arange(rows) % 3 != 1
    want = fed(case, data, part_of(last, keep.nonzero().flatten().tolist())).compute()
    with stalls.pretend_cuda():
        metric, valid = case.make().to("cuda"), keep.to("cuda")
        batches_there = [tuple(x.to("cuda") if isinstance(x, Tensor) else x for x in batch) for batch in (*data, last)]
        with assert_no_stalls():
            for batch in batches_there[:-1]:
                metric.update(*batch)
            metric.update(*batches_there[-1], valid=valid)
        assert_equal(metric.compute(), want, max(case.tolerance, 1e-5))


@pytest.mark.parametrize(
    "case", {c.make().statistics: c for c in reversed(CASES) if not c.sized_by_data}.values(), ids=lambda case: case.name
)
def test_forward_with_a_mask_on_a_device_does_not_wait(case):
    *data, last = batches(case)
    keep = torch.arange(rows_in(last)) % 3 != 1
    want = fed(case, data, part_of(last, keep.nonzero().flatten().tolist())).compute()
    with stalls.pretend_cuda():
        metric, valid = case.make().to("cuda"), keep.to("cuda")
        batches_there = [tuple(x.to("cuda") if isinstance(x, Tensor) else x for x in batch) for batch in (*data, last)]
        for batch in batches_there[:-1]:
            metric.update(*batch)
        with assert_no_stalls():
            metric(*batches_there[-1], valid=valid)
        assert_equal(metric.compute(), want, max(case.tolerance, 1e-5))


def tally():
    return tt.MetricCollection(
        {
            "accuracy": c.MulticlassAccuracy(num_classes=3),
            "matrix": c.MulticlassConfusionMatrix(num_classes=3),
            "loss": tt.MeanMetric().bind(value="loss"),
            "each": tt.MeanMetric().bind(value="each"),
            "error": tt.MeanSquaredError().bind(preds="each", target="each_target"),
        }
    )


BATCH = {
    "preds": tensor([0, 1, 2, 2]),
    "target": tensor([0, 2, 2, 1]),
    "loss": 0.5,
    "each": tensor([1.0, 2.0, 3.0, float("nan")]),
    "each_target": tensor([1.0, 1.0, 1.0, 9.0]),
}


def right(values):
    assert values["matrix"].tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert values["loss"] == 0.5
    assert values["each"] == 2.0
    assert values["error"] == pytest.approx(5 / 3)


@pytest.mark.parametrize("valid", [3, tensor(3), tensor([True, True, True, False])], ids=["count", "tensor", "mask"])
def test_a_collection_leaves_padding_out(valid):
    metrics = tally()
    metrics.update(**BATCH, valid=valid)
    right(metrics.compute())
    other = tally()
    right(other(**BATCH, valid=valid))
    right(other.compute())
    metrics.update(**BATCH, valid=0)
    right(metrics.compute())
    assert metrics.update_count == 2


@pytest.mark.parametrize("where", ["mask", "count", "host mask", "host count"])
def test_nothing_waits_for_a_mask_that_a_device_knows(where):
    with stalls.pretend_cuda():
        metrics, alone = tally().to("cuda"), tt.MeanMetric().to("cuda")
        batch = {n: x.to("cuda") if isinstance(x, Tensor) else x for n, x in BATCH.items()}
        keep = tensor([True, True, True, False])
        valid = {"mask": keep.to("cuda"), "count": tensor(3, device="cuda"), "host mask": keep, "host count": 3}[where]
        with assert_no_stalls():
            metrics.update(**batch, valid=valid)
            alone.update(batch["each"], valid=valid)
            for x in batch.values():
                if isinstance(x, Tensor):
                    x.zero_()  # callers may overwrite their tensors
        assert metrics.update_count == 1
        fetched = metrics.fetch(reset=True)
        right({n: x.cpu() if isinstance(x, Tensor) else x for n, x in {**fetched.result(), "each": float(alone.compute())}.items()})
        assert metrics.update_count == 0


class Total(tt.Metric):
    def __init__(self):
        super().__init__()
        self.add_state("total", torch.zeros(()), "sum")

    def update(self, value, names=()):
        assert not names or len(value) == len(names)
        self.total += value.sum()

    def compute(self):
        return self.total


def test_users_metrics_take_it_too():
    metric = Total()
    metric.update(tensor([1.0, 2.0, 4.0]), names=["a", "b", "c"], valid=tensor([True, False, True]))
    assert metric.compute() == 5.0


def test_a_mask_on_a_device_reaches_members_apart():
    with stalls.pretend_cuda():
        mean = tt.MeanMetric().to("cuda")
        metrics = tt.MetricCollection({"mean": mean, "total": Total().to("cuda"), "sum": tt.SumMetric().to("cuda")})
        mean.update(tensor([9.0], device="cuda"))  # shares no longer
        metrics.update(value=tensor([1.0, 2.0, 50.0], device="cuda"), valid=tensor([True, True, False], device="cuda"))
        assert {n: float(x) for n, x in metrics.compute().items()} == {"mean": 4.0, "total": 3.0, "sum": 3.0}


def test_an_entry_of_that_name_is_an_entry():
    metrics = tt.MetricCollection({"mean": tt.MeanMetric().bind(value="valid")})
    metrics.update(valid=3.0)
    assert metrics.compute()["mean"] == 3.0


@pytest.mark.parametrize(
    "valid, text",
    [(5, "0 to 4"), (-1, "0 to 4"), (torch.ones(3, dtype=torch.bool), r"shape \(4,\)"), (torch.ones(4), "boolean"), ("some", "str")],
    ids=str,
)
def test_what_cannot_be_is_refused_and_nothing_lost(valid, text):
    metrics = tally()
    with pytest.raises(ValueError, match=text):
        metrics.update(**BATCH, valid=valid)
    assert metrics.update_count == 0
    with pytest.raises(ValueError, match="no entry has rows"):
        tt.SumMetric().update(1.0, valid=1)
