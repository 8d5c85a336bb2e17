"""Pictures show the numbers they are given, with names, bounds and directions; what cannot be drawn is an error that says so."""

import math
import sys

import pytest
import torch
from matplotlib import pyplot
from pictures import drawn, texts, ticks
from torch import tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import plotting
from torchtally import regression as r


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


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


def test_the_mean_of_curves_has_no_operating_point():
    batch = tensor([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), tensor([0, 1, 0])
    for metric in (c.MulticlassROC(2, average="macro"), c.MulticlassPrecisionRecallCurve(2, average="macro")):
        metric.update(*batch)
        figure, _ = metric.plot()
        drawn(figure)
        assert not any(
            "threshold" in text.get_text() for legend in figure.findobj(pyplot.matplotlib.legend.Legend) for text in legend.get_texts()
        )
        figure, _ = type(metric)(2, average="micro").plot(metric.compute())
        assert any(
            "threshold" in text.get_text() for legend in figure.findobj(pyplot.matplotlib.legend.Legend) for text in legend.get_texts()
        )
