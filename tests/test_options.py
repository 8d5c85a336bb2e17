"""Options that constructors pass on are seen by `inspect.signature` and type checkers alike, taken, and refused where they are none."""

import inspect
import pickle
import typing

import pytest
import torch
from torch import tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f
from torchtally import regression as r
from torchtally.classification.tasks import ClassificationTask
from torchtally.options import OPTIONS

NEEDED = {
    "num_classes": 3,
    "num_labels": 3,
    "num_groups": 2,
    "beta": 1.0,
    "p": 2,
    "threshold": 0.5,
    "min_recall": 0.5,
    "min_precision": 0.5,
    "min_specificity": 0.5,
    "min_sensitivity": 0.5,
    "base_metric": tt.SumMetric(),
    "wrapped_metric": tt.SumMetric(),
    "transform_pred": abs,
}
CLASSES = {
    name: cls
    for module in (tt, c, r)
    for name in module.__all__
    if inspect.isclass(cls := getattr(module, name)) and issubclass(cls, tt.Metric) and name not in ("Metric", "Formula", "BaseAggregator")
}
TAKING = [name for name, cls in CLASSES.items() if set(OPTIONS) <= set(inspect.signature(cls).parameters)]
taking = pytest.mark.parametrize("name", TAKING)


def parameters(cls):
    return inspect.signature(cls).parameters


def needed(cls):
    """What a class cannot be made without."""
    if issubclass(cls, ClassificationTask):
        more = {"task": "multiclass", "num_classes": 3}
    else:
        more = {"decay": 0.9} if cls is tt.ExponentialMovingAverage else {"num_classes": 3} if "num_classes" in parameters(cls) else {}
    return {**{n: NEEDED[n] for n, p in parameters(cls).items() if p.default is p.empty and n in NEEDED}, **more}


def test_nearly_all_metrics_take_the_options_of_all():
    assert len(TAKING) > 130
    assert {n for n in CLASSES if n not in TAKING} <= {
        "ClasswiseWrapper",
        "CompositionalMetric",
        "FeatureShare",
        "LambdaInputTransformer",
        "MetricTracker",
        "MultioutputWrapper",
        "MultitaskWrapper",
        "Running",
        "Sliced",
    }


@taking
def test_signatures_name_what_is_passed_on(name):
    cls = CLASSES[name]
    kinds = {p.kind for p in parameters(cls).values()}
    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    assert parameters(cls) == parameters(pickle.loads(pickle.dumps(cls)))


@taking
def test_type_checkers_see_the_same_names(name):
    cls = CLASSES[name]
    constructor = inspect.unwrap(cls.__new__) if issubclass(cls, ClassificationTask) else cls.__init__
    own = inspect.signature(constructor).parameters
    (rest,) = (n for n, p in own.items() if p.kind is p.VAR_KEYWORD)
    (typed,) = typing.get_args(typing.get_type_hints(constructor)[rest])
    assert set(typed.__annotations__) == {n for n, p in parameters(cls).items() if p.kind is p.KEYWORD_ONLY and n not in own}


@taking
def test_what_signatures_name_is_taken(name):
    cls = CLASSES[name]
    usual = {n: p.default for n, p in parameters(cls).items() if p.kind is p.KEYWORD_ONLY}
    assert isinstance(cls(**needed(cls), **usual), tt.Metric)


@taking
def test_unknown_options_are_refused_with_the_nearest_name(name):
    cls = CLASSES[name]
    for option in [n for n, p in parameters(cls).items() if p.kind is p.KEYWORD_ONLY and n not in OPTIONS] or ["timeout"]:
        with pytest.raises(ValueError, match=rf"unexpected keyword arguments \['{option[:-1]}x'\]; did you mean '{option}'\? Expected any of"):
            cls(**needed(cls), **{f"{option[:-1]}x": None})


@pytest.mark.parametrize(
    "name, meant, known",
    [
        ("MulticlassAccuracy", "num_classes", "'top_k'"),
        ("MulticlassAUROC", "num_classes", "'thresholds'"),
        ("MultilabelF1Score", "num_labels", "'threshold'"),
        ("ExponentialMovingAverage", "decay", "'halflife'"),
        ("RunningMean", "window", "'nan_strategy'"),
        ("Running", "window", r"\['base_metric', 'window'\]"),
        ("Sliced", "slices", r"\['by', 'metric', 'slices', 'total'\]"),
        ("ClasswiseWrapper", "labels", r"\['labels', 'metric', 'postfix', 'prefix'\]"),
    ],
)
def test_a_misspelt_name_is_told_before_what_is_then_missing(name, meant, known):
    with pytest.raises(ValueError, match=rf"^{name}: unexpected keyword arguments \['{meant[:-1]}'\]; did you mean '{meant}'\? Expected any of.*{known}"):
        CLASSES[name](**{meant[:-1]: 3})


def test_updates_name_weights_and_valid_rows():
    for cls in (c.MulticlassAccuracy, c.BinaryAUROC, r.R2Score):
        assert list(inspect.signature(cls.update).parameters) == ["self", "preds", "target", "weight", "valid"]
    assert list(inspect.signature(r.SpearmanCorrCoef.update).parameters) == ["self", "preds", "target", "valid"]
    assert list(inspect.signature(c.BinaryAccuracy()).parameters) == ["preds", "target", "weight", "valid"]


def test_users_classes_keep_their_own_signatures():
    class Mine(c.MulticlassAccuracy):
        def __init__(self, size: int, **kwargs):
            super().__init__(size, **kwargs)

    class Plain(c.MulticlassAccuracy):
        pass

    class Alone(tt.Metric):
        def __init__(self, share=0.5):
            super().__init__()

    assert str(inspect.signature(Mine)) == "(size: int, **kwargs)"
    assert inspect.signature(Plain) == inspect.signature(c.MulticlassAccuracy)
    assert str(inspect.signature(Alone)) == "(share=0.5)"
    with pytest.raises(ValueError, match="Mine: unexpected keyword arguments"):
        Mine(3, wait=3)


def test_options_that_a_task_has_no_use_for_are_checked():
    assert "threshold" not in tt.Accuracy(task="multiclass", num_classes=3, threshold=0.3, from_logits=True).__dict__
    for option, wrong in (("from_logits", "abc"), ("threshold", 2), ("num_labels", 0), ("zero_division", 7)):
        with pytest.raises(ValueError, match=rf"Accuracy: {option} is {wrong!r}; expected"):
            tt.Accuracy(task="multiclass", num_classes=3, **{option: wrong})
    batch = tensor([0, 1]), tensor([0, 1])
    with pytest.raises(ValueError, match=r"accuracy: from_logits is 'abc'; expected True, False or None"):
        f.accuracy(*batch, "multiclass", num_classes=3, from_logits="abc")
    with pytest.raises(ValueError, match=r"Accuracy: unexpected keyword arguments \['form_logits'\]; did you mean 'from_logits'\?"):
        tt.Accuracy(task="multiclass", num_classes=3, form_logits=True)
    with pytest.raises(TypeError, match=r"Accuracy: \['task'\] came twice"):
        tt.Accuracy("binary", task="binary")
    with pytest.raises(TypeError, match=r"Accuracy takes at most 9 positional arguments; 10 were given"):
        tt.Accuracy("binary", *[None] * 9)


def test_fronts_take_zero_division_last_where_torchmetrics_does():
    given = ("multiclass", 0.5, 3, None, "macro", "global", 1, None, True, 1.0)
    assert tt.F1Score(*given).zero_division == 1.0
    assert tt.FBetaScore("multiclass", 2.0, *given[1:]).zero_division == 1.0
    assert tt.FBetaScore("multiclass", 2.0, *given[1:]).beta == 2.0


def test_functions_refuse_unknown_options_with_the_nearest_name():
    batch = torch.rand(4), tensor([0, 1, 0, 1])
    with pytest.raises(TypeError, match=r"accuracy: unexpected arguments \['treshold'\]; did you mean 'threshold'\?"):
        f.accuracy(*batch, "binary", treshold=0.3)
    with pytest.raises(TypeError, match=r"binary_accuracy: unexpected arguments \['treshold'\]; did you mean 'threshold'\?"):
        f.binary_accuracy(*batch, treshold=0.3)
    with pytest.raises(TypeError, match=r"r2_score: missing a required argument: 'target'; it takes"):
        f.r2_score(batch[0])
    assert "weight" in inspect.signature(f.accuracy).parameters and "absent" in inspect.signature(f.accuracy).parameters


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: r.SpearmanCorrCoef(weighted=True), "SpearmanCorrCoef: weighted is no option: there is no agreed definition"),
        (lambda: tt.MeanMetric(weighted=True), "MeanMetric: weighted is no option: update takes a weight as it is"),
        (lambda: tt.SumMetric(weighted=True), "SumMetric: weighted is no option: multiply the values by their weights"),
        (lambda: tt.MaxMetric(weighted=True), "MaxMetric: weighted is no option: it has no use for weights"),
        (lambda: tt.MinMaxMetric(tt.SumMetric(), weighted=True), "MinMaxMetric: weighted is no option: it is one of the metric inside"),
        (lambda: tt.Throughput(events="abc"), "Throughput: events is 'abc'; expected True or False"),
        (lambda: tt.Throughput(warmup=True), "Throughput: warmup is True; expected a number of steps"),
        (lambda: tt.Throughput(clock=3), "Throughput: clock is 3; expected a function"),
        (lambda: tt.Throughput(dtype=3), "Throughput: dtype is 3; expected the name"),
        (lambda: tt.MeanMetric().bind(value=3), "MeanMetric.bind: value is 3; expected the name of an entry of the batch"),
    ],
)
def test_odd_options_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
