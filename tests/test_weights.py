"""Sample weights of everything that counts classes: scikit-learn's `sample_weight`, on the CPU's way and the device's."""

import math
import pickle

import numpy as np
import pytest
import torch
from cases import elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor
from weighted import WAYS, close, value, ways

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f
from torchtally.faults import FaultError
from torchtally.stalls import pretend_cuda


def multiclass(n=90, classes=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, classes, generator=g), torch.randint(0, classes, (n,), generator=g), torch.rand(n, generator=g) * 3


def multilabel(n=60, labels=3, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, labels, generator=g), torch.randint(0, 2, (n, labels), generator=g), torch.rand(n, generator=g) * 3


RATES = {
    "Precision": lambda y, p, **o: sk.precision_score(y, p, zero_division=0, **o),
    "Recall": lambda y, p, **o: sk.recall_score(y, p, zero_division=0, **o),
    "F1Score": lambda y, p, **o: sk.f1_score(y, p, zero_division=0, **o),
    "JaccardIndex": lambda y, p, **o: sk.jaccard_score(y, p, zero_division=0, **o),
}


@ways
@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_rates(task, average, name, way):
    preds, target, weight = multiclass() if task == "multiclass" else multilabel()
    size = preds.shape[1]
    decided = preds.argmax(1) if task == "multiclass" else preds > 0.5
    metric = getattr(c, task.title() + name)(size, average=average, weighted=True)
    how = None if average == "none" else average
    close(value(metric, preds, target, weight, way=way), RATES[name](target, decided, average=how, sample_weight=weight))


@ways
def test_binary(way):
    preds, target, weight = (x[:, 0] if x.ndim > 1 else x for x in multilabel())
    y, p = target, preds > 0.5
    batch = preds, target, weight
    close(value(c.BinaryAccuracy(weighted=True), *batch, way=way), sk.accuracy_score(y, p, sample_weight=weight))
    close(value(c.BinarySpecificity(weighted=True), *batch, way=way), sk.recall_score(y, p, pos_label=0, sample_weight=weight))
    close(
        value(c.BinaryNegativePredictiveValue(weighted=True), *batch, way=way), sk.precision_score(y, p, pos_label=0, sample_weight=weight)
    )
    close(value(c.BinaryHammingDistance(weighted=True), *batch, way=way), sk.zero_one_loss(y, p, sample_weight=weight))
    close(value(c.BinaryFBetaScore(2.0, weighted=True), *batch, way=way), sk.fbeta_score(y, p, beta=2, sample_weight=weight))
    close(value(c.BinaryMatthewsCorrCoef(weighted=True), *batch, way=way), sk.matthews_corrcoef(y, p, sample_weight=weight))
    close(value(c.BinaryCohenKappa(weighted=True), *batch, way=way), sk.cohen_kappa_score(y, p, sample_weight=weight))
    tn, fp, fn, tp = sk.confusion_matrix(y, p, sample_weight=weight.double()).ravel()
    close(value(c.BinaryConfusionMatrix(weighted=True), *batch, way=way), [[tn, fp], [fn, tp]])
    close(value(c.BinaryStatScores(weighted=True), *batch, way=way), [tp, fp, tn, fn, tp + fn])


@ways
def test_multiclass(way):
    batch = preds, target, weight = multiclass()
    p = preds.argmax(1)
    matrix = sk.confusion_matrix(target, p, sample_weight=weight.double())
    close(value(c.MulticlassConfusionMatrix(4, weighted=True), *batch, way=way), matrix)
    close(
        value(c.MulticlassConfusionMatrix(4, normalize="true", weighted=True), *batch, way=way),
        sk.confusion_matrix(target, p, sample_weight=weight.double(), normalize="true"),
    )
    close(
        value(c.MulticlassAccuracy(4, average="micro", weighted=True), *batch, way=way), sk.accuracy_score(target, p, sample_weight=weight)
    )
    close(
        value(c.MulticlassAccuracy(average="micro", weighted=True), *batch, way=way),  # however many classes
        sk.accuracy_score(target, p, sample_weight=weight),
    )
    close(value(c.MulticlassMatthewsCorrCoef(4, weighted=True), *batch, way=way), sk.matthews_corrcoef(target, p, sample_weight=weight))
    for weights in (None, "linear", "quadratic"):
        want = sk.cohen_kappa_score(target, p, sample_weight=weight, weights=weights)
        close(value(c.MulticlassCohenKappa(4, weights=weights, weighted=True), *batch, way=way), want)
    top = sk.top_k_accuracy_score(target, preds, k=2, sample_weight=weight)
    close(value(c.MulticlassAccuracy(4, 2, "micro", weighted=True), *batch, way=way), top)
    tp = matrix.diagonal()
    fp, fn = matrix.sum(0) - tp, matrix.sum(1) - tp
    tn = matrix.sum() - tp - fp - fn
    close(value(c.MulticlassSpecificity(4, average="none", weighted=True), *batch, way=way), tn / (tn + fp))
    close(value(c.MulticlassNegativePredictiveValue(4, average="none", weighted=True), *batch, way=way), tn / (tn + fn))
    want = np.stack([tp, fp, tn, fn, tp + fn], 1)
    close(value(c.MulticlassStatScores(4, average="none", weighted=True), *batch, way=way), want)
    close(value(c.MulticlassStatScores(4, average="micro", weighted=True), *batch, way=way), want.sum(0))


@ways
def test_multilabel(way):
    batch = preds, target, weight = multilabel()
    per_label = sk.multilabel_confusion_matrix(target, preds > 0.5, sample_weight=weight.double())
    close(value(c.MultilabelConfusionMatrix(3, weighted=True), *batch, way=way), per_label)
    flat = weight[:, None].expand(60, 3).flatten()
    want = sk.matthews_corrcoef(target.flatten(), (preds > 0.5).flatten(), sample_weight=flat)
    close(value(c.MultilabelMatthewsCorrCoef(3, weighted=True), *batch, way=way), want)
    each = torch.rand(60, 3)  # one for each label of each sample
    want = [sk.accuracy_score(target[:, k], preds[:, k] > 0.5, sample_weight=each[:, k]) for k in range(3)]
    close(value(c.MultilabelAccuracy(3, average="none", weighted=True), preds, target, each, way=way), want)


@ways
def test_weights_of_samples_and_of_pixels(way):
    preds, target = torch.randn(6, 3, 4, 5), torch.randint(0, 3, (6, 4, 5))
    of_samples, of_pixels = torch.rand(6), torch.rand(6, 4, 5)
    for weight, full in ((of_samples, of_samples[:, None, None].expand(6, 4, 5)), (of_pixels, of_pixels)):
        want = sk.jaccard_score(target.flatten(), preds.argmax(1).flatten(), average="macro", sample_weight=full.flatten())
        close(value(c.MulticlassJaccardIndex(3, weighted=True), preds, target, weight, way=way), want)
        want = [sk.accuracy_score(t.flatten(), p.flatten(), sample_weight=w.flatten()) for t, p, w in zip(target, preds.argmax(1), full)]
        for average in ("micro", "weighted"):
            metric = c.MulticlassAccuracy(3, average=average, multidim_average="samplewise", weighted=True)
            close(value(metric, preds, target, weight, way=way), want)


def test_large_images_are_weighed_pixel_by_pixel():
    preds, target, weight = torch.randn(2, 3, 40, 40), torch.randint(0, 3, (2, 40, 40)), torch.rand(2, 40, 40)
    target[:, :3] = 255
    live = target != 255
    want = sk.confusion_matrix(target[live], preds.argmax(1)[live], sample_weight=weight[live].double())
    close(value(c.MulticlassConfusionMatrix(3, 255, weighted=True), preds, target, weight), want)


@ways
def test_weights_of_ignored_elements_do_not_matter(way):
    target, preds = torch.tensor([0, 1, -1, 1, -1]), torch.tensor([0, 1, 1, 0, 0])
    weight = torch.tensor([1.0, 2.0, math.nan, 0.5, -3.0])
    close(value(c.MulticlassAccuracy(2, average="micro", ignore_index=-1, weighted=True), preds, target, weight, way=way), 3 / 3.5)
    close(value(c.BinaryAccuracy(ignore_index=-1, weighted=True), preds, target, weight, way=way), 3 / 3.5)


@ways
@pytest.mark.parametrize("name", ["Accuracy", "Specificity", "NegativePredictiveValue", "F1Score", "MatthewsCorrCoef", "CohenKappa"])
def test_equal_weights_and_none_are_counts(name, way):
    for task, batch, size in (("Multiclass", multiclass()[:2], (4,)), ("Binary", [x[:, 0] for x in multilabel()[:2]], ())):
        cls = getattr(c, task + name)
        want = value(cls(*size), *batch)
        close(value(cls(*size, weighted=True), *batch, way=way), want)
        close(value(cls(*size, weighted=True), *batch, torch.full((len(batch[0]),), 0.1), way=way), want)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_has_no_weight_is_exactly_nothing(data):
    """Sums that would be 0 as counts are 0 and not what rounding leaves, so that 0/0 is told from a rate."""
    n = data.draw(st.integers(1, 12))
    labels = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    target, preds = torch.tensor(data.draw(labels)), torch.tensor(data.draw(labels))
    weight = torch.tensor(
        data.draw(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1e-9, 1e9]), min_size=n, max_size=n)), dtype=torch.float64
    )
    live = weight > 0
    for cls in (c.MulticlassSpecificity, c.MulticlassNegativePredictiveValue, c.MulticlassPrecision, c.MulticlassRecall):
        counted = value(cls(3, average="none", zero_division=math.nan), preds[live], target[live], parts=1)
        for way in WAYS:
            got = value(cls(3, average="none", zero_division=math.nan, weighted=True), preds, target, weight, way=way, parts=1).as_subclass(
                Tensor
            )
            assert torch.equal(got.isnan(), counted.isnan())
            assert ((got >= 0) & (got <= 1) | got.isnan()).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.bool])
@ways
def test_weights_of_every_dtype(dtype, way):
    preds, target, weight = multiclass()
    weight = weight.to(dtype)
    want = sk.accuracy_score(target, preds.argmax(1), sample_weight=weight.double())
    close(value(c.MulticlassAccuracy(average="micro", weighted=True), preds, target, weight, way=way), want)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_weights_are_an_error_at_once_on_the_cpu(bad):
    for metric in (c.MulticlassAccuracy(2, weighted=True), c.BinaryAccuracy(weighted=True), c.MulticlassConfusionMatrix(2, weighted=True)):
        batch = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0])
        metric.update(*batch, torch.tensor([1.0, 2.0, 3.0]))
        before = metric.compute()
        with pytest.raises(FaultError, match=rf"{type(metric).__name__}: weight is {bad} at .*; expected finite numbers of at least 0"):
            metric.update(*batch, torch.tensor([1.0, bad, 1.0]))
        assert torch.equal(metric.compute(), before) and metric.update_count == 1


@pytest.mark.parametrize("make", [lambda: c.MulticlassAccuracy(2, average="micro", weighted=True), lambda: c.BinaryAccuracy(weighted=True)])
def test_impossible_weights_are_counted_on_a_device(make):
    metric = make().set_dtype(torch.float64)
    preds, target = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0])
    metric.update(*elsewhere((preds, target, torch.tensor([1.0, 1.0, 2.0]))))
    metric.update(*elsewhere((preds, target, torch.tensor([-1.0, math.nan, 2.0]))))
    with pytest.raises(FaultError, match=r"2 values were impossible weights .* first in update 2") as error:
        metric.compute()
    close(error.value.values, 2 / 6)
    quiet = type(metric)(**({"average": "micro"} if "Multi" in type(metric).__name__ else {}), weighted=True, validate_args=False)
    close(value(quiet, preds, target, torch.tensor([-1.0, 1.0, 1.0]), parts=1), 1 / 2)


def test_wrong_weights_say_what_was_expected():
    metric = c.MulticlassAccuracy(3, weighted=True)
    batch = torch.randn(4, 3, 2), torch.zeros(4, 2, dtype=torch.long)
    with pytest.raises(
        ValueError, match=r"MulticlassAccuracy: weight has shape \(2,\) but target has \(4, 2\); expected \(4,\) or \(4, 2\)"
    ):
        metric.update(*batch, torch.ones(2))
    with pytest.raises(ValueError, match="MulticlassAccuracy: weight has type float; expected a tensor of numbers"):
        metric.update(*batch, 0.5)
    with pytest.raises(ValueError, match="BinaryAccuracy: weighted is 1; expected True or False"):
        c.BinaryAccuracy(weighted=1)
    plain = c.BinaryAccuracy()
    for way in (plain.update, plain):
        with pytest.raises(
            ValueError, match=r"BinaryAccuracy: update was given a weight, but without weighted=True all samples count the same"
        ):
            way(torch.ones(2), torch.ones(2, dtype=torch.long), torch.ones(2))
    with pytest.raises(ValueError, match="weighted=True"):
        plain.update(torch.ones(2), torch.ones(2, dtype=torch.long), weight=torch.ones(2), valid=1)
    assert plain.update_count == 0


def test_valid_rows_take_their_weights_along():
    preds, target, weight = multiclass()
    mask = torch.rand(90) < 0.5
    want = sk.accuracy_score(target[mask], preds.argmax(1)[mask], sample_weight=weight[mask])
    metric = c.MulticlassAccuracy(average="micro", weighted=True).set_dtype(torch.float64)
    metric.update(preds, target, weight, valid=mask)
    close(metric.compute(), want)
    metric.reset()
    metric.update(preds, target, weight=weight, valid=40)
    close(metric.compute(), sk.accuracy_score(target[:40], preds[:40].argmax(1), sample_weight=weight[:40]))


def test_a_mask_that_only_a_device_knows_chooses_weights_too():
    preds, target, weight = multiclass()
    mask = torch.rand(90) < 0.5
    want = sk.recall_score(target[mask], preds[mask].argmax(1), average="macro", sample_weight=weight[mask])
    with pretend_cuda():
        tally = tt.MetricCollection([c.MulticlassRecall(4, weighted=True), c.MulticlassAUROC(4, weighted=True)]).to("cuda")
        tally.update(preds.cuda(), target.cuda(), weight.cuda(), valid=mask.cuda())
        np.testing.assert_allclose(tally.fetch().result()["MulticlassRecall"], want, rtol=1e-12)


@pytest.mark.parametrize("name", ["Recall", "ConfusionMatrix", "Accuracy", "AUROC"])
def test_states_of_counts_and_of_weights_are_not_taken_for_each_other(name):
    preds, target, weight = multiclass()
    options = {"average": "micro"} if name == "Accuracy" else {}
    made = [getattr(c, f"Multiclass{name}")(4, **options, weighted=weighted) for weighted in (False, True)]
    made[0].update(preds, target)
    made[1].update(preds, target, weight)
    values = [m.compute() for m in made]
    for mine, theirs in (made, made[::-1]):
        with pytest.raises(RuntimeError, match="state_dict"):
            mine.load_state_dict(theirs.state_dict())
        with pytest.raises(RuntimeError, match="state_dict"):
            tt.MetricCollection({"m": mine.clone()}).load_state_dict(tt.MetricCollection({"m": theirs.clone()}).state_dict())
        with pytest.raises(ValueError, match=r"merge_state: state.* Was it saved with|merge_state: states .* are missing"):
            mine.merge_state(theirs.state_dict())
        with pytest.raises(ValueError, match="expected a metric over the same statistics"):
            mine.merge_state(theirs)
    for m, before in zip(made, values):
        assert torch.equal(m.compute(), before)
        copy = m.clone()
        copy.merge_state(m.state_dict())
        assert copy.update_count == 2


def test_in_a_collection_weights_are_an_entry():
    preds, target, weight = multiclass()
    names = {n: getattr(c, f"Multiclass{n}")(4, average="macro", weighted=True) for n in ("Precision", "Recall", "F1Score")}
    tally = tt.MetricCollection({**names, "plain": c.MulticlassRecall(4), "loss": tt.MeanMetric().bind(value="loss", weight="share")})
    tally["plain"].update(preds, target)  # it leaves, and is fed apart
    for m in tally.values():
        m.set_dtype(torch.float64)
    for part in zip(*(x.split(25) for x in (preds, target, weight))):
        tally.update(preds=part[0], target=part[1], weight=part[2], loss=1.0)
    found, p = tally.compute(), preds.argmax(1)
    for name, reference in list(RATES.items())[:3]:
        close(found[name], reference(target, p, average="macro", sample_weight=weight))
    close(found["plain"], sk.recall_score(target, p, average="macro"))
    assert (
        len({m.ledger for n, m in tally.items() if n in names}) == 1 and len(set(names["Recall"].needs() + names["Precision"].needs())) == 1
    )
    by_place = tt.MetricCollection([c.MulticlassRecall(4, weighted=True), c.MulticlassAccuracy(4)]).set_dtype(torch.float64)
    by_place.update(preds, target, weight)
    close(by_place.compute()["MulticlassRecall"], RATES["Recall"](target, p, average="macro", sample_weight=weight))
    close(by_place.compute()["MulticlassAccuracy"], sk.recall_score(target, p, average="macro"))
    bound = tt.MetricCollection({"recall": c.MulticlassRecall(4, weighted=True).bind(weight="importance")}).set_dtype(torch.float64)
    bound.update(preds=preds, target=target, importance=weight)
    close(bound.compute()["recall"], RATES["Recall"](target, p, average="macro", sample_weight=weight))


def test_functions_take_weights_by_name():
    preds, target, weight = multiclass()
    want = sk.accuracy_score(target, preds.argmax(1), sample_weight=weight)
    np.testing.assert_allclose(f.accuracy(preds, target, "multiclass", num_classes=4, weight=weight), want, rtol=1e-6)
    got = f.multiclass_confusion_matrix(preds, target, 4, weight=weight)
    np.testing.assert_allclose(got, sk.confusion_matrix(target, preds.argmax(1), sample_weight=weight), rtol=1e-5)
    assert f.multiclass_confusion_matrix(preds, target, 4).dtype == torch.int64


def test_a_weighted_metric_says_so_and_has_the_layout_of_no_batch():
    metric = c.MulticlassRecall(3, weighted=True)
    assert "weighted=True" in repr(metric) and "weighted" not in repr(c.MulticlassRecall(3))
    assert metric.metric_state["counts"].dtype == torch.float64
    assert c.MulticlassRecall(3).metric_state["counts"].dtype == torch.int64
    copy = pickle.loads(pickle.dumps(metric))
    copy.update(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([3.0, 1.0]))
    assert copy.compute() == 0.375  # 3/4 of class 0, 0 of class 1, which was predicted
    assert tt.Recall("multiclass", num_classes=3, weighted=True).weighted
