"""What is no batch is refused by an error that names the metric and what came, and what was accumulated stays."""

import numpy as np
import pytest
import torch
from cases import CASES, batches
from torch import Tensor
from torch.utils import _pytree as pytree

import torchtally as tt

OF_EACH_CLASS = {case.name for case in {type(c.make()): c for c in reversed(CASES)}.values()}
OF_EACH_BATCH = {(type(c.make()), c.batch): c for c in reversed(CASES)}.values()
FIRST = [pytest.param(c, id=c.name, marks=() if c.name in OF_EACH_CLASS else pytest.mark.slow) for c in OF_EACH_BATCH]

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


@pytest.mark.parametrize("odd", ["None", "list", "array", "quantized"])
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
