"""One thread trains, another reads: what is read is never half of an update, and nothing falls between two reads."""

import copy
import pickle
import sys
import threading

import pytest
import torch
from torch import tensor

import torchtally as tt
from torchtally import classification as c


class Gate(tt.Metric):
    """A user's metric that stops in the middle of an update until it is let go."""

    def __init__(self):
        super().__init__()
        self.add_state("total", torch.zeros(()), "sum")
        self.inside, self.go = threading.Event(), threading.Event()

    def update(self, x):
        self.total += x
        self.inside.set()
        assert self.go.wait(60)

    def compute(self):
        return self.total


def in_thread(work):
    """Starts `work`; the list gets what it returns or raises."""
    found = []

    def run():
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def tally(**more):
    return tt.MetricCollection(
        {"sum": tt.SumMetric().bind(value="x"), "mean": tt.MeanMetric().bind(value="x"), "largest": tt.MaxMetric().bind(value="x"), **more}
    )


@pytest.mark.parametrize(
    "read",
    [lambda t: t.fetch(reset=True).result(), lambda t: t.compute(), lambda t: t.state_dict()],
    ids=["fetch", "compute", "state_dict"],
)
def test_a_read_waits_for_the_update_under_way(read):
    gate = Gate().bind(x="x")
    metrics = tally(gate=gate)
    writer, done = in_thread(lambda: metrics.update(x=2.0))
    assert gate.inside.wait(60)  # the user's metric has the batch, the others do not
    reader, found = in_thread(lambda: read(metrics))
    reader.join(0.2)  # would be over by now if it did not wait
    assert not found
    gate.go.set()
    writer.join(60)
    reader.join(60)
    assert done == [None]
    values = {n.split(".")[0]: float(x) for n, x in found[0].items() if n in ("sum", "gate", "sum.total", "gate.total")}
    assert values == {"sum": 2.0, "gate": 2.0}


def test_an_update_waits_for_the_cut_under_way():
    """Between the values of a `fetch(reset=True)` and its reset nothing is added, so that nothing is lost."""
    metrics = tally()
    metrics.update(x=1.0)
    taken, go = threading.Event(), threading.Event()
    real = metrics.reset

    def reset():
        taken.set()
        assert go.wait(60)
        real()

    metrics.__dict__["reset"] = reset
    reader, found = in_thread(lambda: metrics.fetch(reset=True).result())
    assert taken.wait(60)
    writer, done = in_thread(lambda: metrics.update(x=10.0))
    writer.join(0.2)
    assert not done
    go.set()
    reader.join(60)
    writer.join(60)
    assert found == [{"sum": 1.0, "mean": 1.0, "largest": 1.0}]
    assert float(metrics.compute()["sum"]) == 10.0


def test_cuts_add_up_whoever_is_faster():
    rounds, interval = 3000, sys.getswitchinterval()
    rates = {"accuracy": c.MulticlassAccuracy(num_classes=3, average="micro"), "matrix": c.MulticlassConfusionMatrix(num_classes=3)}
    metrics, alone = tally(**rates), tt.MeanMetric()
    stop = threading.Event()
    found, cuts = [], []

    def read():
        while True:
            last = stop.is_set()
            found.append(metrics.fetch(reset=True).result())
            cuts.append(alone.state_dict())
            if last:
                return

    sys.setswitchinterval(1e-5)
    try:
        reader, ended = in_thread(read)
        labels = tensor([0, 1, 2, 2])
        for _ in range(rounds):
            metrics.update(x=1.0, preds=labels, target=labels)
            alone.update(1.0)
        stop.set()
        reader.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert ended == [None]
    assert sum(x["sum"] for x in found) == rounds
    assert sum(int(x["matrix"].sum()) for x in found) == 4 * rounds
    for x in found:  # all members of a cut have seen the same updates
        assert int(x["matrix"].sum()) == 4 * x["sum"]
    for x in cuts:
        assert float(x["total"]) == float(x["weight"]) == int(x["updates"])
    assert alone.update_count == rounds


def test_members_keep_one_lock_and_copies_have_their_own():
    metrics = tally()
    guards = {id(m._guard) for m in metrics.values()}
    assert guards == {id(metrics._guard)}
    for copied in (copy.deepcopy(metrics), pickle.loads(pickle.dumps(metrics)), metrics.clone()):
        assert {id(m._guard) for m in copied.values()} == {id(copied._guard)}
        assert copied._guard is not metrics._guard


def test_an_error_lets_go():
    metrics = tally()
    with pytest.raises(ValueError, match="needs the entry"):
        metrics.update(y=1.0)
    writer, done = in_thread(lambda: metrics.update(x=1.0))
    writer.join(60)
    assert done == [None]
