"""Collections: names, who is fed what, sharing and leaving, one cut, nothing lost, nothing half done."""

import copy
import io
import pickle
from math import nan

import pytest
import torch
from cases import elsewhere
from torch import Tensor, nn
from users_metrics import Doubled, Everything, Flipped, Fussy, MeanError, Percent

import torchtally as tt
from torchtally import classification as c
from torchtally.errors import TallyError
from torchtally.stalls import pretend_cuda

A = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2])  # 3 of 4
B = torch.tensor([0, 0]), torch.tensor([1, 2])  # none of 2
FAR = torch.tensor([0, 7]), torch.tensor([1, 2])  # an impossible label


def classifiers(**options):
    return {
        "accuracy": c.MulticlassAccuracy(3, average="micro"),
        "recall": c.MulticlassRecall(3),
        "precision": c.MulticlassPrecision(3),
    }


def plain(values):
    return {k: v.tolist() if isinstance(v, Tensor) else v for k, v in values.items()}


def alone(*batches, make=classifiers):
    """What each metric gives by itself."""
    out = {}
    for name, metric in make().items():
        for batch in batches:
            metric.update(*batch)
        out[name] = metric.compute()
    return plain(out)


def shared(tally):
    """Names of the members that lie in the collection's ledger."""
    return [n for n, m in tally._modules.items() if getattr(m, "ledger", None) is tally.ledger]


def states(tally):
    return copy.deepcopy({k: v for k, v in tally.state_dict().items()})


def same_states(a, b):
    def flat(x):
        return [t for v in x.values() for t in (v if isinstance(v, list) else [v])]

    return a.keys() == b.keys() and all(torch.equal(x, y) for x, y in zip(flat(a), flat(b))) and len(flat(a)) == len(flat(b))


# ---- names and forms
def test_forms_of_construction_and_names():
    p, r = c.MulticlassPrecision(3), c.MulticlassRecall(3)
    assert tt.MetricCollection(p).keys() == ["MulticlassPrecision"]
    assert tt.MetricCollection([p, r]).keys() == tt.MetricCollection(p, r).keys() == ["MulticlassPrecision", "MulticlassRecall"]
    assert tt.MetricCollection({"p": p, "r": r}, prefix="val/", postfix="!").keys() == ["val/p!", "val/r!"]
    inner = tt.MetricCollection({"p": c.MulticlassPrecision(3)}, prefix="in_")
    assert tt.MetricCollection([inner, r], prefix="x_").keys() == ["x_in_p", "x_MulticlassRecall"]
    inner = tt.MetricCollection({"p": c.MulticlassPrecision(3)}, postfix="_end")
    nested = tt.MetricCollection({"train": inner, "r": c.MulticlassRecall(3)})
    assert nested.keys() == ["train_p_end", "r"]
    assert plain(nested(*A)) == {"train_p_end": alone(A)["precision"], "r": alone(A)["recall"]}
    assert [k for k, _ in tt.MetricCollection({"p": p}, prefix="v_").items(keep_base=True)] == ["p"]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: tt.MetricCollection([c.BinaryAccuracy(), c.BinaryAccuracy()]), "two metrics are named"),
        (lambda: tt.MetricCollection({"a": 3}), "expected a metric"),
        (lambda: tt.MetricCollection({1: c.BinaryAccuracy()}), "expected a string"),
        (lambda: tt.MetricCollection("accuracy"), "expected a metric"),
        (lambda: tt.MetricCollection([c.BinaryAccuracy(), None]), "expected a metric"),
        (lambda: tt.MetricCollection({"a": c.BinaryAccuracy()}, c.BinaryRecall()), "after a dict"),
        (lambda: tt.MetricCollection(c.BinaryAccuracy(), prefix=1), "prefix is 1"),
        (lambda: tt.MetricCollection(c.BinaryAccuracy(), postfix=2), "postfix is 2"),
    ],
)
def test_impossible_forms(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_mapping_of_names():
    tally = tt.MetricCollection(classifiers(), prefix="val_")
    assert list(tally) == tally.keys() == ["val_accuracy", "val_recall", "val_precision"]
    assert len(tally) == 3 and "val_recall" in tally and "recall" in tally and "f1" not in tally
    assert tally["val_recall"] is tally["recall"] is dict(tally.items())["val_recall"] is tally.values()[1]
    with pytest.raises(KeyError, match=r"no metric 'f1'; it has \['val_accuracy'"):
        tally["f1"]
    train = tally.clone(prefix="train_", postfix="_x")
    assert train.keys() == ["train_accuracy_x", "train_recall_x", "train_precision_x"]
    train.update(*A)
    assert tally.update_count == 0 and train.update_count == 1
    assert set(tally.clone(prefix="")(*A)) == {"accuracy", "recall", "precision"}
    tally["f1"] = c.MulticlassF1Score(3)
    tally.add_metrics({"far": c.MulticlassSpecificity(3)})
    tally.add_metrics(c.MulticlassStatScores(3))
    assert set(tally(*A)) == {f"val_{n}" for n in ("accuracy", "recall", "precision", "f1", "far", "MulticlassStatScores")}
    assert shared(tally) == list(tally.keys(keep_base=True))


def test_members_added_later_start_where_they_are():
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    veteran = c.MulticlassF1Score(3)
    veteran.update(*A)
    tally.add_metrics({"new": c.MulticlassAccuracy(3, average="micro"), "veteran": veteran})
    tally.update(*B)
    got = plain(tally.compute())
    assert {k: got[k] for k in classifiers()} == alone(A, B)
    assert got["new"] == 0.0
    assert got["veteran"] == alone(A, B, make=lambda: {"f": c.MulticlassF1Score(3)})["f"]
    for m in tally.values():
        m.reset()
    tally.update(*A)
    assert len(shared(tally)) == 5
    assert {k: plain(tally.compute())[k] for k in classifiers()} == alone(A)


# ---- who is fed what
def test_entries_by_name_position_and_binding():
    def make():
        return tt.MetricCollection(
            {
                "loss": tt.MeanMetric().bind(value="loss", weight="n"),
                "top": tt.MaxMetric().bind(value="loss"),
                "acc": c.MulticlassAccuracy(3, average="micro"),
            }
        )

    for update in (
        lambda t: t.update(loss=0.5, preds=A[0], target=A[1]),
        lambda t: t.update(target=A[1], loss=torch.tensor(0.5), preds=A[0], unused="x"),
        lambda t: t.update(A[0], A[1], loss=0.5),
        lambda t: t.update(A[0], target=A[1], loss=0.5, n=2.0),
    ):
        tally = make()
        update(tally)
        assert plain(tally.compute()) == {"loss": 0.5, "top": 0.5, "acc": 0.75}
        assert plain(tally.clone().forward(A[0], A[1], loss=0.25)) == {"loss": 0.25, "top": 0.25, "acc": 0.75}
    tally = make()
    tally.update(loss=1.0, n=3.0, preds=A[0], target=A[1])
    tally.update(loss=5.0, n=1.0, preds=A[0], target=A[1])
    assert plain(tally.compute())["loss"] == 2.0


def test_two_classifiers_of_different_entries():
    tally = tt.MetricCollection(
        {"a": c.MulticlassAccuracy(3, average="micro"), "b": c.MulticlassAccuracy(3, average="micro").bind(preds="p2")}
    )
    tally.update(preds=A[0], target=A[1], p2=A[1])
    assert plain(tally.compute()) == {"a": 0.75, "b": 1.0}


def test_a_missing_entry_names_it_and_changes_nothing():
    tally = tt.MetricCollection({"loss": tt.MeanMetric().bind(value="loss"), **classifiers(), "mine": MeanError()})
    for args, kwargs, entry in (((), {"loss": 1.0}, "preds"), (A, {}, "loss"), ((A[0],), {"loss": 1.0}, "target")):
        with pytest.raises(ValueError, match=rf"'\w+' \(\w+\) needs the entry '{entry}'"):
            tally.update(*args, **kwargs)
    assert tally.update_count == 0
    with pytest.raises(ValueError, match="takes"):
        tt.MeanMetric().bind(loss="value")


# ---- a refused batch changes nothing
def crowd():
    """Shared, apart, bound, composed and users' members together."""
    recall = c.MulticlassRecall(3)
    recall.update(*A)
    return tt.MetricCollection(
        {
            "loss": tt.MeanMetric(nan_strategy="error").bind(value="loss"),
            "matrix": c.MulticlassConfusionMatrix(3),
            "mine": MeanError(),
            "composed": 2 * c.MulticlassPrecision(3) - c.MulticlassRecall(3),
            "recall": recall,
            "all": Everything().bind(value="preds"),
            "flipped": Flipped(3),
            "fussy": Fussy(),
            "percent": Percent(3),
        }
    )


@pytest.mark.parametrize("call", ["update", "forward"])
@pytest.mark.parametrize(
    "bad",
    [
        {"loss": nan, "preds": A[0], "target": A[1]},
        {"loss": 1.0, "preds": FAR[0], "target": FAR[1]},
        {"loss": 1.0, "preds": A[0], "target": A[1][:2]},
        {"loss": 1.0, "preds": A[0] + 101, "target": A[1]},
        {"loss": "much", "preds": A[0], "target": A[1]},
        {"loss": 1.0, "preds": A[0].float(), "target": A[1]},
    ],
    ids=["nan loss", "label", "shape", "users", "text", "dtype"],
)
def test_a_refused_batch_changes_nothing_in_any_member(call, bad):
    tally = crowd()
    tally.update(loss=1.0, preds=A[0], target=A[1])
    before, count = states(tally), tally.update_count
    values = plain(tally.compute())
    for _ in range(2):
        with pytest.raises((ValueError, RuntimeError, TypeError)):
            getattr(tally, call)(**bad)
        assert same_states(states(tally), before)
        assert tally.update_count == count
        assert plain(tally.compute()) == values
    tally.update(loss=3.0, preds=B[0], target=B[1])
    assert plain(tally.compute())["loss"] == 2.0


def test_only_users_refuse():
    """The users' metric refuses after another of the user's has taken the batch, in place."""
    for call in ("update", "forward"):
        tally = tt.MetricCollection({"all": Everything().bind(value="preds"), "a": MeanError(), "fussy": Fussy()})
        tally.update(preds=A[0], target=A[1])
        before = states(tally)
        with pytest.raises(RuntimeError, match="too large"):
            getattr(tally, call)(preds=torch.tensor([0, 1, 2, 200]), target=A[1])
        assert same_states(states(tally), before)


def test_a_failed_batch_value_loses_nothing():
    tally = tt.MetricCollection({"a": MeanError(), "fussy": Fussy(), "accuracy": tt.MeanMetric().bind(value="target"), "b": MeanError()})
    tally.update(preds=torch.zeros(1), target=torch.zeros(1))
    with pytest.raises(RuntimeError, match="mean error above 10"):
        tally(preds=torch.full((1,), 15.0), target=torch.zeros(1))
    got = plain(tally.compute())
    assert got == {"a": 7.5, "fussy": 7.5, "accuracy": 0.0, "b": 7.5}
    assert {m.update_count for m in tally.values()} == {2}


# ---- members on their own
def test_members_used_alone_leave_and_share_again_when_all_are_reset():
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    tally["recall"].update(*B)
    want = {**alone(A), "recall": alone(A, B)["recall"]}
    assert plain(tally.compute()) == want
    assert shared(tally) == ["accuracy", "precision"]
    tally.update(*B)
    assert plain(tally.compute()) == {**alone(A, B), "recall": alone(A, B, B)["recall"]}
    for m in tally.values():
        m.reset()
    assert tally.update_count == 0
    tally.update(*A)
    assert len(shared(tally)) == 3
    assert plain(tally.compute()) == alone(A)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
@pytest.mark.parametrize("use", ["update", "forward", "load", "merge", "reset", "to"])
def test_every_use_alone(use, order):
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    m = tally["recall"]
    other = c.MulticlassRecall(3)
    other.update(*B)
    want = {**alone(A)}
    if use == "update":
        m.update(*B)
        want["recall"] = alone(A, B)["recall"]
    elif use == "forward":
        assert m(*B).tolist() == alone(B)["recall"]
        want["recall"] = alone(A, B)["recall"]
    elif use == "load":
        m.load_state_dict(other.state_dict())
        want["recall"] = alone(B)["recall"]
    elif use == "merge":
        m.merge_state(other)
        want["recall"] = alone(A, B)["recall"]
    elif use == "reset":
        m.reset()
        assert m.update_count == 0
        want["recall"] = 0.0
    else:
        with pretend_cuda():
            m.to("cuda")
            assert m.device.type == "cuda"
            assert {x.device.type for x in (tally["accuracy"].ledger, tally["precision"].ledger)} == {"cpu"}
            m.to("cpu")
    assert plain(tally.compute()) == want
    members = [tally.values()[i] for i in order]
    for x in members:
        x.reset()
    tally.update(*B)
    assert plain(tally.compute()) == alone(B)
    assert len(shared(tally)) == 3


def test_lightnings_order_every_member_computed_then_each_reset():
    tally = tt.MetricCollection(classifiers())
    for _ in range(3):
        for batch in (A, B):
            tally(*batch)
        assert {n: m.compute().tolist() for n, m in tally.items()} == alone(A, B)
        for m in tally.values():
            m.reset()
        assert all(m.update_count == 0 for m in tally.values())
        assert len(shared(tally)) == 3
    assert plain(tally(*A)) == alone(A)


def test_a_reset_member_reads_empty_until_it_is_fed():
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    tally["accuracy"].reset()
    assert tally["accuracy"].update_count == 0
    assert "no updates yet" in repr(tally["accuracy"])
    assert tally["accuracy"].compute() == tally.compute()["accuracy"] == 0.0
    assert tally["accuracy"].metric_state["seen"] == 0
    assert tally["accuracy"].fetch().result() == tally.fetch().result()["accuracy"] == 0.0
    assert tally["recall"].compute() == alone(A)["recall"]
    assert tally.state_dict()["accuracy.seen"] == 0
    tally.update(*B)
    assert plain(tally.compute()) == {**alone(A, B), "accuracy": alone(B)["accuracy"]}


def test_a_metric_in_two_collections_and_under_two_names():
    m, n = c.MulticlassAccuracy(3, average="micro"), c.MulticlassRecall(3)
    first, second = tt.MetricCollection({"m": m, "n": n}), tt.MetricCollection({"m": m, "again": m})
    first.update(*A)
    second.update(*B)
    assert m.compute() == alone(A, B)["accuracy"] == 0.5
    assert n.compute() == alone(A)["recall"]
    assert plain(second.compute()) == {"m": 0.5, "again": 0.5}


def test_a_replaced_member():
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    tally["recall"] = c.MulticlassRecall(3)
    tally.update(*B)
    assert plain(tally.compute()) == {**alone(A, B), "recall": alone(B)["recall"]}


# ---- users' metrics, compositions
def test_users_metrics_beside_built_in_ones():
    tally = tt.MetricCollection(
        {"mine": MeanError(), "percent": Percent(3, average="micro"), "flipped": Flipped(3, average="micro"), **classifiers()}
    )
    assert shared(tally) == ["accuracy", "recall", "precision"]
    for batch in (A, B):
        tally.update(*batch)
    got = plain(tally.compute())
    assert got["percent"] == 50.0
    assert got["mine"] == pytest.approx((1 + 3) / 6)
    assert got["flipped"] == pytest.approx(1 / 6)  # of [2, 2, 1, 0] and [0, 0] against the targets
    assert {k: got[k] for k in classifiers()} == alone(A, B)
    assert plain(tally(*A))["percent"] == 75.0
    assert plain(tally(*A))["mine"] == 0.25
    doubled = tt.MetricCollection({"twice": Doubled(), "sum": tt.SumMetric()})
    assert plain(doubled(torch.tensor([1.0, 2.0]))) == {"twice": 6.0, "sum": 3.0}
    assert plain(doubled.compute()) == {"twice": 3.0, "sum": 3.0}


def test_compositions_as_members():
    p, r = c.MulticlassPrecision(3, average="micro"), c.MulticlassRecall(3, average="micro")
    tally = tt.MetricCollection(
        {"f": 2 * p * r / (p + r), "error": 1 - c.MulticlassAccuracy(3, average="micro"), "p": c.MulticlassPrecision(3)}
    )
    assert plain(tally(*A)) == pytest.approx({"f": 0.75, "error": 0.25, "p": alone(A)["precision"]})
    tally.update(*B)
    assert plain(tally.compute()) == pytest.approx({"f": 0.5, "error": 0.5, "p": alone(A, B)["precision"]})
    assert p.update_count == r.update_count == 2
    fetched = tally.fetch(reset=True)
    assert tally.update_count == 0
    assert fetched.result() == pytest.approx({"f": 0.5, "error": 0.5, "p": alone(A, B)["precision"]})


def test_values_that_are_dicts_are_spread_out():
    class Two(MeanError):
        def compute(self):
            return {"mean": self.total / self.count, "n": self.count}

    tally = tt.MetricCollection({"a": Two(), "b": MeanError()}, prefix="v_")
    assert set(tally(*A)) == {"v_mean", "v_n", "v_b"}
    clash = tt.MetricCollection({"a": Two(), "b": Two()})
    assert set(clash(*A)) == {"a_mean", "a_n", "b_mean", "b_n"}


# ---- keeping and moving states
@pytest.mark.parametrize("way", ["pickle", "deepcopy", "clone", "save"])
def test_copies_keep_sharing_among_themselves_only(way):
    tally = tt.MetricCollection({**classifiers(), "mine": MeanError()})
    tally.update(*A)
    if way == "save":
        file = io.BytesIO()
        torch.save(tally, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    else:
        other = {"pickle": lambda t: pickle.loads(pickle.dumps(t)), "deepcopy": copy.deepcopy, "clone": lambda t: t.clone()}[way](tally)
    assert shared(other) == list(classifiers())
    assert other.ledger is not tally.ledger
    other.update(*B)
    assert {k: v for k, v in plain(other.compute()).items() if k != "mine"} == alone(A, B)
    assert {k: v for k, v in plain(tally.compute()).items() if k != "mine"} == alone(A)
    other["recall"].reset()
    other.reset()
    other.update(*A)
    assert len(shared(other)) == 3


def test_a_member_copied_by_itself_goes_its_own_way():
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    for copied in (tally["recall"].clone(), pickle.loads(pickle.dumps(tally["recall"]))):
        copied.update(*B)
        assert copied.compute() == alone(A, B)["recall"]
        copied.reset()
        assert copied.update_count == 0
        copied.update(*A)
        assert copied.compute() == alone(A)["recall"]
    assert plain(tally.compute()) == alone(A)
    assert len(shared(tally)) == 3


def test_state_dicts_in_another_order_with_more_and_fewer_members():
    tally = tt.MetricCollection({**classifiers(), "mine": MeanError(), "loss": tt.MeanMetric().bind(value="target")})
    tally.update(preds=A[0], target=A[1])
    saved = tally.state_dict()
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    members = {"loss": tt.MeanMetric().bind(value="target"), "mine": MeanError(), **dict(reversed(classifiers().items()))}
    other = tt.MetricCollection(members)
    other.load_state_dict(saved)
    assert plain(other.compute()) == plain(tally.compute())
    assert other.update_count == 1
    assert len(shared(other)) == 4
    other.update(preds=B[0], target=B[1])
    assert {k: plain(other.compute())[k] for k in classifiers()} == alone(A, B)

    fewer = tt.MetricCollection({"recall": c.MulticlassRecall(3)})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        fewer.load_state_dict(saved)
    fewer.load_state_dict(saved, strict=False)
    assert plain(fewer.compute()) == {"recall": alone(A)["recall"]}
    more = tt.MetricCollection(
        {**classifiers(), "mine": MeanError(), "loss": tt.MeanMetric().bind(value="target"), "f1": c.MulticlassF1Score(3)}
    )
    with pytest.raises(RuntimeError, match="Missing key"):
        more.load_state_dict(saved)
    more.reset()
    more.load_state_dict(saved, strict=False)
    got = plain(more.compute())
    assert {k: got[k] for k in classifiers()} == alone(A)


def test_members_saved_apart_are_loaded_apart():
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    tally["recall"].update(*B)
    other = tt.MetricCollection(classifiers())
    other.load_state_dict(tally.state_dict())
    assert plain(other.compute()) == {**alone(A), "recall": alone(A, B)["recall"]}
    assert {n: m.update_count for n, m in other.items()} == {"accuracy": 1, "recall": 2, "precision": 1}
    other.update(*B)
    assert plain(other.compute()) == {**alone(A, B), "recall": alone(A, B, B)["recall"]}


def test_states_of_another_shape_are_refused_whole():
    metric = c.MulticlassRecall(3)
    metric.update(*A)
    for wrong in (c.MulticlassRecall(4).state_dict(), {**metric.state_dict(), "counts": torch.zeros(2)}):
        with pytest.raises(RuntimeError, match=r"counts.* has shape .* expected \(3, 5\)"):
            metric.load_state_dict(wrong)
        assert metric.compute() == alone(A)["recall"]
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    wrong = tt.MetricCollection({**classifiers(), "recall": c.MulticlassRecall(4), "precision": c.MulticlassPrecision(4)})
    with pytest.raises(RuntimeError, match="expected"):
        tally.load_state_dict(wrong.state_dict())
    assert plain(tally.compute())["recall"] == alone(A)["recall"]


def test_states_appear_in_a_holders_state_dict_only_if_persistent():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.tally = tt.MetricCollection({**classifiers(), "mine": MeanError()})
            self.alone = c.BinaryAccuracy()

    net = Net()
    net.tally.update(*A)
    assert set(net.state_dict()) == {"layer.weight", "layer.bias"}
    Net().load_state_dict(net.state_dict())
    assert {k.split(".")[0] for k in net.tally.state_dict()} == {*classifiers(), "mine"}
    net.tally.persistent(True)
    saved = net.state_dict()
    assert {k.split(".")[1] for k in saved if k.startswith("tally.")} == {*classifiers(), "mine"}
    assert not any(k.startswith("alone") for k in saved)
    new = Net()
    new.tally.persistent(True)
    new.load_state_dict(saved)
    assert plain(new.tally.compute()) == plain(net.tally.compute())
    assert len(shared(new.tally)) == 3
    with pytest.raises(RuntimeError, match="Missing key"):
        new.load_state_dict(Net().state_dict())
    assert not dict(net.named_parameters()).keys() & {k for k in saved if k.startswith("tally")}
    assert not dict(net.named_buffers())


def test_casts_and_moves_of_the_holder():
    tally = tt.MetricCollection({**classifiers(), "mine": MeanError()})
    holder = nn.ModuleDict({"tally": tally})
    tally.update(*A)
    holder.half().bfloat16().double()
    assert tally["mine"].total.dtype is torch.float32
    assert len(shared(tally)) == 3
    with pretend_cuda():
        holder.to("cuda")
        assert {m.device.type for m in tally.values()} == {"cuda"}
        assert len(shared(tally)) == 3
        tally.update(*(x.to("cuda") for x in B))
        got = {k: v.item() for k, v in tally.compute().items()}
        holder.cpu()
    assert {k: got[k] for k in classifiers()} == pytest.approx(alone(A, B))
    assert {k: plain(tally.compute())[k] for k in classifiers()} == alone(A, B)


def test_a_tensor_on_another_device_says_what_to_move():
    with pretend_cuda():
        tally = tt.MetricCollection(classifiers())
        with pytest.raises(ValueError, match=r"recall.*\.to\('cuda:0'\)"):
            tally.update(*(x.to("cuda") for x in A))
        assert tally.update_count == 0


# ---- reading
def test_fetch_and_reset_is_one_cut():
    tally = tt.MetricCollection({**classifiers(), "mine": MeanError(), "loss": tt.MeanMetric().bind(value="target")}, prefix="v_")
    tally.update(preds=A[0], target=A[1])
    first = tally.fetch(reset=True)
    tally.update(preds=B[0], target=B[1])
    second = tally.fetch(reset=True)
    assert first.ready and second.ready
    got = first.result()
    assert {k: got[f"v_{k}"] for k in classifiers()} == pytest.approx(alone(A), abs=1e-7)
    assert got["v_loss"] == 1.0 and got["v_mine"] == 0.25
    assert {k: second.result()[f"v_{k}"] for k in classifiers()} == pytest.approx(alone(B), abs=1e-7)
    assert tally.update_count == 0
    seen = []
    second.then(seen.append)
    tally.fetch().then(seen.append)
    assert len(seen) == 2


def test_on_a_device_fetch_never_waits_and_later_updates_do_not_change_it():
    with pretend_cuda() as recorder:
        tally = tt.MetricCollection(
            {**classifiers(), "loss": tt.MeanMetric().bind(value="target"), "all": tt.CatMetric().bind(value="preds")}
        ).to("cuda")
        a, b = (tuple(x.to("cuda") for x in batch) for batch in (A, B))
        before = len(recorder.stalls)
        tally.update(preds=a[0], target=a[1])
        first = tally.fetch(reset=True)
        tally.update(preds=b[0], target=b[1])
        second = tally.fetch()
        assert recorder.stalls[before:] == []
        assert {k: first.result()[k] for k in classifiers()} == pytest.approx(alone(A), abs=1e-7)
        assert first.result()["all"].tolist() == A[0].tolist()
        assert {k: second.result()[k] for k in classifiers()} == pytest.approx(alone(B), abs=1e-7)


@pytest.mark.parametrize("state", ["together", "left here", "left there", "emptied here", "emptied there"])
def test_merging(state):
    def make():
        return tt.MetricCollection({**classifiers(), "mine": MeanError(), "error": 1 - c.MulticlassAccuracy(3, average="micro")})

    a, b = make(), make()
    a.update(*A)
    b.update(*B)
    want = {k: v for k, v in alone(A, B).items()}
    if state == "left here":
        a["recall"].update(*B)
        want["recall"] = alone(A, B, B)["recall"]
    elif state == "left there":
        b["recall"].update(*A)
        want["recall"] = alone(A, A, B)["recall"]
    elif state == "emptied here":
        a["recall"].reset()
        want["recall"] = alone(B)["recall"]
    elif state == "emptied there":
        b["recall"].reset()
        want["recall"] = alone(A)["recall"]
    a.merge_state(b)
    got = plain(a.compute())
    assert {k: got[k] for k in want} == pytest.approx(want)
    assert got["mine"] == pytest.approx(4 / 6)
    assert got["error"] == pytest.approx(0.5)
    assert plain(b.compute())["accuracy"] == 0.0


def test_merging_what_does_not_match_changes_nothing():
    tally = tt.MetricCollection(classifiers())
    tally.update(*A)
    other = {**classifiers(), "precision": c.MulticlassPrecision(4)}
    for wrong in (tt.MetricCollection({"a": MeanError()}), c.MulticlassRecall(3), tt.MetricCollection(other)):
        with pytest.raises(ValueError, match="merge_state"):
            tally.merge_state(wrong)
        assert plain(tally.compute()) == alone(A)


def test_members_taken_out_keep_what_they_saw_and_those_who_stay_go_on():
    m = tt.MetricCollection(classifiers(), prefix="v_")
    m.update(*A)
    out = m.pop("v_accuracy")
    assert list(m) == ["v_recall", "v_precision"] and out.compute() == 0.75 and out.update_count == 1
    out.update(*B)
    m.update(*A)
    alone = tt.MetricCollection({n: v for n, v in classifiers().items() if n != "accuracy"}, prefix="v_")
    alone.update(*A)
    alone.update(*A)
    assert out.compute() == 0.5 and m.compute() == alone.compute()
    assert m.reset() is None and out.compute() == 0.5
    m["accuracy"] = out  # back again, with what it saw
    m.update(*B)
    assert out.compute() == 3 / 8 and m.compute()["v_accuracy"] == 3 / 8
    apart = m.clone()
    del apart["recall"]
    assert list(apart) == ["v_precision", "v_accuracy"] and list(m) == ["v_recall", "v_precision", "v_accuracy"]
    apart.clear()
    assert len(apart) == 0 and apart.compute() == {} and len(m) == 3
    with pytest.raises(KeyError, match="nothing"):
        m.pop("nothing")


def test_a_metric_set_in_place_of_another():
    m = tt.MetricCollection(classifiers())
    old = m["accuracy"]
    m.update(*A)
    with pytest.raises(ValueError, match="expected a metric"):
        m["accuracy"] = 3
    assert m["accuracy"] is old and m.compute()["accuracy"] == 0.75
    m["accuracy"] = c.MulticlassAccuracy(3, average="micro", top_k=2)
    assert list(m) == ["accuracy", "recall", "precision"]
    m["accuracy"] = c.MulticlassAccuracy(3, average="micro")
    m.update(*B)
    assert m.compute()["accuracy"] == 0 and old.compute() == 0.75
    assert torch.equal(m.compute()["recall"], seen(c.MulticlassRecall(3), A, B))
    m.reset()
    m.update(*A)
    assert m.compute()["accuracy"] == old.compute()


def seen(metric, *batches):
    for batch in batches:
        metric.update(*batch)
    return metric.compute()


def test_small_things():
    tally = tt.MetricCollection(classifiers(), prefix="v_")
    assert tally.higher_is_better == {"v_accuracy": True, "v_recall": True, "v_precision": True}
    assert tally.compute_groups == {0: ["accuracy"], 1: ["recall", "precision"]}
    tally.set_dtype(torch.float64)
    assert tally(*A)["v_recall"].dtype is torch.float64
    assert "prefix='v_'" in repr(tally) and "1 update" in repr(tally)
    assert isinstance(hash(tally), int)
    assert tt.MetricCollection(classifiers(), compute_groups=False)(*A).keys() == classifiers().keys()


@pytest.mark.parametrize("wrap", [tuple, elsewhere], ids=["host", "device"])
def test_many_batches_of_any_size(wrap):
    tally = tt.MetricCollection({**classifiers(), "loss": tt.MeanMetric().bind(value="loss"), "most": tt.MaxMetric().bind(value="loss")})
    generator = torch.Generator().manual_seed(0)
    batches, losses = [], []
    for n in [3, 3, 4, 1, 0, 7] * 20:
        batches.append((torch.randn(n, 3, generator=generator), torch.randint(0, 3, (n,), generator=generator)))
        losses.append(torch.randn((), generator=generator))
        preds, target = wrap(batches[-1])
        tally.update(preds=preds, target=target, loss=wrap((losses[-1],))[0])
    got = {k: float(v) for k, v in tally.compute().items()}
    whole = tuple(torch.cat(x) for x in zip(*batches))
    assert {k: got[k] for k in classifiers()} == pytest.approx(alone(whole), rel=1e-6)
    assert got["loss"] == pytest.approx(float(torch.stack(losses).double().mean()), rel=1e-6)
    assert got["most"] == float(max(losses))


@pytest.mark.parametrize("of", ["collection", "ledger"])
def test_a_pickle_of_another_version_is_refused_in_words(of):
    tally = tt.MetricCollection({"recall": c.MulticlassRecall(3)})
    held = tally if of == "collection" else tally.ledger
    whole = dict(held.__dict__ if of == "collection" else held.__getstate__())
    type(held).__new__(type(held)).__setstate__(whole)
    whole.pop("_sharing" if of == "collection" else "clock")
    with pytest.raises(TallyError, match=r"pickled whole by another version .*state_dict\(\) or use torchtally\.save"):
        type(held).__new__(type(held)).__setstate__(whole)


def with_another_librarys():
    torchmetrics = pytest.importorskip("torchmetrics")
    return tt.MetricCollection({"accuracy": c.BinaryAccuracy(), "theirs": torchmetrics.classification.BinaryAccuracy()})


def test_a_member_of_another_library_is_fetched_without_padding_and_has_no_interval():
    tally = with_another_librarys()
    preds, target = torch.tensor([1, 0, 1, 0]), torch.tensor([1, 1, 1, 1])
    tally.update(preds, target, valid=3)
    tally.update(preds, target, valid=torch.tensor([True, False, True, False]))
    assert tally.fetch().result() == pytest.approx({"accuracy": 0.8, "theirs": 0.8})
    assert list(tally.interval()) == ["accuracy"]
    assert tally.fetch(reset=True).result() == pytest.approx({"accuracy": 0.8, "theirs": 0.8})
    tally.update(preds, target)
    assert tally.fetch().result() == pytest.approx({"accuracy": 0.5, "theirs": 0.5})
    tally.pop("accuracy")
    with pytest.raises(ValueError, match=r"'theirs': BinaryAccuracy is no metric of torchtally"):
        tally.interval()


def test_a_member_of_another_library_saves_what_was_made_persistent():
    tally = with_another_librarys()
    tally["theirs"].persistent(True)
    tally.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
    again = with_another_librarys()
    again.load_state_dict(tally.state_dict(), strict=False)
    assert again["accuracy"].compute() == 0.5 and again["theirs"].tp == 1


def test_states_without_those_of_another_librarys_member_leave_it_as_it_is():
    tally = with_another_librarys()
    tally.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
    tally.merge_state(tally.state_dict())
    assert tally["accuracy"].tp == 2 and tally["theirs"].tp == 1
