"""Automatic mixed precision on the pretend device: CUDA's lists, a scaler that scales, and the host left alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchtally.stalls import pretend_cuda


@pytest.fixture(autouse=True)
def recorder():
    with pretend_cuda() as found:
        yield found


LOWER = [
    lambda x: x @ x,
    lambda x: F.linear(x, x),
    lambda x: F.conv2d(x[None, None], x[None, None]),
    lambda x: torch.einsum("ij,jk->ik", x, x),
    lambda x: torch.bmm(x[None], x[None]),
    lambda x: torch.mv(x, x[0]),
    lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
]
FLOAT32 = [
    torch.exp, torch.log, torch.sum, torch.cumsum, torch.prod, torch.softmax, torch.pow, torch.rsqrt, F.layer_norm, F.mse_loss, F.l1_loss,
    F.binary_cross_entropy_with_logits, F.cross_entropy, F.smooth_l1_loss, torch.dist,
]  # fmt: skip
ARGUMENTS = {
    torch.softmax: lambda x: (x, -1), torch.cumsum: lambda x: (x, 0), torch.pow: lambda x: (x, 2), F.layer_norm: lambda x: (x, (3,)),
    F.mse_loss: lambda x: (x, x), F.l1_loss: lambda x: (x, x), F.smooth_l1_loss: lambda x: (x, x), torch.dist: lambda x: (x, x),
    F.binary_cross_entropy_with_logits: lambda x: (x, x), F.cross_entropy: lambda x: (x, torch.zeros(3, dtype=torch.long, device="cuda")),
}  # fmt: skip


@pytest.mark.parametrize("operation", LOWER)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_run_in_the_lower_precision(operation, dtype):
    x = torch.ones(3, 3, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        assert operation(x).dtype is dtype
    assert operation(x).dtype is torch.float32


@pytest.mark.parametrize("operation", FLOAT32, ids=lambda f: f.__name__)
def test_sums_and_losses_run_in_float32(operation):
    x = torch.ones(3, 3, device="cuda", dtype=torch.float16)
    with torch.autocast("cuda"):
        assert operation(*ARGUMENTS.get(operation, lambda x: (x,))(x)).dtype is torch.float32


def test_operands_are_widened():
    half, single = torch.ones(3, device="cuda", dtype=torch.float16), torch.ones(3, device="cuda")
    with torch.autocast("cuda"):
        assert torch.addcmul(half, half, single).dtype is torch.float32 and torch.cat([half, single]).dtype is torch.float32
        assert (half + half).dtype is torch.float16


def test_what_is_unsafe_is_refused():
    x = torch.full((2,), 0.5, device="cuda")
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(x, x)


def test_the_host_is_left_alone():
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled() and not torch.is_autocast_enabled("cpu")
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
        assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype is torch.float32


def test_the_scaler_scales_and_waits_once_a_step(recorder):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cuda", init_scale=1024.0)
    x, y = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]], device="cuda"), torch.arange(2, device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    before = len(recorder.stalls)
    step()
    step()
    assert [stall.operator for stall in recorder.stalls[before:]] == ["aten::_local_scalar_dense"] * 2
    assert model[0].weight.grad.dtype is torch.float32 and scaler.get_scale() == 1024.0
    x.fill_(float("inf"))
    kept = model[0].weight.clone()
    step()
    assert scaler.get_scale() == 512.0 and torch.equal(model[0].weight, kept)  # a step that overflows is skipped
