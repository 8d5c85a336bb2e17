"""From trace files to reports: every era tells the same stalls, and real traces agree with an independent count."""

import os
from collections import Counter
from pathlib import Path

import pytest
from stalls.make_traces import ERAS, MODERN, text, write

from torchtally.errors import TallyError
from torchtally.stalls.analysis import report
from torchtally.stalls.sources.trace import read_trace, read_traces


@pytest.mark.parametrize("era", ERAS, ids=lambda e: e.name)
def test_every_era_tells_the_same_stalls_at_the_same_price(tmp_path, era):
    found = report([read_trace(write(tmp_path, era))])
    assert found.steps == 2
    assert found.duration_us == pytest.approx(2000, abs=1)
    assert [s.step for s in found.stalls] == [0, 1]
    for stall in found.stalls:
        assert stall.operator == "aten::_local_scalar_dense"
        assert stall.kind == "read"
        assert stall.host_wait_us == pytest.approx(390, abs=0.5)
        assert stall.device_idle_us == pytest.approx(128, abs=0.5)
        assert stall.launch_lag_us == pytest.approx(125, abs=0.5)
        assert stall.remedy
        site = (stall.site.file, stall.site.line, stall.inferred) if stall.site else None
        assert (
            site
            == {"Call stack": ("train.py", 31, False), "CallFrom": ("train.py", 31, False), "frames": ("train.py", 28, True), "": None}[
                era.stacks
            ]
        )
    gain = found.gains[0]
    assert (gain.what, gain.stalls) == ("all stalls", 2)
    assert gain.saved_us == pytest.approx(770, abs=1)


def test_ranks_together(tmp_path):
    for rank in (0, 1):
        write(tmp_path, MODERN, rank)
    found = report(read_traces([tmp_path]))
    assert Counter(s.rank for s in found.stalls) == {0: 2, 1: 2}
    assert found.steps == 4  # of both ranks, so that counts per step are those of one
    assert found.duration_us == pytest.approx(4000, abs=1)
    assert found.gains[0].saved_us == pytest.approx(1540, abs=2)


def test_no_device_work_is_said(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}')
    found = report([read_trace(path)])
    assert found.stalls == ()
    assert "no device work at all" in found.notes[-1]


def test_device_work_without_host_calls_is_said(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}]}')
    assert "none of the calls" in report([read_trace(path)]).notes[-1]


def test_host_calls_without_device_work_are_said(tmp_path):
    whole = text(MODERN).replace('"kernel"', '"other"').replace('"gpu_memcpy"', '"other"')
    path = tmp_path / "t.json"
    path.write_text(whole)
    found = report([read_trace(path)])
    assert "no device work" in found.notes[-1]
    assert all(s.device_idle_us is None for s in found.stalls)
    assert found.gains == ()


# Real traces, where a folder of them is given. The expected counts were made by another program than this one.

FOLDER = os.environ.get("TORCHTALLY_TRACES")
real = pytest.mark.skipif(not FOLDER, reason="TORCHTALLY_TRACES does not name a folder of real traces")

COUNTS = {  # file: (stalls by kind, what the notes must say)
    "tracelens_h100_owlv2.json.gz": ({"host_to_device": 25, "device_to_host": 55}, "2 synchronisations are the profiler's"),
    "tracelens_mi300_owlv2.json.gz": ({"host_to_device": 25, "device_to_host": 55}, "2 synchronisations are the profiler's"),
    "hta_train_rank0_of16_a100.json.gz": ({"host_to_device": 45, "device_to_host": 30}, "70 launches replay graphs"),
    "hta_alexnet_a100.json.gz": ({"allocator": 40, "host_to_device": 16, "synchronize": 3}, "2 synchronisations are the profiler's"),
    "hta_event_sync_a100.json.gz": ({"read": 1, "synchronize": 1}, "1 synchronisations are the profiler's"),
    "hta_mi250_rocm62.json.gz": ({"host_to_device": 2}, "1 synchronisations are the profiler's"),
    "hta_sampled_rank0_of128.json.gz": ({"host_to_device": 16, "device_to_host": 5, "read": 3}, ""),
    "hta_user_annotation_gp100.json.gz": ({"host_to_device": 10}, ""),
    "kineto_resnet50_toplevel_list_2020.json.gz": ({"host_to_device": 12}, ""),
    "kineto_resnet50_autograd_event_sync_2021.json.gz": (
        {"allocator": 114, "host_to_device": 16},
        "357 synchronisations are a library choosing",
    ),
    "tracelens_mi300_ddp_resnet18_no_pool.json.gz": ({"allocator": 2821, "read": 5}, "1 synchronisations are the profiler's"),
    "tracelens_b200_eager.json.gz": ({"host_to_device": 2}, ""),
    "tracelens_h100_bert_small.json.gz": ({"read": 1}, "2 synchronisations are the profiler's"),
    "tracelens_mi210_gpu_only.json.gz": ({}, "1 synchronisations are the profiler's"),
    "hta_cpu_only.json.gz": ({}, "no device work at all"),
    "hta_rank_non_gpu.json.gz": ({}, "no device work at all"),
    "hta_large_integer.json.gz": ({}, "none of the calls"),
}


@real
@pytest.mark.parametrize("name", COUNTS)
def test_real_traces_agree_with_an_independent_count(name):
    kinds, said = COUNTS[name]
    found = report([read_trace(Path(FOLDER or "") / name)])
    assert Counter(s.kind for s in found.stalls) == kinds
    assert any(said in note for note in found.notes) or not said


@real
def test_ranks_of_a_real_job():
    found = report(read_traces([Path(FOLDER or "") / "param_dlrm_8ranks_v100"]))
    assert {s.rank for s in found.stalls} == {0, 1, 2, 3}
    assert Counter(s.kind for s in found.stalls) == {"host_to_device": 32, "device_to_host": 8}


@real
def test_what_is_no_trace_is_refused():
    with pytest.raises(TallyError, match="no trace"):
        read_trace(Path(FOLDER or "") / "hta_NOT_A_TRACE_execution_trace.json.gz")
