"""What is adopted has the values of the original, before and after further updates, wherever it was found."""

import inspect
import itertools
import warnings
from typing import NamedTuple

import lightning
import pytest
import torch
import torchmetrics
import torchmetrics.classification as theirs
from torch import nn

import torchtally
import torchtally.classification as ours
from torchtally.adopt import Deferred, adopt, suppress_nan_check
from torchtally.errors import TallyError

CLASSES = 4
OPTIONS = {
    "num_classes": [CLASSES],
    "num_labels": [CLASSES],
    "beta": [0.5],
    "average": ["micro", "macro", "weighted", "none"],
    "multidim_average": ["global", "samplewise"],
    "ignore_index": [None, -1],
    "top_k": [1, 2],
    "threshold": [0.3],
    "normalize": [None, "true"],
}


def counts(name, cls):
    """Whether it is a metric of counts that torchtally has too."""
    takes = inspect.signature(cls.__init__).parameters
    if not name.startswith(("Binary", "Multiclass", "Multilabel")) or not hasattr(ours, name) or {"thresholds", "num_groups"} & set(takes):
        return False
    options = {k: v[0] for k, v in OPTIONS.items() if k in takes}
    return bool({"tp", "confmat", "correct"} & set(cls(**options)._defaults))


NAMES = [name for name, cls in inspect.getmembers(theirs, inspect.isclass) if counts(name, cls)]


def settings_of(name):
    takes = inspect.signature(getattr(theirs, name).__init__).parameters
    options = {k: v for k, v in OPTIONS.items() if k in takes}
    return [dict(zip(options, values)) for values in itertools.product(*options.values())]


def batch(name, settings, random):
    shape = (6, 5) if settings.get("multidim_average") == "samplewise" else (12,)
    classes = () if name.startswith("Binary") else (CLASSES,)
    scores = torch.rand((shape[0], *classes, *shape[1:]), generator=random)
    many = name.startswith("Multiclass")
    target = torch.randint(CLASSES if many else 2, shape if many else scores.shape, generator=random)
    if settings.get("ignore_index") is not None:
        target.view(-1)[0] = settings["ignore_index"]
    return scores, target


def close(a, b):
    return torch.allclose(a.double(), b.double(), atol=1e-6, equal_nan=True)


def defined_alike(name, settings):
    """Where torchmetrics' value is the metric's by definition: its macro averages of samples count absent classes by the wrong samples, and its weighted
    counts of labels weigh by all samples together. Old releases take ignored labels for wrong ones."""
    if name == "MultilabelExactMatch" and settings["ignore_index"] is not None and torchmetrics.__version__ < "1.7":
        return False
    return settings.get("multidim_average") != "samplewise" or settings.get("average") not in ("macro", "weighted")


@pytest.mark.parametrize("name", NAMES)
def test_classification_metrics_go_on_where_the_original_was(name):
    random = torch.Generator().manual_seed(1)
    compared = 0
    for settings in settings_of(name):
        original, fresh = getattr(theirs, name)(**settings), getattr(ours, name)(**settings)
        if torchmetrics.__version__ < "1.7" and settings.get("top_k") == 2 and settings.get("multidim_average") == "samplewise":
            continue  # fails there
        for _ in range(2):
            scores, target = batch(name, settings, random)
            original.update(scores, target), fresh.update(scores, target)
        left = []
        new = adopt(original, left)
        assert not left
        assert type(new) is type(fresh)
        assert new.update_count == 2
        for more in (False, True):
            if more:
                scores, target = batch(name, settings, random)
                original.update(scores, target), fresh.update(scores, target), new.update(scores, target)
            assert torch.equal(new.compute().nan_to_num(-1), fresh.compute().nan_to_num(-1)), settings
            if defined_alike(name, settings):
                compared += 1
                assert close(new.compute(), original.compute()), settings
    assert compared


def test_there_are_classification_metrics_to_adopt():
    assert len(NAMES) >= 24


VALUES = [torch.tensor([2.0, 5.0]), torch.tensor([-1.0, 4.0]), torch.tensor([0.5, 0.25])]


@pytest.mark.parametrize("name", ["MeanMetric", "SumMetric", "MaxMetric", "MinMetric", "CatMetric"])
@pytest.mark.parametrize("nan", ["ignore", "error", 0.5])
def test_aggregation_metrics_go_on_where_the_original_was(name, nan):
    original = getattr(torchmetrics, name)(nan_strategy=nan)
    original.update(VALUES[0]), original.update(VALUES[1])
    new = adopt(original)
    assert (type(new), new.nan_strategy, new.update_count) == (getattr(torchtally, name), nan, 2)
    assert torch.equal(new.compute(), original.compute())
    original.update(VALUES[2]), new.update(VALUES[2])
    assert torch.equal(new.compute(), original.compute())


@pytest.mark.parametrize(
    "name, options",
    [
        ("BinaryCalibrationError", {"n_bins": 4, "norm": "l2"}),
        ("MulticlassCalibrationError", {"num_classes": 3}),
        ("BinaryHingeLoss", {"squared": True}),
        ("MulticlassHingeLoss", {"num_classes": 3}),
        ("MulticlassHingeLoss", {"num_classes": 3, "multiclass_mode": "one-vs-all"}),
        ("BinaryGroupStatRates", {"num_groups": 2}),
        ("BinaryFairness", {"num_groups": 2, "task": "equal_opportunity"}),
    ],
)
def test_metrics_of_scores_go_on_where_the_original_was(name, options):
    random = torch.Generator().manual_seed(2)
    original, fresh = getattr(theirs, name)(**options), getattr(ours, name)(**options)
    for _ in range(3):
        classes = options.get("num_classes")
        scores = torch.rand(16, generator=random) if classes is None else torch.rand(16, classes, generator=random)
        data = [scores, torch.randint(0, classes or 2, (16,), generator=random)]
        data += [torch.arange(16) % 2] if "num_groups" in options else []
        original.update(*data), fresh.update(*data)
    left = []
    new = adopt(original, left)
    assert not left and type(new) is type(fresh) and new.update_count == 3
    new.update(*data), fresh.update(*data), original.update(*data)
    for got in (new.compute(), original.compute()):
        torch.testing.assert_close(got, fresh.compute(), rtol=1e-5, atol=1e-6)


def test_weights_are_taken_over():
    original = torchmetrics.MeanMetric()
    original.update(torch.tensor([1.0, 3.0]), torch.tensor([3.0, 1.0]))
    new = adopt(original)
    assert new.compute() == 1.5
    new.update(6.5, 1)
    assert new.compute() == 2.5


def test_metrics_without_the_nan_check():
    original = suppress_nan_check(torchmetrics.MeanMetric)()
    original.update(torch.tensor([1.0, 3.0]))
    new = adopt(original)
    assert (type(new), new.nan_strategy, new.compute()) == (torchtally.MeanMetric, "disable", 2)


def test_configuration_is_taken_over():
    group, gather = object(), lambda x, group: [x]
    original = theirs.MulticlassAccuracy(
        CLASSES, average="weighted", validate_args=False, sync_on_compute=False, dist_sync_on_step=True, process_group=group, dist_sync_fn=gather
    )
    original.set_dtype(torch.float64)
    original.persistent(True)
    original.eval()
    new = adopt(original)
    assert (new.average, new.num_classes, new.validate_args) == ("weighted", CLASSES, False)
    assert (new.sync_on_compute, new.dist_sync_on_step, new.process_group, new.dist_sync_fn) == (False, True, group, gather)
    assert new.distributed_available_fn is None
    new.update(torch.tensor([0, 1]), torch.tensor([0, 2]))
    assert new.compute().dtype == torch.float64
    assert not new.training
    assert nn.ModuleDict({"a": new}).state_dict()


def trained():
    members = torchmetrics.MetricCollection(
        {"accuracy": theirs.MulticlassAccuracy(CLASSES), "f1": theirs.MulticlassF1Score(CLASSES), "confusion": theirs.MulticlassConfusionMatrix(CLASSES)},
        prefix="val/",
        postfix="_top1",
    )
    random = torch.Generator().manual_seed(2)
    for _ in range(3):
        members.update(torch.rand(8, CLASSES, generator=random), torch.randint(CLASSES, (8,), generator=random))
    return members, (torch.rand(8, CLASSES, generator=random), torch.randint(CLASSES, (8,), generator=random))


def agree(a, b):
    return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)


def test_a_collection_keeps_names_values_and_shares_totals():
    original, more = trained()
    new = adopt(original)
    assert isinstance(new, torchtally.MetricCollection)
    assert agree(new.compute(), original.compute())
    assert list(new.compute()) == ["val/accuracy_top1", "val/confusion_top1", "val/f1_top1"]
    assert new["accuracy"].ledger is new["f1"].ledger
    new.update(*more), original.update(*more)
    assert agree(new.compute(), original.compute())
    new.reset(), original.reset()
    new.update(*more), original.update(*more)
    assert agree(new.compute(), original.compute())


class Share(torchmetrics.Metric):
    """A user's own metric."""

    def __init__(self):
        super().__init__()
        self.add_state("right", torch.tensor(0.0), "sum")
        self.add_state("seen", torch.tensor(0), "sum")

    def update(self, preds, target):
        self.right += (preds.argmax(1) == target).sum()
        self.seen += len(target)

    def compute(self):
        return self.right / self.seen


def test_members_without_an_equivalent_work_on_in_the_collection():
    original = torchmetrics.MetricCollection({"share": Share(), "accuracy": theirs.MulticlassAccuracy(CLASSES, average="micro")})
    preds, target = torch.eye(CLASSES), torch.tensor([0, 1, 3, 3])
    original.update(preds, target)
    left = []
    new = adopt({"metrics": original}, left)["metrics"]
    assert [(x.name, x.metric) for x in left] == [("metrics.share", "Share")]
    assert "derive it from torchtally.Metric" in left[0].reason
    assert new["share"] is original["share"]
    assert agree(new.compute(), {"share": torch.tensor(0.75), "accuracy": torch.tensor(0.75)})
    new.update(preds, preds.argmax(1))
    assert agree(new.compute(), {"share": torch.tensor(0.875), "accuracy": torch.tensor(0.875)})


class Pair(NamedTuple):
    first: object
    second: object


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.best = torchmetrics.MaxMetric()


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, CLASSES)
        self.accuracy = theirs.MulticlassAccuracy(CLASSES)
        self.same = self.accuracy
        self.by_split = nn.ModuleDict({"val": torchmetrics.MetricCollection([theirs.MulticlassRecall(CLASSES)])})
        self.plain = {"loss": torchmetrics.MeanMetric(), "window": [torchmetrics.SumMetric(), 3], "pair": Pair(torchmetrics.MinMetric(), "x")}
        self.inner = Inner()
        self.ours = torchtally.MeanMetric()
        self.text = {"a": 1}


def test_a_whole_module_has_its_metrics_replaced_in_place():
    model = Model()
    model.plain["loss"].update(2.0)
    layer, plain, given = model.layer, model.plain, model.ours
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adopt(model) is model
    assert type(model.accuracy) is ours.MulticlassAccuracy
    assert model.same is model.accuracy
    assert isinstance(model.by_split["val"], torchtally.MetricCollection)
    assert [type(x) for x in (plain["loss"], plain["window"][0], plain["pair"].first, model.inner.best)] == [
        torchtally.MeanMetric,
        torchtally.SumMetric,
        torchtally.MinMetric,
        torchtally.MaxMetric,
    ]
    assert plain["loss"].compute() == 2
    assert isinstance(plain["pair"], Pair)
    assert (model.layer, model.plain, model.ours) == (layer, plain, given)
    assert not [m for m in model.modules() if type(m).__module__.startswith("torchmetrics")]


def test_an_adopted_lightning_module_trains_and_logs(tmp_path):
    class Trained(Model):
        def training_step(self, batch, _):
            x, y = batch
            scores = self.layer(x)
            self.accuracy(scores, y)
            self.log("accuracy", self.accuracy, on_step=False, on_epoch=True)
            return nn.functional.cross_entropy(scores, y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    model = adopt(Trained())
    with torch.no_grad():
        model.layer.weight.copy_(torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]]))
        model.layer.bias.zero_()
    data = [(torch.tensor([1.0, 0.0]), torch.tensor(0)), (torch.tensor([0.0, 1.0]), torch.tensor(1)), (torch.tensor([-1.0, 0.0]), torch.tensor(0))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice about workers and the length of the data
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path
        )
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=2))
    assert trainer.callback_metrics["accuracy"] == pytest.approx((0.5 + 1 + 0) / 3)  # recall 1/2 and 1/1; class 2 was predicted and is never there


def test_what_is_adopted_already_and_what_holds_nothing_stays():
    mean = torchtally.MeanMetric()
    assert adopt(mean) is mean
    deferred = Deferred(torchmetrics.MeanMetric(), every=3)
    deferred.update(4.0)
    assert type(adopt(deferred).metric) is torchtally.MeanMetric
    assert deferred.compute() == 4
    assert adopt([1, "x", {}]) == [1, "x", {}]


def test_compositions():
    a, b = torchmetrics.MeanMetric(), torchmetrics.SumMetric()
    both = (a + b) * 2
    a.update(1.0), b.update(3.0)
    new = adopt(both)
    assert isinstance(new, torchtally.CompositionalMetric)
    assert new.compute() == both.compute() == 8
    new.update(5.0), both.update(5.0)
    assert new.compute() == both.compute() == 22


@pytest.mark.parametrize(
    "metric, reason",
    [
        (lambda: Share(), "Share is a class of your own: derive it from torchtally.Metric"),
        (lambda: torchmetrics.BootStrapper(Share()), "a metric in it has no equivalent"),
        (lambda: torchmetrics.MetricCollection([Share()]), "none of its members has an equivalent"),
        (lambda: torchmetrics.MeanMetric() + Share(), "a part of it has no equivalent"),
    ],
    ids=["own", "wrapper", "collection", "composition"],
)
def test_what_has_no_equivalent_is_left_and_said(metric, reason):
    original = metric()
    left = []
    assert adopt(original, left) is original
    assert reason in " ".join(x.reason for x in left)
    with pytest.warns(UserWarning, match="is left"):
        adopt(original)


def test_a_metric_synced_over_ranks_is_left():
    original = torchmetrics.SumMetric()
    original.update(1.0)
    original._is_synced = True
    left = []
    assert adopt(original, left) is original
    assert "call unsync() first" in left[0].reason


def test_an_option_without_counterpart_is_not_dropped_silently():
    original = theirs.BinaryAccuracy()
    original.threshold = 2.0  # no number that torchtally takes
    left = []
    assert adopt(original, left) is original
    assert "refuses its arguments: BinaryAccuracy: threshold is 2.0" in left[0].reason


@pytest.mark.parametrize("wrong", [3, "metric", object()], ids=["number", "text", "object"])
def test_what_can_hold_no_metrics_is_refused(wrong):
    with pytest.raises(TallyError, match="is neither a metric of torchmetrics nor a dict, list, tuple"):
        adopt(wrong)
