"""Curves, areas and operating points against torchmetrics over random configurations: what differs is in docs/differences.md."""

import random
import warnings

import numpy as np
import pytest
import torch
from class_references import close
from random_configurations import value
from torch.utils import _pytree as pytree

from torchtally import classification as ours

pytest.importorskip("torchmetrics", minversion="1.9")  # earlier ones give other thresholds where there is none, and lack some metrics
theirs = pytest.importorskip("torchmetrics.classification")

LEAST = {
    "PrecisionAtFixedRecall": "min_recall",
    "RecallAtFixedPrecision": "min_precision",
    "SensitivityAtSpecificity": "min_specificity",
    "SpecificityAtSensitivity": "min_sensitivity",
}
NAMES = ["ROC", "PrecisionRecallCurve", "AUROC", "AveragePrecision", "LogAUC", *LEAST]  # not EER: theirs breaks ties by rounding


def drawn(r):
    """A metric, its arguments and a data set in which every class occurs, scores tie and lie on thresholds."""
    name, task = r.choice(NAMES), r.choice(["Binary", "Multiclass", "Multilabel"])
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    n, extra = r.choice([12, 40]), r.choice([(), (), (2,)])
    options = {
        "thresholds": r.choice([None, None, 5, [0.0, 0.25, 0.5, 1.0], torch.tensor([0.0, 0.3, 0.9])]),
        "ignore_index": r.choice([None, -1]),
    }
    if task == "Multiclass":
        target = torch.arange(n * (extra or (1,))[0]).remainder(3).view(n, *extra)
        preds = torch.rand(n, 3, *extra, generator=generator).mul(16).round() / 16
        options["num_classes"] = 3
    else:
        shape = (n, 3, *extra) if task == "Multilabel" else (n, *extra)
        target = torch.randint(0, 2, shape, generator=generator)
        target[:2], target[2:4] = 1, 0
        preds = torch.rand(shape, generator=generator).mul(16).round() / 16
        options |= {"num_labels": 3} if task == "Multilabel" else {}
    if options["ignore_index"] == -1:
        out = torch.rand(target.shape, generator=generator) < 0.2
        out[:6] = False
        target = target.masked_fill(out, -1)
    if name in LEAST:
        options[LEAST[name]] = r.choice([0.25, 0.5, 0.8])
    if name == "LogAUC":
        options["fpr_range"] = (0.125, 0.75)
    if name in ("AUROC", "AveragePrecision", "LogAUC") and task != "Binary":
        options["average"] = r.choice(["macro", "none"])
    if name in ("ROC", "PrecisionRecallCurve") and task == "Multiclass":
        options["average"] = r.choice(["micro", "macro", None])
    return name, task, options, preds, target


def known(name, options):
    """Rows of docs/differences.md that tell of this configuration."""
    binned = options["thresholds"] is not None
    if name == "PrecisionRecallCurve" and options.get("average") == "macro":
        return "the mean of precisions"
    if name == "ROC" and options.get("average") == "macro":
        return "ends at (1, 1)"
    if binned and options.get("average") == "micro":
        return "fails in torchmetrics"
    if binned and name in ("AUROC", "AveragePrecision", "LogAUC"):
        return "outside the outermost thresholds"
    return None


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 6))])
def test_values_are_torchmetrics_values_but_for_the_known_differences(seed):
    r = random.Random(seed)
    compared = 0
    for _ in range(300):
        name, task, options, preds, target = drawn(r)
        if known(name, options):
            continue
        chunk = r.choice([4, 100])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = value(theirs, task + name, options, preds.clone(), target.clone(), chunk)
        got = value(ours, task + name, options, preds, target, chunk)
        compared += 1
        if name == "SpecificityAtSensitivity":  # of several thresholds theirs is the highest
            got, want = got[0], want[0]
        got, want = (pytree.tree_leaves(x) for x in (got, want))
        assert len(got) == len(want)
        for a, b in zip(got, want):
            close(a, np.asarray(b, np.float64), (task + name, options))
    assert compared > 150
