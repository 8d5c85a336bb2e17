"""Wrappers of torchmetrics that are adopted go on where they were: bare, nested, in modules and in collections."""

import warnings

import pytest
import torch
import torchmetrics as tm
from torch import nn, tensor
from torchmetrics import wrappers as theirs
from torchmetrics.classification import BinaryAccuracy, MulticlassRecall

import torchtally as tt
from torchtally import wrappers as ours
from torchtally.adopt import adopt

# torchmetrics' own: computed before an update, samples kept, a default that changes
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]


def pair(g, n=10):
    return torch.rand(n, generator=g), torch.randint(0, 2, (n,), generator=g)


def classes(g, n=10):
    return torch.rand(n, 3, generator=g).softmax(1), torch.randint(0, 3, (n,), generator=g)


def outputs(g, n=10):
    return torch.rand(n, 2, generator=g), torch.rand(n, 2, generator=g)


def holed(g):
    preds, target = outputs(g)
    preds[2, 0] = torch.nan
    return preds, target


def number(g):
    return (torch.rand((), generator=g),)


def tasks(g):
    return {"a": torch.rand(6, generator=g), "b": torch.rand(6, generator=g)}, {"a": torch.randint(0, 2, (6,), generator=g), "b": torch.rand(6, generator=g)}


def flip(x):
    return 1 - x


WRAPPED = {
    "MinMax": (lambda: theirs.MinMaxMetric(BinaryAccuracy()), pair),
    "Classwise": (lambda: theirs.ClasswiseWrapper(MulticlassRecall(3, average=None), labels=["x", "y", "z"]), classes),
    "Classwise-prefix": (lambda: theirs.ClasswiseWrapper(MulticlassRecall(3, average=None), prefix="p-", postfix="-q"), classes),
    "Multioutput": (lambda: theirs.MultioutputWrapper(tm.MeanSquaredError(), 2), holed),
    "Multioutput-whole": (lambda: theirs.MultioutputWrapper(tm.MeanAbsoluteError(), 2, remove_nans=False), outputs),
    "Multitask": (lambda: theirs.MultitaskWrapper({"a": BinaryAccuracy(), "b": tm.MeanSquaredError()}, prefix="t-"), tasks),
    "Multitask-collections": (lambda: theirs.MultitaskWrapper({"a": tm.MetricCollection([BinaryAccuracy()]), "b": tm.MeanSquaredError()}), tasks),
    "Running": (lambda: theirs.Running(BinaryAccuracy(), 3), pair),
    "RunningMean": (lambda: tm.RunningMean(3, nan_strategy="ignore"), number),
    "RunningSum": (lambda: tm.RunningSum(4, nan_strategy="ignore"), number),
    "Lambda": (lambda: theirs.LambdaInputTransformer(BinaryAccuracy(), flip), pair),
    "BinaryTarget": (lambda: theirs.BinaryTargetTransformer(BinaryAccuracy(), 0.5), lambda g: outputs(g)),
    "Nested": (lambda: theirs.MinMaxMetric(theirs.LambdaInputTransformer(BinaryAccuracy(), transform_pred=flip)), pair),
    "Nested-classes": (lambda: theirs.ClasswiseWrapper(theirs.MultioutputWrapper(tm.MeanSquaredError(), 2)), outputs),
}


def plain(value):
    if isinstance(value, dict):
        return {n: plain(x) for n, x in value.items()}
    return torch.as_tensor(value).double().flatten()


def agree(a, b):
    a, b = plain(a), plain(b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(agree(a[n], b[n]) for n in a)
    return a.shape == b.shape and torch.allclose(a, b, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("updates", [0, 1, 2, 5])
@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_go_on_where_they_were(name, updates):
    make, batch = WRAPPED[name]
    g = torch.Generator().manual_seed(0)
    original = make()
    for _ in range(updates):
        original.update(*batch(g))
    if updates and name != "MinMax" and not name.startswith("Nested"):
        original.compute()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = adopt(original)
    assert type(new).__module__.startswith("torchtally") and type(new).__name__ == type(original).__name__
    if updates:
        assert agree(new.compute(), original.compute())
    for _ in range(4):
        more = batch(g)
        new.update(*more), original.update(*more)
        original._computed = None
        assert agree(new.compute(), original.compute())
    assert new.update_count == updates + 4
    more = batch(g)
    value, want = new(*more), original(*more)
    assert agree(value, want) if not name.startswith(("MinMax", "Nested")) else value
    new.reset()
    for m in original.modules():  # those of torchmetrics 1.6 do not all reset what is in them
        if isinstance(m, tm.Metric | tm.MetricCollection):
            m.reset()
    more = batch(g)
    new.update(*more), original.update(*more)
    got, want = new.compute(), original.compute()
    extremes = name.startswith("MinMax") or name == "Nested"  # those of a batch alone count since torchmetrics 1.7
    assert agree(got["raw"], want["raw"]) if extremes else agree(got, want)


def test_extremes_are_taken_over():
    original = theirs.MinMaxMetric(BinaryAccuracy())
    for preds in ([1, 1, 1, 1], [0, 0, 0, 0]):
        original.update(tensor(preds), tensor([1, 1, 1, 0]))
        original.compute()
        original.reset()
    original.update(tensor([1, 1, 0, 0]), tensor([1, 1, 1, 0]))
    new = adopt(original)
    assert agree(new.compute(), {"raw": 0.75, "max": 0.75, "min": 0.25})
    assert agree(new.compute(), original.compute())


@pytest.mark.parametrize("base", [BinaryAccuracy, tm.MeanSquaredError, tm.PearsonCorrCoef])
@pytest.mark.parametrize("replicates", [4, 20])
def test_replicates_are_taken_over(replicates, base):
    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    original = theirs.BootStrapper(base(), replicates, raw=True, quantile=torch.tensor([0.1, 0.9]))
    for _ in range(3):
        original.update(*(x.float() if base is not BinaryAccuracy else x for x in pair(g, 40)))
    new = adopt(original)
    assert isinstance(new, ours.BootStrapper) and new.update_count == 3
    assert agree(new.compute(), original.compute())
    more = pair(g, 40)
    before = new.compute()["raw"]
    new.update(*more)
    assert new.update_count == 4 and not torch.equal(new.compute()["raw"], before)
    assert set(new.compute()) == {"mean", "std", "quantile", "raw"}
    new.reset()
    new.update(*more)
    assert new.update_count == 1


def test_a_window_of_samples():
    """torchmetrics' forgets them with each update: what is there is taken over, and kept from then on."""
    original = theirs.Running(tm.CatMetric(), 2)
    original.update(tensor(1.0))
    new = adopt(original)
    for x in (2.0, 3.0, 4.0):
        new.update(tensor(x))
    assert new.compute().tolist() == [3.0, 4.0]


@pytest.mark.parametrize("make", [lambda: BinaryAccuracy(), lambda: tm.MetricCollection({"a": BinaryAccuracy(), "b": tm.MeanSquaredError()})])
def test_trackers(make):
    g = torch.Generator().manual_seed(0)
    original = theirs.MetricTracker(make(), maximize=True)
    for _ in range(3):
        original.increment()
        original.update(*pair(g))
    holder = nn.ModuleDict({"tracker": original})
    new = adopt(holder)["tracker"]
    assert isinstance(new, tt.MetricTracker) and new.n_steps == 3
    assert agree(new.compute_all(), original.compute_all())
    assert agree(new.best_metric(True)[1], original.best_metric(True)[1])
    more = pair(g)
    for m in (new, original):
        m.increment()
        m.update(*more)
    assert agree(new.compute_all(), original.compute_all())
    classwise = theirs.MetricTracker(tm.MetricCollection([theirs.ClasswiseWrapper(MulticlassRecall(3, average=None))]))
    classwise.increment()
    classwise.update(*classes(g))
    assert agree(adopt(classwise).compute_all(), classwise.compute_all())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.accuracy = BinaryAccuracy()
        self.best = theirs.MinMaxMetric(self.accuracy)
        self.metrics = tm.MetricCollection({"plain": BinaryAccuracy(), "window": theirs.Running(BinaryAccuracy(), 2)})
        self.plain = {"loss": tm.RunningMean(5, nan_strategy="ignore")}
        self.tracker = theirs.MetricTracker(tm.MetricCollection({"recall": MulticlassRecall(3)}))


def test_wrappers_in_modules_and_collections():
    g = torch.Generator().manual_seed(0)
    model, twin = Model(), Model()

    def fed(m, seed):
        g.manual_seed(seed)
        m.best.update(*pair(g))
        m.metrics.update(*pair(g))
        m.plain["loss"].update(float(seed))
        m.tracker.increment()
        m.tracker.update(*classes(g))

    fed(model, 1), fed(twin, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adopt(model)
    assert not [m for m in model.modules() if type(m).__module__.startswith("torchmetrics")]
    assert model.best._base_metric is model.accuracy  # one object in two places
    fed(model, 2), fed(twin, 2)
    twin.metrics["window"]._computed = None
    assert agree(model.best.compute(), twin.best.compute())
    assert agree(model.metrics.compute(), twin.metrics.compute())
    assert agree(model.plain["loss"].compute(), twin.plain["loss"].compute())
    assert agree(model.tracker.compute_all(), twin.tracker.compute_all())


class Own(tm.Metric):
    def __init__(self):
        super().__init__()
        self.add_state("total", tensor(0.0), "sum")

    def update(self, x, y):
        self.total += x.sum()

    def compute(self):
        return self.total


def test_what_is_around_a_metric_without_an_equivalent_is_left_whole():
    for original in (
        theirs.MinMaxMetric(Own()),
        theirs.MultitaskWrapper({"a": BinaryAccuracy(), "b": Own()}),
        theirs.MetricTracker(Own(), maximize=True),
    ):
        left = []
        assert adopt(original, left) is original
        assert [x.reason for x in left][-1] == "a metric in it has no equivalent" and "class of your own" in left[0].reason
        assert not [m for m in original.modules() if type(m).__module__.startswith("torchtally")]
    holder = nn.ModuleDict({"own": theirs.MinMaxMetric(Own()), "m": theirs.MinMaxMetric(BinaryAccuracy())})
    left = []
    adopt(holder, left)
    assert isinstance(holder["m"], tt.MinMaxMetric) and type(holder["own"]) is theirs.MinMaxMetric
    assert [x.name for x in left] == ["own._base_metric", "own"]

    class Derived(theirs.MinMaxMetric):
        pass

    left = []
    derived = Derived(BinaryAccuracy())
    assert adopt(derived, left) is derived and "class of your own" in left[0].reason
