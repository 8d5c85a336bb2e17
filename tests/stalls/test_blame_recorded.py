"""Lines, metrics and regions of recorded stalls."""

import sys

import pytest

from torchtally.stalls.ownership import Owner
from torchtally.stalls.passes.blame import blame_stalls
from torchtally.stalls.passes.findings import Findings
from torchtally.stalls.passes.recorded import frame_of, frames_of_stack, owner_of
from torchtally.stalls.passes.source import lines_of, reading_lines
from torchtally.stalls.stall import Site, Stall
from torchtally.stalls.timeline import Draft

MOMENT = 50.0


@pytest.fixture
def run():
    draft = Draft("run")
    draft.main = draft.lane("thread 1")
    return draft


def blamed(draft, moment=MOMENT, thread="thread 1"):
    draft.operator("the beginning", draft.main, 0, 0)
    stall = Stall("read", "aten::item", start_us=moment, host_wait_us=1.0, thread=thread)
    (found,) = blame_stalls(draft.timeline(), Findings((stall,))).stalls
    return found


def place(site):
    return None if site is None else (site.file, site.line)


def test_the_line_of_a_call_is_what_the_callee_recorded(run):
    run.frame("train.py(10): step", run.main, 0, 100, "train.py:90")
    run.frame("<built-in method item of Tensor object>", run.main, 40, 60, "train.py:31")
    found = blamed(run)
    assert place(found.site) == ("train.py", 31)
    assert found.site.function == "step"
    assert not found.inferred


def test_without_it_the_line_is_where_the_function_begins_and_said_to_be_inferred(run):
    run.frame("train.py(10): step", run.main, 0, 100)
    run.frame("<built-in method item of Tensor object>", run.main, 40, 60)
    found = blamed(run)
    assert place(found.site) == ("train.py", 10)
    assert found.inferred


def test_the_users_line_and_the_innermost_line_differ_in_a_library(run):
    run.frame("train.py(10): step", run.main, 0, 100, "train.py:90")
    run.frame("torchvision/ops/boxes.py(5): nms", run.main, 20, 90, "train.py:33")
    run.frame("torch/_tensor.py(100): wrapped", run.main, 30, 80, "torchvision/ops/boxes.py:7")
    run.frame("<built-in method item of Tensor object>", run.main, 40, 60, "torch/_tensor.py:120")
    found = blamed(run)
    assert place(found.site) == ("train.py", 33)
    assert place(found.inner) == ("torchvision/ops/boxes.py", 7)
    assert not found.inferred


SOURCE = """def step(x):
    y = x.sum()
    z = y * 2
    if z > 3:
        y = y + 1
    return float(y)
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    lines_of.cache_clear()
    reading_lines.cache_clear()
    yield "model.py"
    lines_of.cache_clear()
    reading_lines.cache_clear()


def test_a_condition_is_found_between_the_calls_before_and_after_it(run, source):
    run.frame("model.py(1): step", run.main, 0, 100, "train.py:90")
    run.frame("<built-in method sum of Tensor object>", run.main, 10, 20, "model.py:2")
    run.frame("<built-in method add of Tensor object>", run.main, 60, 70, "model.py:5")
    found = blamed(run)
    assert place(found.site) == ("model.py", 4)
    assert found.site.code == "if z > 3:"
    assert found.inferred


def test_after_the_last_call_the_next_line_that_reads_is_taken(run, source):
    run.frame("model.py(1): step", run.main, 0, 100, "train.py:90")
    run.frame("<built-in method add of Tensor object>", run.main, 10, 20, "model.py:5")
    found = blamed(run)
    assert place(found.site) == ("model.py", 6)
    assert found.site.code == "return float(y)"


def test_calls_inside_calls_do_not_count_as_siblings(run, source):
    run.frame("model.py(1): step", run.main, 0, 100, "train.py:90")
    run.frame("other.py(1): helper", run.main, 5, 20, "model.py:2")
    run.frame("<built-in method add of Tensor object>", run.main, 10, 15, "other.py:999")
    assert place(blamed(run).site) == ("model.py", 4)


def test_without_the_source_the_line_of_the_call_before_is_taken(run):
    run.frame("gone.py(1): step", run.main, 0, 100, "train.py:90")
    run.frame("<built-in method sum of Tensor object>", run.main, 10, 20, "gone.py:2")
    found = blamed(run)
    assert place(found.site) == ("gone.py", 2)
    assert found.inferred


def test_call_stacks_of_old_traces_have_the_lines_that_ran(run):
    run.operator("aten::item", run.main, 0, 100, stack="torch/x.py(1): y;train.py(31): step;train.py(40): <module>")
    found = blamed(run)
    assert place(found.site) == ("train.py", 31)
    assert not found.inferred


def test_call_stacks_of_new_traces_have_where_functions_begin(run):
    run.stacks_have_lines = False
    run.operator("aten::item", run.main, 0, 100, stack="train.py(31): step")
    assert blamed(run).inferred


def test_a_region_around_a_line_is_exact_on_any_version(run):
    run.frame("train.py(10): step", run.main, 0, 100)
    run.region("line: train.py:31 loss.item()", run.main, 30, 70)
    found = blamed(run)
    assert found.site == Site("train.py", 31, code="loss.item()")
    assert not found.inferred


def test_probed_lines_of_a_library_are_the_inner_line_only(run):
    run.frame("train.py(10): step", run.main, 0, 100, "train.py:90")
    run.frame("torchmetrics/aggregation.py(300): update", run.main, 20, 80, "train.py:33")
    run.region("line: torchmetrics/aggregation.py:310 if weight.any():", run.main, 30, 70)
    found = blamed(run)
    assert place(found.site) == ("train.py", 33)
    assert place(found.inner) == ("torchmetrics/aggregation.py", 310)
    assert not found.inferred


def test_metrics_are_known_by_their_regions(run):
    run.region("ProfilerStep#3", run.main, 0, 100)
    run.region("validation", run.main, 10, 90)
    run.region("metric: val.accuracy.update", run.main, 20, 80)
    found = blamed(run)
    assert found.metric == "val.accuracy"
    assert found.region == "validation"


def test_and_by_functions_of_a_metric_library(run):
    run.frame("train.py(10): step", run.main, 0, 100, "train.py:90")
    run.frame("torchmetrics/metric.py(470): wrapped_func", run.main, 10, 90, "train.py:33")
    run.frame("torchmetrics/classification/stat_scores.py(300): update", run.main, 20, 80, "torchmetrics/metric.py:480")
    assert blamed(run).metric == "torchmetrics.classification.stat_scores.update"


def test_or_by_the_module_that_was_called(run):
    run.frame("train.py(10): step", run.main, 0, 100, "train.py:90")
    run.frame("nn.Module: MulticlassF1Score_0", run.main, 5, 95)
    run.frame("torchmetrics/metric.py(270): forward", run.main, 10, 90)
    assert blamed(run).metric == "MulticlassF1Score"


def test_a_stall_of_the_backward_pass_gets_the_line_of_its_forward_operator(run):
    engine = run.lane("thread 2")
    run.frame("model.py(10): forward", run.main, 0, 20, "train.py:8")
    run.frame("<built-in function prod>", run.main, 4, 9, "model.py:14")
    run.operator("aten::prod", run.main, 5, 8, sequence=77)
    run.operator("autograd::engine::evaluate_function: ProdBackward0", engine, 40, 90, sequence=77, backward=True)
    run.operator("aten::nonzero", engine, 45, 80)
    found = blamed(run, thread="thread 2")
    assert place(found.site) == ("model.py", 14)
    assert found.inferred


def test_or_the_line_that_called_backward(run):
    run.lane("thread 2")
    run.frame("train.py(10): step", run.main, 0, 100, "train.py:90")
    run.frame("torch/autograd/graph.py(800): _engine_run_backward", run.main, 20, 80, "train.py:41")
    found = blamed(run, thread="thread 2")
    assert place(found.site) == ("train.py", 41)
    assert found.inferred


def test_without_any_stacks_the_region_is_all_there_is(run):
    run.region("## forward ##", run.main, 0, 100)
    found = blamed(run)
    assert (found.site, found.region, found.metric, found.inferred) == (None, "## forward ##", None, False)


def test_a_site_that_is_known_is_not_changed(run):
    run.frame("train.py(10): step", run.main, 0, 100)
    known = Stall("read", "aten::item", site=Site("mine.py", 1), start_us=1.0, thread="thread 1")
    assert blame_stalls(run.timeline(), Findings((known,))).stalls == (known,)


def test_only_python_files_are_opened_for_their_source(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2\n")
    assert lines_of(str(secret)) == ()


def test_names_of_functions():
    frame = frame_of("a b(c)/x.py(12): <lambda>")
    assert (frame.file, frame.line, frame.function) == ("a b(c)/x.py", 12, "<lambda>")
    assert frame_of("<built-in method item of Tensor object>") is None
    assert frame_of("nn.Module: Linear_3") is None
    assert [f.line for f in frames_of_stack("a.py(2): g;nonsense;a.py(1): f", True)] == [1, 2]


@pytest.mark.parametrize(
    "file, owner",
    [
        ("torchtally/bench/metrics.py", Owner.USER),
        ("torchtally/commands/bench.py", Owner.PLUMBING),
        ("typer/main.py", Owner.LIBRARY),
        ("train.py", Owner.USER),
        ("/home/me/proj/train.py", Owner.USER),
        ("proj/model/net.py", Owner.USER),
        ("torch/nn/modules/module.py", Owner.PLUMBING),
        ("torch/optim/lr_scheduler.py", Owner.LIBRARY),
        ("torch/_tensor.py", Owner.PLUMBING),
        ("torchmetrics/metric.py", Owner.METRICS),
        ("/opt/lib/python3.11/site-packages/torchmetrics/metric.py", Owner.METRICS),
        ("/opt/lib/python3.11/site-packages/anything/x.py", Owner.LIBRARY),
        ("C:\\env\\Lib\\site-packages\\torch\\_tensor.py", Owner.PLUMBING),
        ("transformers/pipelines/base.py", Owner.LIBRARY),
        ("threading.py", Owner.PLUMBING),
        ("multiprocessing/pool.py", Owner.PLUMBING),
        ("/usr/lib/python3.11/contextlib.py", Owner.PLUMBING),
        ("<frozen runpy>", Owner.PLUMBING),
        ("<stdin>", Owner.USER),
    ],
)
def test_whose_a_recorded_file_is(file, owner):
    assert owner_of(file) == owner


PROGRAM = """import torch


def measure(x):
    total = x.sum()
    first = total.item()
    doubled = x * 2
    if doubled.sum() > 3:
        first += 1
    y = x.abs()
    return float(y[0])


def main():
    with torch.profiler.profile(with_stack=True) as profiler:
        measure(torch.ones(3))
    return profiler
"""


def test_lines_of_what_the_installed_profiler_writes(tmp_path, monkeypatch):
    import importlib

    import torch

    from torchtally.stalls.sources.trace import read_trace

    (tmp_path / "profiled_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    lines_of.cache_clear()
    reading_lines.cache_clear()
    importlib.import_module("profiled_program").main().export_chrome_trace(str(tmp_path / "t.json"))
    run = read_trace(tmp_path / "t.json")
    assert run.notes == ()
    reads = run.operators.take(run.operators.name == run.names.index("aten::_local_scalar_dense"))
    thread = run.lanes[reads.lane[0]].label
    stalls = tuple(
        Stall("read", "aten::_local_scalar_dense", start_us=float(start), host_wait_us=1.0, thread=thread) for start in reads.start_us
    )
    found = [s.site for s in blame_stalls(run, Findings(stalls)).stalls]

    # The profiler cuts off what was on sys.path when it was first used in the process; later entries stay, and the path is whole.
    assert {s.file for s in found} <= {"profiled_program.py", str(tmp_path / "profiled_program.py")}
    assert len(found) == 3
    assert [s.function for s in found] == ["measure"] * 3
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14):
        assert [s.code for s in found] == ["first = total.item()", "if doubled.sum() > 3:", "return float(y[0])"]
