"""What a program did on the host under a recorder, as a timeline that the views draw."""

import time

import torch
from fake_source import FakeSource

from torchtally.stalls.recorder import Recorder
from torchtally.stalls.renderers import html, perfetto


def test_steps_and_regions_lie_where_they_ran_and_stalls_within_their_step():
    recorder = Recorder()
    with FakeSource(recorder):
        for _ in range(3):
            with torch.profiler.record_function("## forward ##"):
                time.sleep(0.002)
                torch.ones(3).sum().item()
            recorder.step()
    timeline = recorder.timeline("train.py")
    assert [s.number for s in timeline.steps] == [0, 1, 2]
    names = [timeline.name(i) for i in timeline.regions.name]
    assert names[0] == "train.py" and names[1:] == ["## forward ##"] * 3
    assert timeline.zero_us == 0.0, "the stalls' clock and the timeline's are one"
    for step, start, end in zip(timeline.steps, timeline.regions.start_us[1:], timeline.regions.end_us[1:]):
        assert end - start >= 2000
        assert step.start_us <= start and end <= step.end_us + 1
    report = recorder.report("train.py")
    assert len(report.stalls) == 3
    for stall in report.stalls:
        step = timeline.steps[stall.step]
        assert step.start_us <= stall.start_us <= step.end_us


def test_its_views_claim_no_time_that_nobody_knows():
    recorder = Recorder()
    with FakeSource(recorder):
        for _ in range(2):
            torch.ones(3).sum().item()
            recorder.step()
    report, timelines = recorder.report("train.py"), [recorder.timeline("train.py")]
    page = html.render(report, timelines)
    assert 'id="canvas"' in page and "No device was recorded" in page
    assert 'id="steps-title"' not in page, "a step's length on this machine is not its length on a device"
    assert b'"ph":"i"' in perfetto.render(report, timelines)
