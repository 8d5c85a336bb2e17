"""`torchtally migrate`: what moves, what is left and why, and that no file is ever broken."""

import ast
import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchtally.adopt.migration import migrate_source
from torchtally.adopt.migration.differences import differences

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


def test_a_wrapper_around_a_collection_with_what_is_not_offered_is_moved_and_works():
    before = "from torchmetrics import MetricCollection, MetricTracker\nfrom torchmetrics.text import BLEUScore\n"
    use = "tracker = MetricTracker(MetricCollection([BLEUScore()]))\ntracker.increment()\n"
    after = migrate_source(before + use).after
    assert after == before.replace("from torchmetrics import M", "from torchtally import M") + use
    pytest.importorskip("torchmetrics")
    exec(after, {})


@pytest.mark.parametrize(
    "source",
    [
        "from torchmetrics import MinMaxMetric\nfrom torchmetrics.text import BLEUScore\nx = MinMaxMetric(base_metric=BLEUScore())\n",
        "import torchmetrics as tm\n\nx = tm.MetricTracker(tm.text.BLEUScore())\n",
    ],
)
def test_a_wrapper_around_what_is_not_offered_stays(source):
    found = migrate_source(source)
    assert found.after == source
    assert any(r.line == 3 and "it is around BLEUScore, which torchtally has not" in r.reason for r in found.kept)


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
        d.names[:2] == ("BinaryConfusionMatrix", "MultilabelConfusionMatrix") and d.options == (("ignore_index", ""),) for d in differences()
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
