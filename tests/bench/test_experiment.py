"""The measurement at a tiny size: its figures hang together, its variants agree, and their values are scikit-learn's."""

import time
from dataclasses import replace

import numpy as np
import pytest
import sklearn.metrics as sk
import torch

from torchtally.bench import data, loop, measure, model, report, settings
from torchtally.bench.meter import Meter
from torchtally.bench.result import disagreement, results
from torchtally.bench.variants import MAIN, VARIANTS, make

TINY = settings.for_device("cpu", model="small", batch=8, steps=6, log_interval=3, warmup=2)
BATCH = [v for v in VARIANTS.values() if v.feeds == "batch"]
SECONDS = [v for v in VARIANTS.values() if v.feeds == "seconds" and not v.ddp]


@pytest.fixture(scope="module")
def rows():
    return measure.measure(BATCH, TINY)


def reference():
    """Loss, labels and predictions of the last log interval, from a plain loop without any of the code under test but model and data."""
    net = model.build(TINY).train()
    optimizer = torch.optim.SGD(net.parameters())
    steps = TINY.warmup + TINY.timed_steps
    losses, labels, predicted = [], [], []
    digits = data.dataset(TINY)
    for step in range(steps):
        items = [digits[step * TINY.batch + i] for i in range(TINY.batch)]
        images, target = torch.stack([image for image, _ in items]), torch.stack([label for _, label in items])
        optimizer.zero_grad()
        output = net(images)
        loss = torch.nn.functional.cross_entropy(output, target)
        loss.backward()
        optimizer.step()
        if step >= steps - TINY.log_interval:
            losses.append(loss.item())
            labels.append(target.numpy())
            predicted.append(output.detach().numpy().argmax(1))
    return losses, np.concatenate(labels), np.concatenate(predicted)


TWO = dict(model="small", batch=4, steps=2, log_interval=2, warmup=1)


def reference_of_two():
    """Two processes that average their gradients, worked out in one: each step is the mean of two losses, of the even and the odd items."""
    tiny = settings.for_device("cpu", **TWO)
    nets = [model.build(tiny).train() for _ in range(2)]  # batch statistics are each process's own
    optimizers = [torch.optim.SGD(net.parameters()) for net in nets]
    digits = data.dataset(tiny)
    losses, labels, predicted = [], [], []
    for step in range(3):
        for rank, net in enumerate(nets):
            items = [digits[step * 8 + rank + 2 * i] for i in range(4)]
            target = torch.stack([label for _, label in items])
            output = net(torch.stack([image for image, _ in items]))
            optimizers[rank].zero_grad()
            loss = torch.nn.functional.cross_entropy(output, target)
            loss.backward()
            if step >= 1:
                losses.append(loss.item())
                labels.append(target.numpy())
                predicted.append(output.detach().numpy().argmax(1))
        for mine, other in zip(*(net.parameters() for net in nets), strict=True):
            mine.grad = other.grad = (mine.grad + other.grad) / 2
        for optimizer in optimizers:
            optimizer.step()
    return losses, np.concatenate(labels), np.concatenate(predicted)


def test_values_are_those_of_scikit_learn_in_every_variant(rows):
    losses, labels, predicted = reference()
    truth = {
        "loss": np.mean(losses),
        "accuracy": sk.accuracy_score(labels, predicted),
        "precision": sk.precision_score(labels, predicted, average="micro"),
        "recall": sk.recall_score(labels, predicted, average="micro"),
        "f1": sk.f1_score(labels, predicted, average="micro"),
    }
    for row in rows:
        assert row.values == ({} if row.name == "none" else pytest.approx(truth, rel=1e-5)), row.name
    assert disagreement(rows) < report.AGREEMENT


def test_figures_hang_together(rows):
    for row in rows:
        assert row.images_per_s == pytest.approx(TINY.batch / row.step_ms * 1e3)
        assert (row.metric_ms is None) == (row.name == "none")
        if row.metric_ms is not None:
            assert 0 < row.metric_ms < row.step_ms
    assert rows[0].loss_percent == 0


def timed(name, step_ms, update_ms, read_ms):
    return loop.Run(VARIANTS[name], torch.nn.Identity(), None, Meter(print, dict), "cpu", step_ms, update_ms, read_ms)


def test_loss_is_paired_turn_by_turn_and_unknown_without_the_baseline():
    # The machine slows down threefold; in every turn the variant loses a fifth of the images per second.
    baseline, slower = timed("none", [8.0, 16.0, 24.0], [0.0] * 3, [0.0]), timed("naive", [10.0, 20.0, 30.0], [1.0] * 3, [0.0])
    assert [r.loss_percent for r in results([baseline, slower], TINY)] == pytest.approx([0, 20])
    assert results([slower], TINY)[0].loss_percent is None


def test_a_reading_is_shared_out_over_its_steps():
    row = results([timed("naive", [10.0] * 3, [1.0] * 3, [6.0])], TINY)[0]
    assert (row.step_ms, row.metric_ms) == (12.0, 3.0)


def test_disagreement_is_told(rows):
    wrong = replace(rows[1], values=rows[1].values | {"loss": rows[1].values["loss"] + 0.5})
    assert "differ by up to 0.5" in report.remarks(report.Account(TINY, [rows[0], wrong, *rows[2:]], {}, []))[0]
    assert "agree" in report.remarks(report.Account(TINY, rows, {}, []))[0]


@pytest.mark.parametrize("variant", SECONDS, ids=lambda v: v.name)
def test_step_time_is_the_mean_of_the_seconds_given_and_starts_again(variant):
    meter = make(variant, 10, "cpu")
    for seconds in (0.25, 0.5, 0.75, 1.0):
        meter.update(seconds)
    assert meter.read() == {"step_s": pytest.approx(0.625, rel=1e-6)}
    meter.update(3.0)
    assert meter.read() == {"step_s": pytest.approx(3.0)}


def test_step_time_variants_see_the_time_of_their_own_steps():
    began = time.perf_counter()
    rows = measure.measure([VARIANTS["cpu"], VARIANTS["torchtally-time"]], TINY)
    took = time.perf_counter() - began
    for row in rows:
        assert 0 < row.values["step_s"] < took


@pytest.mark.skipif(torch.__version__ < (2, 11) and not torch.cuda.is_available(), reason="PyTorch 2.6 asks for a driver first")
def test_a_metric_on_the_cpu_fails_under_nccl_and_says_so():
    rows = {row.name: row for row in measure.measure([VARIANTS[n] for n in ("none", "cpu-ddp", "cpu-ddp-nosync")], TINY)}
    assert "No backend type associated with device type cpu" in rows["cpu-ddp"].error
    assert rows["cpu-ddp"].values == {} and rows["cpu-ddp"].step_ms > 0 and rows["cpu-ddp"].loss_percent is not None
    assert rows["cpu-ddp-nosync"].error == "" and rows["cpu-ddp-nosync"].values["step_s"] > 0
    told = report.remarks(report.Account(TINY, list(rows.values()), {}, []))[0]
    assert "cpu-ddp" in told and "sync_on_compute=False" in told


def test_an_error_that_is_not_the_point_is_not_swallowed():
    def broken():
        raise RuntimeError("out of memory")

    run = replace(timed("naive", [], [], []), meter=Meter(print, broken))
    with pytest.raises(RuntimeError, match="out of memory"):
        run.read()


def test_under_ddp_in_one_process_nothing_changes(rows):
    under = measure.measure([VARIANTS["naive"], VARIANTS["torchtally"]], replace(TINY, ddp=True))
    for row in under:
        assert row.values == pytest.approx(rows[1].values, rel=1e-5)


@pytest.mark.slow
def test_two_processes_read_the_values_of_both():
    losses, labels, predicted = reference_of_two()
    steps = []
    found = measure.measure([VARIANTS[n] for n in MAIN], settings.for_device("cpu", nproc=2, **TWO), lambda done, name: steps.append(done))
    truth = {"loss": np.mean(losses), "accuracy": sk.accuracy_score(labels, predicted), "f1": sk.f1_score(labels, predicted, average="micro")}
    for row in found[1:]:
        assert {name: row.values[name] for name in truth} == pytest.approx(truth, rel=1e-4), row.name
    assert found[0].name == "none" and found[0].images_per_s == pytest.approx(2 * 4 / found[0].step_ms * 1e3)
    assert sum(steps) == 4 * 3


def test_every_variant_sees_the_same_batches_however_they_take_turns():
    batches = list(data.TurnSampler([2, 1], variants=2, batch=2))
    assert batches == [[0, 1], [2, 3], [0, 1], [2, 3], [4, 5], [4, 5]]
    assert list(data.TurnSampler([2], variants=1, batch=2, rank=1, world_size=2)) == [[1, 3], [5, 7]]
    assert len(data.TurnSampler([2, 1], variants=2, batch=2)) == 6


def test_fake_images_are_the_same_each_time():
    images = data.FakeImages(8, classes=3)
    first, label = images[7]
    assert torch.equal(first, images[7][0]) and first.shape == (3, 8, 8) and label.item() == 1


def test_batches_that_lie_ready_are_the_loaders_first_and_come_again():
    sizes = dict(model="small", image_size=8, classes=3, batch=2, workers=0, steps=2, log_interval=2, warmup=1)
    ready, fake = (list(data.loader(settings.for_device("cpu", data=kind, **sizes), [1, data.READY], 1, 1, 2)) for kind in ("ready", "fake"))
    for got, want in zip(ready[: data.READY], fake, strict=False):
        assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])
    assert len(ready) == len(fake) and ready[data.READY] is ready[0]


def test_the_same_seed_gives_the_same_model_and_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = model.build(TINY), model.build(TINY)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
