"""`torchtally migrate` on scripts that run, on files and notebooks, and as a command."""

import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest
import torch
from typer.testing import CliRunner

from torchtally.adopt.migration import migrate_file, migrate_source
from torchtally.adopt.migration.peers import _TWINS
from torchtally.commands import app
from torchtally.errors import TallyError

# ---- what scripts print
SCRIPT = '''
"""Evaluate a made-up classifier."""
import torch
import torchmetrics
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy as Acc,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)
from torchmetrics.functional import mean_squared_error
from torchmetrics.functional.classification import multiclass_accuracy

def evaluate(seed: int) -> dict:
    generator = torch.Generator().manual_seed(seed)
    tally = MetricCollection(
        {"acc": Acc(num_classes=4, average="micro"), "f1": MulticlassF1Score(4, average="macro"), "top2": torchmetrics.Accuracy(task="multiclass", num_classes=4, top_k=2)},
        prefix="val/",
    )
    loss = MeanMetric()
    matrix = MulticlassConfusionMatrix(num_classes=4)
    for _ in range(5):
        scores, target = torch.randn(64, 4, generator=generator), torch.randint(0, 4, (64,), generator=generator)
        tally.update(scores, target)
        matrix.update(scores, target)
        loss.update(torch.nn.functional.cross_entropy(scores, target))
    found = {**tally.compute(), "loss": loss.compute(), "diagonal": matrix.compute().trace()}
    found["mse"] = mean_squared_error(scores[:, 0], scores[:, 1])
    found["one"] = multiclass_accuracy(scores, target, num_classes=4, average="micro")
    return found

result = {k: round(float(v), 5) for k, v in evaluate(0).items()}
'''


def run(source):
    names = {}
    exec(compile(source, "script.py", "exec"), names)
    return names["result"]


def test_a_script_gives_the_same_numbers():
    found = migrate_source(SCRIPT)
    assert not found.kept and "torchmetrics" not in found.after
    assert run(found.after) == pytest.approx(run(SCRIPT), abs=2e-5)


PREDS = torch.rand(60, generator=torch.Generator().manual_seed(1)).double()
SCORES = torch.randn(60, 4, generator=torch.Generator().manual_seed(2))
YES_NO, LABELS = torch.arange(60) % 3 % 2, torch.arange(60) % 4
FED = {
    "Binary": (PREDS, YES_NO),
    "Multiclass": (SCORES, LABELS),
    "MeanSquared": (PREDS, PREDS.flip(0)),
    "Perplexity": (SCORES.view(60, 1, 4), LABELS[:, None]),
    "R2": (PREDS, PREDS.flip(0) + PREDS),
}
OPTIONS = {"MulticlassConfusionMatrix": ["4", "4, normalize='true'"], "R2Score": ["", "num_regressors=2"]}
OPTIONS |= {"Perplexity": ["", "ignore_index=2"], "MulticlassAccuracy": ["", "k=2", "num_classes=4, device='cpu'"]}


@pytest.mark.filterwarnings("ignore")  # torcheval's
@pytest.mark.parametrize("name, options", [(n, o) for n in _TWINS for o in OPTIONS.get(n, ["", "device='cpu'"])])
def test_twins_of_torcheval_give_the_same_value(name, options):
    pytest.importorskip("torcheval")
    source = f"from torcheval.metrics import {name}\nmetric = {name}({options})\nfor part in parts: metric.update(*part)\nresult = metric.compute()\n"
    found = migrate_source(source)
    assert not found.kept and "torchtally" in found.after
    batch = next((b for prefix, b in FED.items() if name.startswith(prefix)), (PREDS,))
    values = []
    for text in (source, found.after):
        names = {"parts": [[x[:25] for x in batch], [x[25:] for x in batch]]}
        exec(compile(text, "script.py", "exec"), names)
        values.append(torch.as_tensor(names["result"]).double())
    torch.testing.assert_close(*values, rtol=1e-5, atol=1e-6)


# ---- files
def test_encodings_marks_and_line_ends_are_kept(tmp_path):
    for name, data in {
        "latin.py": "# -*- coding: latin-1 -*-\r\n# ä\r\nfrom torchmetrics import Accuracy\r\n".encode("latin-1"),
        "mark.py": b"\xef\xbb\xbffrom torchmetrics import Accuracy\n",
        "old.py": b"from torchmetrics import Accuracy\rx = 1\r",
    }.items():
        (tmp_path / name).write_bytes(data)
        assert migrate_file(tmp_path / name).after == data.replace(b"torchmetrics", b"torchtally")


@pytest.mark.parametrize(
    "data",
    [
        b"import torchmetrics\nprint 1\n",
        b"import torchmetrics # \xff\n",
        b"# coding: nothing\nimport torchmetrics\n",
        b"import torchmetrics\0\n",
    ],
)
def test_what_cannot_be_read_is_left_alone(tmp_path, data):
    (tmp_path / "a.py").write_bytes(data)
    found = migrate_file(tmp_path / "a.py")
    assert found.problem and not found.changed
    result = CliRunner().invoke(app, ["migrate", "--write", str(tmp_path)], catch_exceptions=True)
    assert isinstance(result.exception, TallyError) and result.exception.exit_code == 2
    assert (tmp_path / "a.py").read_bytes() == data


def book(*cells, indent=1):
    cells = [{"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)} for kind, text in cells]
    return json.dumps({"cells": cells, "metadata": {"é": 1}, "nbformat": 4, "nbformat_minor": 5}, indent=indent, ensure_ascii=False) + "\n"


def test_notebooks_move_cell_by_cell(tmp_path):
    cells = [
        ("markdown", "from torchmetrics import Accuracy"),
        ("code", "%matplotlib inline\n!pip install torchmetrics\nimport torchmetrics as tm\nx = !ls"),
        ("code", "%%bash\nimport torchmetrics"),
        ("code", "%%time\na = tm.Accuracy(task='binary')\nb = tm.BLEUScore()"),
    ]
    (tmp_path / "a.ipynb").write_text(book(*cells))
    found = migrate_file(tmp_path / "a.ipynb")
    after = ["".join(c["source"]) for c in json.loads(found.after)["cells"]]
    assert after[0] == cells[0][1] and after[2] == cells[2][1]
    assert after[1] == "%matplotlib inline\n!pip install torchmetrics\nimport torchtally\nimport torchmetrics as tm\nx = !ls"
    assert after[3] == "%%time\na = torchtally.Accuracy(task='binary')\nb = tm.BLEUScore()"
    assert [(r.cell, r.line, r.what) for r in found.kept] == [(4, 3, "BLEUScore")]
    for part in ('"metadata": {\n  "é": 1\n }', '"nbformat": 4'):
        assert part in found.after.decode()


def test_a_notebook_of_an_unusual_layout_is_left_alone(tmp_path):
    (tmp_path / "a.ipynb").write_text(book(("code", "import torchmetrics"), indent=7))
    assert "unusual way" in migrate_file(tmp_path / "a.ipynb").problem


# ---- the command
@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / ".venv").mkdir(parents=True)
    (tmp_path / "src" / ".venv" / "a.py").write_text("import torchmetrics\n")
    (tmp_path / "src" / "train.py").write_text(SCRIPT)
    (tmp_path / "src" / "other.py").write_text("import os\n")
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(app, ["migrate", *arguments])


def test_without_write_it_prints_a_diff_that_can_be_applied(project):
    result = invoke("src")
    assert result.exit_code == 0 and (project / "src" / "train.py").read_text() == SCRIPT
    assert "8 names in 1 file to move (--write does it), 0 places left to you." in result.stderr
    (project / "a.patch").write_text(result.stdout)
    subprocess.run(["git", "apply", "a.patch"], cwd=project, check=True)
    assert (project / "src" / "train.py").read_text() == migrate_source(SCRIPT).after


def test_write_changes_the_files_and_nothing_else(project):
    script = project / "src" / "train.py"
    os.chmod(script, 0o754)
    link = project / "link.py"
    link.symlink_to(script)
    result = invoke("--write", "link.py", "src")
    assert result.exit_code == 0 and "8 names in 1 file moved" in result.stdout
    assert script.read_text() == migrate_source(SCRIPT).after
    assert stat.S_IMODE(script.stat().st_mode) == 0o754 and link.is_symlink()
    assert sorted(p.name for p in (project / "src").iterdir()) == [".venv", "other.py", "train.py"]
    assert (project / "src" / ".venv" / "a.py").read_text() == "import torchmetrics\n"
    again = invoke("src")
    assert again.exit_code == 0 and again.stdout == "" and "Nothing here names" in again.stderr


def test_something_left_ends_with_1_and_its_line(project):
    (project / "src" / "other.py").write_text(
        textwrap.dedent("""
        from torchmetrics.text import BLEUScore
    """)
    )
    result = invoke("src")
    assert result.exit_code == 1
    assert "src/other.py:2: BLEUScore: torchtally has no BLEUScore" in result.stderr


def test_json(project):
    found = json.loads(invoke("--json", "src").stdout)
    assert [f["file"] for f in found] == ["src/train.py"] and len(found[0]["moved"]) == 8 and found[0]["problem"] is None
    assert found[0]["diff"].startswith("--- a/src/train.py\n")


def test_a_path_that_is_not_there(project):
    result = CliRunner().invoke(app, ["migrate", "nowhere"])
    assert isinstance(result.exception, TallyError) and "there is no such file" in str(result.exception)


def test_a_file_that_cannot_be_written_is_left_whole(project, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    result = CliRunner().invoke(app, ["migrate", "--write", "src"])
    assert isinstance(result.exception, TallyError) and "it was left as it is" in str(result.exception)
    assert (project / "src" / "train.py").read_text() == SCRIPT
    assert sorted(p.name for p in (project / "src").iterdir()) == [".venv", "other.py", "train.py"]


def test_the_packages_need_not_be_there(monkeypatch):
    for name in ("torchmetrics", "torcheval", "ignite"):
        monkeypatch.setitem(sys.modules, name, None)
    assert migrate_source("from torchmetrics import Accuracy\n").after == "from torchtally import Accuracy\n"
