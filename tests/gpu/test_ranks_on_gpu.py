"""Ranks on a real GPU: NCCL as far as one GPU goes, which is a rank that reads itself as it would read many, and two ranks that share the GPU over gloo."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("rank.py")
ALONE = ["nccl/cuda", "nccl/cpu", "cpu:gloo,cuda:nccl/cuda", "cpu:gloo,cuda:nccl/cpu"]


@pytest.mark.parametrize("world, pairs", [(1, ALONE), (2, ["gloo/cuda", "gloo/cpu"])])
def test_every_backend_reads_every_device(world, pairs, request, tmp_path):
    if not (torch.cuda.is_available() or request.config.getoption("--pretend", False)):
        pytest.skip("needs a GPU")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}", str(SCRIPT), *pairs]
    command += [] if torch.cuda.is_available() else ["--pretend"]
    environment = {**os.environ, "MEETING": str(tmp_path / "meeting"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": right, ") == world * len(pairs), done.stdout
