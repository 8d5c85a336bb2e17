"""Where values differ from torchmetrics' is written in docs/differences.md; everywhere else they are the same, over random configurations."""

import random
import warnings

import pytest
import torch
from class_references import close
from random_configurations import RATES, value

from torchtally import classification as ours
from torchtally.faults import FaultWarning

theirs = pytest.importorskip("torchmetrics.classification")

NAMES = [*RATES, "StatScores", "ConfusionMatrix"]
AVERAGES = ["micro", "macro", "weighted", "none"]


def drawn(r):
    """A metric, its options and a data set, in batches of at least two samples."""
    name, task = r.choice(NAMES), r.choice(["Binary", "Multiclass", "Multilabel"])
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    n, extra = r.choice([2, 7, 30]), r.choice([(), (), (3,), (2, 3)])
    options = {"ignore_index": r.choice([None, None, -1, 0, 1])}
    if name == "FBetaScore":
        options["beta"] = r.choice([0.5, 2.0])
    if name == "ConfusionMatrix":
        options["normalize"] = r.choice([None, "true", "pred", "all"])
    else:
        options["multidim_average"] = r.choice(["global", "global", "samplewise"]) if extra else "global"
        if name != "StatScores":
            options["zero_division"] = r.choice([0.0, 1.0])
        if task != "Binary":
            options["average"] = r.choice(AVERAGES)
    if task == "Multiclass":
        classes = options["num_classes"] = r.choice([2, 3, 5])
        occurring = r.choice([classes, max(1, classes - 1)])
        target = torch.randint(0, occurring, (n, *extra), generator=generator)
        preds = torch.randn(n, classes, *extra, generator=generator)
        if r.random() < 0.5:
            preds = preds[:, :occurring].argmax(1)
        elif name != "ConfusionMatrix" and classes > 2:
            options["top_k"] = r.choice([1, 1, 2])
    else:
        shape = (n, 4, *extra) if task == "Multilabel" else (n, *extra)
        target = torch.randint(0, 2, shape, generator=generator)
        preds = r.choice([torch.randint(0, 2, shape, generator=generator), torch.rand(shape, generator=generator)])
        if r.random() < 0.3:
            preds = torch.randn(shape, generator=generator) * 3
        options["threshold"] = r.choice([0.5, 0.3])
        if task == "Multilabel":
            options["num_labels"] = 4
    if options["ignore_index"] == -1:
        target = target.masked_fill(torch.rand(target.shape, generator=generator) < 0.3, -1)
    return name, task, options, preds, target


def known(name, task, o, preds, target, wanted):
    """Rows of docs/differences.md that tell of this configuration."""
    rate = name not in ("StatScores", "ConfusionMatrix")
    samplewise = o.get("multidim_average") == "samplewise"
    in_classes = o["ignore_index"] is not None and o["ignore_index"] >= 0
    if rate and o["zero_division"] == 1 and name in ("Accuracy", "Specificity", "NegativePredictiveValue", "HammingDistance"):
        return "zero_division"
    if rate and o.get("average") == "weighted" and (o["zero_division"] == 1 or name == "HammingDistance"):
        return "nothing to weigh"
    if task == "Multiclass" and o.get("average") == "macro" and rate and (in_classes or o.get("top_k", 1) > 1):
        return "ignored or absent classes in macro averages"
    if name == "StatScores" and o.get("average") == "weighted" and (samplewise or bool(wanted.isnan().any())):
        return "weighted counts"
    if name == "ConfusionMatrix" and task != "Multiclass" and preds.is_floating_point() and o["ignore_index"] is not None:
        return "logits among ignored elements"
    return None


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 12))])
def test_values_are_torchmetrics_values_but_for_the_known_differences(seed):
    r = random.Random(seed)
    compared = 0
    for _ in range(400):
        name, task, options, preds, target = drawn(r)
        chunk = r.choice([c for c in (2, 3, 100) if len(preds) % c != 1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                want = value(theirs, task + name, options, preds.clone(), target.clone(), chunk)
            except RuntimeError:
                if options.get("top_k", 1) == 1:
                    raise
                continue  # releases before 1.7 fail at top_k with extra dimensions
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*from_logits", FaultWarning)  # which they keep to themselves
            got = value(ours, task + name, options, preds, target, chunk)
        if known(name, task, options, preds, target, want):
            continue
        compared += 1
        close(got, want, (task + name, options))
    assert compared > 250


def both(name, options, *batch, update=None):
    got = [getattr(module, name)(**options) for module in (ours, theirs)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for metric in got:
            for b in batch:
                metric.update(*b)
        return [metric.compute().tolist() for metric in got]


# Each known difference once, with the right value worked by hand: a row goes when torchmetrics mends it.
def test_known_zero_division():
    assert both("BinarySpecificity", {"zero_division": 1.0}, (torch.tensor([1, 1]), torch.tensor([1, 1]))) == [1.0, 0.0]


def test_known_macro_averages():
    p, y = torch.tensor([0, 1, 0, 1, 1]), torch.tensor([0, 0, 1, 1, 1])
    assert both("MulticlassRecall", {"num_classes": 2, "ignore_index": 0}, (p, y))[0] == pytest.approx(2 / 3)
    scores = torch.tensor([[0.8, 0.15, 0.05], [0.7, 0.2, 0.1], [0.6, 0.3, 0.1]])
    assert both("MulticlassAccuracy", {"num_classes": 3, "top_k": 2}, (scores, torch.tensor([0, 0, 2])))[0] == pytest.approx(0.5)


def test_known_weighted_counts():
    p, y = torch.tensor([[[1, 0], [0, 0]]]).transpose(1, 2), torch.tensor([[[1, 0], [1, 0]]]).transpose(1, 2)
    options = {"num_labels": 2, "average": "weighted", "multidim_average": "samplewise"}
    got, _ = both("MultilabelStatScores", options, (p, y), (p, y))
    assert got == [[0.5, 0.0, 0.0, 0.5, 1.0]] * 2 or got == [[1.0, 0.0, 0.0, 1.0, 2.0]] * 2


def test_known_single_samples_keep_their_dimension():
    p, y = torch.tensor([[1, 0, 1]]), torch.tensor([[1, 1, 1]])
    got, want = both("BinaryAccuracy", {"multidim_average": "samplewise"}, (p, y))
    assert got == [pytest.approx(2 / 3)] and want == pytest.approx(2 / 3)
