"""Scripts as people write them, run unmodified: their stalls are found, each where it is, of the right kind, as often as it happens, and nothing else.

A line that waits says so in a comment, `# expect: KIND=COUNT, …`, in terms of `steps` and of what differs between versions of PyTorch and torchmetrics.
"""

import importlib.util
import os
import re
import socket
import sys
from collections import Counter
from pathlib import Path

import pytest
from snippets import questions

from torchtally.stalls.script import check_script
from torchtally.stalls.selection import within_steps

pytest.importorskip("torchtally.stalls.sources.pretend")
torchmetrics = pytest.importorskip("torchmetrics")

SCRIPTS = Path(__file__).parent / "scripts"
TORCHMETRICS = tuple(int(part) for part in torchmetrics.__version__.split(".")[:2])
NAMES = {
    "weight": int(TORCHMETRICS < (1, 7)),  # until then the default weight was copied to the device at each update
    "questions": questions,
    "epochs": 3,
    "ranks": 2,
    "moved": (2 * 2 + 1) + 4 * (2 * 4 + 1),  # per state of a metric its value and its default, per metric one probe of the device
    "module_moved": 2 + (2 * 2 + 1) + (2 * 4 + 1) + (2 * 1 + 1),
}


def expected(file, steps):
    """(file, line, kind) → count, from the comments of a script."""
    found = Counter()
    for number, line in enumerate(file.read_text().splitlines(), 1):
        _, mark, text = line.partition("# expect: ")
        if mark:
            for kind, count in eval(f"dict({text})", {**NAMES, "steps": steps}).items():
                found[file.name, number, kind] += count
    return Counter({where: count for where, count in found.items() if count})


def found(report):
    return Counter((Path(s.site.file).name, s.site.line, s.kind) for s in report.stalls)


def run(script, steps, arguments=(), files=(), limit=None, devices=1):
    outcome = check_script(script if files else str(SCRIPTS / script), arguments, module=bool(files), steps=limit, devices=devices)
    assert not outcome.failed, outcome.traceback()
    assert found(outcome.report) == sum((expected(SCRIPTS / file, steps) for file in files or (script,)), Counter())
    return outcome


@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step:UserWarning")  # PyTorch 2.6 warns of its own SequentialLR
@pytest.mark.parametrize(
    "script, steps, arguments",
    [
        ("amp.py", 6, ["--epochs", "1"]),
        ("accumulation.py", 8, []),
        ("plateau.py", 9, []),
        ("ema.py", 5, []),
        ("lightning_style.py", 6, []),
        ("gan.py", 4, []),
        ("segmentation.py", 3, []),
        ("evaluate.py", 5, ["99"]),
        ("notebook.py", 6, []),
    ],
)
def test_every_stall_of_a_script_and_no_other(script, steps, arguments):
    assert run(script, steps, arguments).report.steps == steps


def test_a_batch_that_was_fetched_and_not_used_is_a_step_too():
    assert run("evaluate.py", 2, ["2"]).report.steps == 3


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
def test_the_loop_that_started_this():
    outcome = run("article.py", 6, limit=6)
    per_update = Counter((s.metric, Path(s.inner.file).name, s.kind) for s in outcome.report.stalls if s.metric == "MeanMetric loss" and s.step is not None)
    assert per_update["MeanMetric loss", "aggregation.py", "read"] == 2 * 6
    assert not any(s.metric and s.kind == "read" and "Multiclass" in s.metric for s in outcome.report.stalls)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Lightning's own
def test_a_real_trainer_of_lightning_reads_a_metric_at_every_step():
    pytest.importorskip("lightning")
    outcome = check_script(str(SCRIPTS / "lightning_fit.py"), steps=10)
    assert not outcome.failed, outcome.traceback()
    assert found(within_steps(outcome.report)) == expected(SCRIPTS / "lightning_fit.py", 10)


def test_a_package_run_as_a_module(monkeypatch):
    monkeypatch.chdir(SCRIPTS)
    for name in [m for m in sys.modules if m.partition(".")[0] == "hugging"]:
        monkeypatch.delitem(sys.modules, name)
    assert run("hugging", 4, ["--epochs", "1"], files=("hugging/trainer.py", "hugging/__main__.py")).report.steps == 4


@pytest.mark.skipif(importlib.util.find_spec("torchtally.stalls.sources.pretend.distributed") is None, reason="NCCL is not pretended yet")
def test_processes_that_train_together_are_checked_each():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    os.environ["PORT"] = str(port)
    try:
        outcome = run("ddp.py", 3, devices=2)
        assert outcome.report.steps == 3 * 2  # of both ranks
    finally:
        del os.environ["PORT"]
    assert {s.rank for s in outcome.report.stalls} == {0, 1}
    assert any(re.match("2 child processes used the device", note) for note in outcome.report.notes)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torchtally.stalls.sources.pretend.distributed") is None, reason="NCCL is not pretended yet")
def test_a_launcher_and_the_processes_it_starts(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(LAUNCHED)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    arguments = ["--nproc-per-node", "2", "--master-port", port, str(script)]
    outcome = check_script("torch.distributed.run", arguments, module=True, steps=3, devices=2)
    assert not outcome.failed, outcome.traceback()
    assert outcome.report.steps == 3 * 2
    assert found(within_steps(outcome.report)) == {("train.py", 14, "read"): 3}
    assert {s.rank for s in within_steps(outcome.report).stalls} == {1}


LAUNCHED = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
weight = torch.zeros(2, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(9):
    loss = (weight - dist.get_rank()).square().sum()
    optimizer.zero_grad()
    loss.backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
    if dist.get_rank() == 1:
        print(loss.item())
"""
