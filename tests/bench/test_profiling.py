"""The experiment under the profiler: three steps recorded, each line of the metrics timed, files that TensorBoard reads."""

import json
import warnings

import pytest

from torchtally.bench import profiling, settings
from torchtally.bench.variants import VARIANTS

SIZES = settings.for_device("cpu", model="small", batch=2, steps=1, image_size=16)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    with warnings.catch_warnings():  # torch's own, about its profiler's environment
        warnings.simplefilter("ignore")
        return profiling.profile_variant(VARIANTS["naive"], SIZES, tmp_path_factory.mktemp("traces"), probe=True)


def test_three_steps_are_recorded_after_twelve(profiled):
    assert [step.number for step in profiled.timeline.steps] == [12, 13, 14]
    assert profiled.file.parent.name == "naive" and profiled.file.name.endswith(".pt.trace.json")


def test_memory_and_stacks_are_recorded(profiled):
    events = json.loads(profiled.file.read_text())["traceEvents"]
    assert any(e["name"] == "[memory]" for e in events) and any(e.get("cat") == "python_function" for e in events)


def test_every_line_of_the_account_is_timed(profiled):
    times = {site.code: spent for site, spent in profiled.lines}
    for line in ("metric.update(loss)", "metric.update(preds, target)", "nans = torch.isnan(x)", "if nans.any() or nans_weight.any():", "self.weight += weight.sum()"):
        assert times[line] > 0
    assert times["metric.update(loss)"] > times["if nans.any() or nans_weight.any():"]
    longest_first = [spent for _, spent in profiled.lines]
    assert longest_first == sorted(longest_first, reverse=True)


def test_probes_are_gone_afterwards(profiled):
    from torchmetrics.aggregation import MeanMetric

    assert "record_function" not in MeanMetric.update.__code__.co_names and MeanMetric.update.__code__.co_filename.endswith("aggregation.py")


def test_without_probes_no_lines(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = profiling.profile_variant(VARIANTS["torchtally"], SIZES, tmp_path)
    assert found.lines == [] and len(found.timeline.steps) == 3


def test_tensorboard_opens_the_file_with_its_own_loader(profiled, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = pytest.importorskip("torch_tb_profiler.profiler.data", reason="torch-tb-profiler is not installed")
        run = data.RunProfileData.parse("worker", 0, str(profiled.file), str(tmp_path))
        run.process()
    assert run.steps_names == ["12", "13", "14"]
    assert {op.name for op in run.op_list_groupby_name} >= {"aten::isnan", "aten::convolution"}
