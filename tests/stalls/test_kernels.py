"""The catalogue against PyTorch itself: kernels that CPU and GPU share show on the CPU, in a profile, how often they read a value or count results."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from torchtally.stalls.catalogue import Call, waits

READS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::_unique", "aten::masked_select", "aten::equal"}

x = torch.linspace(0.1, 1.0, 16).view(4, 4)
A = x @ x.T + 4 * torch.eye(4)
i, p = torch.arange(4), torch.full((4,), 0.25)
m, t = x > 0.5, torch.tensor(2.0)
many = torch.arange(100)
two = torch.tensor([1, 3])

SHARED = [  # operator, overload, arguments, keyword arguments: as the dispatcher gets them
    ("aten::allclose", "default", (x, x + 1), {}),
    ("aten::masked_fill", "Tensor", (x, m, t), {}),
    ("aten::masked_fill", "Scalar", (x, m, 2.0), {}),
    ("aten::index_fill", "int_Tensor", (x, 0, i, t), {}),
    ("aten::linspace", "Tensor_Tensor", (t, t + 1, 5), {}),
    ("aten::linspace", "Scalar_Tensor", (0.0, t, 5), {}),
    ("aten::logspace", "Tensor_Scalar", (t, 3.0, 5), {}),
    ("aten::normal", "Tensor_Tensor", (x, x), {}),
    ("aten::normal", "float_Tensor", (0.0, x), {}),
    ("aten::normal", "Tensor_float", (x, 1.0), {}),
    ("aten::searchsorted", "Tensor", (p, x), {"sorter": p.argsort()}),
    ("aten::searchsorted", "Tensor", (p, x), {}),
    ("aten::segment_reduce", "default", (p, "sum"), {"lengths": two}),
    ("aten::segment_reduce", "default", (p, "sum"), {"lengths": two, "unsafe": True}),
    ("aten::repeat_interleave", "Tensor", (i,), {}),
    ("aten::repeat_interleave", "Tensor", (i,), {"output_size": 6}),
    ("aten::isin", "Tensor_Tensor", (i, many[:11]), {}),  # more are sorted, which waits once more on a device only
    ("aten::index", "Tensor", (x, [m]), {}),
    ("aten::index", "Tensor", (x, [i]), {}),
    ("aten::index_put", "default", (x, [m], x[m]), {}),
    ("aten::index_put", "default", (x, [i], x), {}),
    ("aten::_linalg_check_errors", "default", (torch.zeros(2, dtype=torch.int32), "torch.linalg.inv"), {"is_matrix": False}),
    ("aten::_linalg_eigh", "default", (A,), {}),
    ("aten::linalg_pinv", "atol_rtol_tensor", (A,), {"hermitian": True}),
    ("aten::quantize_per_tensor", "tensor_qparams", (x, torch.tensor(0.1), torch.tensor(0), torch.quint8), {}),
    ("aten::_to_sparse", "default", (x,), {}),
]

BACKWARD = [
    ("autograd::ProdBackward0", lambda w: w.prod()),
    ("autograd::ProdBackward1", lambda w: w.prod(0)),
    ("autograd::CumprodBackward0", lambda w: w.cumprod(0).sum()),
    ("autograd::MaskedFillBackward1", lambda w: x.masked_fill(m, w[0]).sum()),
]


def reads_of(run, within=""):
    """How often `run` reads or counts: the outermost such operators of a profile, inside the event of this name; the way there goes through `item`."""
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        run()
    found = Counter()
    for event in recorded.events():
        above, parent = [], event.cpu_parent
        while parent is not None:
            above.append(parent.name)
            parent = parent.cpu_parent
        if event.name in READS and not READS & set(above) and any(within in name for name in above):
            found[event.name] += 1
    return sum(found.values())


def every_tensor_on_the_device(operator, overload, args, kwargs):
    return Call(operator, overload, args, kwargs, on_device=lambda tensor: True, pinned=lambda tensor: False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator, overload, args, kwargs", SHARED, ids=lambda v: v if isinstance(v, str) else "")
def test_kernels_read_as_often_as_the_catalogue_says(operator, overload, args, kwargs):
    function = getattr(getattr(torch.ops.aten, operator.removeprefix("aten::")), overload)
    counted = sum(n for row, n in waits(every_tensor_on_the_device(operator, overload, args, kwargs)))
    assert reads_of(lambda: function(*args, **kwargs)) == counted


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("node, loss", BACKWARD)
def test_gradients_read_as_often_as_the_catalogue_says(node, loss):
    result = loss(torch.full((4,), 0.5, requires_grad=True))
    name = node.removeprefix("autograd::")
    counted = sum(n for _, n in waits(every_tensor_on_the_device(node, "", (result,), {})))
    assert reads_of(result.backward, within=name) == counted == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arguments", [{"weight": p, "label_smoothing": 0.1}, {"weight": p}, {"label_smoothing": 0.1}, {"weight": p, "label_smoothing": 0.1, "reduction": "sum"}])
def test_the_loss_selects_weights_as_the_catalogue_says(arguments):
    counted = sum(n for _, n in waits(every_tensor_on_the_device("torch.nn.functional.cross_entropy", "", (x, i), arguments)))
    assert reads_of(lambda: F.cross_entropy(x, i, **arguments)) == counted
