"""`torchtally bench` from the outside: what it prints and writes, and what it says to mistakes."""

import csv
import json

import pytest
import torch
from typer.testing import CliRunner

from torchtally.bench import settings
from torchtally.commands import app
from torchtally.errors import TallyError

KEYS = ["name", "step_ms", "images_per_s", "metric_ms", "stalls_per_step", "loss_percent", "predicted", "values"]
SIZES = ["--model", "small", "--batch", "4", "--steps", "2", "--log-interval", "2", "--warmup", "1", "--image-size", "32"]


def invoke(*options):
    result = CliRunner().invoke(app, ["bench", *options])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run on the CPU with everything it writes: text and folder."""
    folder = tmp_path_factory.mktemp("bench")
    files = [f"--{kind}={folder / f'out.{kind}'}" for kind in ("json", "csv", "html")]
    return invoke("--device", "cpu", *SIZES, *files, f"--picture={folder / 'out.png'}"), folder


def test_it_prints_what_was_measured_counted_and_predicted(run):
    text, _ = run
    assert "batches of 4 scikit-learn's digits of 32 by 32 pixels, 10 classes" in text
    for heading in ("Measured on cpu", "Predicted, not measured: small on NVIDIA A40", "Lines that wait for the device", "All variants agree on the values"):
        assert heading in text
    assert "GB/s" in text  # the model's constants


def test_the_lines_that_wait_are_named(run):
    text, _ = run
    waiting = text[text.index("Lines that wait") :]
    assert "metric.update(loss)" in waiting and "torchmetrics/aggregation.py" in waiting and "nans.any()" in waiting
    assert "torchtally   " not in waiting


def test_json_has_the_documented_schema(run):
    whole = json.loads((run[1] / "out.json").read_text())
    assert list(whole) == ["device", "settings", "variants"]
    assert [list(v) for v in whole["variants"]] == [KEYS] * 4
    assert [v["name"] for v in whole["variants"]] == ["none", "naive", "collection", "torchtally"]
    assert whole["device"] == "cpu" and whole["settings"]["batch"] == 4
    none, naive, _, tally = whole["variants"]
    assert none["metric_ms"] is None and none["loss_percent"] == 0 and none["values"] == {}
    assert none["stalls_per_step"] == 0 and naive["stalls_per_step"] >= 2 and tally["stalls_per_step"] == 0
    predicted = naive["predicted"]["NVIDIA A40"]
    assert predicted["step_ms_low"] <= predicted["step_ms"] <= predicted["step_ms_high"]
    price = whole["settings"]["prices"]["NVIDIA A40"]
    assert "not measured" in price["note"] and price["constants"]["bandwidth"]["typical"] == 696e9 and price["constants"]["bandwidth"]["source"]


def test_csv_has_one_line_per_variant_and_the_same_figures(run):
    whole = json.loads((run[1] / "out.json").read_text())
    lines = list(csv.DictReader((run[1] / "out.csv").read_text().splitlines()))
    assert [line["name"] for line in lines] == [v["name"] for v in whole["variants"]]
    for line, variant in zip(lines, whole["variants"], strict=True):
        assert float(line["step_ms"]) == variant["step_ms"]
        assert line["metric_ms"] == ("" if variant["metric_ms"] is None else str(variant["metric_ms"]))
        assert float(line["predicted.NVIDIA A40.step_ms"]) == variant["predicted"]["NVIDIA A40"]["step_ms"]
    assert lines[0]["values.loss"] == "" and float(lines[1]["values.loss"]) == whole["variants"][1]["values"]["loss"]
    assert "not measured" in lines[0]["settings.prices.NVIDIA A40.note"]


def test_the_page_holds_all_of_it_and_needs_no_other_file(run):
    page = (run[1] / "out.html").read_text()
    for part in ("<svg", "Predicted, not measured", "Constants of the cost model", "srcdoc=", "stalls of torchtally"):
        assert part in page
    assert "src=\"http" not in page and "href=\"http" not in page.split("srcdoc=")[0]


def test_the_picture_is_one(run):
    assert (run[1] / "out.png").read_bytes().startswith(b"\x89PNG")


def test_pretending_measures_nothing_and_says_so(tmp_path):
    text = invoke("--device", "pretend", "--price", "h200", "--price", "a40", *SIZES, "--variant", "none", "--variant", "gpu-float", "--json", str(tmp_path / "out.json"))
    assert "Measured" not in text and "Predicted, not measured: small on NVIDIA H200" in text and "Predicted, not measured: small on NVIDIA A40" in text
    whole = json.loads((tmp_path / "out.json").read_text())
    assert whole["device"].startswith("NVIDIA H200") and "predicted" in whole["device"]
    waits = whole["variants"][1]
    assert waits["metric_ms"] is None and waits["values"] == {} and waits["stalls_per_step"] >= 1
    assert waits["step_ms"] == waits["predicted"][whole["device"].split(" (")[0]]["step_ms"]
    assert waits["loss_percent"] > 0


def test_without_metrics_only_training_runs(tmp_path):
    text = invoke("--device", "cpu", "--no-metrics", "--price", "none", *SIZES, "--json", str(tmp_path / "out.json"))
    whole = json.loads((tmp_path / "out.json").read_text())
    assert [v["name"] for v in whole["variants"]] == ["none"]
    assert whole["variants"][0]["predicted"] is None and whole["settings"]["prices"] is None and "Predicted" not in text


@pytest.mark.parametrize(
    "options, said",
    [
        (["--batch", "1"], "--batch: expected 2 or more, got 1"),
        (["--image-size", "4"], "--image-size: expected 8 or more"),
        (["--model", "vgg"], "--model: expected one of resnet18, small, got 'vgg'"),
        (["--data", "mnist"], "--data: expected one of fake, digits, ready"),
        (["--device", "tpu"], "--device: expected one of"),
        (["--classes", "5", "--data", "digits"], "have 10 classes, got 5"),
        (["--variant", "fast"], "--variant: expected one of none, naive"),
        (["--variant", "naive", "--all"], "give one of them"),
        (["--variant", "naive", "--no-metrics"], "give one of them"),
        (["--json", "no/such/folder/out.json"], "does not exist"),
        (["--html", "."], "expected a file to write, got a folder"),
        (["--price", "voodoo2"], "There is no price list 'voodoo2'"),
        (["--device", "pretend", "--price", "none"], "needs something to predict for"),
        (["--device", "pretend", "--profile"], "use --device cuda or cpu"),
        (["--device", "pretend", "--nproc", "2"], "need real processes"),
        (["--nproc", "0"], "--nproc: expected 1 or more"),
        (["--torchmetrics", "0.1"], "pip install 'torchmetrics==0.1'"),
        (["--picture", "out.xyz"], "Give a file that ends in .png, .svg or .pdf"),
        (["--variant", "naive", "--picture", "out.png"], "run that one too"),
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
