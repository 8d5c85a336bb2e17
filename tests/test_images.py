"""Images of scores, large enough for a way of their own on the CPU: the same values, errors and memory as any other way."""

import numpy as np
import pytest
import torch
from cases import elsewhere
from class_references import close
from sklearn import metrics as sk
from torch import Tensor

import torchtally as tt
from torchtally import classification as c

CLASSES = 4


def images(ignore=None, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    preds = torch.randn(2, CLASSES, 40, 30, generator=g).round(decimals=1).to(dtype)  # with ties
    target = torch.randint(0, CLASSES, (2, 40, 30), generator=g)
    if ignore is not None:
        target[torch.rand(2, 40, 30, generator=g) < 0.2] = ignore
    return preds, target


def tally(ignore=None, **options):
    options |= {"num_classes": CLASSES, "ignore_index": ignore}
    return tt.MetricCollection(
        {
            "miou": c.MulticlassJaccardIndex(**options),
            "accuracy": c.MulticlassAccuracy(average="micro", **options),
            "dice": c.MulticlassF1Score(average="none", **options),
            "table": c.MulticlassConfusionMatrix(**options),
        }
    )


def values(metrics):
    return {k: x.as_subclass(Tensor).tolist() for k, x in metrics.compute().items()}


@pytest.mark.parametrize("target_dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("ignore", [None, 255, -1, 2])
def test_values(ignore, dtype, target_dtype):
    if ignore == -1 and target_dtype is torch.uint8:
        pytest.skip("has no -1")
    preds, target = images(ignore, dtype=dtype)
    metrics, on_device, apart = tally(ignore), tally(ignore), tally(ignore)
    metrics.update(preds, target.to(target_dtype))
    on_device.update(*elsewhere((preds, target.to(target_dtype))))
    for pixels in range(0, 40, 10):  # small parts take another way
        apart.update(preds[:, :, pixels : pixels + 10].contiguous(), target[:, pixels : pixels + 10])
    assert values(metrics) == values(on_device) == values(apart)
    p, y = preds.double().argmax(1).numpy().ravel(), target.numpy().ravel()
    live = np.ones(len(y), bool) if ignore is None else y != ignore
    close(metrics.compute()["accuracy"], sk.accuracy_score(y[live], p[live]))
    close(metrics.compute()["table"], sk.confusion_matrix(y[live], p[live], labels=range(CLASSES)))
    if ignore != 2:
        close(metrics.compute()["miou"], sk.jaccard_score(y[live], p[live], average="macro"))
        close(metrics.compute()["dice"], sk.f1_score(y[live], p[live], average=None))


def test_one_pass_serves_all():
    metrics = tally(255)
    assert len(metrics.ledger.inputs) == 1
    assert len(metrics.ledger.keys) == 3  # hits, counts of classes, the table


@pytest.mark.parametrize("wrong", ["nan", "label", "negative"])
@pytest.mark.parametrize("validate", [True, False])
def test_impossible_pixels(wrong, validate):
    preds, target = images(255)
    good = tally(255, validate_args=validate)
    good.update(preds, target)
    before = values(good)
    target[0, 3, 4] = 0  # counted
    spoiled, labels = preds.clone(), target.clone()
    if wrong == "nan":
        spoiled[0, 1, 3, 4] = float("nan")
    else:
        labels[0, 3, 4] = CLASSES if wrong == "label" else -100
    if validate:
        with pytest.raises(tt.FaultError, match="expected"):
            good.update(spoiled, labels)
        assert values(good) == before
        return
    without = target.clone()
    without[0, 3, 4] = 255
    good.update(spoiled, labels)
    fresh = tally(255)
    fresh.update(*images(255))
    fresh.update(preds, without)
    assert values(good) == values(fresh)


def test_nan_of_ignored_pixels_is_no_fault():
    preds, target = images(255)
    target[0, 3, 4] = 255
    spoiled = preds.clone()
    spoiled[0, 1, 3, 4] = float("nan")
    one, other = tally(255), tally(255)
    one.update(preds, target)
    other.update(spoiled, target)
    assert values(one) == values(other)


def test_images_of_nothing_but_ignored_pixels_and_layouts():
    preds, target = images()
    metrics = tally(255)
    metrics.update(preds, torch.full_like(target, 255))
    assert values(metrics)["accuracy"] == 0.0
    one, other = tally(), tally()
    one.update(preds, target)
    other.update(preds.contiguous(memory_format=torch.channels_last), target.transpose(1, 2).contiguous().transpose(1, 2))
    assert values(one) == values(other)


def test_callers_may_overwrite_their_images():
    preds, target = images(255)
    one, other = tally(255), tally(255)
    one.update(preds, target)
    a, b = preds.clone(), target.clone()
    other.update(a, b)
    a.zero_(), b.zero_()
    assert values(one) == values(other)
