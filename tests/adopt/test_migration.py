"""`torchtally migrate`: what moves, what is left and why, and that no file is ever broken."""

import ast
import importlib
import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from torchtally.adopt.migration import migrate_file, migrate_source
from torchtally.adopt.migration.differences import differences
from torchtally.adopt.migration.peers import _TWINS
from torchtally.commands import app
from torchtally.errors import TallyError

MOVES = {
    "a name": ("from torchmetrics import Accuracy\n", "from torchtally import Accuracy\n"),
    "a name under another": (
        "from torchmetrics.classification import F1Score as F1\n",
        "from torchtally.classification import F1Score as F1\n",
    ),
    "a private module": (
        "from torchmetrics.classification.accuracy import MulticlassAccuracy\n",
        "from torchtally.classification import MulticlassAccuracy\n",
    ),
    "the module of collections": ("from torchmetrics.collections import MetricCollection\n", "from torchtally import MetricCollection\n"),
    "the module": (
        "import torchmetrics\nx = torchmetrics.Accuracy(task='binary')\n",
        "import torchtally\nx = torchtally.Accuracy(task='binary')\n",
    ),
    "the module under another name": ("import torchmetrics as tm\nx = tm.SumMetric()\n", "import torchtally as tm\nx = tm.SumMetric()\n"),
    "functions": (
        "import torchmetrics.functional as F\nx = F.accuracy(p, t, task='binary')\n",
        "import torchtally.functional as F\nx = F.accuracy(p, t, task='binary')\n",
    ),
    "functions from the root": (
        "from torchmetrics import functional as F\nx = F.r2_score(p, t)\n",
        "from torchtally import functional as F\nx = F.r2_score(p, t)\n",
    ),
    "functions by their whole name": (
        "import torchmetrics\nx = torchmetrics.functional.classification.binary_accuracy(p, t)\n",
        "import torchtally\nx = torchtally.functional.classification.binary_accuracy(p, t)\n",
    ),
    "a private module by its whole name": (
        "import torchmetrics\nx = torchmetrics.classification.accuracy.BinaryAccuracy()\n",
        "import torchtally\nx = torchtally.classification.BinaryAccuracy()\n",
    ),
    "a private module under another name": (
        "import torchmetrics.classification.accuracy as acc\nx = acc.BinaryAccuracy()\n",
        "import torchtally\nimport torchmetrics.classification.accuracy as acc\nx = torchtally.classification.BinaryAccuracy()\n",
    ),
    "an unused module": ("import torchmetrics\n", "import torchtally\n"),
    "among others": ("import os, torchmetrics, sys\n", "import os, torchtally, sys\n"),
    "a base class": (
        "from torchmetrics import Metric\nclass Own(Metric): ...\n",
        "from torchtally import Metric\nclass Own(Metric): ...\n",
    ),
    "some of several": (
        "from torchmetrics import Accuracy, BLEUScore, MeanMetric as Mean\n",
        "from torchmetrics import BLEUScore\nfrom torchtally import Accuracy, MeanMetric as Mean\n",
    ),
    "some of several in a block": (
        "try:\n    from torchmetrics import Accuracy, BLEUScore  # noqa\nexcept ImportError:\n    pass\n",
        "try:\n    from torchmetrics import BLEUScore\n    from torchtally import Accuracy  # noqa\nexcept ImportError:\n    pass\n",
    ),
    "some of several on a line with more": (
        "if True: from torchmetrics import Accuracy, BLEUScore; x = 1\n",
        "if True: from torchmetrics import BLEUScore; from torchtally import Accuracy; x = 1\n",
    ),
    "a list with comments": (
        "from torchmetrics import (\n    # ours\n    Accuracy,  # the main one\n    BLEUScore,  # text\n    MeanMetric,\n)\n",
        "from torchmetrics import (\n    BLEUScore,  # text\n)\n"
        "from torchtally import (\n    # ours\n    Accuracy,  # the main one\n    MeanMetric,\n)\n",
    ),
    "a list that moves as a whole": (
        "from torchmetrics import (  # all of it\n    Accuracy, F1Score,\n    MeanMetric)\n",
        "from torchtally import (  # all of it\n    Accuracy, F1Score,\n    MeanMetric)\n",
    ),
    "a continued line": (
        "from torchmetrics import Accuracy, \\\n    BLEUScore\n",
        "from torchmetrics import BLEUScore\nfrom torchtally import Accuracy\n",
    ),
    "some uses of the module": (
        "import torchmetrics as tm\nx = tm.Accuracy(task='binary')\ny = tm.BLEUScore()\n",
        "import torchtally\nimport torchmetrics as tm\nx = torchtally.Accuracy(task='binary')\ny = tm.BLEUScore()\n",
    ),
    "after an import of the future": (
        '"""Doc."""\nfrom __future__ import annotations\nimport torchmetrics\nx = torchmetrics.Accuracy, torchmetrics.BLEUScore\n',
        '"""Doc."""\nfrom __future__ import annotations\nimport torchtally\nimport torchmetrics\nx = torchtally.Accuracy, torchmetrics.BLEUScore\n',
    ),
    "a name that other functions use otherwise": (
        "def f():\n    from torchmetrics import SumMetric as A\n    return A()\ndef g(A): return A(banana=1)\n",
        "def f():\n    from torchtally import SumMetric as A\n    return A()\ndef g(A): return A(banana=1)\n",
    ),
    "a module of which a function takes another by its name": (
        "import torchmetrics as tm\nx = tm.SumMetric()\ndef f(tm): return tm.BLEUScore\n",
        "import torchtally as tm\nx = tm.SumMetric()\ndef f(tm): return tm.BLEUScore\n",
    ),
    "a module that may not be there": (
        "try:\n    import torchmetrics as tm\nexcept ImportError:\n    tm = None\nx = tm.SumMetric()\n",
        "try:\n    import torchtally as tm\nexcept ImportError:\n    tm = None\nx = tm.SumMetric()\n",
    ),
    "uses in methods": (
        "import torchmetrics as tm\nclass A:\n    tm = 1\n    def f(self): return tm.SumMetric()\n",
        "import torchtally as tm\nclass A:\n    tm = 1\n    def f(self): return tm.SumMetric()\n",
    ),
    "letters that are no ASCII": (
        "x = 'ä'; from torchmetrics import Accuracy; y = 'ö'\nimport torchmetrics\nz = ['é', torchmetrics.Accuracy]\n",
        "x = 'ä'; from torchtally import Accuracy; y = 'ö'\nimport torchtally\nz = ['é', torchtally.Accuracy]\n",
    ),
    "form feeds, tabs and no last line end": (
        "\f\nif 1:\n\tfrom torchmetrics import Accuracy, BLEUScore",
        "\f\nif 1:\n\tfrom torchmetrics import BLEUScore\n\tfrom torchtally import Accuracy",
    ),
    "line ends of Windows": (
        "from torchmetrics import Accuracy, BLEUScore\r\nx = 1\r\n",
        "from torchmetrics import BLEUScore\r\nfrom torchtally import Accuracy\r\nx = 1\r\n",
    ),
    "names of torcheval": (
        "from torcheval.metrics import Mean, R2Score\nm = Mean(device=device)\nr = R2Score(num_regressors=2)\n",
        "from torchtally import MeanMetric as Mean\nfrom torchtally.regression import R2Score\nm = Mean().to(device)\nr = R2Score(adjusted=2)\n",
    ),
    "defaults of torcheval": (
        "from torcheval.metrics import MulticlassAccuracy\nm = MulticlassAccuracy()\nk = MulticlassAccuracy(\n    device=d,\n    k=2,\n)\n",
        'from torchtally.classification import MulticlassAccuracy\nm = MulticlassAccuracy(average="micro")\n'
        'k = MulticlassAccuracy(\n    average="micro", top_k=2,\n).to(d)\n',
    ),
    "the module of torcheval": (
        "import torcheval.metrics as te\nm = te.Sum()\n",
        "import torchtally\nm = torchtally.SumMetric()\n",
    ),
    "the module of torcheval from the root": (
        "from torcheval import metrics\nm = metrics.BinaryAUPRC()\n",
        "import torchtally\nm = torchtally.classification.BinaryAveragePrecision()\n",
    ),
    "other parts of torcheval and ignite": (
        "from torcheval.tools import get_module_summary\nfrom ignite.engine import Engine\nimport ignite.distributed as idist\n",
        "from torcheval.tools import get_module_summary\nfrom ignite.engine import Engine\nimport ignite.distributed as idist\n",
    ),
}


@pytest.mark.parametrize("before, after", MOVES.values(), ids=MOVES)
def test_moves(before, after):
    assert migrate_source(before).after == after


@pytest.mark.parametrize("before, after", MOVES.values(), ids=MOVES)
def test_moving_twice_is_moving_once(before, after):
    assert migrate_source(after).after == after


LEFT = {
    "a metric that is not offered": ("from torchmetrics import BLEUScore\n", 1, "torchtally has no BLEUScore"),
    "a family that is not offered": ("from torchmetrics.nothing import Some\n", 1, "torchtally has no Some"),
    "everything": ("from torchmetrics import *\n", 1, "name what the file needs"),
    "utilities": ("from torchmetrics.utilities import dim_zero_cat\n", 1, "no utilities"),
    "the version": ("import torchmetrics\nprint(torchmetrics.__version__)\n", 2, "is not a metric"),
    "an argument": ("from torchmetrics import SumMetric\n\nx = SumMetric(banana=1)\n", 3, "SumMetric has no argument banana"),
    "an argument of a task": (
        "from torchmetrics import Accuracy\nAccuracy(task='binary', banana=1)\n",
        2,
        "Accuracy has no argument banana",
    ),
    "no task, as long ago": ("from torchmetrics import Accuracy\nx = Accuracy()\n", 2, 'needs task="binary"'),
    "too many arguments": ("from torchmetrics import SumMetric\nSumMetric('warn', 1)\n", 2, "takes 1 arguments by position"),
    "a name of torcheval with two meanings": (
        "from torcheval.metrics import MulticlassRecall as R\nfor R in x: R(1)\n",
        2,
        "means something else here",
    ),
    "the module as a value": ("import torchmetrics\nx = getattr(torchmetrics, name)\n", 2, "used as a value"),
    "a name of two meanings": ("import torchmetrics as tm\nfor tm in x: tm.Accuracy\n", 2, "means something else here"),
    "a string": ("x = dict(_target_='torchmetrics.Accuracy')\n", 1, "a string"),
    "an import by name": ("import importlib\nx = importlib.import_module('torchmetrics')\n", 2, "a string"),
    "another meaning in torcheval": (
        "from torcheval.metrics import MulticlassAccuracy\nMulticlassAccuracy(average='macro', num_classes=3)\n",
        2,
        "has another meaning there; equal are only 'micro'",
    ),
    "a near relative in torcheval": ("from torcheval.metrics import BinaryAccuracy\n", 1, "equal to the threshold"),
    "a function of torcheval": ("from torcheval.metrics.functional import r2_score\n", 1, "functions of torcheval are not moved"),
    "a class of torcheval as a value": ("from torcheval.metrics import MulticlassRecall\nx = [MulticlassRecall]\n", 2, "used as a value"),
    "the toolkit": (
        "from torcheval.metrics import Mean\nfrom torcheval.metrics.toolkit import sync_and_compute\n",
        2,
        "compute() does that itself",
    ),
    "a chained update": ("from torcheval.metrics import Mean\nx = Mean().update(y).compute()\n", 2, "gives the metric back"),
    "weights": ("from torcheval.metrics import Sum\nm = Sum()\nm.update(x, weight=w)\n", 3, "an update has weights"),
    "ignite": (
        "from ignite.metrics import Accuracy, Loss\n",
        1,
        "so that an import cannot change alone; the counterpart is torchtally.Accuracy(",
    ),
    "ignite by its whole name": ("import ignite\nx = ignite.metrics.ROC_AUC()\n", 2, "the counterpart is torchtally.AUROC(task=…)"),
}


@pytest.mark.parametrize("source, line, reason", LEFT.values(), ids=LEFT)
def test_what_cannot_move_stays_and_is_listed(source, line, reason):
    found = migrate_source(source)
    assert found.after == source
    assert [(r.line, reason in r.reason) for r in found.kept][:1] == [(line, True)], found.kept


def test_words_that_only_look_like_names_are_no_remarks():
    assert not migrate_source(
        """'''About torchmetrics.Accuracy.'''\nx = "torchmetrics", "torchmetrics.", "torchmetrics is slow"  # torchmetrics.Accuracy\n"""
    ).remarks


def test_a_call_that_is_refused_keeps_its_name_and_no_other():
    found = migrate_source("from torchmetrics import MeanMetric, SumMetric\nx = MeanMetric(), SumMetric(1, 2, 3)\n")
    assert found.after == "from torchmetrics import SumMetric\nfrom torchtally import MeanMetric\nx = MeanMetric(), SumMetric(1, 2, 3)\n"


def test_where_values_differ_is_told():
    source = "from torchmetrics import R2Score, Accuracy, AUROC\nr = R2Score()\na = Accuracy(task='binary')\nu = AUROC(task='binary')\n"
    found = migrate_source(source)
    assert not found.kept
    told = {(r.line, r.what) for r in found.remarks}
    assert (2, "R2Score") in told and (4, "AUROC") in told and (3, "Accuracy") not in told


def test_a_difference_of_an_option_is_told_only_with_it():
    plain = migrate_source("from torchmetrics.classification import MultilabelExactMatch as M\nM(num_labels=3)\n")
    ignoring = migrate_source("from torchmetrics.classification import MultilabelExactMatch as M\nM(num_labels=3, ignore_index=0)\n")
    assert not plain.remarks
    assert "only -1 works" in ignoring.remarks[0].reason


def test_the_page_of_differences_is_understood():
    assert len(differences()) > 20
    assert any(
        d.names == ("BinaryConfusionMatrix", "MultilabelConfusionMatrix") and d.options == (("ignore_index", ""),) for d in differences()
    )


# ---- every name of the packages
FAMILIES = (
    "",
    ".aggregation",
    ".classification",
    ".regression",
    ".functional",
    ".functional.classification",
    ".functional.regression",
    ".wrappers",
)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_name_moves_to_where_it_is_or_stays(family):
    theirs = importlib.import_module(f"torchmetrics{family}")
    names = list(
        getattr(theirs, "__all__", ["MeanMetric", "SumMetric", "MaxMetric", "MinMetric", "CatMetric", "RunningMean", "RunningSum"])
    )
    found = migrate_source(f"from torchmetrics{family} import {', '.join(names)}\n")
    left = {r.what for r in found.kept}
    assert {f"torchmetrics{family}.{n}".removeprefix("torchmetrics.") for n in names if n not in left} >= {
        n.removeprefix("torchmetrics.") for n in found.moved
    }
    ours = [node for node in ast.parse(found.after).body if node.module.startswith("torchtally")]
    for node in ours:
        module = importlib.import_module(node.module)
        for alias in node.names:
            assert hasattr(module, alias.name), alias.name
    assert sum(len(n.names) for n in ast.parse(found.after).body) == len(names)


CLASSES = ["Accuracy", "BLEUScore", "MeanMetric as Mean", "Metric", "PSNR", "MetricCollection", "F1Score as F1"]
MODULES = ["torchmetrics", "torchmetrics as tm", "torchmetrics.functional as F", "torchmetrics.classification", "os", "torchmetrics.text"]


@st.composite
def statements(draw):
    if draw(st.booleans()):
        return f"import {', '.join(draw(st.lists(st.sampled_from(MODULES), min_size=1, max_size=3, unique=True)))}"
    names = draw(st.lists(st.sampled_from(CLASSES), min_size=1, max_size=5, unique=True))
    module = draw(st.sampled_from(["torchmetrics", "torchmetrics.classification", "torchmetrics.metric"]))
    comments = [draw(st.sampled_from(["", "  # ä, b", "  # noqa"])) for _ in names]
    style = draw(st.sampled_from(["line", "parentheses", "list"]))
    if style == "list":
        return f"from {module} import (\n" + "".join(f"        {n},{c}\n" for n, c in zip(names, comments)) + "    )"
    return f"from {module} import " + (", ".join(names) if style == "line" else f"({', '.join(names)})")


USES = [
    "x = torchmetrics.Accuracy(task='binary')",
    "y = tm.functional.accuracy",
    "z = F.r2_score(a, b)",
    "w = torchmetrics.text.BLEUScore()",
    "é = 1",
]


@st.composite
def sources(draw):
    lines = ["import sys", "def main():"]
    for body in draw(st.lists(st.one_of(statements(), st.sampled_from(USES)), min_size=1, max_size=6)):
        joined = draw(st.sampled_from(["    {}", "    {}; t = 'ü'", "    if sys: {}"]))
        lines.append(joined.format(body))
    source = "\n".join([*lines, *draw(st.sampled_from([[], [""]]))])
    return source.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def bindings(source):
    return [
        a.asname or a.name.split(".")[0] for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names
    ]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(sources())
def test_whatever_is_moved_parses_binds_the_same_and_moves_once(source):
    after = migrate_source(source).after
    bound = {"torchtally" if n == "torchmetrics" else n for n in bindings(source)}
    assert bound <= {"torchtally" if n == "torchmetrics" else n for n in bindings(after)} <= bound | {"torchtally"}
    assert migrate_source(after).after == after
    assert "\n" not in after.replace("\r\n", "") if "\r\n" in source else "\r" not in after


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
    "R2": (PREDS, PREDS.flip(0) + PREDS),
}
OPTIONS = {"MulticlassConfusionMatrix": ["4", "4, normalize='true'"], "R2Score": ["", "num_regressors=2"]}
OPTIONS |= {"MulticlassAccuracy": ["", "k=2", "num_classes=4, device='cpu'"]}


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
