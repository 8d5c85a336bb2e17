"""MetricTracker: steps, the best of them, and files of them."""

import copy
import math
import pickle

import pytest
import torch
from torch import tensor

import torchtally as tt
from torchtally import classification as c
from torchtally.stalls import pretend_cuda
from torchtally.testing import assert_no_stalls


def tracked(metric, steps, **options):
    tracker = tt.MetricTracker(metric, **options)
    for batches in steps:
        tracker.increment()
        for batch in batches:
            tracker.update(*batch)
    return tracker


def right(n):
    """Predictions of which n of 4 are right."""
    return tensor([1] * n + [0] * (4 - n)), tensor([1, 1, 1, 1])


STEPS = [[right(1), right(3)], [right(4)], [right(4)], [right(0)]]


def test_values_of_all_steps_and_the_best():
    tracker = tracked(c.BinaryAccuracy(), STEPS)
    assert tracker.n_steps == 4
    assert tracker.compute_all().tolist() == [0.5, 1.0, 1.0, 0.0]
    assert tracker.fetch_all().result().tolist() == [0.5, 1.0, 1.0, 0.0]
    assert tracker.best_metric() == 1.0
    assert tracker.best_metric(return_step=True) == (1.0, 1)
    assert tracker.compute() == 0.0
    assert tracker(*right(4)) == 1.0
    assert tracker.compute() == 0.5
    tracker.reset()
    tracker.update(*right(2))
    assert tracker.compute_all().tolist() == [0.5, 1.0, 1.0, 0.5]
    assert tracked(tt.MeanSquaredError(), [[(tensor([2.0]), tensor([0.0]))], [(tensor([1.0]), tensor([0.0]))]]).best_metric(True) == (
        1.0,
        1,
    )
    tracker.reset_all()
    assert tracker.n_steps == 4
    assert tracker.compute_all().tolist() == [0.0] * 4


def test_collections_are_tracked_by_name():
    metrics = tt.MetricCollection({"a": c.BinaryAccuracy(), "h": c.BinaryHammingDistance()}, prefix="val_")
    tracker = tracked(metrics, STEPS)
    assert tracker.best_metric(True) == ({"val_a": 1.0, "val_h": 0.0}, {"val_a": 1, "val_h": 1})
    assert tracked(metrics, STEPS, maximize=[False, True]).best_metric() == {"val_a": 0.0, "val_h": 1.0}
    assert tracked(metrics, STEPS, maximize=False).best_metric() == {"val_a": 0.0, "val_h": 0.0}
    per_class = tt.MetricCollection(
        {"r": tt.ClasswiseWrapper(c.MulticlassRecall(2, average=None)), "h": c.MulticlassHammingDistance(2, average="micro")}
    )
    found, steps = tracked(per_class, STEPS).best_metric(True)
    assert found == {"multiclassrecall_0": 0.0, "multiclassrecall_1": 1.0, "h": 0.0}
    assert steps == {"multiclassrecall_0": 0, "multiclassrecall_1": 1, "h": 1}
    assert tracked(tt.ClasswiseWrapper(c.MulticlassRecall(2, average=None)), STEPS).best_metric()["multiclassrecall_1"] == 1.0
    tasks = tt.MultitaskWrapper({"x": c.BinaryAccuracy(), "y": metrics})
    pair = right(3)
    many = tracked(tasks, [[({"x": pair[0], "y": pair[0]}, {"x": pair[1], "y": pair[1]})]])
    assert many.best_metric() == {"x": 0.75, "y": {"val_a": 0.75, "val_h": 0.25}}


def test_steps_without_a_value_are_left_out():
    tracker = tracked(tt.MeanMetric(), [[(3.0,)], [], [(5.0,)]], maximize=True)
    assert tracker.best_metric(True) == (5.0, 2)
    empty = tracked(tt.MeanMetric(), [[], []], maximize=True)
    value, step = empty.best_metric(True)
    assert math.isnan(value)
    assert step is None
    infinite = tracked(tt.MeanMetric(), [[], [(-math.inf,)]], maximize=True)
    assert infinite.best_metric(True) == (-math.inf, 1)


def test_what_has_no_best_is_none():
    metrics = tt.MetricCollection({"a": c.BinaryAccuracy(), "m": c.BinaryConfusionMatrix()})
    with pytest.warns(UserWarning, match="m has no single best value"):
        assert tracked(metrics, STEPS, maximize=True).best_metric(True) == ({"a": 1.0, "m": None}, {"a": 1, "m": None})
    assert tracked(metrics, STEPS, maximize=True).compute_all()["m"].shape == (4, 2, 2)
    samples = tracked(tt.CatMetric(), [[(1.0,)], [(tensor([1.0, 2.0]),)]], maximize=True)
    assert [x.tolist() for x in samples.compute_all()] == [[1.0], [1.0, 2.0]]
    with pytest.warns(UserWarning, match="CatMetric has no single best value"):
        assert samples.best_metric() is None


def test_nothing_before_the_first_step():
    tracker = tt.MetricTracker(c.BinaryAccuracy())
    for call in (
        tracker.compute,
        tracker.compute_all,
        tracker.reset,
        tracker.fetch,
        tracker.best_metric,
        lambda: tracker.update(*right(1)),
        lambda: tracker(*right(1)),
    ):
        with pytest.raises(ValueError, match=r"call increment\(\) before"):
            call()


@pytest.mark.parametrize("how", ["pickle", "deepcopy", "clone", "state_dict", "save", "within a module"])
def test_trackers_survive(how, tmp_path):
    tracker = tracked(c.BinaryAccuracy(), STEPS)
    if how == "pickle":
        other = pickle.loads(pickle.dumps(tracker))
    elif how in ("deepcopy", "clone"):
        other = copy.deepcopy(tracker) if how == "deepcopy" else tracker.clone()
    elif how == "within a module":
        holder, into = torch.nn.Module(), torch.nn.Module()
        holder.tracker, into.tracker = tracker, tracked(c.BinaryAccuracy(), [])
        tracker.persistent(True)
        into.tracker.persistent(True)
        into.load_state_dict(holder.state_dict())
        other = into.tracker
    else:
        other = tracked(c.BinaryAccuracy(), [[right(1)]] * 7 if how == "save" else [])
        if how == "save":
            tt.save(tracker, tmp_path / "t.pt")
        other.load_state_dict(tt.load(tmp_path / "t.pt") if how == "save" else tracker.state_dict())
    assert other.compute_all().tolist() == [0.5, 1.0, 1.0, 0.0]
    other.increment()
    other.update(*right(3))
    assert other.compute_all().tolist() == [0.5, 1.0, 1.0, 0.0, 0.75]
    assert tracker.n_steps == 4


def test_merging_step_by_step():
    one, two = tracked(c.BinaryAccuracy(), STEPS[:1]), tracked(c.BinaryAccuracy(), [STEPS[1], STEPS[2]])
    one.merge_state(two)
    assert [round(x, 4) for x in one.compute_all().tolist()] == [0.6667, 1.0]
    two.merge_state(two.state_dict())
    assert two.compute_all().tolist() == [1.0, 1.0]


def test_nothing_waits_on_a_device():
    with pretend_cuda():
        tracker = tt.MetricTracker(tt.MetricCollection([c.BinaryAccuracy()])).to("cuda")
        data = [[tuple(x.cuda() for x in batch) for batch in step] for step in STEPS]
        with assert_no_stalls():
            for step in data:
                tracker.increment()
                for batch in step:
                    tracker.update(*batch)
                tracker(*step[0])
            pending = tracker.fetch_all()
            tracker.fetch()
        assert [round(x, 4) for x in pending.result()["BinaryAccuracy"].tolist()] == [0.4167, 1.0, 1.0, 0.0]


def test_repr_counts_steps():
    assert "MetricTracker(BinaryAccuracy, 4 steps" in repr(tracked(c.BinaryAccuracy(), STEPS))
