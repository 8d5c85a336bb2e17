"""Throughput: rates and step times by a clock that the test holds."""

import math
import pickle

import numpy as np
import pytest
import torch
from ranks.harness import Raised, run_ranks

import torchtally as tt
from torchtally.stalls import pretend_cuda
from torchtally.testing import assert_no_stalls
from torchtally.throughput import BINS, Throughput, count_flops, peak_of


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def run(steps, clock=None, **options):
    """A meter that has seen steps of so many seconds, with what was in them."""
    clock = clock or Clock()
    meter = Throughput(clock=clock, **options)
    meter.start()
    for seconds, told in steps:
        clock.time += seconds
        meter.update(**told)
    return meter


def test_rates_and_utilisation():
    steps = [(0.5, {"samples": 8, "tokens": 100}), (1.0, {"samples": 8, "tokens": 300}), (0.5, {"samples": 4, "tokens": 0})]
    meter = run(steps, flops_per_sample=2e12, flops_per_token=1e9, peak_flops=40e12)
    found = meter.fetch().result()
    assert found["samples_per_s"] == pytest.approx(10.0)
    assert found["tokens_per_s"] == pytest.approx(200.0)
    assert found["flops_per_s"] == pytest.approx((20 * 2e12 + 400 * 1e9) / 2)
    assert found["mfu"] == pytest.approx(found["flops_per_s"] / 40e12)
    assert found["steps_per_s"] == pytest.approx(1.5)
    assert found["step_time_mean_s"] == pytest.approx(2 / 3)
    assert found["step_time_p99_s"] == pytest.approx(1.0, rel=0.011)
    assert meter.update_count == 3
    assert list(run(steps[:1]).compute()) == [
        "step_time_mean_s",
        "step_time_p50_s",
        "step_time_p90_s",
        "step_time_p99_s",
        "steps_per_s",
        "samples_per_s",
        "tokens_per_s",
    ]
    assert run([(1.0, {"flops": 5e12})]).compute()["flops_per_s"] == 5e12
    empty = Throughput().compute()
    assert list(empty) == ["step_time_mean_s", "step_time_p50_s", "step_time_p90_s", "step_time_p99_s", "steps_per_s"]
    assert all(math.isnan(x) for x in empty.values())


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.3, 40.0])
def test_percentiles_are_within_their_bound(scale):
    times = scale * np.random.default_rng(0).lognormal(0.5, 0.7, 2500)
    meter = run([(t, {}) for t in times.tolist()])
    meter.ledger.fold()
    assert sum(x.numel() for x in meter.ledger.flats.values()) == BINS + 9  # constant memory
    found = meter.fetch().result()
    recorded = np.diff(np.cumsum([100.0, *times]))  # what the clock could tell
    for p in (50, 90, 99):
        assert found[f"step_time_p{p}_s"] == pytest.approx(np.percentile(recorded, p, method="inverted_cdf"), rel=0.0111)
    assert found["step_time_mean_s"] == pytest.approx(times.mean(), rel=1e-6)


def test_all_alike_is_exact_and_extremes_are_clamped():
    assert run([(0.7, {})] * 9).compute()["step_time_p50_s"] == pytest.approx(0.7)
    assert run([(1e5, {}), (1e5, {})]).compute()["step_time_p99_s"] == pytest.approx(1e5)
    assert run([(1e-9, {})]).compute()["step_time_p50_s"] < 1e-8


def test_warmup_pauses_and_the_first_call():
    clock = Clock()
    meter = Throughput(clock=clock, warmup=2)
    for seconds in (50.0, 9.0, 9.0, 1.0):
        clock.time += seconds
        meter.update(samples=1)  # the first only starts the clock
    assert meter.compute()["samples_per_s"] == 1.0
    with meter.pause():
        clock.time += 1000.0
    clock.time += 1.0
    meter.update(samples=3)
    assert meter.compute()["samples_per_s"] == 2.0
    pending = meter.fetch(reset=True)
    clock.time += 0.5
    meter.update(samples=3)  # the clock goes on over a reset
    assert pending.result()["samples_per_s"] == 2.0
    assert meter.compute()["samples_per_s"] == 6.0
    assert meter(samples=1)["samples_per_s"] > 6.0


def test_survives_and_adds_up():
    steps = [(1.0, {"samples": 10}), (3.0, {"samples": 10})]
    meter = run(steps)
    again = pickle.loads(pickle.dumps(meter))
    loaded = Throughput()
    loaded.load_state_dict(meter.state_dict())
    for other in (again, loaded, meter.clone()):
        assert other.fetch().result() == meter.fetch().result()
        other.update(samples=1)  # starts the clock: a copy does not know when the step began
        assert other.update_count == 2
    meter.merge_state(run([(2.0, {"samples": 20})]))  # side by side
    assert meter.compute()["samples_per_s"] == 10.0
    assert meter.to("cpu").half().compute()["step_time_mean_s"] == 2.0


def test_in_a_collection_nothing_waits():
    with pretend_cuda():
        clock = Clock()
        tally = tt.MetricCollection({"speed": Throughput(clock=clock), "loss": tt.MeanMetric().bind(value="loss")}, prefix="train_").to(
            "cuda"
        )
        loss = torch.tensor(2.0).cuda()
        with assert_no_stalls():
            for _ in range(4):
                clock.time += 0.25
                tally.update(loss=loss, samples=8)
            pending = tally.fetch(reset=True)
        found = pending.result()
        assert found["train_samples_per_s"] == pytest.approx(32.0)
        assert found["train_loss"] == 2.0


def test_over_ranks_samples_add_up_and_the_longest_time_counts():
    def work(rank):
        meter = run([(1.0 + rank, {"samples": 10})] * 2, flops_per_sample=1e9, peak_flops=1e11)
        return {k: float(x) for k, x in meter.compute().items()}, meter.fetch().result()

    for found in run_ranks(work):
        assert not isinstance(found, Raised), found
        value, later = found
        assert value["samples_per_s"] == 10.0
        assert value["step_time_mean_s"] == 1.5
        assert value["mfu"] == pytest.approx(40e9 / 6e11)
        assert later == pytest.approx(value)


class Event:
    """A CUDA event as far as a meter asks: done when the test says so."""

    done = 0
    made = 0

    def __init__(self, enable_timing):
        Event.made += 1
        self.at = Event.made

    def record(self):
        pass

    def query(self):
        return self.at <= Event.done

    def elapsed_time(self, end):
        return 1000.0 * (end.at - self.at)


def test_events_are_read_when_the_device_has_passed_them(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    Event.done = Event.made = 0
    meter = Throughput(events=True)
    meter.start()
    for _ in range(3):
        meter.update(samples=2)
    assert math.isnan(meter.compute()["steps_per_s"])
    Event.done = 3
    assert meter.compute()["samples_per_s"] == 2.0
    assert len(meter._open) == 1
    Event.done = 4
    assert meter.fetch().result()["samples_per_s"] == 2.0
    assert not meter._open


def test_peaks_come_from_price_lists(monkeypatch):
    assert peak_of("h100") == 989.4e12
    assert peak_of("h100", "float32") == 67e12
    assert peak_of(1e12) == 1e12
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert peak_of("auto") == peak_of("h200")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Abacus 3")
    with pytest.raises(ValueError, match="no price list for the device here"):
        peak_of("auto")


def test_operations_are_counted_by_torch():
    layer = torch.nn.Linear(16, 32, bias=False)
    x = torch.randn(8, 16)
    forward = 2 * 8 * 16 * 32
    assert count_flops(lambda: layer(x)) == forward
    assert count_flops(lambda: layer(x).sum().backward()) == 2 * forward  # the gradient of the weight; none of the input is needed


@pytest.mark.parametrize(
    "options",
    [
        {"flops_per_sample": -1},
        {"warmup": -1},
        {"peak_flops": 0},
        {"peak_flops": "h100", "dtype": "int3"},
        {"events": True, "clock": float},
    ],
)
def test_wrong_arguments_say_what_was_expected(options):
    with pytest.raises(ValueError, match="expected"):
        Throughput(**options)


def test_tensors_are_refused():
    with pytest.raises(ValueError, match="expected a Python number"):
        Throughput().update(samples=torch.tensor(3))
