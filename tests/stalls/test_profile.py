"""A profile of a few steps: the trace it writes, its regions and marks, what it reads back, and how it leaves the metrics."""

import gzip
import json
import pickle
from collections import Counter

import pytest
import torch
import torchmetrics
from torch import nn
from torchmetrics.aggregation import BaseAggregator

import torchtally
from torchtally.errors import TallyError
from torchtally.stalls import analysis, probe_lines, profile, read_trace


def events_of(path):
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def annotations(path):
    return Counter(e["name"] for e in events_of(path) if e.get("cat") == "user_annotation")


def run(recording, step, steps):
    with recording:
        for _ in recording.over(range(steps)):
            step()
    return recording


def test_steps_and_metrics_are_marked_and_the_report_says_there_is_no_device(tmp_path, capsys):
    loss = torchmetrics.MeanMetric()
    accuracy = torchmetrics.classification.MulticlassAccuracy(3)
    members = torchmetrics.MetricCollection({"best": torchmetrics.MaxMetric()})
    ours = torchtally.MetricCollection({"mean": torchtally.MeanMetric()})

    def step():
        x = torch.tensor([0.5, 1.5, 1.0])
        loss.update(x)
        accuracy(x.reshape(1, 3), torch.tensor([1]))
        members.update(x)
        ours.update(x)
        ours.compute()

    recording = run(profile(steps=2, warmup=1, wait=1, directory=tmp_path), step, 6)
    seen = annotations(recording.path)
    assert {name: n for name, n in seen.items() if name.startswith("ProfilerStep")} == {"ProfilerStep#2": 1, "ProfilerStep#3": 1}
    assert {name: n for name, n in seen.items() if name.startswith("metric: ")} == {
        "metric: MeanMetric loss.update": 2,
        "metric: MulticlassAccuracy accuracy.forward": 2,
        "metric: MulticlassAccuracy accuracy.update": 2,
        "metric: MulticlassAccuracy accuracy.compute": 2,
        "metric: MetricCollection members.update": 2,
        "metric: MaxMetric best.update": 2,
        "metric: MetricCollection ours.update": 2,
        "metric: MetricCollection ours.compute": 2,
    }
    assert recording.done
    assert recording.report.steps == 2
    assert any("no device work at all" in note for note in recording.report.notes)
    assert "no device work at all" in " ".join(capsys.readouterr().out.split())
    assert recording.path.parent == tmp_path
    assert recording.path.name.startswith("rank0.") and recording.path.name.endswith(".pt.trace.json.gz")


def with_device(path):
    """The trace as if each reading of a tensor had waited for a device: a copy and a synchronisation inside it, and a kernel it waited for."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    for number, read in enumerate([e for e in trace["traceEvents"] if e.get("name") == "aten::_local_scalar_dense"], 1):
        common = {"ph": "X", "pid": read["pid"], "tid": read["tid"], "dur": read["dur"] / 4}
        device = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
        trace["traceEvents"] += [
            {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": read["ts"], "args": {"correlation": number}},
            {**common, "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": read["ts"] + read["dur"] / 2, "args": {"correlation": -number}},
            {**device, "name": "sum", "ts": read["ts"], "dur": read["dur"] / 2, "args": {"correlation": number, "stream": 7, "device": 0}},
        ]
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    return path


def test_with_line_probes_each_wait_has_its_line_and_metric(tmp_path):
    loss = torchmetrics.MeanMetric()
    with probe_lines(BaseAggregator._cast_and_nan_check_input):
        recording = run(profile(steps=2, warmup=1, directory=tmp_path, show=False, stacks=False), lambda: loss.update(torch.ones(4)), 4)
    report = analysis.report([read_trace(with_device(recording.path))])
    assert len(report.stalls) == 4
    for stall in report.stalls:
        assert stall.site.code == "if nans.any() or nans_weight.any():"
        assert stall.metric == "MeanMetric loss"
        assert not stall.inferred
    assert sorted(Counter(s.step for s in report.stalls).values()) == [2, 2]


class Doubled(torchmetrics.MeanMetric):
    def update(self, value):
        super().update(value * 2)


def test_a_method_that_calls_its_base_is_marked_once(tmp_path):
    doubled = Doubled()
    recording = run(profile(steps=1, warmup=1, directory=tmp_path, show=False), lambda: doubled.update(torch.ones(1)), 2)
    assert annotations(recording.path)["metric: Doubled doubled.update"] == 1
    assert doubled.compute() == 2


def test_metrics_are_left_as_they_were(tmp_path):
    before = torchmetrics.MeanMetric()
    own, inherited = before.update, torchtally.MeanMetric.update
    classes = {c: dict(vars(c)) for c in (torchmetrics.Metric, torchmetrics.MeanMetric, torchtally.Metric, torchtally.MetricCollection)}
    with profile(steps=1, warmup=1, directory=tmp_path, show=False) as recording:
        assert before.update is not own
        made = torchmetrics.MeanMetric()
        made.update(torch.ones(2))
        made = pickle.loads(pickle.dumps(made))
        recording.step()
        recording.step()
        assert before.update is own  # as soon as the steps are recorded
    assert torchtally.MeanMetric.update is inherited
    for cls, members in classes.items():
        assert {k: v for k, v in vars(cls).items() if k in members and not k.startswith("_abc")} == {
            k: v for k, v in members.items() if not k.startswith("_abc")
        }
    made.update(torch.ones(2) * 4)
    assert made.compute() == 2.5


def test_metrics_are_left_as_they_were_when_the_loop_fails(tmp_path):
    metric = torchmetrics.MeanMetric()
    own = metric.update
    with pytest.raises(ZeroDivisionError), profile(directory=tmp_path, show=False) as recording:
        raise ZeroDivisionError
    assert metric.update is own
    assert recording.path is None


def test_a_loop_that_is_too_short_is_told_what_to_do(tmp_path):
    recording = profile(steps=3, warmup=2, wait=1, directory=tmp_path, show=False)
    with pytest.warns(UserWarning, match=r"step\(\) was called 2 times and recording 3 steps after 3 of waiting and warming up takes 6"):
        run(recording, lambda: None, 2)
    with pytest.raises(TallyError, match="There is no report yet"):
        _ = recording.report
    assert not list(tmp_path.iterdir())


def test_a_loop_that_ends_while_recording_gives_what_it_had(tmp_path):
    recording = run(profile(steps=5, warmup=1, directory=tmp_path, show=False), lambda: torch.ones(3).sum(), 4)
    assert recording.report.steps is not None
    assert "ProfilerStep#1" in annotations(recording.path)


def test_the_lines_of_the_program_are_recorded(tmp_path):
    model = nn.Linear(2, 2)
    recording = run(profile(steps=1, warmup=1, directory=tmp_path, show=False), lambda: model(torch.ones(2)), 2)
    assert any(e.get("cat") == "python_function" for e in events_of(recording.path))


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"warmup": 0}, {"wait": 1.5}], ids=str)
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(TallyError, match="expected a whole number of at least"):
        profile(**wrong)
