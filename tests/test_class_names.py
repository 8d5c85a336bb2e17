"""Values of classes by name: alone, in collections, fetched, in pictures."""

import pickle

import pytest
import torch

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f
from torchtally.wrappers import BootStrapper, Running

NAMES = ["cat", "dog", "cow"]
PREDS, TARGET = torch.tensor([0, 1, 0, 0]), torch.tensor([0, 1, 1, 0])


def recall(**options):
    return c.MulticlassRecall(3, average="none", labels=NAMES, **options)


def numbers(value):
    return {n: x.tolist() for n, x in value.items()}


def test_values_of_classes_have_names():
    metric = recall()
    assert numbers(metric(PREDS, TARGET)) == {"cat": 1.0, "dog": 0.5, "cow": 0.0}
    assert numbers(metric.compute()) == {"cat": 1.0, "dog": 0.5, "cow": 0.0}
    assert metric.fetch().result() == {"cat": 1.0, "dog": 0.5, "cow": 0.0}
    assert numbers(pickle.loads(pickle.dumps(metric)).compute()) == {"cat": 1.0, "dog": 0.5, "cow": 0.0}
    assert "labels=('cat', 'dog', 'cow')" in repr(metric)
    assert c.MulticlassRecall(3, average="none")(PREDS, TARGET).tolist() == [1.0, 0.5, 0.0]  # a tensor, as ever
    assert c.MulticlassRecall(3, labels=NAMES)(PREDS, TARGET).tolist() == 0.75  # averages have no names


def test_values_of_labels_of_samples_and_counts_have_names():
    decisions = torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]])
    assert numbers(c.MultilabelPrecision(2, average=None, labels=["red", "round"])(*decisions)) == {"red": 0.5, "round": 1.0}
    counts = c.MultilabelStatScores(2, average="none", labels=["red", "round"])(*decisions)
    assert numbers(counts) == {"red": [1, 1, 0, 0, 1], "round": [1, 0, 1, 0, 1]}
    metric = recall(multidim_average="samplewise")
    metric.update(PREDS.view(2, 2), TARGET.view(2, 2))
    assert numbers(metric.compute()) == {"cat": [1.0, 1.0], "dog": [1.0, 0.0], "cow": [0.0, 0.0]}
    assert numbers(f.jaccard_index(PREDS, TARGET, "multiclass", num_classes=3, average="none", labels=NAMES))["dog"] == 0.5


def test_in_a_collection_the_name_of_the_metric_comes_first():
    tally = tt.MetricCollection({"recall": recall(), "accuracy": c.MulticlassAccuracy(3)}, prefix="val/")
    want = {"val/recall_cat": 1.0, "val/recall_dog": 0.5, "val/recall_cow": 0.0, "val/accuracy": 0.75}
    assert numbers(tally(PREDS, TARGET)) == want
    assert numbers(tally.compute()) == want
    assert tally.fetch(reset=True).result() == want
    tally["recall"].update(PREDS, TARGET)  # apart
    assert numbers(tally.compute())["val/recall_dog"] == 0.5


def test_names_do_not_stop_sharing():
    named, plain = recall(), c.MulticlassPrecision(3)
    assert named.needs() == plain.needs()


def test_wrappers_keep_names():
    for wrapper in (Running(recall(), 2), BootStrapper(recall(), 4, seed=0)):
        wrapper.update(PREDS, TARGET)
        assert wrapper.compute()
    tracker = tt.MetricTracker(recall())
    for _ in range(2):
        tracker.increment()
        tracker.update(PREDS, TARGET)
    assert set(tracker.best_metric()) == set(NAMES)


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match=r"MulticlassRecall: labels is \['cat'\]; expected 3 names, one for each class"):
        c.MulticlassRecall(3, labels=["cat"])
    with pytest.raises(ValueError, match="expected names that differ"):
        c.MultilabelRecall(2, labels=["cat", "cat"])
    with pytest.raises(ValueError, match="MulticlassRecall: labels is 'cat'; expected a list of names, one for each class"):
        c.MulticlassRecall(3, labels="cat")
    with pytest.raises(ValueError, match="expected 2 names, one for each class"):
        tt.Accuracy("binary", labels=NAMES)


def test_pictures_show_the_names():
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    metric = recall()
    metric.update(PREDS, TARGET)
    matrix = c.MulticlassConfusionMatrix(3, labels=NAMES)
    matrix.update(PREDS, TARGET)
    counts = c.MulticlassStatScores(3, average="none", labels=NAMES)
    counts.update(PREDS, TARGET)
    assert matrix.compute().shape == (3, 3)
    for drawn in (metric.plot(), metric.plot(torch.rand(3)), matrix.plot(), counts.plot()):
        written = {t.get_text() for ax in drawn[0].axes for t in (*ax.get_xticklabels(), *ax.get_yticklabels())}
        assert set(NAMES) <= written
    pyplot.close("all")
