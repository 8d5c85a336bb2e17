"""The pretend device: tensors that say cuda:0, compute real values, and are refused what a device refuses."""

import copy
import gc
import io
import sys
import threading
from contextlib import nullcontext
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchtally.stalls.sources.pretend import pretend_cuda, pretending


@pytest.fixture
def recorder():
    with pretend_cuda() as found:
        yield found


def operators(recorder):
    return [stall.operator for stall in recorder.stalls]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3, device="cuda"),
        lambda: torch.arange(3, device=torch.device("cuda")),
        lambda: torch.rand(3, device="cuda:0"),
        lambda: torch.tensor([1, 2, 3], device="cuda"),
        lambda: torch.as_tensor([1, 2, 3], device="cuda"),
        lambda: torch.zeros(3).cuda(),
        lambda: torch.zeros(3).to("cuda"),
        lambda: torch.zeros(3).to(0),
        lambda: nn.Linear(1, 1).to(0).weight.data,
        lambda: nn.Linear(1, 1).to(device=0).weight.data,
        lambda: torch.zeros(3).to(device="cuda", dtype=torch.float64),
        lambda: torch.zeros(3).to(torch.zeros(1, device="cuda")),
        lambda: torch.zeros(3).type_as(torch.zeros(1, device="cuda")),
        lambda: torch.zeros(3).type("torch.cuda.DoubleTensor"),
        lambda: torch.zeros_like(torch.zeros(3), device="cuda"),
        lambda: torch.zeros(3, device="cuda").new_ones(3),
        lambda: torch.zeros(3, device="cuda").new_tensor([1, 2, 3]),
        lambda: torch.zeros(3, device="cuda")[1:],
        lambda: torch.zeros(3, device="cuda").detach().clone().data,
        lambda: torch.ones(3, 3, device="cuda").cov(),
        lambda: torch.eye(3).to("cuda").to_sparse(),
        lambda: nn.Parameter(torch.zeros(3, device="cuda")),
        lambda: torch.stft(torch.rand(64, device="cuda"), 16, return_complex=True, window=torch.ones(16, device="cuda")),
    ],
)
def test_tensors_are_on_the_device(recorder, make):
    x = make()
    assert x.device == torch.device("cuda", 0) and x.is_cuda and not x.is_cpu and x.get_device() == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3),
        lambda: torch.zeros(3, device="cuda").cpu(),
        lambda: torch.zeros(3, device="cuda").to("cpu", torch.float64),
        lambda: torch.zeros_like(torch.zeros(3, device="cuda"), device="cpu"),
        lambda: torch.zeros(3, device="cuda").new_zeros(3, device="cpu"),
        lambda: torch.ones(3, 3).cov(),
        lambda: torch.zeros(3).pin_memory(),
    ],
)
def test_tensors_are_on_the_host(recorder, make):
    x = make()
    assert x.device == torch.device("cpu") and not x.is_cuda and x.is_cpu and x.get_device() == -1


def test_values_are_real(recorder):
    x = torch.arange(4.0, device="cuda")
    assert (x * 2).cpu().tolist() == [0.0, 2.0, 4.0, 6.0]
    assert str(x) == "tensor([0., 1., 2., 3.], device='cuda:0')"
    assert operators(recorder) == ["aten::_to_copy", "Tensor.__repr__"]


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}, {"foreach": False}, {}], ids=str)
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_training_is_that_of_the_cpu_and_never_waits(options, kind):
    def train(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
        data = torch.randn(8, 3), torch.randint(0, 2, (8,))
        model, x, y = model.to(device), data[0].to(device), data[1].to(device)
        optimizer = kind(model.parameters(), lr=0.1, **options)
        yield None
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            assert model[0].weight.grad.device.type == device
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        yield [p.detach() for p in model.parameters()]

    expected = list(train("cpu"))[1]
    with pretend_cuda() as recorder:
        steps = train("cuda")
        next(steps)
        before = len(recorder.stalls)
        got = next(steps)
        assert operators(recorder)[before:] == []
        assert all(p.device.type == "cuda" for p in got)
    for a, b in zip(expected, got):
        torch.testing.assert_close(a, b)


def test_what_a_device_refuses(recorder):
    x = torch.ones(3, device="cuda")
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.__array__()
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        nn.Linear(3, 3)(x)
    with pytest.raises(RuntimeError, match=r"Input type \(torch.FloatTensor\) and weight type \(torch.cuda.FloatTensor\)"):
        nn.Conv2d(1, 1, 1).cuda()(torch.ones(1, 1, 2, 2))
    assert (x + torch.tensor(1.0)).device.type == "cuda"


def test_copies_keep_their_device(recorder):
    model = nn.Linear(2, 2).cuda()
    assert copy.deepcopy(model).weight.is_cuda
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for location, device in (("cpu", "cpu"), ("cuda", "cuda"), (None, "cuda"), (torch.device("cuda:0"), "cuda")):
        file.seek(0)
        loaded = torch.load(file, map_location=location)
        assert loaded["weight"].device.type == device
        torch.testing.assert_close(loaded["weight"].cpu(), model.weight.detach().cpu())
    nn.Linear(2, 2).load_state_dict(model.state_dict())


def test_gradients_return_to_the_host(recorder):
    weight = torch.ones(3, requires_grad=True)
    (weight.cuda() * 2).sum().backward()
    assert weight.grad.device.type == "cpu" and weight.grad.tolist() == [2.0, 2.0, 2.0]


def everything():
    """All that PyTorch's modules and classes hold, and what else a session touches."""
    held = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torch" and isinstance(module, ModuleType):
            held.update({(name, key): value for key, value in vars(module).items()})
    classes = {value for value in held.values() if issubclass(type(value), type) and value.__module__.partition(".")[0] == "torch"}
    for kind in {*classes, torch.Tensor, torch.UntypedStorage, threading.Thread}:
        held.update({(kind, key): value for key, value in vars(kind).items()})
    held.update({("reducers", key): value for key, value in ForkingPickler._extra_reducers.items()})
    held["finders"] = tuple(sys.meta_path)
    held["modes"] = (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack())
    return held


def changes(before, after):
    """What is another object now; numbers and strings that PyTorch counts with do not matter."""
    return {
        key
        for key, value in before.items()
        if after.get(key) is not value and type(value) not in (int, str) and not (type(value) is tuple and after.get(key) == value)
    }


@pytest.mark.parametrize("error", [None, KeyError, SystemExit, KeyboardInterrupt], ids=str)
def test_nothing_stays_patched(error):
    def program():
        with pretend_cuda(), pretend_cuda(devices=2), torch.autocast("cuda"):
            torch.set_default_device("cuda")
            torch.zeros(3, device="cuda") @ torch.zeros(3, device="cuda:0")
            if error is not None:
                raise error

    program() if error is None else None  # what PyTorch loads on first use is loaded
    before = everything()
    with pytest.raises(error) if error is not None else nullcontext():
        program()
    after = everything()
    assert changes(before, after) == set() and torch.zeros(3).device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def test_a_session_that_cannot_open_leaves_nothing():
    before = everything()
    with pytest.raises(ZeroDivisionError), mock.patch.object(pretending, "PATCHES", (*pretending.PATCHES, lambda patches: 1 / 0)), pretend_cuda():
        pass
    assert changes(before, everything()) == set()


def test_what_a_module_took_while_it_was_loaded_is_put_back_too(tmp_path, monkeypatch):
    (tmp_path / "takes_parts_of_torch.py").write_text(
        "from torch.cuda import Stream, current_device\n\nyes, no, none = True, False, None\n\n"
        "class Interface:\n    stream, device, yes = Stream, staticmethod(current_device), True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pretend_cuda():
        import takes_parts_of_torch as taken

        assert taken.Interface.device() == 0
    assert taken.Stream is taken.Interface.stream is torch.cuda.Stream
    assert taken.current_device is taken.Interface.device is torch.cuda.current_device
    assert (taken.yes, taken.no, taken.none, taken.Interface.yes) == (True, False, None, True)
    monkeypatch.delitem(sys.modules, "takes_parts_of_torch")


def test_garbage_collected_at_any_moment_breaks_no_tensor():
    """PyTorch before 2.10 asks for the class of a storage while it frees it, and CPython before 3.12 collects garbage then."""
    before = gc.get_threshold()
    try:
        with pretend_cuda():
            x = torch.ones(4, device="cuda")
            for n in range(5, 100):
                gc.set_threshold(n)
                kept = []
                for _ in range(n):
                    kept.append([])
                    _ = (x + 1) * 2
    finally:
        gc.set_threshold(*before)
