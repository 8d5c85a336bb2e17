"""Bytes, operations and launches of operators against numbers worked out by hand, on shapes alone."""

import math
import time

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torchtally.errors import TallyError
from torchtally.stalls.price import Tariff, Work, calibrate, names, price, work_of
from torchtally.stalls.price.host import HostSpeed
from torchtally.stalls.price.meter import Seen

aten = torch.ops.aten
MB = 1e6


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def work(op, *args, **kwargs):
    return work_of(op, args, kwargs, op(*args, **kwargs))


def test_an_elementwise_operator_reads_its_inputs_and_writes_its_result_once():
    w = work(aten.add.Tensor, meta(1000, 1000), meta(1000, 1000))
    assert (w.bytes, w.operations, w.kernels) == (12 * MB, 1e6, 1)


def test_in_place_and_half_precision_move_what_they_move():
    assert work(aten.add_.Tensor, meta(1000), meta(1000)).bytes == 12000
    assert work(aten.relu.default, meta(1000, dtype=torch.bfloat16)).bytes == 4000


def test_a_reduction_reads_everything_and_writes_one_number():
    w = work(aten.sum.default, meta(256, 1000))
    assert (w.bytes, w.kernels) == (256 * 1000 * 4 + 4, 1)


def test_softmax_reads_a_long_row_three_times_and_a_short_one_once():
    assert work(aten._softmax.default, meta(8, 1024), -1, False).bytes == 2 * 8 * 1024 * 4
    assert work(aten._softmax.default, meta(8, 2048), -1, False).bytes == 4 * 8 * 2048 * 4


def test_views_and_allocations_cost_the_device_nothing():
    x = meta(8, 8)
    for w in (work(aten.view.default, x, [64]), work(aten.t.default, x), work(aten.detach.default, x), work(aten.empty_like.default, x)):
        assert w.kernels == 0 and w.bytes == 0


def test_a_matrix_product_does_two_operations_a_term():
    w = work(aten.mm.default, meta(128, 512), meta(512, 1000))
    assert w.operations == 2 * 128 * 512 * 1000
    assert w.bytes == 4 * (128 * 512 + 512 * 1000 + 128 * 1000)
    assert w.library
    assert work(aten.addmm.default, meta(1000), meta(128, 512), meta(512, 1000)).operations == 2 * 128 * 512 * 1000
    assert work(aten.bmm.default, meta(4, 16, 32), meta(4, 32, 8)).operations == 2 * 4 * 16 * 32 * 8


def test_matrices_stay_in_float32_unless_asked_and_convolutions_use_tf32_as_pytorch_does():
    assert work(aten.mm.default, meta(4, 4), meta(4, 4)).numbers == "float32"
    assert work(aten.convolution.default, meta(1, 3, 8, 8), meta(4, 3, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1).numbers == "tf32"
    assert work(aten.mm.default, meta(4, 4, dtype=torch.float16), meta(4, 4, dtype=torch.float16)).numbers == "float16"
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert work(aten.mm.default, meta(4, 4), meta(4, 4)).numbers == "tf32"
    finally:
        torch.set_float32_matmul_precision(before)


def test_the_first_convolution_of_a_residual_network():
    # 128 images of 3 x 224 x 224, 64 filters of 3 x 7 x 7, stride 2: 112 x 112 outputs of 147 multiplications and additions each
    x, weight = meta(128, 3, 224, 224), meta(64, 3, 7, 7)
    w = work(aten.convolution.default, x, weight, None, [2, 2], [3, 3], [1, 1], False, [0, 0], 1)
    outputs = 128 * 64 * 112 * 112
    assert w.operations == 2 * outputs * 147
    assert w.bytes == 4 * (128 * 3 * 224 * 224 + 64 * 147 + outputs)
    assert w.kernels == 1
    assert work(aten.convolution.default, x, weight, meta(64), [2, 2], [3, 3], [1, 1], False, [0, 0], 1).kernels == 2


def test_a_convolutions_backward_does_the_forward_once_for_each_gradient_asked_for():
    x, weight, grad = meta(8, 16, 32, 32), meta(32, 16, 3, 3), meta(8, 32, 32, 32)
    forward = 2 * (8 * 32 * 32 * 32) * 16 * 9
    for mask in ([True, True, False], [False, True, False]):
        w = work(aten.convolution_backward.default, grad, x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)
        assert w.operations == sum(mask) * forward
        assert w.kernels == sum(mask)
        assert w.bytes == sum(mask) * 4 * (grad.numel() + x.numel() + weight.numel())


def test_batch_normalisation_reads_its_input_twice_forward_and_moves_five_tensors_backward():
    x, c = meta(32, 64, 56, 56), meta(64)
    n = 4 * 32 * 64 * 56 * 56
    assert work(aten.native_batch_norm.default, x, c, c, c, c, True, 0.1, 1e-5).bytes == 3 * n
    assert work(aten.native_batch_norm_backward.default, x, x, c, c, c, c, c, True, 1e-5, [True, True, True]).bytes == 5 * n


def test_a_gather_moves_the_rows_it_takes_and_not_the_table():
    w = work(aten.embedding.default, meta(1_000_000, 64), meta(32, dtype=torch.int64))
    assert w.bytes == 2 * (32 * 64 * 4) + 32 * 8


def test_a_fill_only_writes():
    assert work(aten.zero_.default, meta(1000)).bytes == 4000
    assert work(aten.copy_.default, meta(1000), meta(1000)).bytes == 8000


def test_multi_tensor_kernels_take_so_many_tensors_at_once():
    small = [meta(10) for _ in range(62)]
    w = work(aten._foreach_add_.List, small, small, alpha=-0.1)
    assert w.kernels == 1  # two lists: up to 64 tensors a launch
    assert w.bytes == 62 * 10 * 4 * 3  # both read, the first written
    assert work(aten._foreach_add_.List, [*small, *small], [*small, *small]).kernels == 2
    assert work(aten._foreach_mul.Scalar, small, 2.0).bytes == 62 * 10 * 4 * 2
    # 320 blocks of 65536 elements a launch: 11.7 million parameters in one tensor are 179 blocks, thrice that 537
    assert work(aten._foreach_mul_.Scalar, [meta(11_700_000)], 2.0).kernels == 1
    assert work(aten._foreach_mul_.Scalar, [meta(11_700_000)] * 3, 2.0).kernels == 2


def test_a_fused_optimiser_reads_four_lists_and_writes_three():
    p = [meta(100) for _ in range(5)]
    step = [meta() for _ in range(5)]
    args = (p, p, p, p, [], step)
    kwargs = dict(lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
    w = work_of(aten._fused_adam_.default, args, kwargs, None)
    assert w.bytes == 7 * 5 * 400 and w.kernels == 1


def test_attention_never_writes_its_scores():
    q = meta(2, 8, 128, 64, dtype=torch.bfloat16)
    w = work_of(aten._scaled_dot_product_flash_attention.default, (q, q, q), {}, q)
    assert w.operations == 2 * 2 * (2 * 8 * 128 * 128 * 64)  # two products of 2 operations a term
    assert w.bytes == 4 * q.numel() * 2


def test_device_time_is_the_longer_of_bytes_and_operations_and_never_below_a_kernels_floor():
    a40 = price("a40")
    big = Work(591.6e9, 0.0, 1)  # 696 GB/s at 0.85
    assert big.device_us(a40) == pytest.approx(1e6)
    assert Work(0.0, 41.14e12, 1, "tf32").device_us(a40) == pytest.approx(1e6)  # 74.8e12 at 0.55
    assert Work(591.6e9, 2 * 41.14e12, 1, "tf32").device_us(a40) == pytest.approx(2e6)
    assert Work(4.0, 1.0, 3).device_us(a40) == 6.0
    assert Work(591.6e9, 0.0, 1).device_us(a40, "slow") > 1e6 > Work(591.6e9, 0.0, 1).device_us(a40, "fast")


class Counter(TorchDispatchMode):
    """Adds up the operations of a real model on shapes."""

    def __init__(self):
        super().__init__()
        self.work = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.work.append(work_of(func, args, kwargs or {}, out))
        return out


def test_a_residual_network_forward_does_the_operations_the_literature_counts():
    torchvision = pytest.importorskip("torchvision")
    with torch.device("meta"):
        model = torchvision.models.resnet18()
    with Counter() as counter:
        model(meta(1, 3, 224, 224))
    done = sum(w.operations for w in counter.work if w.library)
    assert done == pytest.approx(2 * 1.814e9, rel=0.01)  # 1.8 billion multiply-adds: He et al. 2016, table 1, with the biases of the last layer


@pytest.mark.parametrize("name", names())
def test_every_price_list_is_complete_and_every_constant_has_its_source(name):
    p = price(name)
    assert {"float32", "float64", "float16"} <= set(p.peak)
    for where, constant in p.constants():
        assert constant.source and constant.source != "no source given", where
        assert all(math.isfinite(v) for v in constant.values)
    assert p.rate("float32", "slow") < p.rate("float32", "typical") < p.rate("float32", "fast")
    assert p.bus_rate("typical", pinned=False) < p.bus_rate("typical", pinned=True)


def test_a_price_list_of_ones_own_needs_four_entries(tmp_path):
    toml = tmp_path / "mine.toml"
    toml.write_text('name = "Mine"\nbandwidth = 1e12\nbus = [1e9, 2e9, 3e9]\n[peak]\nfloat32 = { value = 1e13, unit = "vector", source = "guess" }\n')
    mine = price(toml)
    assert mine.name == "Mine" and mine.bus.at("fast") == 3e9
    assert mine.rate("tf32", "typical") == mine.rate("float32", "typical")  # no tensor cores known
    json = tmp_path / "mine.json"
    json.write_text('{"name": "Mine", "bandwidth": 1e12, "bus": 1e9, "peak": {"float32": {"value": 1e13, "unit": "vector"}}, "host": {"launch_us": 9}}')
    assert price(json).host["launch_us"].at("typical") == 9


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("name = 1\n", "lacks bandwidth, bus, peak"),
        ('name = "x"\nbandwidth = -1\nbus = 1\n[peak]\nfloat32 = {value=1, unit="vector"}\n', "positive number"),
        ('name = "x"\nbandwidth = [1, 3, 2]\nbus = 1\n[peak]\nfloat32 = {value=1, unit="vector"}\n', "not in order"),
        ('name = "x"\nbandwidth = 1\nbus = 1\n[peak]\nfloat32 = 1\n', "needs unit"),
        ('name = "x"\nbandwidth = 1\nbus = 1\n[peak]\nfloat16 = {value=1, unit="vector"}\n', "lacks peak.float32"),
        ("name = \n", "cannot be read"),
    ],
)
def test_a_bad_price_list_is_refused_with_what_is_wrong(tmp_path, text, complaint):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(TallyError, match=complaint):
        price(path)


def test_an_unknown_price_list_names_the_known_ones():
    with pytest.raises(TallyError, match=r"a100.*a40.*h200"):
        price("a39")


def test_a_task_adds_python_dispatch_and_launches_and_copies_go_over_the_bus():
    a40 = price("a40")
    tariff = Tariff(a40, HostSpeed(dispatch_us=2.0, view_us=1.0, backward_us=1.0, call_us=0.1, source="by hand"))
    kernel = tariff.task(Seen("add", Work(591.6e6, 0.0, 1), calls=30))
    assert kernel.host_us == 3.0 + 2.0 + 4.5 and kernel.device_us == pytest.approx(1000.0) and kernel.launches == 1
    view = tariff.task(Seen("view", calls=30))
    assert view.host_us == 4.0 and view.launches == 0
    images = 128 * 3 * 224 * 224 * 4
    pinned = tariff.task(Seen("copy", bus="pinned", bus_bytes=images))
    assert pinned.device_us == pytest.approx(1e6 * images / (31.5e9 * 0.82))
    assert pinned.host_us == 2.0 + 6.0
    blocking = tariff.task(Seen("copy", bus="pageable", bus_bytes=images, waits=1))
    assert blocking.device_us == pytest.approx(pinned.device_us / 0.3)
    slow = Tariff(a40, tariff.speed, host="slow").task(Seen("add", Work(591.6e6, 0.0, 1), calls=30))
    assert slow.host_us == pytest.approx(5.0 * 2.5 + 6.6)


def test_calibration_measures_something_plausible():
    speed = calibrate()
    assert 0.1 < speed.view_us < speed.dispatch_us * 3 < 1000
    assert "measured here" in speed.source


def test_calibration_is_not_misled_by_modes():
    class Slow(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            time.sleep(0)
            sum(range(2000))
            return func(*args, **(kwargs or {}))

    calibrate.cache_clear()
    with Slow():
        under = calibrate()
    calibrate.cache_clear()
    assert under.dispatch_us < 4 * calibrate().dispatch_us  # some 30 us more each, were the mode seen
