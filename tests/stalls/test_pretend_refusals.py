"""What a device refuses, at once where the host can tell, else at the next wait."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchtally.stalls import pretend_cuda


@pytest.fixture(autouse=True)
def recorder():
    with pretend_cuda(devices=2) as found:
        yield found


def labels(*values):
    return torch.tensor(values, device="cuda")


SAME_DEVICE = "Expected all tensors to be on the same device"


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, h: x + h,
        lambda x, h: h + x,
        lambda x, h: x.mul_(h),
        lambda x, h: h.mul_(x),
        lambda x, h: x @ h,
        lambda x, h: torch.cat([x, h]),
        lambda x, h: torch.stack([x, h]),
        lambda x, h: torch.where(x > 0, x, h),
        lambda x, h: x.gather(0, h.long()),
        lambda x, h: F.linear(x, h),
        lambda x, h: F.mse_loss(x, h),
        lambda x, h: F.cross_entropy(x, torch.zeros(2, dtype=torch.long)),
        lambda x, h: nn.BatchNorm1d(2)(x),
        lambda x, h: torch.cdist(x, h),
        lambda x, h: x.new_ones(2, 2, device="cuda:1") + x,
        lambda x, h: torch.stack([x[0, 0], torch.tensor(1.0)]),
        lambda x, h: torch.tensor(1.0).add_(x[0, 0]),
    ],
)
def test_operands_in_different_places(mix):
    with pytest.raises(RuntimeError, match=SAME_DEVICE):
        mix(torch.ones(2, 2, device="cuda"), torch.ones(2, 2))


def test_comparing_in_different_places():
    with pytest.raises(RuntimeError, match="Cannot compare two tensors on different devices"):
        torch.equal(torch.ones(2, device="cuda"), torch.ones(2))


def test_indices_in_different_places():
    with pytest.raises(RuntimeError, match=r"indices should be either on cpu or on the same device as the indexed tensor \(cpu\)|on the same device"):
        torch.ones(3)[labels(1)]


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, c: x + c,
        lambda x, c: c * x,
        lambda x, c: x.fill_(c),
        lambda x, c: x.masked_fill(x > 0, c),
        lambda x, c: torch.where(x > 0, x, c),
        lambda x, c: x.clamp(min=c),
        lambda x, c: torch.lerp(x, x, c),
        lambda x, c: x[torch.tensor([0])],
        lambda x, c: x.index_put_((torch.tensor([0]),), c),
        lambda x, c: torch._foreach_mul([x, x], c)[0],
        lambda x, c: torch.tensor(2.0).pow(x),
        lambda x, c: x.copy_(torch.ones(3)),
    ],
)
def test_numbers_and_indices_may_lie_on_the_host(mix):
    assert mix(torch.ones(3, device="cuda"), torch.tensor(2.0)).is_cuda


def test_a_pinned_tensor_is_on_the_host():
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="cuda").pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.ones(2, device="cuda", pin_memory=True)


def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device="cuda:2")


def test_waiting_while_a_graph_is_captured():
    with pytest.raises(RuntimeError, match="operation not permitted when stream is capturing"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.ones(1, device="cuda").item()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: torch.arange(3.0, device="cuda")[labels(1, 7)],
        lambda: nn.Embedding(3, 2).cuda()(labels(9)),
        lambda: torch.zeros(3, device="cuda").scatter_(0, labels(5), 1.0),
        lambda: torch.zeros(3, 3, device="cuda").gather(1, labels(5)[None]),
        lambda: torch.zeros(3, device="cuda").index_add_(0, labels(5), torch.ones(1, device="cuda")),
        lambda: F.cross_entropy(torch.zeros(2, 3, device="cuda"), labels(0, 7)),
        lambda: F.one_hot(labels(7), 3),
        lambda: F.binary_cross_entropy(torch.full((2,), 2.0, device="cuda"), torch.zeros(2, device="cuda")),
        lambda: torch._assert_async(torch.zeros((), device="cuda")),
    ],
)
def test_wrong_values_are_found_at_the_next_wait(wrong):
    left = wrong()
    assert left is None or left.is_cuda
    with pytest.raises(RuntimeError, match="device-side assert triggered"):
        torch.cuda.synchronize()
    with pytest.raises(RuntimeError, match="device-side assert triggered"):
        torch.ones(1, device="cuda").item()


def test_wrong_values_on_the_host_are_found_at_once():
    with pytest.raises(IndexError):
        torch.arange(3)[torch.tensor([7])]
    torch.cuda.synchronize()


def test_wrong_shapes_are_found_at_once():
    with pytest.raises(IndexError, match="too many indices"):
        torch.arange(3, device="cuda")[labels(0), labels(0)]
    torch.cuda.synchronize()
