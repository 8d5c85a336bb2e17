"""What is no batch is refused by an error that names the metric and what came, and what was accumulated stays."""

import inspect

import numpy as np
import pytest
import torch
from cases import CASES, batches, elsewhere
from torch import Tensor
from torch.utils import _pytree as pytree

import torchtally as tt
from torchtally import classification as c

OF_EACH_CLASS = {case.name for case in {type(k.make()): k for k in reversed(CASES)}.values()}
OF_EACH_BATCH = {(type(k.make()), k.batch): k for k in reversed(CASES)}.values()
FIRST = [pytest.param(k, id=k.name, marks=() if k.name in OF_EACH_CLASS else pytest.mark.slow) for k in OF_EACH_BATCH]

ODD = {
    "None": lambda x: None,
    "text": lambda x: "abc",
    "list": lambda x: x.tolist(),
    "dict": lambda x: {"preds": x},
    "array": lambda x: x.numpy(),
    "number": lambda x: 3,
    "sparse": lambda x: x.float().to_sparse(),
    "quantized": lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
    "float8": lambda x: x.float().to(torch.float8_e4m3fn),
    "uint16": lambda x: x.abs().to(torch.int32).to(torch.uint16),
    "nested": lambda x: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(1)]),
    "one value": lambda x: x.flatten()[0],
    "no values": lambda x: torch.empty(0),
    "more dimensions": lambda x: x[None, None, None],
    "short": lambda x: x[:-1],
    "elsewhere": lambda x: x.to("meta"),
}


def values(metric):
    return [x.as_subclass(Tensor).clone() for x in pytree.tree_leaves(metric.compute()) if isinstance(x, Tensor)]


def assert_refused_or_taken(metric, method, batch, kept):
    """A refused batch names the metric and leaves everything as it was; one that was taken can be read."""
    try:
        getattr(metric, method)(*batch)
    except (ValueError, TypeError) as error:
        assert str(error).startswith(kept[0]), error
        assert "expected" in str(error) or "pass" in str(error).lower() or "Move" in str(error), error
        for got, want in zip(values(metric), kept[1], strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:.*quantiz")
@pytest.mark.parametrize("case", FIRST)
def test_what_is_no_batch_is_refused_by_name_and_loses_nothing(case):
    torch.manual_seed(0)
    good = batches(case, (7,))[0]
    fed = case.make()
    fed.update(*good)
    kept = fed._get_name(), values(fed)
    for make in ODD.values():
        for place, x in enumerate(good):
            if isinstance(x, Tensor):
                batch = [*good[:place], make(x), *good[place + 1 :]]
                for method in ("update", "forward"):
                    assert_refused_or_taken(fed.clone(), method, batch, kept)


@pytest.mark.parametrize("odd", ["None", "list", "array"])
def test_a_collection_names_the_member_whose_entry_is_odd(odd):
    tally = tt.MetricCollection({"loss": tt.MeanMetric().bind(value="loss"), "accuracy": tt.Accuracy(task="multiclass", num_classes=3)})
    good = torch.tensor([0, 1, 2])
    with pytest.raises(TypeError, match=r"^accuracy: target is "):
        tally.update(loss=0.5, preds=good, target=ODD[odd](good))
    assert tally.update_count == 0


def test_an_average_of_what_is_no_number_says_so():
    tally = tt.MetricCollection({"loss": tt.MeanMetric().bind(value="loss"), "other": tt.MeanMetric().bind(value="other")})
    with pytest.raises(TypeError, match=r"^other: value is \{\}; expected a number"):
        tally.update(loss=1.0, other={})
    with pytest.raises(TypeError, match=r"^loss: loss has layout torch\.sparse_coo; expected a dense tensor"):
        tally.update(loss=torch.ones(3).to_sparse(), other=1.0)
    assert tally.update_count == 0


def test_an_array_is_answered_with_the_line_to_write():
    with pytest.raises(TypeError, match=r"^BinaryAccuracy: target is a numpy.ndarray; expected a tensor. Pass torch.as_tensor\(target\)."):
        tt.Accuracy(task="binary").update(torch.ones(2), np.ones(2))


@pytest.mark.parametrize("ignored", [-100, 256, 257, 400])
def test_a_label_that_the_dtype_of_targets_cannot_hold_is_nowhere(ignored):
    """torch takes 256 for 0 beside unsigned bytes, -100 for 156."""
    target = torch.arange(200).to(torch.uint8)
    scores = torch.eye(200)
    for make in (
        lambda: c.MulticlassAveragePrecision(200, average=None, ignore_index=ignored, validate_args=False),
        lambda: c.MulticlassConfusionMatrix(200, ignore_index=ignored),
    ):
        metric = make()
        metric.update(elsewhere((scores,))[0], elsewhere((target,))[0])  # as on a device
        assert not torch.as_tensor(metric.compute()).isnan().any()
        assert torch.as_tensor(metric.compute()).sum() == 200


@pytest.mark.parametrize("ignored", [256, 257])
@pytest.mark.parametrize("make", [c.BinaryAUROC, c.BinaryAccuracy, c.BinaryHingeLoss])
def test_bytes_of_yes_and_no_are_all_counted(make, ignored):
    preds, target = torch.tensor([0.1, 0.9, 0.8, 0.2]).repeat(5000), torch.tensor([0, 1, 0, 1], dtype=torch.uint8).repeat(5000)
    want = make()(preds, target)
    torch.testing.assert_close(make(ignore_index=ignored)(preds, target), want)
    torch.testing.assert_close(make(ignore_index=ignored)(*elsewhere((preds, target))).as_subclass(Tensor), want)


def test_options_that_are_none_are_refused_in_words():
    with pytest.raises(ValueError, match=r"^Accuracy: task is \[\]; expected one of"):
        tt.Accuracy(task=[])
    with pytest.raises(ValueError, match=r"^BinaryAccuracy: ignore_index is .*; expected an integer of 64 bits or None"):
        c.BinaryAccuracy(ignore_index=10**20)
    with pytest.raises(TypeError, match=r"^MultitaskWrapper: task_preds is a Tensor; expected a dict with the tasks \['a'\]"):
        tt.MultitaskWrapper({"a": c.BinaryAccuracy()}).update(torch.ones(2), torch.ones(2))


@pytest.mark.parametrize("name", [n for n in dir(c) if n.startswith(("Multiclass", "Multilabel")) and "At" in n])
def test_an_operating_point_needs_to_know_how_many_columns_there_are(name):
    least = next(p for p in inspect.signature(getattr(c, name)).parameters if p.startswith("min_"))
    with pytest.raises(ValueError, match=r"num_classes|num_labels"):
        getattr(c, name)(None, **{least: 0.5})


def test_a_step_has_no_negative_number_of_samples():
    throughput = tt.Throughput()
    throughput.update()
    with pytest.raises(ValueError, match="samples is -1"):
        throughput.update(samples=-1)


THREE = c.MulticlassAccuracy(num_classes=3)
LABELS = torch.tensor([0, 1, 2, 1])


@pytest.mark.parametrize(
    "metric, preds, target, said",
    [
        (THREE, torch.rand(4, 3), LABELS[:, None], r"target has shape \(4, 1\).* Pass target\.squeeze\(1\)\."),
        (THREE, torch.rand(2, 5, 3), torch.zeros(2, 5, dtype=torch.long), r"\(2, 3, 5\).* pass preds\.movedim\(-1, 1\)\."),
        (THREE, torch.rand(4, 5), LABELS, r"The scores are of 5 classes: check num_classes\."),
        (THREE, torch.rand(4), LABELS, r"task 'binary'; of labels pass preds\.long\(\)\."),
        (THREE, LABELS, torch.rand(4, 3), r"target has dtype torch\.float32 and preds torch\.int64.*pass predictions first\."),
        (c.BinaryAccuracy(), LABELS > 0, torch.rand(4), r"pass predictions first\."),
        (c.BinaryAUROC(), LABELS > 0, torch.rand(4), r"pass predictions first\."),
        (c.BinaryAccuracy(), torch.rand(4), torch.ones(4), r"Convert it with \.long\(\)\.$"),
    ],
    ids=["column", "classes last", "other classes", "binary", "other order", "other order binary", "other order scores", "float labels"],
)
def test_an_error_of_shapes_says_what_to_write(metric, preds, target, said):
    with pytest.raises(ValueError, match=said):
        metric.update(preds, target)


@pytest.mark.parametrize("preds, target", [(torch.rand(2, 5, 3).movedim(-1, 1), torch.zeros(2, 5).long()), (torch.rand(4, 3), LABELS[:, None].squeeze(1))])
def test_what_is_advised_is_taken(preds, target):
    THREE.clone().update(preds, target)


def test_what_no_reshaping_mends_is_not_told_to_be_squeezed():
    error = tt.MeanSquaredError()
    with pytest.raises(ValueError, match=r"expected equal shapes\.$"):
        error.update(torch.rand(8), torch.rand(7))
    with pytest.raises(ValueError, match=r"Squeeze or flatten one of them\.$"):
        error.update(torch.rand(8), torch.rand(8, 1))


def test_a_mean_that_is_fed_predictions_in_a_collection_is_told_of_bind():
    tally = tt.MetricCollection({"accuracy": c.MulticlassAccuracy(3), "loss": tt.MeanMetric()})
    with pytest.raises(ValueError, match=r"^loss: weight has shape \(4,\) but value has \(4, 3\).*\.bind\(value='loss'\)"):
        tally.update(torch.rand(4, 3), LABELS)
    tally["loss"].bind(value="loss")
    tally.update(preds=torch.rand(4, 3), target=LABELS, loss=0.5)
    assert tally.compute()["loss"] == 0.5
