"""What a class that never occurs is in an average: left out, as any other, 0 or NaN."""

from math import nan

import numpy as np
import pytest
import torch
from cases import elsewhere
from sklearn import metrics as sk
from torch import Tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f

PREDS, TARGET = torch.tensor([0, 1, 1, 3]), torch.tensor([0, 1, 0, 1])  # class 2 never occurs; class 3 is predicted only
MANY = torch.tensor([[1, 0, 0], [0, 0, 1], [1, 0, 0]]), torch.tensor([[1, 0, 0], [1, 0, 0], [0, 0, 0]])  # label 1 never occurs

# Of each class: precision, recall, F1, intersection over union, specificity.
MULTICLASS = {
    "Precision": [1, 0.5, 0, 0],
    "Recall": [0.5, 0.5, 0, 0],
    "F1Score": [2 / 3, 0.5, 0, 0],
    "JaccardIndex": [0.5, 1 / 3, 0, 0],
    "Specificity": [1, 0.5, 1, 0.75],
}


def value(metric, preds, target, way=tuple):
    metric.set_dtype(torch.float64).update(*way((preds, target)))
    return np.asarray(metric.compute().as_subclass(Tensor))


@pytest.mark.parametrize("way", [tuple, elsewhere], ids=["host", "device"])
@pytest.mark.parametrize("name", MULTICLASS)
def test_multiclass(name, way):
    each, cls = MULTICLASS[name], getattr(c, f"Multiclass{name}")
    occur = [each[0], each[1], each[3]]
    zero = [*each[:2], 0.0, each[3]]
    macro = {"skip": np.mean(occur), "keep": np.mean(each), "zero": np.mean(zero), "nan": nan, None: np.mean(occur)}
    for absent, want in macro.items():
        np.testing.assert_allclose(value(cls(4, average="macro", absent=absent), PREDS, TARGET, way), want)
    weighted = each[0] / 2 + each[1] / 2  # both have two targets
    for absent in ("skip", "keep", "zero"):
        np.testing.assert_allclose(value(cls(4, average="weighted", absent=absent), PREDS, TARGET, way), weighted)
    assert np.isnan(value(cls(4, average="weighted", absent="nan"), PREDS, TARGET, way))
    for absent, want in {"skip": each, "keep": each, "zero": zero, "nan": [*each[:2], nan, each[3]]}.items():
        np.testing.assert_allclose(value(cls(4, average="none", absent=absent), PREDS, TARGET, way), want)


def test_keep_is_what_scikit_learn_averages_over_all_labels():
    for name, reference in (("Precision", sk.precision_score), ("Recall", sk.recall_score), ("F1Score", sk.f1_score)):
        for zero_division in (0.0, 1.0, nan):
            want = reference(TARGET, PREDS, labels=range(4), average="macro", zero_division=zero_division)
            got = value(getattr(c, f"Multiclass{name}")(4, absent="keep", zero_division=zero_division), PREDS, TARGET)
            np.testing.assert_allclose(got, want)


def test_multilabel():
    np.testing.assert_allclose(value(c.MultilabelRecall(3), *MANY), 0.5 / 3)  # as scikit-learn: 1/2, 0/0 as 0, 0/0 as 0
    for absent, want in {"keep": 0.5 / 3, "skip": 0.5 / 2, "zero": 0.5 / 3, "nan": nan}.items():
        np.testing.assert_allclose(value(c.MultilabelRecall(3, absent=absent), *MANY), want)
    for absent, want in {"keep": (1 / 3 + 1 + 2 / 3) / 3, "skip": 0.5, "zero": 1 / 3, "nan": nan}.items():
        np.testing.assert_allclose(value(c.MultilabelAccuracy(3, absent=absent), *MANY), want)


def test_undefined_and_absent_are_two_things():
    """`zero_division` is of 0/0 wherever it comes from, `absent` of classes that are nowhere; NaN is left out of a mean, an absent NaN is not."""
    recall = {"skip": 0.5, "keep": 0.5, "zero": 1 / 3, "nan": nan}  # class 3 has no targets: 0/0
    for absent, want in recall.items():
        np.testing.assert_allclose(value(c.MulticlassRecall(4, absent=absent, zero_division=nan), PREDS, TARGET), want)
    for absent, want in {"skip": 2 / 3, "keep": 3 / 4, "zero": 0.5, "nan": nan}.items():
        np.testing.assert_allclose(value(c.MulticlassRecall(4, absent=absent, zero_division=1.0), PREDS, TARGET), want)


@pytest.mark.parametrize("absent", ["skip", "keep", "zero", "nan"])
def test_an_ignored_class_is_in_no_average_whatever_it_is(absent):
    metric = c.MulticlassRecall(3, ignore_index=2, absent=absent)
    np.testing.assert_allclose(value(metric, torch.tensor([0, 1, 0, 0]), torch.tensor([0, 1, 1, 2])), 0.75)


def test_each_sample_has_its_own_absent_classes():
    preds, target = torch.tensor([[0, 1, 1], [0, 0, 0]]), torch.tensor([[0, 1, 0], [0, 0, 0]])
    for absent, want in {"skip": [0.75, 1.0], "zero": [0.75, 0.5], "nan": [0.75, nan]}.items():
        metric = c.MulticlassRecall(2, multidim_average="samplewise", absent=absent)
        np.testing.assert_allclose(value(metric, preds, target), want)


def test_nothing_seen_and_zero_division_nan():
    for cls in (c.MulticlassRecall, c.MulticlassJaccardIndex, c.MulticlassSpecificity, c.MulticlassF1Score, c.MulticlassHammingDistance):
        for average in ("micro", "macro", "weighted"):
            assert cls(3, average=average, zero_division=nan).compute().isnan(), cls
            assert cls(3, average=average).compute() == (1.0 if cls is c.MulticlassHammingDistance else 0.0), (cls, average)
        assert cls(3, average="none", zero_division=nan).compute().isnan().all()
        assert cls(3, absent="zero").compute() == 0.0
        assert cls(3, absent="nan").compute().isnan()
    for name in ("Accuracy", "Precision", "JaccardIndex", "F1Score", "HammingDistance", "NegativePredictiveValue"):
        assert getattr(c, f"Binary{name}")(zero_division=nan).compute().isnan()
        assert getattr(c, f"Multilabel{name}")(2, average="micro", zero_division=nan).compute().isnan()


def test_wrong_uses_say_so():
    with pytest.raises(ValueError, match="MulticlassRecall: absent is 'drop'; expected 'skip', 'keep', 'zero' or 'nan'"):
        c.MulticlassRecall(3, absent="drop")
    with pytest.raises(ValueError, match="MulticlassRecall: absent is 'zero', but the value is over all classes together"):
        c.MulticlassRecall(3, average="micro", absent="zero")
    with pytest.raises(ValueError, match="BinaryRecall: absent is 'zero', but the value is of yes and no alone"):
        c.BinaryRecall(absent="zero")
    with pytest.raises(ValueError, match="MulticlassStatScores: absent is 'nan'; counts of a class that never occurs are 0"):
        c.MulticlassStatScores(3, absent="nan")
    assert "absent='zero'" in repr(tt.Recall("multiclass", num_classes=3, average="macro", absent="zero"))
    assert "absent" not in repr(c.MulticlassRecall(3)) and c.MulticlassRecall(3).absent == "skip" and c.MultilabelRecall(3).absent == "keep"


def test_functions_and_weights_take_it():
    got = f.multiclass_recall(PREDS, TARGET, 4, absent="zero", weight=torch.tensor([1.0, 0.0, 3.0, 1.0]))
    np.testing.assert_allclose(got, (0.25 + 0 + 0 + 0) / 4, rtol=1e-6)
    assert f.recall(PREDS, TARGET, "multiclass", num_classes=4, average="macro", absent="nan").isnan()
