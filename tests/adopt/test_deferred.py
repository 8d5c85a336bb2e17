"""Deferred metrics have the values of the metrics themselves, whatever happens between updates."""

import copy
import pickle
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torchmetrics
from torch import nn
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

import torchtally
from torchtally.adopt import Deferred
from torchtally.errors import TallyError
from torchtally.stalls import pretend_cuda

CLASSES = 4


def batches(n=11):
    random = torch.Generator().manual_seed(0)
    return [(torch.rand(8, CLASSES, generator=random), torch.randint(CLASSES, (8,), generator=random)) for _ in range(n)]


class Own(nn.Module):
    """A user's own metric: keeps what it is given and looks at it."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def update(self, preds, target=None):
        if preds.sum().item() >= 0:
            self.seen.append(preds)

    def compute(self):
        return torch.stack([p.sum() for p in self.seen]).mean()

    def reset(self):
        self.seen = []


MAKERS = {
    "torchmetrics": lambda: MulticlassAccuracy(CLASSES),
    "collection": lambda: torchmetrics.MetricCollection([MulticlassAccuracy(CLASSES), MulticlassF1Score(CLASSES)]),
    "torchtally": lambda: torchtally.classification.MulticlassAccuracy(CLASSES),
    "collection of torchtally": lambda: torchtally.MetricCollection([torchtally.classification.MulticlassRecall(CLASSES)]),
    "own": Own,
    "concatenating": lambda: torchmetrics.classification.MulticlassAUROC(CLASSES),
}
each_metric = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def equal(a, b):
    return all(torch.equal(a[k], b[k]) for k in a) and a.keys() == b.keys() if isinstance(a, dict) else torch.equal(a, b)


@each_metric
@pytest.mark.parametrize("every", [1, 3, 100])
def test_values_are_those_of_the_metric_when_callers_overwrite_their_tensors(make, every):
    plain, deferred = make(), Deferred(make(), every=every)
    preds, target = torch.empty(8, CLASSES), torch.empty(8, dtype=torch.long)
    for p, t in batches():
        plain.update(p.clone(), t)
        preds.copy_(p), target.copy_(t)
        deferred.update(preds, target=target)
    assert equal(deferred.compute(), plain.compute())
    plain.reset(), deferred.reset()
    for p, t in batches(2):
        plain.update(p, t), deferred.update(p, t)
    assert equal(deferred.compute(), plain.compute())


def test_updates_run_in_blocks():
    deferred = Deferred(Own(), every=3)
    lengths = []
    for p, t in batches(7):
        deferred.update(p, t)
        lengths.append((len(deferred.metric.seen), deferred.pending))
    assert lengths == [(0, 1), (0, 2), (3, 0), (3, 1), (3, 2), (6, 0), (6, 1)]
    deferred.reset()
    assert (deferred.pending, deferred.pending_bytes, deferred.metric.seen) == (0, 0, [])


@each_metric
def test_blocks_joined_into_one_update_have_the_same_value(make):
    if make is Own:
        pytest.skip("counts batches")
    plain, deferred = make(), Deferred(make(), every=4, concatenate=True)
    for p, t in [*batches(5), *[(p[:3], t[:3]) for p, t in batches(5)]]:  # batches of several sizes
        plain.update(p, t), deferred.update(p, t)
    for name, value in (plain.compute() if isinstance(plain.compute(), dict) else {"": plain.compute()}).items():
        found = deferred.compute()
        assert torch.allclose(found[name] if name else found, value, atol=1e-7)


def test_only_batches_of_one_form_are_joined():
    class Shapes(Own):
        def update(self, x, scale=1, names=None):
            self.seen.append((tuple(x.shape), scale, names))

    deferred = Deferred(Shapes(), every=100, concatenate=True)
    deferred.update(torch.ones(2, 3))
    deferred.update(torch.ones(4, 3))
    deferred.update(torch.ones(4, 5))
    deferred.update(torch.ones(4, 5), scale=2)
    deferred.update(torch.ones(4, 5), scale=2)
    deferred.update(torch.tensor(1.0))
    deferred.update(torch.tensor(1.0))
    deferred.update(torch.tensor(1))
    deferred.update(torch.tensor(1), names=("a",))
    deferred.update(torch.tensor(1), names=("b",))
    deferred.flush()
    joined = [((6, 3), 1, None), ((4, 5), 1, None), ((8, 5), 2, None), ((2,), 1, None)]
    assert deferred.metric.seen == [*joined, ((), 1, None), ((), 1, ("a",)), ((), 1, ("b",))]


def test_a_joined_block_waits_as_often_as_one_update():
    with pretend_cuda() as seen:
        deferred = Deferred(torchmetrics.MeanMetric(), every=4, concatenate=True).to("cuda")
        before = seen.count
        for i in range(8):
            loss = torch.full((), float(i), device="cuda")
            deferred.update(loss, torch.ones_like(loss))
        assert seen.count - before == 4
        assert deferred.compute().item() == 3.5


def test_memory_is_bounded():
    deferred = Deferred(Own(), every=1000, max_bytes=10_000)
    for _ in range(50):
        deferred.update(torch.ones(1000))
        assert deferred.pending_bytes <= 10_000
    assert len(deferred.metric.seen) == 48
    assert deferred.pending_bytes == 8000


def test_what_is_kept_holds_no_graph():
    deferred = Deferred(Own(), every=10)
    x = torch.ones(3, requires_grad=True)
    deferred.update((x * 2).relu())
    deferred.flush()
    assert not deferred.metric.seen[0].requires_grad


class Boxes(NamedTuple):
    boxes: torch.Tensor
    names: list


class Structured(Own):
    def update(self, batch, array, number):
        self.seen.append((batch, array, number))


def test_nested_arguments_are_copied():
    boxes, array = torch.ones(2), np.ones(2)
    deferred = Deferred(Structured(), every=10)
    held = [{"a": boxes, "b": (boxes, Boxes(boxes, ["x"]))}]
    deferred.update(held, array, number=3)
    boxes.zero_()
    array[:] = 0
    held.clear()
    deferred.flush()
    [[kept], kept_array, number] = deferred.metric.seen[0]
    assert number == 3
    assert kept_array.sum() == 2
    assert [kept["a"].sum(), kept["b"][0].sum(), kept["b"][1].boxes.sum()] == [2, 2, 2]
    assert kept["b"][1].names == ["x"]


def test_forward_gives_the_value_of_the_batch_and_accumulates_in_order():
    plain, deferred = MulticlassAccuracy(CLASSES), Deferred(MulticlassAccuracy(CLASSES), every=100)
    for i, (p, t) in enumerate(batches()):
        if i % 3 == 0:
            assert torch.equal(deferred(p, t), plain(p, t))
        else:
            deferred.update(p, t), plain.update(p, t)
    assert torch.equal(deferred.compute(), plain.compute())


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d)), lambda d: d.clone(), lambda d: d.to("cpu"), lambda d: d.double().float()],
    ids=["deepcopy", "pickle", "clone", "to", "dtype"],
)
def test_copies_and_moves_take_what_waits_along(copied):
    (p, t), *rest = batches()
    plain, deferred = MulticlassAccuracy(CLASSES), Deferred(MulticlassAccuracy(CLASSES), every=100)
    plain.update(p, t), deferred.update(p, t)
    other = copied(deferred)
    assert torch.equal(other.compute(), plain.compute())
    for p, t in rest:
        plain.update(p, t), other.update(p, t)
    assert torch.equal(other.compute(), plain.compute())
    assert (other.every, type(other)) == (100, Deferred)


def test_saving_and_loading_inside_a_model():
    def model():
        made = nn.ModuleDict({"accuracy": Deferred(MulticlassAccuracy(CLASSES), every=100)})
        made["accuracy"].metric.persistent(True)
        return made

    first, second, plain = model(), model(), MulticlassAccuracy(CLASSES)
    (p, t), (q, u), *_ = batches()
    first["accuracy"].update(p, t)
    second["accuracy"].update(q, u)  # overwritten by what is loaded
    plain.update(p, t)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second["accuracy"].compute(), plain.compute())


def test_attributes_are_the_metrics_and_methods_find_it_fed():
    deferred = Deferred(MulticlassAccuracy(CLASSES, average="micro"), every=100)
    for p, t in batches(2):
        deferred.update(p, t)
    assert (deferred.num_classes, deferred.average, deferred.pending) == (CLASSES, "micro", 2)
    assert deferred.update_count == 2
    assert deferred.pending == 0
    deferred.update(p, t)
    assert int(deferred.tp + deferred.fn) == 24
    other = Deferred(torchtally.classification.MulticlassAccuracy(CLASSES), every=100)
    other.update(p, t)
    assert other.fetch().result() == pytest.approx(torchtally.functional.accuracy(p, t, task="multiclass", num_classes=CLASSES, average="macro").item())
    with pytest.raises(AttributeError, match="nothing"):
        deferred.nothing  # noqa: B018


def test_in_a_collection_of_torchmetrics():
    assert isinstance(Deferred(MulticlassAccuracy(CLASSES)), torchmetrics.Metric)
    plain = torchmetrics.MetricCollection({"a": MulticlassAccuracy(CLASSES), "b": MulticlassF1Score(CLASSES)})
    deferred = torchmetrics.MetricCollection({"a": Deferred(MulticlassAccuracy(CLASSES), 4), "b": Deferred(MulticlassF1Score(CLASSES), 3)})
    for p, t in batches():
        plain.update(p, t), deferred.update(p, t)
    assert equal(plain.compute(), deferred.compute())


def test_the_modes_of_the_update_are_those_it_runs_in():
    class Product(Own):
        def update(self, x):
            self.seen.append(x @ x)

    deferred = Deferred(Product(), every=100)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        deferred.update(torch.ones(2, 2))
    deferred.update(torch.ones(2, 2))
    with torch.inference_mode():
        deferred.update(torch.ones(2, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        deferred.flush()
    assert [x.dtype for x in deferred.metric.seen] == [torch.bfloat16, torch.float32, torch.float32]
    assert [x.is_inference() for x in deferred.metric.seen] == [False, False, True]


def test_states_made_in_inference_mode_can_be_updated_after_it():
    plain, deferred = torchmetrics.SumMetric(), Deferred(torchmetrics.SumMetric(), every=2)
    with torch.inference_mode():
        for x in (1.0, 2.0, 4.0):
            plain.update(torch.tensor(x)), deferred.update(torch.tensor(x))
    assert deferred.compute() == plain.compute() == 7


def test_a_refused_batch_is_dropped_and_the_others_count():
    deferred = Deferred(torchmetrics.SumMetric(nan_strategy="error"), every=100)
    for x in (1.0, float("nan"), 2.0, 4.0):
        deferred.update(torch.tensor(x))
    with pytest.raises(RuntimeError, match="nan") as caught:
        deferred.compute()
    if hasattr(caught.value, "__notes__"):
        assert "an update of 3 steps ago" in caught.value.__notes__[0]
    assert deferred.compute() == 7


def test_steps_between_blocks_do_not_wait():
    with pretend_cuda() as seen:
        deferred = Deferred(torchmetrics.MeanMetric(), every=4).to("cuda")
        waits = []
        for i in range(8):
            loss = torch.full((), float(i), device="cuda")
            weight = torch.ones_like(loss)
            before = seen.count
            deferred.update(loss, weight)
            waits.append(seen.count - before)
        assert waits == [0, 0, 0, 8, 0, 0, 0, 8]
        assert deferred.compute().item() == 3.5


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: Deferred(nn.Linear(1, 1)), r"Linear has no update\(\)"),
        (lambda: Deferred(Own(), every=0), "every is 0; expected a whole number of at least 1"),
        (lambda: Deferred(Own(), every=2.5), "every is 2.5"),
        (lambda: Deferred(Own(), max_bytes=-1), "max_bytes is -1"),
    ],
    ids=["no metric", "zero", "fraction", "bytes"],
)
def test_wrong_arguments_are_refused(wrong, words):
    with pytest.raises(TallyError, match=words):
        wrong()
