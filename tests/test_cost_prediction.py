"""Predictions from recordings written by hand, on a price list of round numbers, so that every expected time is worked out beside it."""

import numpy as np
import pytest

from torchtally.bench.cost import Recording, predict_recording, report, summary, timeline
from torchtally.errors import TallyError
from torchtally.stalls import Site
from torchtally.stalls.price import HostSpeed, Mark, Seen, Work, price

SPEED = HostSpeed(dispatch_us=1.0, view_us=1.0, backward_us=1.0, call_us=1.0, source="by hand")
SITE = Site("train.py", 7, code="if loss > best:")


@pytest.fixture
def round_numbers(tmp_path):
    """1 MB takes the device 1 ms; a launch takes 1 us, a wait comes back at once; no doubt about anything."""
    path = tmp_path / "round.toml"
    path.write_text(
        """
name = "Round"
bandwidth = 1e9
bus = 1e9
[peak]
float32 = { value = 1e15, unit = "vector" }
[efficiency]
bandwidth = 1
vector = 1
bus = 1
[host]
launch_us = 1
copy_us = 1
library_us = 1
fetch_us = 1e-9
pageable_share = 1
scale = 1
[device]
start_us = 1e-9
return_us = 1e-9
kernel_us = 1e-9
"""
    )
    return price(path)


def kernel(device_us, calls=0):
    return Seen("kernel", Work(device_us * 1000, 0.0, 1), calls)


def step(*middle):
    """10 kernels of 100 us, launched in 2 us each, then what is given, then 50 us of Python."""
    return [*[kernel(100.0)] * 10, *middle, Seen("python", calls=49), Mark("step")]


def test_a_device_bound_step_takes_the_devices_time(round_numbers):
    p = predict_recording(Recording([step()]), round_numbers, speed=SPEED)
    assert p.step_ms == pytest.approx(1.0)
    assert p.idle_ms == pytest.approx(0.0, abs=1e-9) and p.waits == 0 and p.launches == 10
    assert p.low_ms == pytest.approx(p.high_ms) == pytest.approx(1.0)


def test_a_wait_adds_the_host_time_until_the_next_launch_to_every_step(round_numbers):
    read = Seen("read", waits=1, site=SITE)
    p = predict_recording(Recording([step(read)]), round_numbers, speed=SPEED)
    # after the wait 50 us of Python and 2 us of launching; the device idles as long
    assert p.step_ms == pytest.approx(1.052)
    assert p.idle_ms == pytest.approx(0.052)
    (waiting,) = p.waiting
    assert (waiting.per_step, waiting.site) == (1.0, SITE)
    assert waiting.idle_us == pytest.approx(52.0, rel=0.03)  # the last step's wait has no step after it
    assert waiting.saved_us == pytest.approx(52.0)
    assert p.without_waits_ms == pytest.approx(1.0)


def test_removing_one_of_two_waits_gains_little_and_removing_both_gains_all(round_numbers):
    waits = [Seen("read", waits=1, site=SITE), Seen("read", waits=1, site=Site("train.py", 9))]
    p = predict_recording(Recording([step(*waits)]), round_numbers, speed=SPEED)
    first, second = sorted(p.waiting, key=lambda w: w.site.line)
    assert first.saved_us == pytest.approx(1.0)  # the wait moves on to the second; only the 1 us of dispatch between them is hidden again
    assert second.saved_us == pytest.approx(0.0, abs=1e-6)  # the device is empty already
    assert p.step_ms - p.without_waits_ms == pytest.approx(0.053)


def test_a_host_bound_step_takes_the_hosts_time_and_a_wait_costs_little(round_numbers):
    slow = [*[kernel(1.0, calls=98)] * 10, Mark("step")]
    p = predict_recording(Recording([slow]), round_numbers, speed=SPEED)
    assert p.step_ms == pytest.approx(1.0)  # 10 times 98 + 1 + 1
    assert p.idle_ms == pytest.approx(0.99)
    waiting = [*slow[:-1], Seen("read", waits=1), Mark("step")]
    assert predict_recording(Recording([waiting]), round_numbers, speed=SPEED).step_ms == pytest.approx(1.002, rel=1e-3)  # 1 of dispatch, 1 of the last kernel


def test_a_loader_slower_than_the_step_sets_the_pace_and_hides_the_waits(round_numbers):
    fetch = [Mark("fetch"), *step(Seen("read", waits=1))]
    bound = predict_recording(Recording([fetch]), round_numbers, speed=SPEED, loader_us=2000.0)
    assert bound.step_ms == pytest.approx(2.0)
    assert bound.without_waits_ms == pytest.approx(2.0)
    free = predict_recording(Recording([fetch]), round_numbers, speed=SPEED, loader_us=500.0)
    assert free.step_ms == pytest.approx(1.052)


def test_a_reading_every_so_many_steps_has_its_share(round_numbers):
    log = [Seen("read", waits=1), Seen("print", calls=999)]
    p = predict_recording(Recording([step()], log, log_interval=10), round_numbers, speed=SPEED, steps=20)
    assert p.waits == pytest.approx(0.1)
    assert p.step_ms == pytest.approx(1.0 + 1.002 / 10, rel=1e-3)  # 1000 us of printing and 2 of launching, every tenth step
    assert p.steps == 20


def test_the_interval_spans_slow_and_fast_hosts_and_devices():
    p = predict_recording(Recording([step(Seen("read", waits=1))]), "a40", speed=SPEED)
    assert p.low_ms < p.step_ms < p.high_ms
    assert len(p.outcomes) == 5
    assert len(predict_recording(Recording([step()]), "a40", speed=SPEED, loader_us=(3.0, 2.0, 1.0)).outcomes) == 9


def test_losses_are_compared_under_the_same_circumstances(round_numbers):
    none = predict_recording(Recording([step()]), round_numbers, speed=SPEED)
    naive = predict_recording(Recording([step(Seen("read", waits=1))]), round_numbers, speed=SPEED)
    assert naive.slower_than(none) == pytest.approx((100 * 0.052 / 1.052,) * 3)
    rows = list(summary({"none": none, "naive": naive}))
    assert rows[1]["lost_percent"] == pytest.approx(4.943, rel=1e-3) and rows[0]["lost_percent"] == 0
    with pytest.raises(TallyError, match="same price list"):
        naive.slower_than(predict_recording(Recording([step()]), "a40", speed=SPEED))


def test_every_output_says_that_it_is_predicted_and_from_what(round_numbers):
    p = predict_recording(Recording([step(Seen("read", waits=1, site=SITE))]), round_numbers, speed=SPEED, loader_us=(3.0, 2.0, 1.0))
    assert "Predicted for Round, not measured" in p.note()
    assert p.constants()["host.dispatch_us"].source == "by hand"
    assert {"bandwidth", "peak.float32", "device.queue_depth", "loader.batch_us"} <= set(p.constants())
    r = report(p, "torchtally bench", "naive")
    assert r.predicted == "Round" and p.note() in r.notes
    assert len(r.stalls) == r.steps == 10
    assert r.duration_us == pytest.approx(10 * 1052.0)
    assert r.stalls[3].site == SITE and r.stalls[3].device_idle_us == pytest.approx(52.0)
    assert [g.what for g in r.gains] == ["all waits", "read at train.py:7"]
    assert r.gains[0].saved_us == pytest.approx(10 * 52.0)


def test_the_timeline_shows_the_steps_the_work_and_the_waits(round_numbers):
    p = predict_recording(Recording([step(Seen("read", waits=1, site=SITE))]), round_numbers, speed=SPEED)
    t = timeline(p, "naive", steps=3)
    assert len(t.steps) == 3 and t.devices == ("Round",)
    stalls = report(p, "torchtally bench", "naive").stalls
    assert [s.step for s in stalls[:3]] == [s.number for s in t.steps]
    assert [s.start_us for s in stalls[:3]] == pytest.approx(list(t.calls.start_us))  # one clock for both
    assert [s.end_us - s.start_us for s in t.steps] == pytest.approx([1052.0] * 3)
    assert len(t.work) == 30 and len(t.calls) == 3
    assert np.sum(t.work.end_us - t.work.start_us) == pytest.approx(3000.0)
    assert any("Predicted" in n for n in t.notes)


def test_a_reading_after_the_steps_shown_is_told_in_words(round_numbers):
    log = [Seen("read", waits=4)]
    p = predict_recording(Recording([step(Seen("read", waits=1, site=SITE))], log, log_interval=20), round_numbers, speed=SPEED, steps=20)
    assert any("read every 20 steps" in n and "1.20 waits a step" in n for n in report(p, "bench", "naive").notes)
    without = predict_recording(Recording([step(Seen("read", waits=1, site=SITE))]), round_numbers, speed=SPEED, steps=20)
    assert not any("read every" in n for n in report(without, "bench", "naive").notes)


def test_nothing_recorded_is_an_error():
    with pytest.raises(TallyError, match="empty"):
        predict_recording(Recording([]), "a40", speed=SPEED)
