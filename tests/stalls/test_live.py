"""Watching a real device, with a fake one that gives its signs."""

import _thread
import sys
import threading
import warnings

import fake_gpu
import pytest
import torch
from fake_gpu import MESSAGE, FakeGpu, OnDevice, Value
from torch.cuda import _gpu_trace

from torchtally.errors import TallyError
from torchtally.stalls import allow, pretend_cuda, watch
from torchtally.stalls.recorder import Recorder
from torchtally.stalls.sources import live


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(live, "OURS", (*live.OURS, fake_gpu.__file__))
    return FakeGpu(monkeypatch)


@pytest.fixture
def x(gpu):
    return Value(gpu)


def found(recorder):
    return [(stall.operator, stall.kind) for stall in recorder.stalls]


READ, INDEX, PUT = "aten::_local_scalar_dense", "aten::index", "aten::index_put_"
mask, host = torch.ones(2, dtype=torch.bool), torch.ones(2)

LINES = [
    ("x.item()", [(READ, "read")]),
    ("float(x)", [(READ, "read")]),
    ("y = [1, 2] if x else 0", [(READ, "read")]),
    ("not x", [(READ, "read")]),
    ("if x and x: pass", [(READ, "read")] * 2),
    ("x[mask]", [(INDEX, "shape_read")]),
    ("x[x is None]", [(INDEX, "shape_read")]),
    ("x[[0, 1]]", [(INDEX, "host_to_device")]),
    ("x[host]", [(INDEX, "host_to_device")]),
    ("x[:2]", [(READ, "read")]),
    ("x[0, mask] = 1", [(PUT, "shape_read")]),
    ("x[host] = 1", [(PUT, "host_to_device")]),
    ("x.inv()", [("aten::_linalg_check_errors", "read")]),
    ("x.svd()", [("aten::_linalg_svd", "read")] * 2),
    ("x.mode()", [("aten::mode", "read")]),
    ("x.fused()", [("cudaStreamSynchronize", "read")] * 3),  # an unknown name: one sign of warning alone, two of both
]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not keep the place of an instruction in its line")
@pytest.mark.parametrize("line, expected", LINES)
def test_each_wait_is_counted_once_and_named_after_its_line(x, tmp_path, line, expected):
    script = tmp_path / "script.py"
    script.write_text(line)
    code = compile(line, str(script), "exec")
    with watch(Recorder(libraries=(fake_gpu.__file__,))) as recorder:
        exec(code, {"x": x, "mask": mask, "host": host})
    assert found(recorder) == expected
    assert {stall.site.code for stall in recorder.stalls} == {line}


@pytest.mark.parametrize("warns", [True, False])
def test_a_loop_is_counted_whether_or_not_warnings_arrive(gpu, x, warns):
    gpu.warns = warns
    with watch() as recorder:
        for _ in range(5):
            x.item()
    assert len(recorder.stalls) == 5


def test_warnings_are_heard_where_the_program_ignores_them(x):
    with watch() as recorder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x.item()
    assert found(recorder) == [(READ, "read")]


def test_other_warnings_pass(x):
    with pytest.warns(UserWarning, match="something else"), watch():
        warnings.warn("something else", stacklevel=1)


def test_waits_for_events_and_the_device(gpu):
    with watch() as recorder:
        _gpu_trace.EventSynchronizationCallbacks.fire_callbacks(0)
        _gpu_trace.DeviceSynchronizationCallbacks.fire_callbacks()
    assert found(recorder) == [("torch.cuda.Event.synchronize", "synchronize"), ("torch.cuda.synchronize", "synchronize")]


def test_copies_know_their_direction(gpu):
    device = torch.ones(3).as_subclass(OnDevice)
    with watch() as recorder:
        torch.ones(3).to("cuda")
        device.to("cpu")
        host.copy_(device)
        device.copy_(host)
        device.to("cpu", non_blocking=True)
        torch.ones(3).to("cuda", non_blocking=True)
    assert found(recorder) == [
        ("aten::_to_copy", "host_to_device"),
        ("aten::_to_copy", "device_to_host"),
        ("aten::copy_", "device_to_host"),
        ("aten::copy_", "host_to_device"),
    ]


def test_asynchronous_copies_from_pageable_memory_are_found_without_a_sign(gpu, monkeypatch):
    big = torch.ones(200, 200)
    with watch() as recorder:
        big.to("cuda", non_blocking=True)
    assert found(recorder) == [("aten::_to_copy", "host_to_device")]
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: True)
    with watch() as recorder:
        big.to("cuda", non_blocking=True)
    assert not recorder.stalls


def test_printing_is_told_once(gpu):
    with watch() as recorder:
        repr(torch.ones(3).as_subclass(OnDevice))
    assert found(recorder) == [("Tensor.__repr__", "print")]


def test_emptying_the_cache(gpu):
    with watch() as recorder:
        torch.cuda.empty_cache()
    assert found(recorder) == [("torch.cuda.empty_cache", "allocator")]


def test_allowed_regions_are_left_out(x, gpu):
    @allow()
    def log():
        x.item()

    with watch() as recorder:
        log()
        with allow(), allow():
            x.item()
            torch.ones(3).to("cuda")
        x.item()
    assert len(recorder.stalls) == 1


def test_threads_are_watched_one_by_one(x):
    with watch() as recorder:
        other = threading.Thread(target=x.item)
        other.start()
        other.join()
    assert not recorder.stalls


def test_an_allowed_region_is_the_threads_own(x):
    inside = threading.Event()
    done = threading.Event()

    def hold():
        with allow():
            inside.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    with watch() as recorder:
        x.item()
    done.set()
    holder.join()
    assert len(recorder.stalls) == 1


def test_two_threads_watch_at_once(x):
    counts = {}

    def run(name, times):
        with watch() as recorder:
            for _ in range(times):
                x.item()
        counts[name] = len(recorder.stalls)

    threads = [threading.Thread(target=run, args=(n, n)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {1: 1, 2: 2, 3: 3}


def test_native_threads_work_for_the_thread_in_backward(gpu):
    class Waits(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            ran = threading.Event()  # as a thread of autograd's engine would: it has no Python frames of its own

            def native():
                live.traced_stream(0)
                ran.set()

            _thread.start_new_thread(native, ())
            ran.wait()
            gpu.wait(traced=False)  # the engine repeats its threads' warnings on the thread that called it
            return gradient

    weight = torch.ones(3, requires_grad=True)
    with watch() as recorder:
        Waits.apply(weight).sum().backward()
    assert len(recorder.stalls) == 1


def test_the_innermost_watch_records(x):
    with watch() as outer:
        x.item()
        with watch() as inner:
            x.item()
    assert (len(outer.stalls), len(inner.stalls)) == (1, 1)


def attributes():
    names = ("to", "cuda", "cpu", "copy_", "__repr__", "__format__")
    return (
        [vars(torch.Tensor).get(n) for n in names],
        torch.cuda.empty_cache,
        torch.cuda.memory.empty_cache,
        warnings.showwarning,
        list(warnings.filters),
        torch.cuda.get_sync_debug_mode(),
        [list(getattr(_gpu_trace, f"{what}SynchronizationCallbacks").callback_list) for what in ("Stream", "Event", "Device")],
    )


def test_nothing_is_left_behind(gpu, x):
    before = attributes()
    with watch():
        assert attributes() != before
    assert attributes() == before
    with pytest.raises(ZeroDivisionError), watch():
        _ = 1 / 0
    assert attributes() == before
    x.item()  # watched by nobody


def test_a_users_own_debug_mode_stays(gpu):
    gpu.debug_mode = 1
    with watch():
        pass
    assert gpu.debug_mode == 1
    with pytest.warns(UserWarning, match="called a synchronizing"):
        warnings.warn(MESSAGE, stacklevel=1)


def test_without_a_gpu_the_way_out_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TallyError, match="pretend_cuda"), watch():
        pass


def test_every_source_leaves_allowed_regions_out():
    recorder = Recorder()
    with allow():
        recorder(live.UNNAMED, "aten::item")
    recorder(live.UNNAMED, "aten::item")
    assert len(recorder.stalls) == 1


def test_a_pretended_device_is_watched_as_such():
    with pretend_cuda():
        x = torch.ones(3, device="cuda")
        with watch() as recorder:
            x.cpu()
            with allow():
                x.sum().item()
    assert found(recorder) == [("aten::_to_copy", "device_to_host")]
