"""Perplexity by its definition, in NumPy float64."""

import math

import numpy as np
import pytest
import torch
from cases import elsewhere
from torch import Tensor, tensor
from torch.nn.functional import cross_entropy

import torchtally as tt
from torchtally.adopt import adopt
from torchtally.functional import perplexity
from torchtally.statistics import tokens
from torchtally.text import Perplexity

forms = pytest.mark.parametrize("form", [tuple, elsewhere], ids=["host", "device"])


def by_definition(logits, target, ignore=None):
    x = np.asarray(logits, np.float64).reshape(-1, logits.shape[-1])
    y = np.asarray(target).reshape(-1)
    x = x - x.max(1, keepdims=True)
    nll = np.log(np.exp(x).sum(1)) - np.take_along_axis(x, np.where(y == ignore, 0, y)[:, None], 1)[:, 0]
    return math.exp(nll[y != ignore].mean())


@forms
@pytest.mark.parametrize("ignore", [None, -100, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(4, 5, 11), (9, 6), (2, 3, 4, 5), (40, 300)])
def test_perplexity_is_what_its_definition_says(shape, dtype, ignore, form, monkeypatch):
    monkeypatch.setattr(tokens, "_BLOCK", 1000)  # several blocks a batch
    g = torch.Generator().manual_seed(0)
    logits = (torch.randn(shape, generator=g) * 4).to(dtype)
    target = torch.randint(0, shape[-1], shape[:-1], generator=g)
    if ignore is not None:
        target[torch.rand(target.shape, generator=g) < 0.3] = ignore
    metric = Perplexity(ignore).set_dtype(torch.float64)
    for batch in zip(logits.split(2), target.split(2)):
        metric.update(*form(batch))
    want = by_definition(logits.double(), target, ignore)
    assert float(metric.compute()) == pytest.approx(want, rel=1e-12 if dtype is torch.float64 else 1e-6)
    assert metric.fetch().result() == pytest.approx(want, rel=1e-6)
    assert float(perplexity(logits, target, ignore)) == pytest.approx(want, rel=1e-5)


@forms
def test_large_logits_cost_no_digits(form):
    logits = tensor([[1e4, 1e4 - 1.0, -1e4], [0.0, 300.0, -torch.inf]])
    metric = Perplexity()
    metric.update(*form((logits, tensor([1, 0]))))
    want = math.exp((1 + math.log(1 + math.exp(-1)) + 300) / 2)
    assert metric.fetch().result() == pytest.approx(want, rel=1e-6)


def test_gradients_flow_through_forward():
    logits, target = torch.randn(6, 5, dtype=torch.float64, requires_grad=True), tensor([0, 1, 2, 3, 4, -100])
    Perplexity(-100).set_dtype(torch.float64)(logits, target).backward()
    mine, logits.grad = logits.grad, None
    cross_entropy(logits, target).exp().backward()
    torch.testing.assert_close(mine, logits.grad)


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        ((torch.zeros(2, 3, 4), torch.zeros(2, 4, dtype=torch.long)), "expected logits"),
        ((torch.zeros(3), tensor(1)), "expected logits"),
        ((torch.zeros(2, 3), tensor([0.0, 1.0])), "target has dtype"),
        ((torch.zeros(2, 3, dtype=torch.long), tensor([0, 1])), "preds has dtype"),
        ((torch.zeros(2, 3), tensor([0, 3])), "target 3 of token 1 is impossible; expected 0..2"),
        ((torch.zeros(2, 3), tensor([-1, 0])), "target -1 of token 0 is impossible"),
        ((tensor([[0.0, torch.nan]]), tensor([0])), "token 0 have NaN"),
        (([[0.0, 1.0]], tensor([0])), "preds is a list"),
    ],
)
def test_a_batch_that_is_refused_says_why_and_changes_nothing(batch, text):
    metric = Perplexity()
    metric.update(torch.zeros(2, 4), tensor([0, 1]))
    with pytest.raises((ValueError, TypeError), match=text):
        metric.update(*batch)
    assert float(metric.compute()) == pytest.approx(4.0)


def test_on_a_device_what_is_impossible_is_counted_and_kept_out():
    metric = Perplexity()
    metric.update(*elsewhere((tensor([[0.0, 0.0], [0.0, 5.0], [torch.nan, 0.0]]), tensor([0, 2, 0]))))
    with pytest.raises(tt.FaultError, match="2 values were impossible") as raised:
        metric.compute()
    assert isinstance(raised.value.values, Tensor) and float(raised.value.values) == pytest.approx(2.0)


def test_no_tokens_have_no_perplexity():
    assert Perplexity().compute().isnan()
    assert Perplexity(-1)(torch.zeros(3, 4), tensor([-1, -1, -1])).isnan()


def test_a_metric_of_torchmetrics_is_taken_over():
    theirs = pytest.importorskip("torchmetrics.text").Perplexity(ignore_index=-100)
    batch = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0)), tensor([[1, 2, 3, -100, 4], [6, 0, -100, -100, 2]])
    theirs.update(*batch)
    ours = adopt(theirs)
    assert type(ours) is Perplexity
    ours.update(*batch)
    theirs.update(*batch)
    torch.testing.assert_close(ours.compute(), theirs.compute())
