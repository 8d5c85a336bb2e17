"""Pictures of collections, wrappers and trackers, and the gallery."""

import re
from pathlib import Path

import pytest
import torch
from matplotlib import pyplot
from pictures import drawn, texts, ticks
from torch import tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import regression as r
from torchtally.throughput import Throughput
from torchtally.wrappers import (
    BinaryTargetTransformer,
    BootStrapper,
    ClasswiseWrapper,
    MinMaxMetric,
    MultioutputWrapper,
    MultitaskWrapper,
    Running,
    Sliced,
)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


# ---- collections
def tally():
    metrics = tt.MetricCollection({"a": c.MulticlassAccuracy(3), "b": c.MulticlassF1Score(3, average="none")}, prefix="val_")
    metrics.update(tensor([0, 1, 1, 2]), tensor([0, 1, 2, 2]))
    return metrics


def test_a_collection_is_a_picture_of_each_member():
    pictures = tally().plot()
    assert [ax.get_title() for _, ax in pictures] == ["Multiclass accuracy: 0.833", "Multiclass F1 score of each class"]


def test_a_collection_over_steps():
    metrics = tally()
    pictures = metrics.plot([metrics.compute(), metrics.compute()])
    assert [len(ax.lines[0].get_ydata()) for _, ax in pictures] == [2, 2]


def test_a_collection_in_one_picture():
    metrics = tt.MetricCollection([c.MulticlassAccuracy(3), c.MulticlassRecall(3)])
    _, ax = metrics.plot(
        [{"MulticlassAccuracy": 0.5, "MulticlassRecall": 0.25}, {"MulticlassAccuracy": 0.75, "MulticlassRecall": 0.5}], together=True
    )
    assert texts(ax) == ["MulticlassAccuracy", "MulticlassRecall"]
    metrics.update(tensor([0, 1]), tensor([0, 1]))
    _, ax = metrics.plot(together=True)
    assert ticks(ax.yaxis) == ["MulticlassAccuracy", "MulticlassRecall"]


@pytest.mark.parametrize("member", [c.BinaryROC(), c.BinaryPrecisionRecallCurve(thresholds=5), c.BinaryConfusionMatrix()])
def test_one_picture_has_no_place_for_curves_and_matrices(member):
    metrics = tt.MetricCollection({"accuracy": c.BinaryAccuracy(), "point": c.BinaryRecallAtFixedPrecision(min_precision=0.5), "whole": member})
    metrics.update(tensor([0.2, 0.7, 0.9, 0.4]), tensor([0, 1, 1, 0]))
    for val in (None, [metrics.compute(), metrics.compute()]):
        with pytest.raises(ValueError, match=r"\['whole'\] are curves or matrices.*Leave together=True out"):
            metrics.plot(val, together=True)
    assert len(metrics.plot()) == 3
    metrics.plot({n: v for n, v in metrics.compute().items() if n != "whole"}, together=True)


def test_axes_of_a_collection_must_fit():
    _, ax = pyplot.subplots(1, 3)
    with pytest.raises(ValueError, match="ax holds 3 axes; expected 2"):
        tally().plot(ax=list(ax))
    with pytest.raises(TypeError, match="expected what compute"):
        tally().plot(val=tensor(1.0))


# ---- metrics around metrics
def test_class_names_of_a_wrapper_are_names_of_bars():
    metric = ClasswiseWrapper(c.MulticlassRecall(3, average=None), labels=["ant", "bee", "cow"], prefix="recall/")
    metric.update(tensor([0, 1, 1, 2]), tensor([0, 1, 2, 2]))
    figure, ax = metric.plot()
    drawn(figure)
    assert ticks(ax.yaxis) == ["ant", "bee", "cow"] and ax.get_xlabel() == "recall (0 to 1, higher is better)"
    _, ax = metric.plot([metric.compute(), metric.compute()])
    assert texts(ax) == ["ant", "bee", "cow"]
    _, ax = metric.plot(labels=["a", "b", "c"])
    assert ticks(ax.yaxis) == ["a", "b", "c"]


def test_a_wrapper_whose_value_is_that_of_the_metric_draws_as_it():
    metric = BinaryTargetTransformer(c.BinaryAccuracy(), threshold=2)
    metric.update(tensor([0, 1]), tensor([1, 3]))
    _, ax = metric.plot()
    assert ax.get_title() == "Binary accuracy: 1"
    _, ax = BinaryTargetTransformer(c.BinaryConfusionMatrix()).plot(tensor([[1, 2], [3, 4]]))
    assert ax.get_ylabel() == "true class"


def test_windows_outputs_and_extremes():
    metric = Running(c.BinaryAccuracy(), window=2)
    metric.update(tensor([0, 1]), tensor([0, 1]))
    _, ax = metric.plot()
    assert ax.get_xlabel() == "accuracy (0 to 1, higher is better)"
    metric = MultioutputWrapper(r.MeanAbsoluteError(), 2)
    metric.update(torch.ones(3, 2), torch.zeros(3, 2))
    _, ax = metric.plot(labels=["x", "y"])
    assert ticks(ax.yaxis) == ["x", "y"] and ax.get_xlabel() == "mean absolute error (at least 0, lower is better)"
    metric = MinMaxMetric(c.BinaryAccuracy())
    metric.update(tensor([0, 1]), tensor([0, 1]))
    _, ax = metric.plot()
    assert sorted(ticks(ax.yaxis)) == ["max", "min", "raw"]


def test_slices_and_resamples():
    metric = Sliced(c.BinaryAccuracy(), slices=["de", "en"])
    metric.update(tensor([1, 0, 1, 1]), tensor([1, 1, 1, 0]), index=tensor([0, 0, 0, 1]))
    _, ax = metric.plot()
    assert ticks(ax.yaxis) == ["de", "en", "total"] and ax.get_xlabel() == "accuracy (0 to 1, higher is better)"
    for count, inner, labels in ((10, c.BinaryAccuracy(), None), (3, c.MulticlassRecall(2, average="none"), ["no", "yes"])):
        metric = BootStrapper(inner, count, quantile=[0.05, 0.95], raw=True, seed=0)
        metric.update(tensor([1, 0, 1, 1] * 10), tensor([1, 1, 1, 0] * 10))
        figure, ax = metric.plot(labels=labels)
        drawn(figure)
        assert ax.get_title().endswith(f"of {count} resamples")
        assert {"resamples", "5 % to 95 %", "± standard deviation"} <= set(texts(ax))
    _, ax = BootStrapper(c.BinaryAccuracy(), std=False).plot({"mean": tensor(0.5)})
    assert texts(ax) == ["mean 0.5"]


def test_throughput_draws_step_times_and_tells_rates():
    speed = Throughput(clock=iter([0.0, 0.5, 1.0, 2.0]).__next__, flops_per_sample=1e9, peak_flops=100e9)
    speed.start()
    for _ in range(3):
        speed.update(samples=20)
    figure, ax = speed.plot()
    drawn(figure)
    assert ax.get_title() == "30 samples/s, 1.5 steps/s, 30 % of the peak" and ax.get_xlabel() == "step time (ms, lower is better)"
    assert ticks(ax.yaxis) == ["mean", "median", "90 % of steps", "99 % of steps"]
    _, ax = speed.plot([speed.compute(), speed.compute()])
    assert ax.get_ylabel() == "samples/s"
    with pytest.raises(TypeError, match="expected what compute"):
        speed.plot(tensor(1.0))
    with pytest.raises(ValueError, match="each with one of"):
        speed.plot([{}])


def test_tasks_have_pictures_of_their_own():
    metric = MultitaskWrapper({"class": c.BinaryAccuracy(), "age": r.MeanSquaredError()})
    values = {"class": tensor(0.5), "age": tensor(4.0)}
    assert [ax.get_title() for _, ax in metric.plot(values)] == ["Binary accuracy: 0.5", "Mean squared error: 4"]
    assert len(metric.plot([values, values])) == 2
    with pytest.raises(ValueError, match="expected 2, one for each task"):
        metric.plot(values, axes=[None])


def tracked(metric, **options):
    tracker = tt.MetricTracker(metric, **options)
    for preds in ([0, 1, 0], [1, 1, 0], [0, 0, 0]):
        tracker.increment()
        tracker.update(tensor(preds), tensor([1, 1, 0]))
    return tracker


def test_a_tracker_draws_its_steps_and_the_best():
    figure, ax = tracked(c.BinaryAccuracy()).plot()
    drawn(figure)
    assert list(ax.lines[0].get_ydata()) == pytest.approx([2 / 3, 1, 1 / 3]) and texts(ax) == ["best: 1 at step 1"]
    _, ax = tracked(c.BinaryAccuracy(), maximize=False).plot()
    assert texts(ax) == ["best: 0.333 at step 2"]


def test_a_tracker_of_classes_and_of_a_collection():
    _, ax = tracked(c.MulticlassRecall(2, average="none")).plot(labels=["no", "yes"])
    assert texts(ax) == ["no", "yes"]
    _, ax = tracked(tt.MetricCollection([c.BinaryAccuracy(), c.BinaryRecall()])).plot()
    assert texts(ax) == ["BinaryAccuracy", "BinaryRecall"]
    with pytest.raises(ValueError, match="cannot be drawn over steps"):
        tracked(c.BinaryConfusionMatrix(), maximize=True).plot()
    with pytest.raises(TypeError, match="draw each on its own"):
        c.BinaryConfusionMatrix().plot([tensor([[1, 2], [3, 4]])] * 2)


# ---- the page
GALLERY = Path(__file__).parent.parent / "docs" / "plots.md"


def test_the_code_of_the_gallery_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", GALLERY.read_text(), re.S):
        exec(compile(code, GALLERY.name, "exec"), names)
    assert (tmp_path / "accuracy.png").stat().st_size


def test_every_picture_of_the_gallery_is_there_and_shown():
    shown = set(re.findall(r"images/plot-([\w-]+)\.png", GALLERY.read_text()))
    there = {p.stem.removeprefix("plot-") for p in GALLERY.parent.glob("images/plot-*.png")}
    made = set(re.findall(r'^    "([\w-]+)": ', (GALLERY.parent / "images" / "plots.py").read_text(), re.M))
    assert shown == there == made
