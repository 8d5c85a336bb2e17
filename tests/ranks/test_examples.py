"""The examples, each started on two processes by one command; and processes that end without asking for what they fetched."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from torch import distributed as dist

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this build of PyTorch has no torch.distributed")


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def torchrun(example, *arguments, processes=2):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(processes),
        ROOT / "examples" / example,
    ]
    done = subprocess.run([*map(str, command), *map(str, arguments)], capture_output=True, text=True, env=environment(), timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sharded_evaluation_gives_what_one_process_gives(tmp_path):
    said = torchrun("evaluate_sharded.py", "--folder", tmp_path)
    many, alone = re.findall(r"accuracy [\d.]+, AUROC [\d.]+", said)
    assert many == alone
    assert said.startswith("1003 samples")
    assert {p.name for p in tmp_path.iterdir()} == {"part0.pt", "part1.pt"}


def test_training_logs_what_all_saw(tmp_path):
    said = torchrun("train_ddp.py", "--folder", tmp_path, "--epochs", 1)
    assert re.match(r"epoch 0: loss [\d.]+, accuracy 0\.\d+, f1 0\.\d+\n2000 samples in all", said)


@pytest.mark.slow
def test_training_goes_on_where_it_stopped(tmp_path):
    torchrun("train_ddp.py", "--folder", tmp_path, "--epochs", 1)
    then = torchrun("train_ddp.py", "--folder", tmp_path, "--epochs", 2, processes=1)
    assert re.match(r"epoch 1: loss [\d.]+, accuracy 0\.\d+, f1 0\.\d+\n4000 samples in all", then)


UNASKED = """
import sys
import torchtally as tt
from torch import distributed as dist
from torchtally import distributed
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=int(sys.argv[1]), world_size=2)
metric = tt.SumMetric()
metric.update(1.0)
metric.fetch()
if sys.argv[1] == "0":
    metric.fetch()  # for which the other rank never comes
distributed._end(1.0)  # as at the end, with less patience
"""


def test_processes_end_well_whatever_they_did_not_wait_for(tmp_path):
    command = [sys.executable, "-c", UNASKED]
    started = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE, env=environment()) for rank in (0, 1)
    ]
    for process in started:
        _, said = process.communicate(timeout=120)
        assert (process.returncode, b"terminate" in said) == (0, False), said
