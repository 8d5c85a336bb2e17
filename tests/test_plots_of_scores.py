"""Pictures of confusion matrices, counts, curves and calibration, and of every metric."""

import cases
import pytest
import torch
from matplotlib import pyplot
from pictures import drawn, texts, ticks
from torch import tensor

from torchtally import classification as c
from torchtally import plotting
from torchtally.retrieval import RetrievalPrecisionRecallCurve, RetrievalRecallAtFixedPrecision


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


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


def test_rates_of_groups_are_parts_of_a_whole():
    metric = c.BinaryGroupStatRates(num_groups=2)
    metric.update(tensor([1, 0, 1, 1]), tensor([1, 0, 0, 1]), tensor([0, 0, 1, 1]))
    figure, ax = metric.plot(labels=["young", "old"])
    drawn(figure)
    assert ticks(ax.yaxis) == ["young", "old"] and ax.get_xlabel() == "share of the group"
    assert [sum(p.get_width() for p in ax.patches[i::2]) for i in range(2)] == pytest.approx([1, 1])


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


def test_precision_and_recall_of_the_first_documents():
    documents = tensor([0.2, 0.3, 0.5, 0.1, 0.3]), tensor([1, 0, 1, 0, 1]), tensor([0, 0, 0, 1, 1])
    metric = RetrievalPrecisionRecallCurve()
    with pytest.raises(ValueError, match="there is nothing to draw"):
        metric.plot()
    metric.update(*documents)
    figure, ax = metric.plot()
    drawn(figure)
    assert texts(ax) == ["precision", "recall"]
    assert [line.get_ydata().tolist() for line in ax.lines] == [pytest.approx(x.tolist()) for x in metric.compute()[:2]]
    metric = RetrievalRecallAtFixedPrecision(0.4)
    metric.update(*documents)
    _, ax = metric.plot()
    assert ax.get_title() == "Retrieval recall at fixed precision: 1 at k = 3"
    _, ax = metric.plot([metric.compute(), metric.compute()])
    assert len(ax.lines[0].get_ydata()) == 2


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
