"""Substitutes for what a host is slow at, and what pretending costs."""

import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torchtally.stalls import pretend_cuda


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_products_are_rounded_once(dtype):
    with pretend_cuda():
        a, b = (torch.randn(32, 512, device="cuda", dtype=dtype) for _ in range(2))
        got = (a @ b.T).cpu()
        exact = a.cpu().double() @ b.cpu().double().T
    assert got.dtype is dtype
    torch.testing.assert_close(got.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-3)


def test_fast_gives_noise_of_the_right_shape_and_says_so():
    with pretend_cuda(fast=True) as recorder:
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 5)).cuda()
        out = model(torch.full((2, 3, 8, 8), 1e6, device="cuda"))
        assert out.shape == (2, 5) and out.abs().max() < 1  # a real product would be huge
        out.sum().backward()
        assert model[0].weight.grad.shape == (4, 3, 3, 3)
        query = torch.randn(1, 2, 4, 8, device="cuda", requires_grad=True)
        F.scaled_dot_product_attention(query, query, query).sum().backward()
        assert query.grad.shape == query.shape
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]  # the host's own products are real
    assert any(note.startswith("fast") for note in recorder.notes)


class Dispatch(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.slow
def test_an_operator_costs_little_more_than_seeing_it():
    """The absolute figure is the benchmark's: a busy machine would blur it here."""

    def once(x, times=500):
        start = time.thread_time()
        for _ in range(times):
            torch.add(x, x)
        return (time.thread_time() - start) / times

    seen, pretended, x = [], [], torch.ones(4)
    with pretend_cuda():
        y = torch.ones(4, device="cuda")
    for _ in range(30):
        with Dispatch(), BaseTorchFunctionMode():
            seen.append(once(x))
        with pretend_cuda():
            once(y, 1)
            pretended.append(once(y))
    assert min(pretended) < 2.5 * min(seen)
