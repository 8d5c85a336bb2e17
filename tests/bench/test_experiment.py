"""The experiment at a tiny size: what it writes, that its variants agree, and that their values are scikit-learn's."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from typer.testing import CliRunner

from torchtally.bench import data, loop, model, report, settings, variants
from torchtally.commands import app
from torchtally.errors import TallyError

TINY = settings.small(device="cpu", model="small", batch=8, steps=6, log_interval=3, warmup=2)
KEYS = ["name", "step_ms", "images_per_s", "metric_ms", "stalls_per_step", "loss_percent", "predicted", "values"]


@pytest.fixture(scope="module")
def rows():
    return loop.measure(list(variants.VARIANTS), TINY)


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
    assert loop.disagreement(rows) < report.AGREEMENT


def test_figures_hang_together(rows):
    for row in rows:
        assert row.images_per_s == pytest.approx(TINY.batch / row.step_ms * 1e3)
        assert (row.metric_ms is None) == (row.name == "none")
        if row.metric_ms is not None:
            assert 0 < row.metric_ms < row.step_ms
    assert rows[0].loss_percent == 0


def test_loss_is_paired_turn_by_turn_and_unknown_without_the_baseline():
    def run(name, step_ms):
        meter = variants.none(2, "cpu")
        return loop.Run(name, torch.nn.Identity(), None, meter, list(step_ms), [1.0] * 3, [0.0])

    # The machine slows down threefold; in every turn the variant loses a fifth of the images per second.
    baseline, slower = run("none", [8.0, 16.0, 24.0]), run("naive", [10.0, 20.0, 30.0])
    assert [r.loss_percent for r in loop.results([baseline, slower], TINY)] == pytest.approx([0, 20])
    assert loop.results([slower], TINY)[0].loss_percent is None


def test_a_reading_is_shared_out_over_its_steps():
    run = loop.Run("naive", torch.nn.Identity(), None, variants.none(2, "cpu"), [10.0, 10.0, 10.0], [1.0] * 3, [6.0])
    row = loop.results([run], TINY)[0]
    assert (row.step_ms, row.metric_ms) == (12.0, 3.0)


def test_json_has_the_documented_schema(rows):
    whole = json.loads(report.json(rows, TINY))
    assert list(whole) == ["device", "settings", "variants"]
    assert [list(v) for v in whole["variants"]] == [KEYS] * len(rows)
    assert whole["device"] == "cpu"
    assert whole["settings"]["batch"] == 8
    assert whole["variants"][0]["metric_ms"] is None


def test_csv_has_one_line_per_variant_and_the_same_figures(rows):
    lines = list(csv.DictReader(io.StringIO(report.as_csv(rows, TINY))))
    assert [line["name"] for line in lines] == [row.name for row in rows]
    assert [float(line["step_ms"]) for line in lines] == [row.step_ms for row in rows]
    assert lines[0]["metric_ms"] == "" and lines[0]["value_loss"] == ""
    assert float(lines[1]["value_accuracy"]) == rows[1].values["accuracy"]


def test_disagreement_is_told(rows):
    wrong = replace(rows[1], values=rows[1].values | {"loss": rows[1].values["loss"] + 0.5})
    assert "differ by up to 0.5" in report.remarks([rows[0], wrong, *rows[2:]], TINY)[0]
    assert "agree" in report.remarks(rows, TINY)[0]


def test_every_variant_sees_the_same_batches_however_they_take_turns():
    batches = list(data.TurnSampler([2, 1], variants=2, batch=2))
    assert batches == [[0, 1], [2, 3], [0, 1], [2, 3], [4, 5], [4, 5]]
    assert len(data.TurnSampler([2, 1], variants=2, batch=2)) == 6


def test_fake_images_are_the_same_each_time():
    images = data.FakeImages(8, classes=3)
    first, label = images[7]
    assert torch.equal(first, images[7][0]) and first.shape == (3, 8, 8) and label.item() == 1


def test_the_same_seed_gives_the_same_model_and_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = model.build(TINY), model.build(TINY)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_the_command_prints_a_table_and_writes_both_files(tmp_path):
    files = [str(tmp_path / "out.json"), str(tmp_path / "out.csv")]
    sizes = ["--model", "small", "--batch", "4", "--steps", "2", "--log-interval", "2", "--warmup", "0", "--device", "cpu"]
    shown = CliRunner().invoke(app, ["bench", *sizes, "--variant", "none", "--variant", "naive", "--json", files[0], "--csv", files[1]])
    assert shown.exit_code == 0, shown.output
    assert "naive" in shown.output and "4 scikit-learn's digits" in shown.output
    assert [v["name"] for v in json.loads((tmp_path / "out.json").read_text())["variants"]] == ["none", "naive"]
    assert (tmp_path / "out.csv").read_text().count("\n") == 3


@pytest.mark.parametrize(
    "options, said",
    [
        (["--batch", "1"], "--batch: expected 2 or more, got 1"),
        (["--image-size", "4"], "--image-size: expected 8 or more"),
        (["--model", "vgg"], "--model: expected one of resnet18, small, got 'vgg'"),
        (["--data", "mnist"], "--data: expected one of fake, digits"),
        (["--device", "tpu"], "--device: expected one of"),
        (["--classes", "5", "--data", "digits"], "have 10 classes, got 5"),
        (["--variant", "fast"], "--variant: expected one of none, naive"),
        (["--json", "no/such/folder/out.json"], "does not exist"),
    ],
)
def test_a_mistake_is_named_before_anything_runs(options, said):
    result = CliRunner().invoke(app, ["bench", *options])
    assert isinstance(result.exception, TallyError) and result.exception.exit_code == 2
    assert said in str(result.exception)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_a_device_says_what_to_do():
    with pytest.raises(TallyError, match="--device cpu"):
        settings.for_device("cuda")
