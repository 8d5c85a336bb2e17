"""The lines that wait, counted: what the published account found by hand, and nothing for torchtally."""

from importlib.metadata import version

import pytest

from torchtally.bench import counting, loop, predict, report, settings
from torchtally.bench.variants import VARIANTS
from torchtally.stalls import pretend_cuda

SIZES = settings.for_device("pretend", model="small", batch=4, image_size=16, classes=10, log_interval=5)
OLD = version("torchmetrics") < "1.7"  # its MeanMetric copies the default weight to the device, every time

# The account: the NaN check reads two values; the default weight (old torchmetrics only) and a Python float are copied and waited for.
EXPECTED = {
    "none": 0,
    "naive": 3 if OLD else 2,
    "weights": 2,
    "no-nan-check": 0,
    "collection": 3 if OLD else 2,
    "torchtally": 0,
    "cpu": 0,
    "cpu-ddp": 0,
    "cpu-ddp-nosync": 0,
    "gpu-float": 2 if OLD else 1,
    "gpu-tensor": 0,
    "torchtally-time": 0,
}


@pytest.fixture(scope="module")
def counted():
    return {name: counting.pretended(variant, SIZES) for name, variant in VARIANTS.items()}


def test_every_variant_is_expected_to_do_something():
    assert list(EXPECTED) == list(VARIANTS)


@pytest.mark.parametrize("name", EXPECTED)
def test_waits_per_step_are_those_of_the_account(counted, name):
    assert counted[name].stalls_per_step == EXPECTED[name]


def test_lines_are_the_variants_own_and_where_torchmetrics_waits(counted):
    lines = counted["naive"].lines
    assert {line.site.code for line in lines} == {"metric.update(loss)"}
    inner = {line.inner.code: line.per_step for line in lines}
    assert inner.pop("if nans.any() or nans_weight.any():") == 2
    assert all("torch.as_tensor(weight" in code for code in inner)
    assert {line.site.code for line in counted["gpu-float"].lines} == {"average.update(seconds)"}


def test_what_cannot_be_read_says_why_and_is_counted_all_the_same(counted):
    assert "No backend type associated with device type cpu" in counted["cpu-ddp"].error
    assert not counted["cpu-ddp"].recording.log and counted["cpu-ddp-nosync"].error == ""


@pytest.mark.parametrize("name", ["naive", "torchtally", "gpu-float"])
def test_counting_live_finds_the_same(name):
    sizes = settings.for_device("cpu", model="small", batch=4, steps=1, image_size=16)
    with pretend_cuda():  # stands in for a GPU: `watch` then follows it
        object.__setattr__(sizes, "device", "cuda")
        found = counting.live(VARIANTS[name], sizes)
    assert found.stalls_per_step == EXPECTED[name]


def test_training_waits_for_a_gpu_only_while_setting_up_and_where_it_reads():
    sizes = settings.for_device("cpu", model="small", batch=4, steps=4, log_interval=2, warmup=2, image_size=16)
    with pretend_cuda(record=counting.recorder()) as recorder:
        object.__setattr__(sizes, "device", "cuda")
        loop.train([VARIANTS["torchtally"]], sizes, lambda steps, name: None)
    functions = {stall.site.function for stall in recorder.stalls}
    assert functions == {"start", "torchtally", "read", "timed_read"}  # the model and the metrics are made in the first two


def test_a_forecast_loses_more_the_more_waits(counted):
    found = predict.forecast([counted[n] for n in ("none", "naive", "torchtally")], SIZES, "a40")
    lost = {name: found.figures(name)["loss_percent"] for name in found.predictions}
    assert lost["none"] == 0 and lost["naive"] > lost["torchtally"]
    figures = found.figures("naive")
    assert figures["loss_percent_low"] <= figures["loss_percent"] <= figures["loss_percent_high"]
    assert figures["images_per_s"] == pytest.approx(SIZES.batch / figures["step_ms"] * 1e3)
    assert found.constants()["bandwidth"]["typical"] == 696e9
    shown = found.report("naive")
    assert shown.predicted == "NVIDIA A40" and shown.stalls and found.report("torchtally").steps
    assert len(found.timeline("naive").steps) == shown.steps  # a page lays one over the other


def test_without_the_baseline_the_loss_is_unknown(counted):
    found = predict.forecast([counted["naive"]], SIZES, "a40")
    assert found.figures("naive")["loss_percent"] is None and found.figures("naive")["step_ms"] > 0


def test_advice_shows_what_it_gains(counted):
    rows = [report.Result(variant) for variant in VARIANTS.values()]
    account = report.Account(SIZES, report.complete(rows, counted, [], pretended=False), counted, [])
    lines = report.advice(account)
    assert len(lines) == 7
    assert "(weights 2, no-nan-check 0 waits a step)" in lines[1]
    assert "(cpu-ddp cannot be read, cpu-ddp-nosync can)" in lines[3]
    assert f"(gpu-float {EXPECTED['gpu-float']}, gpu-tensor 0 waits a step)" in lines[4]
    assert report.advice(report.Account(SIZES, account.rows[:1], counted, [])) == []
