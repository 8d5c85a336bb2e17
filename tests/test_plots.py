"""Pictures show the numbers they are given, with names, bounds and directions; what cannot be drawn is an error that says so."""

import math
import re
import sys
from pathlib import Path

import cases
import pytest
import torch
from torch import tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import plotting
from torchtally import regression as r
from torchtally.wrappers import BinaryTargetTransformer, ClasswiseWrapper, MinMaxMetric, MultioutputWrapper, MultitaskWrapper, Running

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def drawn(figure):
    """What cannot be laid out or shown fails here."""
    figure.canvas.draw()
    return figure


def texts(ax):
    legend = ax.get_legend()
    return [t.get_text() for t in ax.texts] + ([t.get_text() for t in legend.get_texts()] if legend else [])


def ticks(axis):
    return [t.get_text() for t in axis.get_ticklabels()]


def accuracy(preds=(0, 1, 1, 2), target=(0, 1, 2, 2), **options):
    metric = c.MulticlassAccuracy(3, **options)
    metric.update(tensor(preds), tensor(target))
    return metric


def test_one_number_is_a_bar_within_its_bounds():
    figure, ax = accuracy(average="micro").plot()
    drawn(figure)
    assert ax.get_xlim() == (0.0, 1.0)
    assert ax.patches[-1].get_width() == pytest.approx(0.75)
    assert ax.get_title() == "Multiclass accuracy: 0.75"
    assert ax.get_xlabel() == "accuracy (0 to 1, higher is better)"


def test_classes_are_bars_with_their_names():
    figure, ax = accuracy(average="none").plot(labels=["ant", "bee", "cow"])
    drawn(figure)
    assert ticks(ax.yaxis) == ["ant", "bee", "cow"]
    assert [p.get_width() for p in ax.patches] == pytest.approx([1, 1, 0.5])
    assert "mean 0.833" in texts(ax)


@pytest.mark.parametrize(
    "metric, noun",
    [
        (c.MulticlassAccuracy(2, average="none"), "class"),
        (c.MultilabelAccuracy(2, average="none"), "label"),
        (r.MeanAbsoluteError(2), "output"),
    ],
    ids=["class", "label", "output"],
)
def test_parts_of_a_value_are_called_what_they_are(metric, noun):
    _, ax = metric.plot(tensor([0.25, 0.5]))
    assert ticks(ax.yaxis) == [f"{noun} 0", f"{noun} 1"]


def test_samples_are_called_samples():
    metric = c.BinaryAccuracy(multidim_average="samplewise")
    _, ax = metric.plot(tensor([0.25, 0.5, 1.0]))
    assert ax.get_ylabel() == "sample"


def test_a_list_is_one_value_for_each_step_and_the_best_is_marked():
    figure, ax = accuracy(average="micro").plot([0.5, tensor(0.9), 0.7])
    drawn(figure)
    assert list(ax.lines[0].get_ydata()) == pytest.approx([0.5, 0.9, 0.7])
    assert texts(ax) == ["best: 0.9 at step 1"]


def test_the_best_of_an_error_is_the_least():
    _, ax = r.MeanAbsoluteError().plot([0.5, 0.25, 0.75])
    assert texts(ax) == ["best: 0.25 at step 1"]


def test_no_best_without_a_better_end():
    _, ax = tt.SumMetric().plot([1.0, 3.0])
    assert texts(ax) == []


def test_steps_of_classes_are_lines():
    _, ax = accuracy(average="none").plot([tensor([0.1, 0.2, 0.3]), tensor([0.2, 0.3, 0.4])], labels=["ant", "bee", "cow"])
    assert texts(ax) == ["ant", "bee", "cow"]
    assert [list(line.get_ydata()) for line in ax.lines[:3]] == [pytest.approx(x) for x in ([0.1, 0.2], [0.2, 0.3], [0.3, 0.4])]


def test_very_many_lines_are_bundled():
    values = [torch.linspace(0, 1, 50), torch.linspace(0, 1, 50) + 0.1]
    figure, ax = plotting.plot_values(values, name="Recall")
    drawn(figure)
    assert texts(ax) == ["class 49 (highest at the end)", "class 0 (lowest at the end)", "mean of 50"]


def test_very_many_classes_are_ranked_and_the_ends_named():
    values = torch.linspace(0, 1, 101)
    values[7] = math.nan
    figure, ax = c.MulticlassRecall(101, average="none").plot(values)
    drawn(figure)
    assert ax.get_xlabel() == "classes in order of value (101, 1 undefined)"
    assert "lowest: class 0 (0), class 1 (0.01), class 2 (0.02)" in texts(ax)


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf])
def test_undefined_values_are_written_not_drawn(x):
    for metric, value in ((c.BinaryAUROC(), tensor(x)), (c.MulticlassAUROC(3, "none"), tensor([0.5, x, 1.0]))):
        figure, ax = metric.plot(value)
        drawn(figure)
        assert plotting.canvas.short(x) in ax.get_title() + " ".join(texts(ax))
    figure, _ = tt.MeanMetric().plot([1.0, x, 2.0])
    drawn(figure)


def test_a_table_of_values_has_a_scale():
    figure, ax = plotting.plot_values(torch.rand(3, 4), name="Recall", noun="sample", low=0.0, high=1.0)
    drawn(figure)
    assert ticks(ax.yaxis) == ["sample 0", "sample 1", "sample 2"]
    assert figure.axes[1].get_ylabel() == "recall (0 to 1)"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_any_dtype(dtype):
    figure, _ = plotting.plot_values(torch.ones(3).to(dtype))
    drawn(figure)


def test_a_value_that_carries_gradients():
    plotting.plot_values(torch.ones(3, requires_grad=True))


def test_a_value_of_several_parts():
    class Both(tt.Metric):
        def update(self, x): ...

        def compute(self):
            return tensor(1.0), tensor(2.0)

    _, ax = Both().plot()
    assert ticks(ax.yaxis) == ["0", "1"]
    _, ax = Both().plot([(tensor(1.0), tensor(2.0)), (tensor(2.0), tensor(3.0))])
    assert len(ax.lines) == 2


def test_axes_of_ones_own():
    figure, ax = pyplot.subplots()
    assert accuracy(average="micro").plot(ax=ax) == (figure, ax)
    with pytest.raises(TypeError, match="ax is str; expected matplotlib axes"):
        accuracy().plot(ax="left")


@pytest.mark.parametrize(
    "value, message",
    [
        ([], "nothing to draw"),
        (torch.ones(0), "nothing to draw"),
        (torch.ones(2, 2, 2), "at most two dimensions"),
        ([torch.ones(2, 2)], "cannot be drawn over steps"),
        ([{"a": 1.0}, {"b": 1.0}], "different parts"),
    ],
    ids=["no-steps", "no-elements", "dimensions", "matrices", "parts"],
)
def test_what_cannot_be_drawn_is_an_error(value, message):
    with pytest.raises(ValueError, match=message):
        plotting.plot_values(value)


def test_labels_must_fit():
    with pytest.raises(ValueError, match="expected 3 names, one for each class"):
        accuracy(average="none").plot(labels=["ant", "bee"])


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'torchtally\[plot\]'"):
        accuracy().plot()


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


def test_axes_of_a_collection_must_fit():
    _, ax = pyplot.subplots(1, 3)
    with pytest.raises(ValueError, match="ax holds 3 axes; expected 2"):
        tally().plot(ax=list(ax))
    with pytest.raises(TypeError, match="expected what compute"):
        tally().plot(val=tensor(1.0))


# ---- every metric
FIRST = {type(case.make()): case for case in reversed(cases.CASES)}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of classes that do not occur
@pytest.mark.parametrize("case", FIRST.values(), ids=[cls.__name__ for cls in FIRST])
def test_every_metric_draws_what_it_has_seen(case):
    metric, generator = case.make(), torch.Generator().manual_seed(0)
    for _ in range(2):
        metric.update(*case.batch(12, generator))
    picture = metric.plot()
    for figure, ax in picture if isinstance(picture, list) else [picture]:
        assert figure.axes and (ax.has_data() if hasattr(ax, "has_data") else ax.size)


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


# ---- confusion matrices and counts
def matrix(**options):
    metric = c.MulticlassConfusionMatrix(3, **options)
    metric.update(tensor([0, 1, 1, 2]), tensor([0, 1, 2, 2]))
    return metric


def test_a_confusion_matrix_writes_counts_and_shares_of_the_true_class():
    figure, ax = matrix().plot(labels=["ant", "bee", "cow"])
    drawn(figure)
    assert [t.get_text() for t in ax.texts] == [
        "1\n100 %",
        "0\n0 %",
        "0\n0 %",
        "0\n0 %",
        "1\n100 %",
        "0\n0 %",
        "0\n0 %",
        "1\n50 %",
        "1\n50 %",
    ]
    assert ticks(ax.xaxis) == ticks(ax.yaxis) == ["ant", "bee", "cow"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted class", "true class")


def test_text_of_a_confusion_matrix():
    _, ax = matrix().plot(percent=False)
    assert ax.texts[-1].get_text() == "1"
    _, ax = matrix().plot(add_text=False, cmap="Greens")
    assert not ax.texts
    _, ax = matrix(normalize="true").plot()
    assert [t.get_text() for t in ax.texts][-2:] == ["50 %", "50 %"]


def test_a_large_confusion_matrix_stays_readable():
    figure, ax = plotting.plot_confusion_matrix(torch.ones(100, 100, dtype=torch.int64))
    drawn(figure)
    assert not ax.texts and len(ticks(ax.xaxis)) <= 40


def test_each_label_has_a_confusion_matrix_of_its_own():
    metric = c.MultilabelConfusionMatrix(3)
    metric.update(tensor([[0, 1, 1]]), tensor([[0, 1, 0]]))
    figure, grid = metric.plot(labels=["rain", "wind", "snow"])
    drawn(figure)
    assert [a.get_title() for a in grid.flat] == ["rain", "wind", "snow"]
    _, mine = pyplot.subplots(2, 2)
    metric.plot(ax=mine)
    with pytest.raises(ValueError, match="ax holds 1 axes; expected 3"):
        metric.plot(ax=mine[0, 0])


def test_a_confusion_matrix_must_be_one():
    with pytest.raises(ValueError, match="expected one confusion matrix"):
        plotting.plot_confusion_matrix(torch.ones(3))


def test_counts_are_parts_of_a_whole():
    metric = c.MulticlassStatScores(3, average="none")
    metric.update(tensor([0, 1, 1, 2]), tensor([0, 1, 2, 2]))
    figure, ax = metric.plot(labels=["ant", "bee", "cow"])
    drawn(figure)
    assert texts(ax)[-4:] == ["true positives", "false negatives", "false positives", "true negatives"]
    assert [sum(p.get_width() for p in ax.patches[i::3]) for i in range(3)] == [4, 4, 4]
    with pytest.raises(ValueError, match="cannot be drawn"):
        metric.plot(torch.ones(2, 3, 5))


# ---- curves
SCORES, TARGET = tensor([0.9, 0.7, 0.6, 0.3]), tensor([1, 1, 0, 0])


@pytest.mark.parametrize("thresholds", [None, 5])
def test_a_roc_curve_with_its_area_and_operating_point(thresholds):
    metric = c.BinaryROC(thresholds)
    metric.update(SCORES, TARGET)
    figure, ax = metric.plot()
    drawn(figure)
    area = float(c.BinaryAUROC(thresholds=thresholds)(SCORES, TARGET))
    assert texts(ax) == ["guessing", f"area {plotting.canvas.short(area)}", "threshold 0.5: (0.5, 1)"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("false positive rate", "true positive rate (recall)")


def test_the_operating_point_is_that_of_decisions_at_the_threshold():
    metric = c.BinaryROC()
    metric.update(SCORES, TARGET)
    for threshold in (0.2, 0.3, 0.65, 0.8):
        _, ax = metric.plot(threshold=threshold)
        ((x,), (y,)) = ax.lines[-2].get_data()
        decided = threshold <= SCORES
        assert (x, y) == (decided[TARGET == 0].float().mean(), decided[TARGET == 1].float().mean())
    _, ax = metric.plot(threshold=None, score=False)
    assert texts(ax) == ["guessing", "curve"]


def test_the_operating_point_where_nothing_reaches_the_threshold():
    metric = c.BinaryPrecisionRecallCurve()
    metric.update(SCORES, TARGET)
    _, ax = metric.plot(threshold=0.95)
    assert "threshold" not in " ".join(texts(ax))


def test_a_precision_recall_curve_tells_the_average_precision():
    metric, average = c.BinaryPrecisionRecallCurve(), c.BinaryAveragePrecision()
    scores, target = torch.rand(50, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 2
    metric.update(scores, target)
    average.update(scores, target)
    figure, ax = metric.plot()
    drawn(figure)
    assert f"average precision {plotting.canvas.short(float(average.compute()))}" in texts(ax)
    assert texts(ax)[:4] == ["F1 0.2", "F1 0.4", "F1 0.6", "F1 0.8"]


def test_the_area_of_the_picture_is_that_of_the_metric():
    metric, area = c.BinaryROC(), c.BinaryAUROC()
    scores, target = torch.rand(50, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 2
    metric.update(scores, target)
    area.update(scores, target)
    _, ax = metric.plot()
    assert f"area {plotting.canvas.short(float(area.compute()))}" in texts(ax)
    _, ax = metric.plot(score=tensor(0.25))
    assert "area 0.25" in texts(ax)


def test_curves_of_classes():
    lists = (
        [tensor([0.0, 0.5, 1.0]), tensor([0.0, 1.0])],
        [tensor([0.0, 1.0, 1.0]), tensor([0.0, 1.0])],
        [tensor([1.0, 0.6, 0.1]), tensor([1.0, 0.5])],
    )
    _, ax = plotting.plot_roc(lists, labels=["ant", "bee"])
    assert texts(ax) == ["guessing", "ant, area 0.75", "bee, area 0.5", "threshold 0.5"]
    shared = torch.linspace(1, 0, 5)
    _, ax = plotting.plot_roc((torch.rand(2, 5), torch.rand(2, 5), shared))
    assert len([t for t in texts(ax) if t.startswith("class")]) == 2
    figure, ax = plotting.plot_precision_recall((torch.rand(30, 6), torch.rand(30, 6), shared))
    drawn(figure)
    assert "30 in all; the best and the worst three:" in texts(ax)


def test_curves_of_the_metrics_of_classes():
    scores, target = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)).softmax(1), torch.arange(40) % 3
    for metric in (c.MulticlassROC(3), c.MulticlassROC(3, thresholds=5), c.MulticlassPrecisionRecallCurve(3), c.MultilabelROC(3)):
        metric.update(scores, target if "Multiclass" in type(metric).__name__ else (scores > 0.4).long())
        figure, ax = metric.plot(labels=["ant", "bee", "cow"])
        drawn(figure)
        assert [t.partition(",")[0] for t in texts(ax) if "," in t and "F1" not in t] == ["ant", "bee", "cow"]


def test_an_operating_point_tells_its_threshold():
    metric = c.BinaryRecallAtFixedPrecision(min_precision=0.9)
    metric.update(SCORES, TARGET)
    _, ax = metric.plot()
    assert ax.get_title() == "Binary recall at fixed precision: 1 at threshold 0.7"
    _, ax = metric.plot([metric.compute(), metric.compute()])
    assert len(ax.lines[0].get_ydata()) == 2
    metric = c.MulticlassRecallAtFixedPrecision(2, min_precision=0.5)
    _, ax = metric.plot((tensor([0.5, 1.0]), tensor([0.25, 0.75])), labels=["no", "yes"])
    assert ticks(ax.yaxis) == ["no (at 0.25)", "yes (at 0.75)"]


@pytest.mark.parametrize("curve", [tensor([1.0]), (tensor([1.0]), tensor([1.0]))], ids=["tensor", "two"])
def test_a_curve_must_be_one(curve):
    with pytest.raises(ValueError, match="expected a tuple of two rates and the thresholds"):
        plotting.plot_roc(curve)
    with pytest.raises(ValueError, match="expected 1, one for each curve"):
        plotting.plot_roc((tensor([0.0, 1.0]), tensor([0.0, 1.0]), tensor([1.0, 0.0])), score=tensor([1.0, 2.0]))


# ---- reliability
def test_a_reliability_diagram_shows_the_gap_of_each_bin():
    figure, ax = plotting.plot_calibration(tensor([0, 2, 4]), tensor([0.0, 0.5, 0.9]), tensor([0.0, 0.25, 1.0]), score=0.15)
    drawn(figure)
    assert ax.get_title() == "Calibration: 0.15 (l1)"
    assert [p.get_y() for p in ax.patches] == pytest.approx([0, 0, 0.25, 1.0])
    assert [p.get_height() for p in ax.patches] == pytest.approx([0.25, 1.0, 0.25, -0.1])
    assert texts(ax) == ["perfect calibration", "came true", "gap to the confidence"]
    with pytest.raises(ValueError, match="expected three of one shape"):
        plotting.plot_calibration(tensor([1]), tensor([1.0, 2.0]), tensor([1.0]))


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_calibration_error_draws_its_bins(norm):
    metric = c.BinaryCalibrationError(n_bins=2, norm=norm)
    metric.update(tensor([0.2, 0.3, 0.7, 0.9]), tensor([0, 1, 1, 1]))
    figure, ax = metric.plot()
    drawn(figure)
    assert [p.get_height() for p in ax.patches[:2]] == pytest.approx([0.5, 1.0])
    assert ax.get_title() == f"Binary calibration error: {plotting.canvas.short(float(metric.compute()))} ({norm})"
    _, ax = metric.plot([0.5, 0.25])
    assert texts(ax) == ["best: 0.25 at step 1"]
    _, ax = c.MulticlassCalibrationError(3).plot()
    assert "NaN" in ax.get_title()


# ---- names
@pytest.mark.parametrize(
    "name, text",
    [
        ("MulticlassF1Score", "Multiclass F1 score"),
        ("BinaryAUROC", "Binary AUROC"),
        ("KLDivergence", "KL divergence"),
        ("R2Score", "R2 score"),
        ("MeanAbsoluteError", "Mean absolute error"),
        ("MulticlassFBetaScore", "Multiclass F beta score"),
        ("BinaryROC", "Binary ROC"),
        ("MeanMetric", "Mean"),
        ("PearsonCorrCoef", "Pearson correlation coefficient"),
        ("MulticlassCohenKappa", "Multiclass Cohen kappa"),
    ],
)
def test_names_are_written_as_words(name, text):
    assert plotting.canvas.spaced(name) == text


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
