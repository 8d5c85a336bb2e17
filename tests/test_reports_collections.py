"""Public reports about collections, wrappers, states and aggregation."""

import copy
import gc
import pickle
import sys
import warnings
import weakref

import pytest
import torch
from reports import LIGHTNING, TORCHMETRICS, Report, Table, check, fed
from torch import Tensor, tensor
from users_metrics import Everything, MeanError

import torchtally as tt
from torchtally import classification as c

reports = Table()


class Scaled(tt.Metric):
    """A user's metric: a sum, times what `compute` is asked for, or a dict."""

    full_state_update = False

    def __init__(self, named: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.named = named
        self.add_state("total", default=tensor(0.0), dist_reduce_fx="sum")

    def update(self, value: Tensor) -> None:
        self.total += value

    def compute(self, times: float = 1.0):
        return {"one": self.total, "two": 2 * self.total} if self.named else self.total * times


@reports(TORCHMETRICS, 1772, "names in a value lose the prefix of the inner collection", [["b_a_one", "b_a_two"], ["x_one_y_z", "x_two_y_z"], ["a_one", "a_two", "b_one", "b_two"]])
def _():
    inner = [tt.MetricCollection([Scaled(named=True)], prefix=p) for p in ("a_", "b_")]
    nested = [
        tt.MetricCollection([inner[0].clone()], prefix="b_"),
        tt.MetricCollection([tt.MetricCollection([Scaled(named=True)], prefix="x_", postfix="_y")], postfix="_z"),
        tt.MetricCollection(inner),
    ]
    return [list(fed(m, (1.0,))) for m in nested]


@reports(TORCHMETRICS, 1841, "compute with arguments gives the value of the first call", [2.0, 4.0, 1.0])
def _():
    metric = Scaled()
    metric.update(1.0)
    return [metric.compute(2.0), metric.compute(times=4.0), metric.compute()]


class Model(torch.nn.Module):
    """What is scripted for serving, with the metrics that it was trained with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.accuracy = c.BinaryAccuracy()
        self.mine = Scaled()
        self.tally = tt.MetricCollection({"loss": tt.MeanMetric(), "recall": c.MulticlassRecall(3, labels=["a", "b", "c"]), "mine": Scaled()})
        self.wrapped = torch.nn.ModuleList([tt.Running(tt.MeanMetric(), 3), tt.MinMaxMetric(c.BinaryAccuracy()), tt.BootStrapper(tt.MeanSquaredError())])
        self.sum = tt.MeanSquaredError() + tt.MeanAbsoluteError()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * 2


@reports(TORCHMETRICS, (276, 2812), "a module that holds metrics cannot be scripted", [True, True, 0.5])
def _():
    if sys.version_info >= (3, 14):
        pytest.skip("TorchScript is not supported from Python 3.14 on")
    model = Model()
    model.accuracy.update(tensor([1, 1]), tensor([1, 0]))
    x = torch.ones(1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, and in use
        scripted, traced = torch.jit.script(model), torch.jit.trace(model, x)
    return [torch.equal(scripted(x), model(x)), torch.equal(traced(x), model(x)), model.accuracy.compute()]


# ---- collections
def both(**options):
    return tt.MetricCollection({"p": c.BinaryPrecision(), "r": c.BinaryRecall()}, **options)


ONE, WRONG = (tensor([1]), tensor([1])), (tensor([1]), tensor([0]))


@reports(TORCHMETRICS, (2206, 2211), "only the first metric of a group is computed again", [{"p": 1.0, "r": 1.0}, {"p": 0.5, "r": 1.0}])
def _():
    tally = both()
    return [fed(tally, batch) for batch in (ONE, WRONG)]


@reports(TORCHMETRICS, 2570, "computing twice gives the values of other metrics", 2 * [[2 / 3, 11 / 12]])
def _():
    tally = tt.MetricCollection({"curve": c.BinaryROC(), "area": c.BinaryAUROC(), "mean": c.BinaryAveragePrecision()})
    for _ in range(2):
        tally.update(tensor([0.8, 0.3, 0.5, 0.1]), tensor([1, 0, 1, 1]))
    return [[value["area"], value["mean"]] for value in (tally.compute(), tally.compute())]


@reports(TORCHMETRICS, 1051, "members are said to be computed before an update", [])
def _():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tally = both()
        for _ in range(2):
            fed(tally, ONE, WRONG)
            tally.reset()
    return [str(w.message) for w in told]


class Bias(MeanError):
    """States named and shaped as those of another metric, updated otherwise."""

    def update(self, preds: Tensor, target: Tensor) -> None:
        self.total += (preds - target).sum()
        self.count += target.numel()


@reports(TORCHMETRICS, (1890, 2596), "metrics whose states agree after one batch are one from then on", [{"low": 1.0, "high": 2.0}, {"a": 0.75, "b": 0.5}, {"mae": 1.25, "bias": 0.25}])
def _():
    extremes = tt.MetricCollection({"low": tt.MinMetric(), "high": tt.MaxMetric()})
    cut = tt.MetricCollection({"a": c.BinaryAccuracy(threshold=0.5), "b": c.BinaryAccuracy(threshold=0.7)})
    users = tt.MetricCollection({"mae": MeanError(), "bias": Bias()})
    return [
        fed(extremes, (1.0,), (2.0,)),
        fed(cut, (tensor([0.9, 0.1]), tensor([1, 0])), (tensor([0.6, 0.1]), tensor([1, 1]))),
        fed(users, (tensor([2.0, 2.0]), tensor([1.0, 1.0])), (tensor([1.0, 3.0]), tensor([3.0, 2.0]))),
    ]


@reports(TORCHMETRICS, 2896, "a clone shares totals with its source", [1.0, 0.5, 0.5])
def _():
    tally = tt.MetricCollection({"p": c.MulticlassPrecision(3, average="micro"), "r": c.MulticlassRecall(3, average="micro")})
    tally.update(*ONE)
    clone = tally.clone()
    found = fed(clone, (tensor([0]), tensor([2])))
    return [tally.compute()["p"], found["p"], found["r"]]


@reports(TORCHMETRICS, (1000, 2399, 2411), "names with a prefix are not found", [["v/f_macro", "v/f_micro"], 1.0, 1.0, 2])
def _():
    inner = [tt.MetricCollection({"f": c.MulticlassF1Score(3, average=a)}, postfix=f"_{a}") for a in ("macro", "micro")]
    nested = tt.MetricCollection(inner, prefix="v/")
    train = tt.MetricCollection({"acc": c.BinaryAccuracy(), "matrix": c.BinaryConfusionMatrix()}).clone(prefix="train_")
    train.update(*ONE)
    return [list(nested.keys()), train["acc"].compute(), train["train_acc"].compute(), len(train.plot())]


class Weighed(Scaled):
    """Takes an entry of its own."""

    def update(self, *, weight: float) -> None:
        self.total += weight


@reports(TORCHMETRICS, (693, 2542), "entries of other metrics are given to all", [{"a": 1.0, "w": 2.0}, 3.0, {"multiclassaccuracy_0": 0.0, "multiclassaccuracy_1": 1.0, "w": 2.0}])
def _():
    batch = {"preds": tensor([1]), "target": tensor([1]), "weight": 2.0}
    tally = tt.MetricCollection({"a": c.BinaryAccuracy(), "w": Weighed()})
    wrapped = tt.MetricCollection({"c": tt.ClasswiseWrapper(c.MulticlassAccuracy(2, average=None)), "w": Weighed()})
    total = c.BinaryAccuracy() + Weighed()
    for metric in (tally, wrapped, total):
        metric.update(**batch)
    return [tally.compute(), total.compute(), wrapped.compute()]


@reports(TORCHMETRICS, (2020, 2065), "names in values hide those of other metrics", [{"a_one": 1.0, "a_two": 2.0, "b_one": 1.0, "b_two": 2.0}, {"val/one": 1.0, "val/two": 2.0}])
def _():
    twice = tt.MetricCollection({"a": Scaled(named=True), "b": Scaled(named=True)})
    return [fed(twice, (1.0,)), fed(tt.MetricCollection({"a": Scaled(named=True)}, prefix="val/"), (1.0,))]


# ---- states
@reports(TORCHMETRICS, 644, "the value of a sum of metrics is that of the last batch", [0.052, 0.052, 1.0])
def _():
    preds, target = tensor([0.4, 0.2, 0.6, 0.7, 0.5]), tensor([0.5, 0.4, 0.4, 0.3, 0.6])
    sums = [1 * tt.MeanSquaredError(), tt.MeanSquaredError() + 0 * tt.MeanAbsoluteError()]
    for metric in sums:
        metric(preds[:3], target[:3])
        metric(preds[3:], target[3:])
    found = [m.compute() for m in sums]
    sums[1].reset()
    return [*found, fed(sums[1], (tensor([1.0]), tensor([0.0])))]


class Cleared(Everything):
    """Empties its lists in place, as people do."""

    def reset(self) -> None:
        self.seen.clear()


@reports(TORCHMETRICS, 766, "a reset that clears lists in place clears what forward keeps", [[1.0], [2.0], [1.0, 2.0]])
def _():
    metric = Cleared()
    return [metric(tensor([1.0])), metric(tensor([2.0])), metric.compute()]


@reports(LIGHTNING, 5737, "the value before a reset is computed after it", [2.0, 0.0])
def _():
    metric = Scaled()
    first = fed(metric, (2.0,))
    metric.reset()
    return [first, metric.compute()]


@reports(TORCHMETRICS, (484, 1561, 2314), "casts of the model round the totals", [1e-9, 1.0625, torch.float64])
def _():
    class Exact(Scaled):
        def __init__(self) -> None:
            super().__init__()
            self.add_state("exact", default=torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

        def update(self, value: float) -> None:
            self.exact += value

        def compute(self) -> Tensor:
            return self.exact

    model = torch.nn.Module()
    model.mine, model.error = Exact(), tt.MeanAbsoluteError()
    model.half().float().bfloat16()
    pairs = tensor([1.0, -2.0, 4.0, 0.5]), tensor([2.125, -0.875, 3.125, 1.625])
    return [float(fed(model.mine, (1.0,), (1e-9,))) - 1.0, fed(model.error, pairs), model.mine.exact.dtype]


@reports(LIGHTNING, (4361, 4645, 4666), "metrics of a model are missing in its checkpoints", [[], "loaded"])
def _():
    model = torch.nn.Module()
    model.metrics = torch.nn.ModuleList([c.BinaryAccuracy(), both(), c.BinaryCalibrationError(), c.BinaryAUROC(thresholds=5), MeanError()])
    model.metrics[0].update(*ONE)
    states = model.state_dict()
    torch.nn.Module().load_state_dict(states)
    model.load_state_dict(states)
    return [list(states), "loaded"]


@reports(TORCHMETRICS, (1249, 1260, 1274, 1283, 1292), "copies and pickles fail", 4 * [[1.0, 1.0, 1.0]])
def _():
    labels = tensor([0, 1]), tensor([0, 1])
    made = c.BinaryMatthewsCorrCoef(), c.MulticlassJaccardIndex(2), tt.JaccardIndex(task="multiclass", num_classes=2), both()
    found = []
    for metric in made:
        metric.update(*labels)
        copies = metric.clone(), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))
        found.append([v["p"] if isinstance(v := m.compute(), dict) else v for m in copies])
    return found


@reports(TORCHMETRICS, 202, "lists are not loaded", [1.0, 2.0, 3.0, 4.0])
def _():
    numbers, other = tt.CatMetric(), tt.CatMetric()
    fed(numbers, (tensor([1.0, 2.0]),), (tensor([3.0]),))
    other.load_state_dict(copy.deepcopy(numbers.state_dict()))
    return fed(other, (tensor([4.0]),))


@reports(TORCHMETRICS, (1949, 2492), "what a dropped metric has seen is not freed", [True, True, True])
def _():
    def freed(make):
        scores = torch.rand(1000)
        metric = make()
        metric(scores, (scores > 0.5).long())
        seen = weakref.ref(scores), weakref.ref(metric)
        del metric, scores
        return all(ref() is None for ref in seen)

    gc.disable()
    try:
        return [freed(make) for make in (c.BinaryAUROC, c.BinaryAveragePrecision, c.BinaryROC)]
    finally:
        gc.enable()


@reports(LIGHTNING, 5939, "equal metrics are one child of a module", [2, 2])
def _():
    model = torch.nn.Module()
    model.a, model.b = tt.MeanSquaredError(), tt.MeanSquaredError()
    return [len(list(model.children())), len({model.a, model.b})]


@reports(TORCHMETRICS, 1993, "a reset within inference_mode ends updates", [1.0, 0.5])
def _():
    accuracy, mean = c.BinaryAccuracy(), tt.MeanMetric()
    with torch.inference_mode():
        accuracy.reset()
        mean.update(0.0)
    return [fed(accuracy, ONE), fed(mean, (1.0,))]


@reports(TORCHMETRICS, 3487, "an error in the value of a batch loses all before it", [1.0, "refused", 5.0])
def _():
    class Positive(Scaled):
        def compute(self) -> Tensor:
            if self.total < 0:
                raise ValueError("negative")
            return self.total

    metric = Positive()
    first = metric(1.0)
    try:
        said = metric(-2.0)
    except ValueError:
        said = "refused"
    return [first, said, fed(metric, (6.0,))]


@reports(LIGHTNING, 4098, "states keep the graph of every batch", [False, True])
def _():
    held = fed(tt.CatMetric(), (torch.full((3,), 0.5, requires_grad=True) * 1.0,))
    return [held.requires_grad, tt.MeanSquaredError()(torch.ones(2, requires_grad=True), torch.zeros(2)).requires_grad]


# ---- pictures
@reports(TORCHMETRICS, (1971, 2059, 2857), "axes of a matrix are swapped, or too few", [["predicted class", "true class"], 11, 2])
def _():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    _, ax = c.MulticlassConfusionMatrix(4).plot(tensor([[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]))
    drawn = [c.MultilabelConfusionMatrix(n).plot(torch.ones(n, 2, 2).long())[0] for n in (11, 2)]
    return [[ax.get_xlabel(), ax.get_ylabel()], *(sum(a.has_data() for a in figure.axes) for figure in drawn)]


@reports(TORCHMETRICS, 147, "a value is kept over a reset", [1.0, 3.0, 3.0])
def _():
    metric = tt.MeanMetric()
    found = []
    for x in (1.0, 3.0):
        metric.reset()
        metric.update(x)
        found.append(metric.compute())
    return [*found, metric.compute()]


@reports(TORCHMETRICS, (1160, 1949), "metrics keep batches, or what led to them, alive", 4 * [True])
def _():
    def freed(metric, target, reset):
        leaf = torch.rand(4, requires_grad=True)
        batch = leaf * 2
        alive = weakref.ref(batch)
        metric(batch, target)
        if reset:
            metric.reset()
        del batch
        gc.collect()
        return alive() is None

    errors = (tt.MeanAbsolutePercentageError(), tt.MeanSquaredError())
    return [*(freed(m, torch.ones(4), False) for m in errors), *(freed(m, tensor([0, 1, 1, 0]), True) for m in (c.BinaryAUROC(), c.BinaryROC()))]


@reports(LIGHTNING, 8656, "equal metrics in a list are found once", [6, 6])
def _():
    return [len(list(torch.nn.ModuleList([made() for _ in range(5)]).named_modules())) for made in (tt.PearsonCorrCoef, c.BinaryAUROC)]


@reports(LIGHTNING, 18123, "a metric that is being made cannot be printed", [3 * ["(not initialized)"], True])
def _():
    class Early(tt.Metric):
        def __init__(self):
            self.first = repr(self)
            super().__init__()

    bare = [repr(made.__new__(made)).removeprefix(made.__name__) for made in (c.BinaryAccuracy, tt.MinMaxMetric, Early)]
    return [bare, Early().first == "Early(not initialized)"]


@reports(TORCHMETRICS, 1953, "a metric by task is no metric to what reads configurations", 3 * [True])
def _():
    return [issubclass(made, tt.Metric) for made in (tt.Precision, tt.Accuracy, tt.AUROC)]


@reports(TORCHMETRICS, (987, 538), "states of other types than tensors are said to be none", ValueError)
def _():
    Scaled().add_state("seen", default={}, dist_reduce_fx=None)


def test_states_before_the_constructor_of_the_base_say_what_to_call_first():
    class Early(tt.Metric):
        def __init__(self):
            self.add_state("total", default=tensor(0.0), dist_reduce_fx="sum")

    with pytest.raises(AttributeError, match="call that first"):
        Early()


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
