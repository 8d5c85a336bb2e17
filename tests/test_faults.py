"""Impossible labels and scores: an error at once on the CPU, counted and kept out on a device, and never a wrong number."""

import functools
from math import nan

import numpy as np
import pytest
import torch
from cases import elsewhere
from torch import Tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f
from torchtally.stalls import pretend_cuda

LABEL_METRICS = {
    "micro": functools.partial(c.MulticlassAccuracy, 3, average="micro"),
    "macro": functools.partial(c.MulticlassRecall, 3),
    "top2": functools.partial(c.MulticlassAccuracy, 3, top_k=2, average="none"),
    "confusion": functools.partial(c.MulticlassConfusionMatrix, 3),
    "padded": functools.partial(c.MulticlassAccuracy, 3, ignore_index=-1, average="micro"),
}
YES_NO_METRICS = {
    "binary": c.BinaryAccuracy,
    "f1": c.BinaryF1Score,
    "confusion": c.BinaryConfusionMatrix,
    "padded": functools.partial(c.BinaryAccuracy, ignore_index=-1),
}
GOOD = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), torch.tensor([0, 1, 1, 2])
YES_NO = torch.tensor([0.9, 0.2, 0.8, 0.4]), torch.tensor([1, 0, 0, 1])


def tolist(x):
    return x.as_subclass(Tensor).double().tolist() if isinstance(x, Tensor) else x


def spoiled(kind, scores, target):
    """A batch of which row 1 is impossible, in one way."""
    scores, target = scores.clone(), target.clone()
    if kind == "nan":
        scores[1] = nan
    elif kind == "one nan":
        scores[1, 2] = nan
    elif kind == "negative nan":
        scores[1, 0] = torch.tensor(-1).to(torch.int32).view(torch.float32)
    elif kind in ("label", "negative label"):
        preds = scores.argmax(1)
        preds[1] = 3 if kind == "label" else -2
        return preds, target
    else:
        target[1] = {"high": 3, "far": 10**12, "negative": -100, "lowest": -(2**63)}[kind]
    return scores, target


KINDS = ("high", "far", "negative", "lowest", "nan", "one nan", "negative nan", "label", "negative label")
every_metric = pytest.mark.parametrize("name", LABEL_METRICS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def rest(name, batch):
    """The value without row 1."""
    keep = torch.tensor([0, 2, 3])
    return tolist(LABEL_METRICS[name]()(batch[0][keep], batch[1][keep]))


@every_metric
@every_kind
def test_on_the_cpu_impossible_rows_raise_at_once_and_lose_nothing(name, kind):
    metric = LABEL_METRICS[name]()
    if name == "top2" and "label" in kind:
        pytest.skip("top_k needs scores")
    metric.update(*GOOD)
    before = tolist(metric.compute())
    for update in (metric.update, metric.forward, tt.MetricCollection({"m": metric}).update):
        with pytest.raises(tt.FaultError, match="m: |" + type(metric).__name__ + ": ") as raised:
            update(*spoiled(kind, *GOOD))
        assert raised.value.values is None
        assert "expected" in str(raised.value)
        assert tolist(metric.compute()) == before
        assert metric.update_count == 1
    with pytest.raises(tt.FaultError):
        metric.one_shot(*spoiled(kind, *GOOD))


@every_metric
@every_kind
@pytest.mark.parametrize("size", ["small", "large"])
def test_on_a_device_they_are_counted_kept_out_and_reported(name, kind, size):
    if name == "top2" and "label" in kind:
        pytest.skip("top_k needs scores")
    repeat = 1 if size == "small" else 1200
    good, bad = ([x.repeat(repeat, *[1] * (x.ndim - 1)) for x in b] for b in (GOOD, spoiled(kind, *GOOD)))
    metric = LABEL_METRICS[name]()
    tally = tt.MetricCollection({"m": LABEL_METRICS[name]()})
    for k in range(70):
        if size == "large" and k not in (0, 65, 69):
            continue
        batch = elsewhere(bad if k in (65, 69) else good)
        metric.update(*batch)
        tally.update(*batch)
    first = 66 if size == "small" else 2
    message = rf"{2 * repeat} values were impossible .* kept out, first in update {first}\. "
    with pytest.raises(tt.FaultError, match=f"{type(metric).__name__}: {message}") as raised:
        metric.compute()
    with pytest.raises(tt.FaultError, match=f"m: {message}"):
        tally.compute()
    with pytest.raises(tt.FaultError, match=f"m: {message}"):
        tally.fetch().result()
    keep = torch.tensor([0, 2, 3])
    want = LABEL_METRICS[name]()
    for _ in range(68 if size == "small" else 1):
        want.update(*good)
    for _ in range(2 * repeat):
        want.update(good[0][keep], good[1][keep])
    np.testing.assert_allclose(tolist(raised.value.values), tolist(want.compute()), rtol=1e-6)
    metric.reset()
    metric.update(*elsewhere(good))
    assert tolist(metric.compute()) == tolist(LABEL_METRICS[name]()(*GOOD)) or name == "confusion"


@every_metric
@every_kind
def test_validate_args_false_skips_the_report_never_the_safety(name, kind):
    if name == "top2" and "label" in kind:
        pytest.skip("top_k needs scores")
    batch = spoiled(kind, *GOOD)
    for wrap in (tuple, elsewhere):
        metric = LABEL_METRICS[name](validate_args=False)
        metric.update(*wrap(batch))
        assert tolist(metric.compute()) == rest(name, batch if "label" in kind else GOOD)
        np.testing.assert_allclose(tolist(metric.fetch().result()), rest(name, batch if "label" in kind else GOOD), rtol=1e-6)
        assert tolist(metric.one_shot(*wrap(batch))) == rest(name, batch if "label" in kind else GOOD)
        tally = tt.MetricCollection({"quiet": LABEL_METRICS[name](validate_args=False)})
        tally.update(*wrap(batch))
        assert tolist(tally.compute()["quiet"]) == rest(name, batch if "label" in kind else GOOD)


def test_one_strict_member_is_enough_to_be_told():
    for wrap in (tuple, elsewhere):
        tally = tt.MetricCollection({"strict": c.MulticlassRecall(3), "quiet": c.MulticlassPrecision(3, validate_args=False)})
        if wrap is tuple:
            with pytest.raises(tt.FaultError, match="strict"):
                tally.update(*spoiled("high", *GOOD))
            assert tally.update_count == 0
            continue
        tally.update(*wrap(spoiled("high", *GOOD)))
        with pytest.raises(tt.FaultError, match="strict"):
            tally.compute()
        assert isinstance(tally["quiet"].compute(), Tensor)


# ---- yes or no
@pytest.mark.parametrize("name", YES_NO_METRICS)
@pytest.mark.parametrize("kind", ["two", "negative", "nan", "label"])
def test_yes_no(name, kind):
    preds, target = (x.clone() for x in YES_NO)
    if kind == "nan":
        preds[1] = nan
    elif kind == "label":
        preds = preds.gt(0.5).long()
        preds[1] = 2
    else:
        target[1] = 2 if kind == "two" else -7
    keep = torch.tensor([0, 2, 3])
    want = tolist(YES_NO_METRICS[name]()(preds[keep], target[keep]))
    metric = YES_NO_METRICS[name]()
    metric.update(*YES_NO)
    before = tolist(metric.compute())
    with pytest.raises(tt.FaultError, match=type(metric).__name__):
        metric.update(preds, target)
    assert tolist(metric.compute()) == before
    device = YES_NO_METRICS[name]()
    for _ in range(3):
        device.update(*elsewhere((preds[keep], target[keep])))
    device.update(*elsewhere((preds, target)))
    with pytest.raises(tt.FaultError, match=r"1 value was impossible .* first in update 4\.") as raised:
        device.compute()
    got = tolist(raised.value.values)
    assert got == (pytest.approx(want) if name != "confusion" else (4 * np.array(want)).tolist())
    for wrap in (tuple, elsewhere):
        quiet = YES_NO_METRICS[name](validate_args=False)
        quiet.update(*wrap((preds, target)))
        assert tolist(quiet.compute()) == want


def test_multilabel_faults_leave_only_their_cell_out():
    preds, target = torch.tensor([[0.9, 0.1], [0.2, nan], [0.3, 0.8]]), torch.tensor([[1, 0], [5, 1], [0, 1]])
    metric = c.MultilabelStatScores(2, average="none")
    with pytest.raises(tt.FaultError):
        metric.update(preds, target)
    metric.update(*elsewhere((preds, target)))
    with pytest.raises(tt.FaultError, match=r"2 values were impossible") as raised:
        metric.compute()
    assert tolist(raised.value.values) == [[1, 0, 1, 0, 1], [1, 0, 1, 0, 1]]


def test_samplewise_faults_leave_only_their_position_out():
    preds, target = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[0, 1], [2, 9]])
    for average, want in (("micro", [1.0, 1.0]), ("macro", [1.0, 1.0])):
        metric = c.MulticlassAccuracy(3, average=average, multidim_average="samplewise")
        with pytest.raises(tt.FaultError, match=r"\(1, 1\)"):
            metric.update(preds, target)
        metric.update(*elsewhere((preds, target)))
        with pytest.raises(tt.FaultError, match="1 value was impossible") as raised:
            metric.compute()
        assert tolist(raised.value.values) == want
        quiet = c.MulticlassAccuracy(3, average=average, multidim_average="samplewise", validate_args=False)
        quiet.update(preds, target)
        assert tolist(quiet.compute()) == want


def test_ignored_positions_may_hold_anything():
    """A padding label lies outside the classes, and the scores there may be NaN: no fault."""
    scores, target = GOOD[0].clone(), GOOD[1].clone()
    scores[1], target[1] = nan, -1
    for wrap in (tuple, elsewhere):
        metric = c.MulticlassAccuracy(3, ignore_index=-1, average="micro")
        metric.update(*wrap((scores, target)))
        assert tolist(metric.compute()) == pytest.approx(1 / 3)
        yes = torch.tensor([0.9, nan, 0.2]), torch.tensor([1, -1, 1])
        binary = c.BinaryAccuracy(ignore_index=-1)
        binary.update(*wrap(yes))
        assert tolist(binary.compute()) == 0.5
    assert tolist(f.multiclass_accuracy(scores, target, 3, ignore_index=-1, average="micro")) == pytest.approx(1 / 3)


# ---- on a device that is not there
def test_on_a_device_nothing_waits_until_it_is_read():
    with pretend_cuda() as recorder:
        tally = tt.MetricCollection(
            {"a": c.MulticlassAccuracy(3), "b": c.MulticlassConfusionMatrix(3), "m": c.BinaryAccuracy().bind(preds="p", target="t")}
        ).to("cuda")
        good, bad = [tuple(x.to("cuda") for x in b) for b in (GOOD, spoiled("far", *GOOD))]
        yes = tuple(x.to("cuda") for x in YES_NO)
        before = len(recorder.stalls)
        for i in range(70):
            preds, target = bad if i == 66 else good
            tally.update(preds=preds, target=target, p=yes[0], t=yes[1])
            if i % 20 == 0:
                tally(preds=preds, target=target, p=yes[0], t=yes[1])
        pending = tally.fetch()
        assert recorder.stalls[before:] == []
        with pytest.raises(tt.FaultError, match=r"^a, b: 1 value was impossible .* first in update 71\."):
            tally.compute()
        with pytest.raises(tt.FaultError, match=r"first in update 71\."):
            pending.result()
        assert [s.kind for s in recorder.stalls[before:]].count("read") == 1  # compute waits once


def test_functional_forms_report_too():
    for wrap in (tuple, elsewhere):
        with pytest.raises(tt.FaultError, match="MulticlassAccuracy"):
            f.multiclass_accuracy(*wrap(spoiled("high", *GOOD)), num_classes=3)
        assert tolist(
            f.multiclass_accuracy(*wrap(spoiled("high", *GOOD)), num_classes=3, validate_args=False, average="micro")
        ) == pytest.approx(2 / 3 - 1 / 3)


# ---- what raises at once everywhere, losing nothing
SHAPES = {
    "short target": (torch.rand(4, 3), torch.tensor([0, 1, 2])),
    "classes": (torch.rand(4, 5), torch.tensor([0, 1, 2, 0])),
    "float target": (torch.rand(4, 3), torch.rand(4)),
    "float labels": (torch.rand(4), torch.tensor([0, 1, 2, 0])),
    "integer scores": (torch.ones(4, 3, dtype=torch.long), torch.tensor([0, 1, 2, 0])),
    "scalar": (torch.tensor(0.5), torch.tensor([0, 1])),
    "transposed": (torch.rand(3, 4), torch.tensor([0, 1, 2, 0])),
    "extra": (torch.rand(4, 3, 2), torch.zeros(4, 3, dtype=torch.long)),
}


@every_metric
@pytest.mark.parametrize("kind", SHAPES)
def test_wrong_shapes_and_dtypes(name, kind):
    for wrap in (tuple, elsewhere):
        metric = LABEL_METRICS[name]()
        metric.update(*GOOD)
        before = tolist(metric.compute())
        with pytest.raises(ValueError, match=rf"{type(metric).__name__}: .*(expected|Convert)"):
            metric.update(*wrap(SHAPES[kind]))
        assert tolist(metric.compute()) == before
        assert metric.update_count == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: tt.Accuracy(task="multi"),
        lambda: tt.Accuracy(task="multiclass", average="macro"),
        lambda: tt.Accuracy(task="multilabel"),
        lambda: tt.Accuracy("multiclass", 0.5, 3, None, "average"),
        lambda: c.MulticlassAccuracy(0),
        lambda: c.MulticlassAccuracy(2.0),
        lambda: c.MulticlassAccuracy(3, average="best"),
        lambda: c.MulticlassAccuracy(3, top_k=0),
        lambda: c.MulticlassAccuracy(3, top_k=4),
        lambda: c.MulticlassAccuracy(3, ignore_index="-1"),
        lambda: c.MulticlassAccuracy(3, multidim_average="all"),
        lambda: c.MulticlassAccuracy(3, zero_division="warn"),
        lambda: c.MulticlassAccuracy(3, validate_args="yes"),
        lambda: c.MulticlassAccuracy(average="macro"),
        lambda: c.MulticlassSpecificity(average="micro"),
        lambda: c.BinaryAccuracy(threshold=1.5),
        lambda: c.BinaryAccuracy(threshold=None),
        lambda: c.MultilabelAccuracy(num_labels=None),
        lambda: c.BinaryFBetaScore(beta=-1.0),
        lambda: c.BinaryConfusionMatrix(normalize="rows"),
        lambda: c.BinaryAccuracy(sync_on_compute="no"),
        lambda: c.BinaryAccuracy(thresh=0.5),
    ],
)
def test_impossible_options_raise_when_constructed(make):
    with pytest.raises(ValueError, match=r"expected|missing|unexpected"):
        make()
