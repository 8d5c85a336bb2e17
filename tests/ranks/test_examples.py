"""The examples, each started on two processes by one command, or as on two machines; and processes that end without asking for what they fetched."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
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


# ---- two agents of torchrun, as on two machines
@contextmanager
def machines(folder, example, *arguments):
    """The agents, which find each other at a port of this machine; what each said is in a file, `0` or `1`, of the folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "1"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", meeting, "--local-addr", "127.0.0.1", str(ROOT / "examples" / example)]
    # Else processes that are started again meet addresses of those that are gone (pytorch/pytorch#135712).
    env = {**environment(), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    agents = []
    for name in "01":
        with open(folder / name, "wb") as said:
            agents.append(
                subprocess.Popen([*command, *map(str, arguments)], stdout=said, stderr=subprocess.STDOUT, env=env, start_new_session=True)
            )
    try:
        yield agents
    finally:
        for agent in agents:
            if agent.poll() is None:
                for pid in (*workers_of(agent.pid), agent.pid):
                    os.kill(pid, signal.SIGKILL)
            agent.wait()


def workers_of(agent):
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [pid for pid, parent in (map(int, line.split()) for line in listed.splitlines()) if parent == agent]


def said_by(folder, agents, limit=150.0):
    """What both agents said when they ended, within a limit in seconds."""
    end = time.monotonic() + limit
    codes = [agent.wait(max(end - time.monotonic(), 0.1)) for agent in agents]
    said = [(folder / name).read_text() for name in "01"]
    assert codes == [0, 0], said
    return said


def test_sharded_evaluation_on_two_machines(tmp_path):
    with machines(tmp_path, "evaluate_sharded.py") as agents:
        said = "".join(said_by(tmp_path, agents))
    many, alone = re.findall(r"accuracy [\d.]+, AUROC [\d.]+", said)
    assert many == alone
    assert "1003 samples" in said


def test_training_on_two_machines_outlives_a_killed_process(tmp_path):
    epochs = 12
    with machines(tmp_path, "train_ddp.py", "--folder", tmp_path / "kept", "--epochs", epochs) as agents:
        end = time.monotonic() + 120
        while not (tmp_path / "kept" / "checkpoint.pt").exists():
            assert time.monotonic() < end, [(tmp_path / name).read_text() for name in "01"]
            time.sleep(0.01)
        os.kill(workers_of(agents[1].pid)[0], signal.SIGKILL)
        said = said_by(tmp_path, agents)
    assert f"{2000 * epochs} samples in all" in "".join(said)  # none lost, none twice
    assert "exitcode: -9" in said[1]


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
