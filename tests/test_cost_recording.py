"""Real code on the device on shapes: what is recorded, what it costs, what it does not take."""

import resource
import sys

import pytest
import torch
from torch import nn

from torchtally.bench.cost import device_on_shapes, loader_us, predict, record
from torchtally.errors import TallyError
from torchtally.stalls.price import Seen, price
from torchtally.stalls.sources.pretend.shapes import run_on_shapes

aten = torch.ops.aten


def operators(part):
    return [s.operator.removeprefix("aten::") for s in part if isinstance(s, Seen)]


def network(classes=10):
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(classes))


def test_a_step_is_recorded_operator_by_operator_with_its_work_and_its_waits():
    with device_on_shapes():
        model = nn.Linear(512, 1000).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.empty(128, 512, device="cuda"), torch.zeros(128, dtype=torch.int64, device="cuda")

        def step():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if loss > 1e9:
                raise AssertionError

        recording = record(step, steps=1)
    (part,) = recording.steps
    done = operators(part)
    assert done[1 if done[0] == "t" else 0] == "addmm"
    (addmm,) = [s for s in part if isinstance(s, Seen) and s.operator == "aten::addmm"]
    assert addmm.work.operations == 2 * 128 * 512 * 1000 and not addmm.backward
    (mm,) = [s for s in part if isinstance(s, Seen) and s.operator == "aten::mm"]  # the weight's gradient: x needs none
    assert mm.work.operations == 2 * 128 * 512 * 1000 and mm.backward
    assert done.count("_foreach_add_") == 1  # as on CUDA, where SGD updates all parameters at once
    (wait,) = [s for s in part if isinstance(s, Seen) and s.waits]
    assert wait.operator == "aten::_local_scalar_dense" and wait.bus == "to_host" and wait.bus_bytes == 1
    assert wait.site.code == "if loss > 1e9:" and wait.tag.remedy


def test_the_programs_function_calls_are_counted_and_the_pretendings_are_not():
    def work(n):
        for _ in range(n):
            len("")

    def calls(n):
        with device_on_shapes():
            x = torch.ones(4, device="cuda")

            def step():
                work(n)
                x.add_(1)

            (part,) = record(step, steps=1).steps
        return next(s.calls for s in part if isinstance(s, Seen))

    few = calls(0)
    assert calls(500) - few == 500
    assert few == 3  # step, work, add_: `range` is a type, which the profiler does not count


@pytest.mark.parametrize("pinned, non_blocking, bus, waits", [(True, True, "pinned", 0), (True, False, "pinned", 1), (False, True, "pageable", 1), (False, False, "pageable", 1)])
def test_copies_go_over_the_bus_and_wait_unless_pinned_and_not_blocking(pinned, non_blocking, bus, waits):
    with device_on_shapes():
        batch = torch.zeros(32, 3, 64, 64)
        batch = batch.pin_memory() if pinned else batch
        (part,) = record(lambda: batch.to("cuda", non_blocking=non_blocking), steps=1).steps
    (copy,) = [s for s in part if isinstance(s, Seen)]
    assert (copy.bus, copy.bus_bytes, copy.waits) == (bus, 32 * 3 * 64 * 64 * 4, waits)


def test_a_number_made_into_a_device_tensor_is_a_copy_that_waits():
    with device_on_shapes():
        (part,) = record(lambda: torch.as_tensor(1.0, device="cuda"), steps=1).steps
    (seen,) = [s for s in part if isinstance(s, Seen)]
    assert (seen.operator, seen.waits, seen.bus) == ("torch.as_tensor", 1, "pageable")


def test_synchronize_waits_for_the_device():
    with device_on_shapes():
        x = torch.empty(4096, 4096, device="cuda")

        def step():
            torch.relu(x)
            torch.cuda.synchronize()

        p = predict(step, "a40")
    assert p.waits == 1
    assert p.step_ms == pytest.approx(p.device_ms + p.idle_ms, rel=1e-6) and p.idle_ms > 0
    assert p.without_waits_ms < p.step_ms


@pytest.mark.parametrize("make", [lambda p: torch.optim.AdamW(p, fused=True), lambda p: torch.optim.AdamW(p), lambda p: torch.optim.AdamW(p, foreach=False)])
def test_optimisers_launch_what_they_launch_on_cuda(make):
    with device_on_shapes():
        layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8)).to("cuda")  # 16 parameters
        optimizer = make(layers.parameters())
        for p in layers.parameters():
            p.grad = torch.zeros_like(p)
        (part,) = record(optimizer.step, steps=1).steps
    launches = sum(s.work.kernels for s in part if isinstance(s, Seen))
    done = set(operators(part))
    if "_fused_adamw_" in done:
        assert launches <= 3
    elif "_foreach_add_" in done:
        assert launches <= 16
    else:
        assert launches > 16 * 6


def test_a_network_of_any_size_takes_no_memory():
    with device_on_shapes():
        model = network().to("cuda")
        model(torch.empty(2, 3, 33, 33, device="cuda"))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        x = torch.empty(256, 3, 513, 513, device="cuda")  # 0.8 GB; the activations are 0.5 GB each
        model[-1] = nn.LazyLinear(10).to("cuda")
        for _ in range(2):
            model(x).sum().backward()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 100e6


def test_results_on_shapes_have_the_shape_type_and_strides_of_the_real_ones():
    x, w = torch.randn(8, 3, 64, 64), torch.randn(16, 3, 3, 3)
    for function, args, kwargs in [
        (aten.convolution.default, (x, w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1), {}),
        (aten.max_pool2d_with_indices.default, (x, [2, 2]), {}),
        (aten.sum.dim_IntList, (x, [0, 2]), {}),
        (aten.sort.default, (x,), {}),
        (aten.gt.Scalar, (x, 0.0), {}),
        (aten.cat.default, ([x, x], 1), {}),
        (aten.transpose.int, (x, 0, 1), {}),
        (aten._to_copy.default, (x,), {"dtype": torch.float16}),
        (aten.zeros.default, ([300, 300],), {}),
    ]:
        real, shaped = function(*args, **kwargs), run_on_shapes(function, args, kwargs)
        for r, s in zip(real if isinstance(real, tuple) else [real], shaped if isinstance(shaped, tuple) else [shaped]):
            assert (r.shape, r.stride(), r.dtype, s.device.type) == (s.shape, s.stride(), s.dtype, "cpu"), function


def test_what_writes_in_place_returns_its_argument_and_small_tensors_are_computed():
    big = torch.zeros(100, 100)
    assert run_on_shapes(aten.add_.Tensor, (big, big), {}) is big
    assert run_on_shapes(aten._foreach_add_.Scalar, ([big], 1.0), {}) is None
    assert run_on_shapes(aten.add.Tensor, (torch.ones(3), torch.ones(3)), {}).tolist() == [2.0, 2.0, 2.0]
    assert run_on_shapes(aten.sum.default, (big,), {}).item() == 0.0
    assert run_on_shapes(aten.nonzero.default, (big,), {}).shape == (0, 2)  # a shape that depends on values is that for zeros


def test_recording_needs_a_device_and_says_so():
    with pytest.raises(TallyError, match="device_on_shapes"):
        record(lambda: None)


def test_a_loaders_pace_is_its_items_work_spread_over_its_workers():
    class Slow(torch.utils.data.Dataset):
        def __getitem__(self, index):
            end = sum(range(20000))
            return torch.zeros(10), end % 7

    slow, typical, fast = loader_us(Slow(), 64, 4, price("a40"))
    assert slow == pytest.approx(2.5 * typical) and fast == pytest.approx(0.7 * typical)
    alone = loader_us(Slow(), 64, 1, price("a40"))[1]
    assert 2 < alone / typical < 8  # a quarter of the workers, four times as long; this machine is noisy
