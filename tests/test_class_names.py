"""Values of classes by name: alone, in collections, fetched, in pictures."""

import pickle

import numpy as np
import pytest
import torch
from cases import elsewhere
from sklearn import metrics as sk

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f
from torchtally.wrappers import BootStrapper, ClasswiseWrapper, Running, Sliced

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


SCORES = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.5, 0.375, 0.125], [0.125, 0.25, 0.625], [0.25, 0.375, 0.375]])
CLASSES = torch.tensor([0, 1, 1, 2, 0])
WAYS = pytest.mark.parametrize("way", [tuple, elsewhere], ids=["host", "device"])


def plain(value):
    """Tensors, of whatever sort, and numbers as lists and numbers."""
    if isinstance(value, dict):
        return {n: plain(x) for n, x in value.items()}
    return [plain(x) for x in value] if isinstance(value, tuple | list) else np.asarray(value).tolist()


def read_every_way(metric, batch):
    """What the ways to read a metric of one batch give."""
    found = [metric(*batch), metric.compute(), metric.fetch().result()]
    collection = tt.MetricCollection({"it": type(metric)(**{n: getattr(metric, n) for n in OPTIONS[type(metric)]}, labels=NAMES)})
    found += [collection(*batch), collection.compute(), collection.fetch(reset=True).result()]
    return [plain({n.removeprefix("it_"): x for n, x in value.items()}) for value in found]


OPTIONS = {
    c.MulticlassROC: ["num_classes"],
    c.MulticlassPrecisionRecallCurve: ["num_classes"],
    c.MulticlassRecallAtFixedPrecision: ["num_classes", "min_precision"],
    c.MulticlassSensitivityAtSpecificity: ["num_classes", "min_specificity"],
}


@WAYS
def test_curves_of_classes_have_names(way):
    batch = way((SCORES, CLASSES))
    expected = {}
    for k, name in enumerate(NAMES):
        fpr, tpr, thresholds = sk.roc_curve(k == CLASSES, SCORES[:, k], drop_intermediate=False)
        expected[name] = plain([fpr, tpr, np.concatenate([[1.0], thresholds[1:]])])
    every = read_every_way(c.MulticlassROC(3, labels=NAMES), batch)
    assert all(list(found) == NAMES for found in every)
    for found in every if way is tuple else [every[k] for k in (1, 2, 4, 5)]:  # forward on a device repeats tied points
        for name, curve in expected.items():
            assert [[round(x, 6) for x in part] for part in found[name]] == [[round(x, 6) for x in part] for part in curve]
    expected = {}
    for k, name in enumerate(NAMES):
        expected[name] = plain(sk.precision_recall_curve(k == CLASSES, SCORES[:, k]))
    found = read_every_way(c.MulticlassPrecisionRecallCurve(3, labels=NAMES), batch)[2]
    assert found == expected


@WAYS
def test_curves_at_thresholds_and_of_labels_have_names(way):
    metric = c.MulticlassROC(3, thresholds=[0.25, 0.5], labels=NAMES)
    metric.update(*way((SCORES, CLASSES)))
    want = {"cat": [[1 / 3, 2 / 3], [0.5, 1.0], [0.5, 0.25]], "dog": [[0.0, 1.0], [0.5, 1.0], [0.5, 0.25]], "cow": [[0.0, 0.75], [1.0, 1.0], [0.5, 0.25]]}
    for found in (metric.compute(), metric.fetch().result()):
        for name, parts in want.items():
            np.testing.assert_allclose(plain(found[name]), parts, rtol=1e-6)
    labels = c.MultilabelPrecisionRecallCurve(2, labels=["red", "round"])
    labels.update(*way((torch.tensor([[0.75, 0.25], [0.5, 0.75]]), torch.tensor([[1, 0], [0, 1]]))))
    assert plain(labels.compute()) == {
        "red": [[0.5, 1.0, 1.0], [1.0, 1.0, 0.0], [0.5, 0.75]],
        "round": [[0.5, 1.0, 1.0], [1.0, 1.0, 0.0], [0.25, 0.75]],
    }
    averaged = c.MulticlassROC(3, average="macro", labels=NAMES)(*way((SCORES, CLASSES)))
    assert isinstance(averaged, tuple) and len(averaged) == 3  # an average has no names


@WAYS
def test_operating_points_have_names(way):
    batch = way((SCORES, CLASSES))
    for found in read_every_way(c.MulticlassRecallAtFixedPrecision(3, min_precision=0.5, labels=NAMES), batch):
        assert found == {"cat": [1.0, 0.25], "dog": [1.0, 0.375], "cow": [1.0, 0.625]}
    for found in read_every_way(c.MulticlassSensitivityAtSpecificity(3, min_specificity=1.0, labels=NAMES), batch):
        assert found["cow"] == [1.0, 0.625] and found["dog"] == [0.5, 0.5]


def test_areas_of_classes_have_names():
    for area in (c.MulticlassAUROC, c.MulticlassAveragePrecision):
        named = plain(area(3, average=None, labels=NAMES)(SCORES, CLASSES))
        assert list(named.values()) == plain(area(3, average=None)(SCORES, CLASSES)) and list(named) == NAMES
    assert plain(f.roc(SCORES, CLASSES, "multiclass", num_classes=3, labels=NAMES)) == plain(c.MulticlassROC(3, labels=NAMES)(SCORES, CLASSES))


def test_names_around_names():
    roc = c.MulticlassROC(3, labels=NAMES)
    wrapped = ClasswiseWrapper(c.MulticlassROC(3))
    wrapped.update(SCORES, CLASSES)
    roc.update(SCORES, CLASSES)
    assert list(wrapped.compute()) == ["multiclassroc_0", "multiclassroc_1", "multiclassroc_2"]
    assert plain(list(wrapped.compute().values())) == plain(list(roc.compute().values()))
    assert plain(list(wrapped.fetch().result().values())) == plain(list(roc.fetch().result().values()))
    twice = ClasswiseWrapper(recall(), prefix="val/")
    twice.update(PREDS, TARGET)
    assert list(twice.compute()) == ["val/cat", "val/dog", "val/cow"]
    renamed = ClasswiseWrapper(recall(), labels=["a", "b", "c"])
    renamed.update(PREDS, TARGET)
    assert list(renamed.compute()) == [f"multiclassrecall_{n}" for n in "abc"]
    both = ClasswiseWrapper(tt.MetricCollection({"named": recall(), "plain": c.MulticlassPrecision(3, average=None)}, prefix="p_"), prefix="v/")
    both.update(PREDS, TARGET)
    assert set(both.compute()) == {f"v/p_named_{n}" for n in NAMES} | {f"v/p_plain_{i}" for i in range(3)}
    points = ClasswiseWrapper(c.MulticlassRecallAtFixedPrecision(3, 0.5), labels=NAMES)
    points.update(SCORES, CLASSES)
    assert len(points.compute()["multiclassrecallatfixedprecision_dog"]) == 2
    with pytest.raises(ValueError, match="the metric's value is a tuple; expected one value a class"):
        ClasswiseWrapper(c.MulticlassROC(3, average="macro"))(SCORES, CLASSES)


def test_named_curves_in_slices_and_over_steps():
    sliced = Sliced(c.MulticlassRecallAtFixedPrecision(3, 0.5, thresholds=5, labels=NAMES), slices=2)
    sliced.update(SCORES, CLASSES, index=torch.tensor([0, 1, 0, 1, 0]))
    assert list(sliced.compute()) == [f"{place}_{n}" for place in ("0", "1", "total") for n in NAMES]
    tracker = tt.MetricTracker(c.MulticlassROC(3, thresholds=4, labels=NAMES), maximize=True)
    for _ in range(2):
        tracker.increment()
        tracker.update(SCORES, CLASSES)
    assert tracker.compute_all()["dog"][0].shape == (2, 4)


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
    roc, curve = c.MulticlassROC(3, labels=NAMES), c.MulticlassPrecisionRecallCurve(3, thresholds=4, labels=NAMES)
    point = c.MulticlassRecallAtFixedPrecision(3, 0.3, labels=NAMES)
    for m in (roc, curve, point):
        m.update(SCORES, CLASSES)
    for drawn in (roc.plot(), curve.plot(), ClasswiseWrapper(c.MulticlassROC(3), NAMES).plot(ClasswiseWrapper(c.MulticlassROC(3), NAMES)(SCORES, CLASSES))):
        told = [t.get_text() for t in drawn[1].get_legend().get_texts()]
        assert all(any(t.startswith(n) for t in told) for n in NAMES)
    assert [t.get_text()[:3] for t in point.plot()[1].get_yticklabels()] == NAMES
    point.plot([point.compute(), point.compute()])
    tally = tt.MetricCollection({"roc": c.MulticlassROC(3, labels=NAMES), "point": c.MulticlassRecallAtFixedPrecision(3, 0.3, labels=NAMES)}, postfix="/val")
    tally.update(SCORES, CLASSES)
    assert len(tally.plot()) == 2
    for drawn in (metric.plot(), metric.plot(torch.rand(3)), matrix.plot(), counts.plot()):
        written = {t.get_text() for ax in drawn[0].axes for t in (*ax.get_xticklabels(), *ax.get_yticklabels())}
        assert set(NAMES) <= written
    pyplot.close("all")
