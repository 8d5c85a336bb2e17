"""Operators that PyTorch has for CUDA alone, against batch normalisation of the whole."""

import pytest
import torch
import torch.nn.functional as F

from torchtally.stalls import pretend_cuda

EPS = 1e-5


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4), (6, 3, 2, 5)])
def test_synchronised_batch_normalisation(shape, affine):
    generator = torch.Generator().manual_seed(0)
    x, gradient = (torch.randn(shape, generator=generator) * 3 + 1 for _ in range(2))
    weight, bias = (torch.randn(3, generator=generator), torch.randn(3, generator=generator)) if affine else (None, None)
    running_mean, running_var = torch.zeros(3), torch.ones(3)

    whole = x.clone().double().requires_grad_()
    parameters = [p.double().requires_grad_() for p in (weight, bias)] if affine else [None, None]
    expected = F.batch_norm(whole, running_mean.double(), running_var.double(), *parameters, training=True, momentum=0.1, eps=EPS)
    expected.backward(gradient.double())
    F.batch_norm(x, running_mean, running_var, training=True, momentum=0.1, eps=EPS)

    with pretend_cuda():
        on = [p.cuda() if affine else None for p in (weight, bias)]
        ranks = [slice(0, 2), slice(2, 6)]  # of unequal size
        inputs, gradients = [x[r].cuda() for r in ranks], [gradient[r].cuda() for r in ranks]
        means, invstds = zip(*[torch.batch_norm_stats(part, EPS) for part in inputs])
        counts = torch.tensor([part.numel() / 3 for part in inputs], device="cuda")
        mean_of, var_of = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
        mean, invstd = torch.batch_norm_gather_stats_with_counts(inputs[0], torch.stack(means), torch.stack(invstds), mean_of, var_of, 0.1, EPS, counts)
        out = torch.cat([torch.batch_norm_elemt(part, *on, mean, invstd, EPS) for part in inputs])
        reduced = [torch.batch_norm_backward_reduce(g, part, mean, invstd, on[0], True, True, True) for g, part in zip(gradients, inputs)]
        sums, products = sum(r[0] for r in reduced), sum(r[1] for r in reduced)
        back = torch.cat(
            [torch.batch_norm_backward_elemt(g, part, mean, invstd, on[0], sums, products, counts.int()) for g, part in zip(gradients, inputs)]
        )
        assert out.is_cuda and back.is_cuda
        results = [t.cpu() for t in (out, back, mean_of, var_of, sum(r[2] for r in reduced), sum(r[3] for r in reduced))]
    torch.testing.assert_close(results[0].double(), expected.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(results[1].double(), whole.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(results[2], running_mean)
    torch.testing.assert_close(results[3], running_var)
    if affine:
        torch.testing.assert_close(results[4].double(), parameters[0].grad, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(results[5].double(), parameters[1].grad, rtol=1e-4, atol=1e-4)
