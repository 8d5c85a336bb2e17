"""Lines of user code and how often each makes the host wait, by operator. The pretend device and a real one run the same table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel

SETUP = """
import copy, io, math, pickle
import numpy as np
import torch.nn as nn, torch.nn.functional as F, torch.distributions as dist, torch.optim as optim
x = torch.linspace(-1.0, 1.0, 16, device="cuda").view(4, 4)    # values of a matrix
y = x.flip(0) + 0.25
m = x > 0                                                       # a mask
i = torch.arange(4, device="cuda")                              # integer indices
p = torch.full((4,), 0.25, device="cuda")
A = x @ x.T + 4 * torch.eye(4, device="cuda")
n = torch.full((), 2, device="cuda")                            # 0-dimensional on the device
t = torch.full((), 2.0, device="cuda")
b = torch.full((), True, device="cuda")
w = torch.full((4,), 0.5, device="cuda", requires_grad=True)
c = torch.ones(4, 4)                                            # on the host: pageable, 0-dimensional, index, mask, pinned
c0 = torch.tensor(3.0)
ic = torch.tensor([0, 2])
mc = torch.tensor([True, False, True, False])
big = torch.ones(300, 300)
pinned = torch.ones(4, 4).pin_memory()
"""


@dataclass(frozen=True)
class Snippet:
    """`waits` counts the waits by operator; none means that the host never waits. `before` is run first, unwatched."""

    code: str
    waits: dict[str, int]
    before: str = ""
    since: str = "2.6"
    until: str | None = None
    gpu: bool = True  # false where a real device cannot run or count it


def namespace(before: str = "") -> dict[str, Any]:
    """The tensors that snippets speak of, on the device that `cuda` means now."""
    names: dict[str, Any] = {"torch": torch}
    exec(SETUP, names)
    exec(before, names)
    return names


READ, MASK, COPY = "aten::_local_scalar_dense", "aten::index", "aten::_to_copy"
NONE: dict[str, int] = {}


def questions(parameters: int) -> int:
    """How often an `AveragedModel` asks whether this is its first update: older PyTorch does for each parameter."""
    return 1 if "copy_param" in AveragedModel.update_parameters.__code__.co_varnames else parameters


def one(operator: str) -> dict[str, int]:
    return {operator: 1}


READING = [
    Snippet("x.sum().item()", one(READ)),
    Snippet("float(t)", one(READ)),
    Snippet("int(n)", one(READ)),
    Snippet("complex(t)", one(READ)),
    Snippet("if t > 0: pass", one(READ)),
    Snippet("assert t > 0", one(READ)),
    Snippet("not t", one(READ)),
    Snippet("[0, 1, 2, 3][n]", one(READ)),
    Snippet("range(n)", one(READ)),
    Snippet("math.sqrt(t)", one(READ)),
    Snippet("max(t, t + 1)", one(READ)),
    Snippet("t in [t + 1, t + 2]", {READ: 2}),
    Snippet("2.0 in x", one(READ)),
    Snippet("torch.is_nonzero(t)", one(READ)),
    Snippet("bool(m.any())", one(READ)),
    Snippet("x.tolist()", one("Tensor.tolist")),
    Snippet("t.tolist()", one("Tensor.tolist")),
    Snippet("torch.equal(x, y)", one("aten::equal")),
    Snippet("torch.equal(x, y[:2])", NONE),
    Snippet("torch.allclose(x, y)", one("aten::allclose")),
    Snippet("torch.isclose(x, y).all()", NONE),
    Snippet("m.any(), m.all(), x.max(), x.argmax()", NONE),
    Snippet("torch.cov(x)", one("aten::equal")),
    Snippet("torch.corrcoef(x)", one("aten::equal")),
    Snippet("torch.istft(s, 64, window=window)", one("aten::equal"),
            before="s = torch.ones(33, 5, device='cuda', dtype=torch.complex64); window = torch.ones(64, device='cuda')"),
    Snippet("x.numel(), x.shape, x.stride(), x.dtype, x.device, x.data_ptr(), len(x), x.is_cuda", NONE, gpu=True),
    Snippet("[row.sum() for row in x]", NONE),
    Snippet("sorted([t, t + 1])", one(READ)),
    Snippet("any([t > 3, t > 0])", {READ: 2}),
    Snippet("sum([t, t]), abs(t), -t, t // 2, t % 2, t ** 0.5", NONE),
    Snippet("math.isnan(t)", one(READ)),
    Snippet("hash(x), x is y, id(x), x.is_contiguous(), x.element_size(), x.untyped_storage().nbytes()", NONE),
    Snippet("torch.testing.assert_close(x, y, atol=9, rtol=9)", one(READ)),
    Snippet("torch._assert_async(m.any())", NONE),
]

PRINTING = [
    Snippet("print(x, file=io.StringIO())", one("Tensor.__repr__")),
    Snippet("str(x)", one("Tensor.__repr__")),
    Snippet("f'{x}'", one("Tensor.__repr__")),
    Snippet("f'{t:.3f}'", one("Tensor.__format__")),
    Snippet("'{}'.format(t)", one("Tensor.__format__")),
    Snippet("'{:.2f} {}'.format(t, n)", {"Tensor.__format__": 2}),
    Snippet("'%s' % t", one("Tensor.__repr__")),
    Snippet("'%.3f' % t", one(READ)),
]

TO_DEVICE = [
    Snippet("c.to('cuda')", one(COPY)),
    Snippet("c.cuda()", one(COPY)),
    Snippet("c.to(x)", one(COPY)),
    Snippet("c.to(device=torch.device('cuda'), dtype=torch.float64)", one(COPY)),
    Snippet("c0.cuda()", one(COPY)),
    Snippet("x.cuda(), x.to('cuda'), x.to(x.device)", NONE),
    Snippet("x.to(torch.float64), x.double(), x.clone(), x.contiguous()", NONE),
    Snippet("pinned.cuda()", one(COPY)),
    Snippet("pinned.to('cuda', non_blocking=True)", NONE),
    Snippet("pinned.cuda(non_blocking=True)", NONE),
    Snippet("big.to('cuda', non_blocking=True)", one(COPY), gpu=False),  # the driver stages it: no hook sees that
    Snippet("c.to('cuda', non_blocking=True)", NONE),
    Snippet("torch.ones(0).cuda()", NONE),
    Snippet("x.copy_(c)", one("aten::copy_")),
    Snippet("x.copy_(c0)", one("aten::copy_")),
    Snippet("x.copy_(pinned, non_blocking=True)", NONE),
    Snippet("x.copy_(y)", NONE),
    Snippet("x[0] = c[0]", one("aten::copy_")),
    Snippet("layer.load_state_dict({'weight': torch.zeros(2, 2), 'bias': torch.zeros(2)})", {"aten::copy_": 2}, before="layer = nn.Linear(2, 2).cuda()"),
    Snippet("nn.Linear(2, 2).cuda()", {COPY: 2}),
    Snippet("nn.Linear(2, 2, device='cuda')", NONE),
    Snippet("torch.tensor([1.0, 2.0], device='cuda')", one("torch.tensor")),
    Snippet("torch.tensor(1.0, device='cuda')", one("torch.tensor")),
    Snippet("torch.tensor(1.0).to('cuda')", one(COPY)),
    Snippet("torch.as_tensor(np.ones(3), device='cuda')", one("torch.as_tensor")),
    Snippet("torch.as_tensor(x, device='cuda'), torch.as_tensor(x)", NONE),
    Snippet("torch.asarray([1.0], device='cuda')", one("torch.asarray")),
    Snippet("torch.from_numpy(np.ones(3)).cuda()", one(COPY)),
    Snippet("x.new_tensor([1.0, 2.0])", one("Tensor.new_tensor")),
    Snippet("torch.tensor([t, t])", {READ: 2}),
    Snippet("torch.tensor([t, t], device='cuda')", {READ: 2, "torch.tensor": 1}),
    Snippet("torch.tensor([1.0, 2.0])", NONE),
    Snippet("torch.tensor(t)", NONE),
    Snippet("torch.tensor(t, device='cpu')", one(COPY)),
    Snippet("torch.as_tensor([t, t])", {READ: 2}),
    Snippet("torch.as_tensor(c, device='cuda')", one(COPY)),
    Snippet("with torch.device('cuda'): torch.tensor([1.0])", one("torch.tensor")),
    Snippet("with torch.device('cuda'): torch.zeros(3), torch.rand(3)", NONE),
    Snippet("torch.full((3,), 2.0, device='cuda'), torch.zeros(3, device='cuda'), torch.arange(3, device='cuda')", NONE),
    Snippet("torch.scalar_tensor(2.0, device='cuda'), x.new_full((), 2.0), x.new_zeros(3), torch.ones_like(x)", NONE),
    Snippet("torch.full((3,), t, device='cuda')", one(READ)),
    Snippet("torch.zeros(n, device='cuda')", one(READ)),
    Snippet("torch.arange(n, device='cuda')", one(READ)),
    Snippet("torch.add(x, y, alpha=t)", one(READ)),
    Snippet("torch.full_like(x, t)", one(READ)),
    Snippet("x[:2].repeat(n, 1)", one(READ)),
    Snippet("x.view(n, -1)", one(READ)),
    Snippet("torch.topk(x, n)", one(READ)),
    Snippet("torch.randint(0, n, (3,), device='cuda')", one(READ)),
    Snippet("torch.linspace(t, t + 1, 5, device='cuda')", {"aten::linspace": 2}),
    Snippet("torch.logspace(t, 3.0, 5, device='cuda')", one("aten::logspace")),
    Snippet("torch.linspace(0.0, 1.0, 5, device='cuda')", NONE),
    Snippet("x[[0, 2]]", one(MASK)),
    Snippet("x[ic]", one(MASK)),
    Snippet("x[ic, ic]", {MASK: 2}),
    Snippet("x[mc]", one(MASK), until="2.11"),
    Snippet("x[mc]", NONE, since="2.11"),
    Snippet("x[ic] = y[:2]", one("aten::index_put_")),
    Snippet("torch.where(m, x, c0)", one("aten::where")),
    Snippet("torch.where(m, c0, c0)", {"aten::where": 2}),
    Snippet("torch.where(m, x, 0.0), torch.where(m, 1.0, x), torch.where(m, x, t)", NONE),
    Snippet("torch.unravel_index(i, (2, 2))", {"torch.tensor": 2}),
    Snippet("F.ctc_loss(scores, labels, torch.tensor([5, 5]), torch.tensor([2, 2]))", {"aten::_ctc_loss": 3},
            before="scores = torch.zeros(5, 2, 4, device='cuda').log_softmax(-1); labels = torch.ones(2, 2, dtype=torch.long, device='cuda')"),
    Snippet("F.ctc_loss(scores, labels, full, two)", {"aten::_ctc_loss": 5},
            before="scores = torch.zeros(5, 2, 4, device='cuda').log_softmax(-1); labels = torch.ones(2, 2, dtype=torch.long, device='cuda')\n"
                   "full, two = torch.full((2,), 5, device='cuda'), torch.full((2,), 2, device='cuda')"),
]

HOST_NUMBERS = [
    Snippet("x + c0, x * c0, x - c0, x / c0, c0 + x, x.add_(c0), x ** c0, x > c0, torch.maximum(x, c0)", NONE),
    Snippet("x + 1.0, 2 * x, x.add_(1.0), x.clamp(0, 1), x.clamp_(min=0.0), x == 0", NONE),
    Snippet("x.fill_(c0)", NONE),
    Snippet("x.fill_(t)", NONE),
    Snippet("x.fill_(1.0), x.zero_()", NONE),
    Snippet("x[0] = 1.0", NONE),
    Snippet("x[0] = c0", NONE),
    Snippet("x[0] = t", NONE),
    Snippet("x[:, 1:3] = 1.0", NONE),
    Snippet("x[...] = 1.0", NONE),
]

TO_HOST = [
    Snippet("x.cpu()", one(COPY)),
    Snippet("x.cpu().numpy()", one(COPY)),
    Snippet("x.to('cpu')", one(COPY)),
    Snippet("x.detach().cpu()", one(COPY)),
    Snippet("x.to('cpu', non_blocking=True)", NONE),
    Snippet("c.cpu(), c.to('cpu')", NONE),
    Snippet("c.copy_(x)", one("aten::copy_")),
    Snippet("pinned.copy_(x, non_blocking=True)", NONE),
    Snippet("c.copy_(x, non_blocking=True)", one("aten::copy_"), gpu=False),
    Snippet("pickle.dumps(x)", one("Tensor.__reduce_ex__")),
    Snippet("torch.save({'x': x, 'y': y}, io.BytesIO())", {"Tensor.__reduce_ex__": 2}),
    Snippet("copy.deepcopy(x), copy.copy(x)", NONE),
]

SHAPES = [
    Snippet("x[m]", one(MASK)),
    Snippet("x[i, m[3]]", one(MASK)),
    Snippet("x[m] = 0.0", NONE),
    Snippet("x[m] = c0", NONE),
    Snippet("x[m[0]] = 0.0", NONE),
    Snippet("x[m] = t", one("aten::index_put_")),
    Snippet("x[m] = x[m]", {MASK: 1, "aten::index_put_": 1}),
    Snippet("x[m] += 1.0", {MASK: 1, "aten::index_put_": 1}),
    Snippet("x[n]", one(READ)),
    Snippet("x[:n]", one(READ)),
    Snippet("x.select(0, n)", one(READ)),
    Snippet("torch.narrow(x, 0, n, 1)", one(READ)),
    Snippet("x[b]", one(READ)),
    Snippet("x[i]", NONE),
    Snippet("x[0], x[:, 1], x[..., None], x[1:3]", NONE),
    Snippet("x[i] = 1.0", one("aten::index_put_")),
    Snippet("x[i, i] = 1.0", one("aten::index_put_")),
    Snippet("x[i] = y", NONE),
    Snippet("x[i] = t", NONE),
    Snippet("x.scatter_(0, i[None], 1.0), x.scatter(0, i[None], y), x.gather(0, i[None]), x.index_select(0, i), x.take(i)", NONE),
    Snippet("x.index_put_((i,), y, accumulate=True)", NONE),
    Snippet("x.index_add_(0, i, y), x.index_copy_(0, i, y), x.index_fill_(0, i, 1.0)", NONE),
    Snippet("x.index_fill_(0, i, t)", one("aten::index_fill_")),
    Snippet("x.index_fill(0, i, t)", one("aten::index_fill")),
    Snippet("x.index_fill_(0, i, c0)", NONE),
    Snippet("x.masked_fill(m, 0.0), x.masked_fill_(m, 0.0), x.masked_fill(m, c0)", NONE),
    Snippet("x.masked_fill(m, t)", one("aten::masked_fill")),
    Snippet("x.masked_fill_(m, t)", one("aten::masked_fill_")),
    Snippet("torch.masked_select(x, m)", one("aten::masked_select")),
    Snippet("x.masked_scatter(m, y)", NONE),
    Snippet("torch.where(m)", one("aten::nonzero")),
    Snippet("torch.nonzero(m)", one("aten::nonzero")),
    Snippet("m.nonzero(as_tuple=True)", one("aten::nonzero")),
    Snippet("torch.argwhere(m)", one("aten::nonzero")),
    Snippet("torch.nonzero_static(m, size=4)", NONE),
    Snippet("torch.unique(i)", one("aten::_unique2")),
    Snippet("torch.unique(i, return_inverse=True, return_counts=True)", one("aten::_unique2")),
    Snippet("torch.unique(x, dim=0)", one("aten::unique_dim")),
    Snippet("torch.unique_consecutive(i)", one("aten::unique_consecutive")),
    Snippet("torch.bincount(i)", {"aten::bincount": 2}),
    Snippet("torch.bincount(i, minlength=10)", {"aten::bincount": 2}),
    Snippet("torch.bincount(i.to(torch.uint8))", one("aten::bincount")),
    Snippet("torch.histc(x, bins=4)", {"aten::histc": 2}),
    Snippet("torch.histc(x, bins=4, min=-3, max=3)", NONE),
    Snippet("torch.repeat_interleave(x, i, dim=0)", {"aten::repeat_interleave": 2}),
    Snippet("x.repeat_interleave(i, dim=0, output_size=6)", NONE),
    Snippet("x.repeat_interleave(2, dim=0)", NONE),
    Snippet("F.one_hot(i)", one(READ)),
    Snippet("F.one_hot(i, 4)", NONE),
    Snippet("torch.isin(i, torch.arange(2, device='cuda'))", NONE),
    Snippet("torch.isin(i, torch.arange(100, device='cuda'))", {"aten::isin": 3}),
    Snippet("torch.isin(i, torch.arange(100, device='cuda'), assume_unique=True)", one("aten::isin")),
    Snippet("torch.combinations(i, 2)", NONE, since="2.14"),
    Snippet("torch.combinations(i, 2)", {"aten::masked_select": 2}, until="2.14"),
    Snippet("torch.tensor_split(x, 2), x.split(2), x.chunk(2), torch.tensor_split(x, torch.tensor([1, 2]))", NONE),
    Snippet("x.to_sparse()", one("aten::_to_sparse")),
    Snippet("torch.sparse_coo_tensor(i[None], p, (4,)).coalesce()", one("aten::_coalesce")),
    Snippet("nn.utils.rnn.pack_padded_sequence(x[None], torch.tensor([3]), batch_first=True)", NONE),
    Snippet("nn.utils.rnn.pack_padded_sequence(x[None], torch.tensor([3]), batch_first=True, enforce_sorted=False)", one(COPY)),
    Snippet("nn.utils.rnn.pad_sequence([x, y])", NONE),
    Snippet("x.clamp(min=t), x.clamp(t, t), x.clamp(max=c0)", NONE),
    Snippet("x.scatter_reduce(0, i[None], y, 'sum'), x.index_reduce_(0, i, y, 'prod'), torch.take_along_dim(x, i[None], 0), x.put_(i, p)", NONE),
    Snippet("torch.triu(x), torch.tril(x), torch.triu_indices(4, 4, device='cuda'), torch.meshgrid(i, i, indexing='ij')", NONE),
]

MATHS = [
    Snippet("torch.linalg.inv(A)", one("aten::_linalg_check_errors")),
    Snippet("torch.linalg.inv_ex(A)", NONE),
    Snippet("torch.linalg.cholesky(A)", one("aten::_linalg_check_errors")),
    Snippet("torch.linalg.cholesky_ex(A)", NONE),
    Snippet("torch.cholesky(A)", one("aten::cholesky"), until="2.14"),
    Snippet("torch.linalg.solve(A, x)", one("aten::_linalg_check_errors")),
    Snippet("torch.linalg.lu_factor(A)", one("aten::_linalg_check_errors")),
    Snippet("torch.linalg.ldl_factor(A)", one("aten::_linalg_check_errors")),
    Snippet("torch.linalg.det(A), torch.linalg.slogdet(A), torch.linalg.qr(A), torch.linalg.matrix_power(A, 3)", NONE),
    Snippet("torch.linalg.svd(A)", {"aten::_linalg_svd": 2}),
    Snippet("torch.linalg.svdvals(A)", {"aten::_linalg_svd": 2}),
    Snippet("torch.linalg.matrix_rank(A)", {"aten::_linalg_svd": 2}),
    Snippet("torch.linalg.norm(A, 2)", {"aten::_linalg_svd": 2}),
    Snippet("torch.linalg.norm(A), torch.linalg.vector_norm(x), x.norm()", NONE),
    Snippet("torch.linalg.eigh(A)", one("aten::_linalg_eigh")),
    Snippet("torch.linalg.eigvalsh(A)", one("aten::_linalg_eigh")),
    Snippet("torch.linalg.eig(A)", one("aten::linalg_eig")),
    Snippet("torch.linalg.lstsq(A, x)", one("aten::linalg_lstsq")),
    Snippet("torch.linalg.pinv(A)", {"aten::linalg_pinv": 2}),
    Snippet("torch.linalg.matrix_exp(A)", one("aten::linalg_matrix_exp")),
    Snippet("torch.mode(x)", NONE),
    Snippet("torch.mode(torch.zeros(2, 3000, device='cuda', dtype=torch.long))", {"aten::mode": 2}),
    Snippet("torch.median(x), torch.quantile(x, 0.5), torch.nanquantile(x, 0.5), torch.kthvalue(x, 2)", NONE),
    Snippet("torch.sort(x), torch.topk(x, 2), torch.argsort(x), torch.cumsum(x, 0), torch.logsumexp(x, 0), x.std(), x.var(), x.softmax(0)", NONE),
    Snippet("torch.searchsorted(p.sort().values, x), torch.bucketize(x, p)", NONE),
    Snippet("torch.searchsorted(p, x, sorter=p.argsort())", {"aten::searchsorted": 2}),
    Snippet("torch.multinomial(p, 2), torch.multinomial(p, 8, replacement=True)", NONE),
    Snippet("torch.randperm(10, device='cuda'), torch.rand(3, device='cuda'), torch.randn_like(x), torch.bernoulli(p), torch.poisson(p)", NONE),
    Snippet("torch.normal(x, y.abs())", {"aten::normal": 2}),
    Snippet("torch.normal(0.0, y.abs())", {"aten::normal": 2}),
    Snippet("torch.normal(x, 1.0), torch.normal(0.0, 1.0, (3,), device='cuda')", NONE),
    Snippet("torch.cdist(x, y), torch.einsum('ij,kj->ik', x, y), x @ y, torch.baddbmm(x[None], x[None], x[None])", NONE),
    Snippet("torch.segment_reduce(p, 'sum', lengths=n.view(1) + 2)", {"aten::segment_reduce": 2}),
    Snippet("torch.segment_reduce(p, 'sum', lengths=n.view(1) + 2, unsafe=True)", NONE),
    Snippet("torch.nan_to_num(x), torch.lerp(x, y, 0.5), torch.diff(x), torch.roll(x, 1), torch.flip(x, (0,)), torch.cat([x, y]), torch.stack([t, t])", NONE),
]

NETWORKS = [
    Snippet("F.cross_entropy(x, i)", NONE),
    Snippet("F.cross_entropy(x, i, weight=p), F.cross_entropy(x, i, label_smoothing=0.1), F.nll_loss(x, i)", NONE),
    Snippet("F.cross_entropy(x, i, weight=p, label_smoothing=0.1)", one("torch.nn.functional.cross_entropy")),
    Snippet("nn.CrossEntropyLoss(weight=p, label_smoothing=0.1)(x, i)", one("torch.nn.functional.cross_entropy")),
    Snippet("F.cross_entropy(x, i, weight=p, label_smoothing=0.1, reduction='sum')", NONE),
    Snippet("F.mse_loss(x, y), F.binary_cross_entropy_with_logits(x, y), F.kl_div(x, y), F.huber_loss(x, y)", NONE),
    Snippet("F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.multi_margin_loss(x, i), F.triplet_margin_loss(x, y, x)", NONE),
    Snippet("F.gaussian_nll_loss(x, y, y.abs())", one(READ)),
    Snippet("F.normalize(x), F.cosine_similarity(x, y), F.pairwise_distance(x, y), F.gumbel_softmax(x), F.pad(x, (1, 1))", NONE),
    Snippet("F.conv2d(x[None, None], x[None, None]), F.max_pool2d(x[None], 2), F.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2, device='cuda'), align_corners=False)", NONE),
    Snippet("F.embedding(i, x), F.embedding(i, x.clone(), max_norm=1.0), F.embedding_bag(i[None], x)", NONE),
    Snippet("F.dropout(x, 0.5, True), F.layer_norm(x, (4,)), F.gelu(x), F.interpolate(x[None, None], scale_factor=2.0)", NONE),
    Snippet("norm(x)", NONE, before="norm = nn.BatchNorm1d(4, device='cuda')"),
    Snippet("norm(x)", one(READ), before="norm = nn.BatchNorm1d(4, momentum=None, device='cuda')"),
    Snippet("nn.LSTM(4, 4, device='cuda')(x[None])", NONE),
    Snippet("F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])", NONE),
    Snippet("encoder(x[None], mask=torch.zeros(4, 4, device='cuda'))", one(READ),
            before="encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1, 4, batch_first=True, device='cuda'), 1, enable_nested_tensor=False)"),
    Snippet("dist.Normal(x, y.abs() + 1)", {READ: 2}),
    Snippet("dist.Normal(x, y.abs() + 1, validate_args=False)", NONE),
    Snippet("dist.Categorical(p)", one(READ)),
    Snippet("dist.Categorical(logits=x, validate_args=False).log_prob(i)", NONE),
    Snippet("nn.MultiheadAttention(4, 1, batch_first=True, device='cuda')(x[None], x[None], x[None], key_padding_mask=m[None, 0])", NONE),
    Snippet("split(x, i)", {"aten::nonzero": 3, MASK: 2}, before="split = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4], device='cuda')"),
    Snippet("nn.init.kaiming_uniform_(x), nn.init.orthogonal_(x), nn.init.xavier_normal_(x)", NONE),
]

TRAINING = [
    Snippet("(w * w).sum().backward()", NONE),
    Snippet("w.max().backward()", NONE),
    Snippet("with torch.autograd.detect_anomaly(): (w * w).sum().backward()", {READ: 3}),
    Snippet("torch.utils.checkpoint.checkpoint(lambda v: v * 2, w, use_reentrant=False).sum().backward()", NONE, before="import torch.utils.checkpoint"),
    Snippet("with torch.amp.autocast('cuda'): x @ y", NONE),
    Snippet("torch.vmap(lambda r: r.sum())(x), torch.func.grad(lambda r: (r * r).sum())(x)", NONE),
    Snippet("w.prod().backward()", one("autograd::ProdBackward0")),
    Snippet("w.prod(0).backward()", one("autograd::ProdBackward1")),
    Snippet("w.cumprod(0).sum().backward()", one("autograd::CumprodBackward0")),
    Snippet("x.masked_fill(m, v).sum().backward()", {"aten::masked_fill": 1, "autograd::MaskedFillBackward1": 1},
            before="v = torch.ones((), device='cuda', requires_grad=True)"),
    Snippet("nn.utils.clip_grad_norm_(w, 1.0)", NONE, before="(w * w).sum().backward()"),
    Snippet("nn.utils.clip_grad_norm_(w, 1.0, error_if_nonfinite=True)", one(READ), before="(w * w).sum().backward()"),
    Snippet("nn.utils.clip_grad_value_(w, 1.0)", NONE, before="(w * w).sum().backward()"),
    *(
        Snippet("o.step(); o.zero_grad()", NONE, before=f"o = optim.{o}; (w * w).sum().backward()")
        for o in ("SGD([w], lr=0.1, momentum=0.9)", "Adam([w])", "AdamW([w], fused=True)", "AdamW([w], foreach=True)", "AdamW([w], foreach=False)", "RMSprop([w])")
    ),
    Snippet("o.step()", NONE, before="o = optim.AdamW([w], capturable=True); (w * w).sum().backward()"),
    Snippet("optim.Adam([w], lr=t, capturable=True)", one(READ)),
    Snippet("o.step(lambda: (w * w).sum())", {READ: 2}, before="o = optim.LBFGS([w], max_iter=1)"),
    Snippet("average.update_parameters(layer)", {READ: 2 + questions(2)},
            before="layer = nn.Linear(2, 2, device='cuda'); average = optim.swa_utils.AveragedModel(layer, device='cuda'); average.update_parameters(layer)"),
    Snippet("schedule.step(t)", one(READ), before="schedule = optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([w], lr=0.1))"),
    Snippet("torch._foreach_mul_([x, y], t), torch._foreach_add([x, y], 1.0), torch._foreach_norm([x, y])", NONE),
    Snippet("torch._foreach_copy_([x, y], [c, c])", {"aten::_foreach_copy_": 2}, gpu=False),
    Snippet("scaler.step(o); scaler.update()", one(READ),
            before="scaler = torch.amp.GradScaler('cuda'); o = optim.SGD([w], lr=0.1); scaler.scale((w * w).sum()).backward()"),
    Snippet("scaler.get_scale()", one(READ), before="scaler = torch.amp.GradScaler('cuda'); scaler.scale((w * w).sum())"),
]

EXPLICIT = [
    Snippet("torch.cuda.synchronize()", one("torch.cuda.synchronize")),
    Snippet("torch.cuda.current_stream().synchronize()", one("torch.cuda.Stream.synchronize")),
    Snippet("event.synchronize()", one("torch.cuda.Event.synchronize"), before="event = torch.cuda.Event(); event.record()"),
    Snippet("event.query(), torch.cuda.current_stream().query()", NONE, before="event = torch.cuda.Event(); event.record()"),
    Snippet("stream = torch.cuda.Stream(); stream.wait_stream(torch.cuda.current_stream()); event.record(); event.wait(); stream.wait_event(event)", NONE,
            before="event = torch.cuda.Event()"),
    Snippet("torch.cuda.empty_cache()", one("torch.cuda.empty_cache"), gpu=False),
    Snippet("torch.accelerator.synchronize()", one("torch.accelerator.synchronize")),
    Snippet("torch.cuda.manual_seed(0), torch.cuda.current_device(), torch.cuda.device_count(), torch.cuda.memory_allocated()", NONE),
]

SNIPPETS = [*READING, *PRINTING, *TO_DEVICE, *HOST_NUMBERS, *TO_HOST, *SHAPES, *MATHS, *NETWORKS, *TRAINING, *EXPLICIT]
