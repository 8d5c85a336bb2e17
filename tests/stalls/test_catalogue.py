"""The catalogue: each way of waiting on the pretend device, and the rules of the rows themselves."""

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
import torch
from snippets import SNIPPETS, namespace

from torchtally.stalls import pretend_cuda
from torchtally.stalls.catalogue import ROWS, WATCHED, Call, rows_by_operator, waits
from torchtally.stalls.catalogue.page import SUSPECTED, markdown
from torchtally.stalls.catalogue.row import parse
from torchtally.stalls.stall import Kind

PAGE = Path(__file__).parents[2] / "docs" / "what-waits.md"
TORCH = parse(torch.__version__)


def stalls_of(code, before=""):
    """Waits of one snippet by operator; those of its preparation do not count."""
    with pretend_cuda() as recorder:
        names = namespace(before)
        prepared = len(recorder.stalls)
        exec(code, names)
        return Counter(stall.operator for stall in recorder.stalls[prepared:])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: f"{s.code[:60]} {s.before[:20]}".strip())
def test_waits_are_found_and_nothing_else(snippet, monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # which `torch.compile` switches off for good
    if not parse(snippet.since) <= TORCH < parse(snippet.until or "99.0"):
        pytest.skip(f"speaks of another torch than {torch.__version__}")
    assert stalls_of(snippet.code, snippet.before) == snippet.waits


@pytest.mark.parametrize("code, note", SUSPECTED)
def test_what_is_suspected_does_not_wait(code, note):
    assert not stalls_of(code)


class OnDevice(torch.Tensor):
    """A host tensor that the calls below take for one on the device."""


def device(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype).as_subclass(OnDevice)


X, LABELS, HOST = device(4, 4), device(4, dtype=torch.long), torch.ones(4, 4)
SPARSE = torch.ones(2).as_subclass(type("Sparse", (OnDevice,), {"layout": torch.sparse_coo}))

CALLS = [  # operator and overload, arguments, keyword arguments, waits: what no snippet reaches on every build
    ("aten::_unique", "default", (LABELS,), {}, 1),
    ("aten::unique_dim_consecutive", "default", (LABELS, 0), {}, 1),
    ("aten::unique_consecutive", "default", (torch.arange(3),), {}, 0),
    ("aten::_unsafe_index_put", "default", (X, [LABELS], torch.tensor(1.0)), {}, 1),
    ("aten::_index_put_impl_", "default", (X, [LABELS], torch.tensor(1.0)), {}, 1),
    ("aten::_index_put_impl_", "default", (X, [LABELS], X), {}, 0),
    ("aten::index_put", "default", (X, [device(4, 4, dtype=torch.bool)], torch.tensor(1.0)), {}, 0),
    ("aten::index_put", "default", (X, [device(4, 4, dtype=torch.bool)], torch.tensor(1.0), True), {}, 2),  # accumulating: nonzero, and a copy
    ("aten::index_put", "default", (X, [None, device(4, dtype=torch.uint8)], torch.tensor([1.0])), {}, 0),
    ("aten::index_put", "default", (X, [LABELS, device(4, dtype=torch.bool)], torch.tensor(1.0)), {}, 2),
    ("aten::index", "Tensor", (X, [None, torch.ones(4, dtype=torch.bool)]), {}, int(TORCH < (2, 11))),
    ("aten::index", "Tensor", (X, [torch.ones(4, 4, dtype=torch.bool)]), {}, 2 * (TORCH < (2, 11))),  # two dimensions, two host indices
    ("aten::index_put", "default", (X, [torch.ones(4, dtype=torch.bool)], X), {}, int(TORCH < (2, 11))),
    ("aten::index", "Tensor", (HOST, [torch.arange(4)]), {}, 0),
    ("aten::linalg_eigvals", "default", (X,), {}, 1),
    ("aten::_linalg_eigvals", "default", (X,), {}, 1),
    ("aten::_linalg_svd", "default", (X,), {"driver": "gesvd"}, 1),
    ("aten::quantize_per_tensor", "tensor_qparams", (X, device(1), device(1), torch.quint8), {}, 2),
    ("aten::quantize_per_tensor", "default", (X, 0.1, 0, torch.quint8), {}, 0),
    ("aten::_fused_moving_avg_obs_fq_helper", "default", (X,), {}, 1),
    ("aten::_nested_tensor_from_mask_left_aligned", "default", (X, X), {}, 1),
    ("aten::_ctc_loss", "default", (X, LABELS, [2], [2]), {}, 3),
    ("aten::_ctc_loss", "Tensor", (X, LABELS, LABELS, LABELS), {}, 5),
    ("aten::_coalesce", "default", (X,), {}, 1),
    *((f"aten::{name}", "default", (SPARSE,), {}, 1) for name in ("_sparse_softmax", "_sparse_log_softmax", "_sparse_sparse_matmul", "hspmm")),
    ("aten::_sparse_softmax", "default", (X,), {}, 0),
    ("aten::_foreach_copy_", "default", ([HOST, HOST], [X, X]), {}, 2),
    ("aten::_foreach_copy_", "default", ([X, X], [HOST, X]), {}, 1),
    ("aten::_to_copy", "default", (HOST,), {"device": torch.device("meta")}, 0),
    ("aten::_to_copy", "default", (X,), {"device": torch.device("cuda", 1)}, 0),
    ("aten::_to_copy", "default", (X,), {"dtype": torch.float64}, 0),
    ("aten::mode", "default", (device(3, 2048),), {}, 0),
    ("aten::mode", "default", (device(3, 2049),), {}, 3),
    ("aten::histc", "default", (device(0),), {}, 0),
    ("aten::bincount", "default", (device(0, dtype=torch.long),), {}, 0),
    ("aten::normal", "float_Tensor", (0.0, X), {}, 2),
    ("aten::normal", "Tensor_float", (X, 1.0), {}, 0),
    ("aten::isin", "Tensor_Tensor", (LABELS, device(11, dtype=torch.long)), {}, 0),
    ("aten::isin", "Tensor_Tensor", (LABELS, device(12, dtype=torch.long)), {}, 3),
    ("torch.cuda.graph.__enter__", "", (), {}, 1),
    ("torch.Stream.synchronize", "", (), {}, 1),
    ("torch.Event.synchronize", "", (), {}, 1),
    ("torch.distributed.barrier", "", (), {"backend": "nccl"}, 1),
    ("torch.distributed.barrier", "", (), {"backend": "gloo"}, 0),
    ("torch.nn.functional.cross_entropy", "", (X, LABELS, device(4), 1, -100, 0.1), {}, 1),  # as the C++ function gets them
    ("torch.nn.functional.cross_entropy", "", (X, X, device(4), 1, -100, 0.1), {}, 0),  # probabilities
    ("torch.nn.functional.cross_entropy", "", (X, LABELS, device(4), None, -100, None, "mean", 0.1), {}, 1),
]


def call(operator, overload, args, kwargs):
    return Call(operator, overload, args, kwargs, on_device=lambda x: isinstance(x, OnDevice), pinned=lambda x: False)


@pytest.mark.parametrize("operator, overload, args, kwargs, times", CALLS)
def test_rows_that_only_some_builds_reach(operator, overload, args, kwargs, times):
    if operator not in WATCHED:
        pytest.skip(f"not in torch {torch.__version__}")
    with torch._C.DisableTorchFunctionSubclass():
        assert sum(n for _, n in waits(call(operator, overload, args, kwargs))) == times


def test_pinned_memory_is_not_staged():
    big = torch.ones(300, 300)
    later = {"device": torch.device("cuda", 0), "non_blocking": True}
    for pinned, times in ((True, 0), (False, 1)):
        seen = Call("aten::_to_copy", "default", (big,), later, on_device=lambda x: False, pinned=lambda x, p=pinned: p)
        assert sum(n for _, n in waits(seen)) == times


def test_every_row_is_tested():
    reached = {name for s in SNIPPETS for name in s.waits} | {name for name, *_, times in CALLS if times}
    assert set(WATCHED) <= reached


def test_rows_are_complete():
    for row in ROWS:
        assert row.kind in get_args(Kind)
        assert row.why.endswith(".") and row.remedy and row.when
        assert "\n" not in row.remedy
        assert re.fullmatch(r"(aten|autograd)::\w+|(torch|Tensor)(\.\w+)+", row.operator)
        assert row.until is None or parse(row.since) < parse(row.until)


def test_operators_of_the_catalogue_exist():
    old = {"aten::_linalg_eigvals", "aten::linalg_eigvals", "aten::cholesky"}  # one of them per version
    for name in {row.operator for row in ROWS if row.operator.startswith("aten::")} - old:
        packet = getattr(torch.ops.aten, name.removeprefix("aten::"))
        for row in WATCHED.get(name, ()):
            assert set(row.overloads) <= set(packet.overloads()), name


def test_versions_select_rows():
    assert "aten::cholesky" in rows_by_operator("2.13.1+cpu")
    assert "aten::cholesky" not in rows_by_operator("2.14.0")
    assert "aten::multinomial" not in rows_by_operator("2.6")


def test_look_up_does_nothing_for_operators_that_never_wait():
    assert not WATCHED.keys() & {f"aten::{name}" for name in ("add", "mul", "sum", "sort", "topk", "any", "fill_", "convolution", "mm", "view", "detach")}
    assert waits(call("aten::add", "Tensor", (X, X), {})) == []


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == markdown(), "run `python -m torchtally.stalls.catalogue.page > docs/what-waits.md`"
