"""Law 1 of metrics around metrics: the update of each is compiled whole, at most twice whatever the sizes of batches, and adds what it adds uncompiled."""

import pytest
import torch
from test_feature_share import FeatureMean
from test_wrappers import CASES, joined, pair, same

import torchtally as tt
from torchtally import classification as c
from torchtally import wrappers as w

IN_PYTHON = ("Running-users", "Running-collection", "Running-samples")
"""Whose windows change places in Python; see below."""


class IndexLast:
    """Slices whose index is given by position."""

    def __init__(self, metric):
        self.metric = w.Sliced(metric, 3)
        self.compute = self.metric.compute

    def update(self, preds, target, index):
        self.metric.update(preds, target, index=index)


def indexed(n, g):
    return (*pair(n, g), torch.randint(0, 3, (n,), generator=g))


def images(n, g):
    return (torch.rand(n, 3, generator=g),)


def tracker():
    metric = w.MetricTracker(c.BinaryAccuracy())
    metric.increment()
    return metric


def collection():
    return tt.MetricCollection(
        {
            "window": w.Running(c.BinaryAccuracy(), 3),
            "sure": w.BootStrapper(tt.MeanAbsoluteError(), 10, seed=0),
            "least": w.MinMaxMetric(tt.MeanSquaredError()),
            "plain": tt.MeanSquaredError(),
        }
    )


NETWORK = torch.nn.Linear(3, 2)

UPDATED = {
    **{case.name: (case.make, case.batch) for case in CASES if case.name not in IN_PYTHON},
    "Bootstrap": (lambda: w.BootStrapper(tt.MeanAbsoluteError(), 10, seed=0), pair),
    "Bootstrap-decides": (lambda: w.BootStrapper(c.BinaryAccuracy(), 10, seed=0), pair),
    "Bootstrap-multinomial": (lambda: w.BootStrapper(tt.MeanAbsoluteError(), 10, seed=0, sampling_strategy="multinomial"), pair),
    "Sliced": (lambda: IndexLast(c.BinaryAccuracy(from_logits=False)), indexed),
    "Sliced-decides": (lambda: IndexLast(c.BinaryAccuracy()), indexed),
    "Sliced-moments": (lambda: IndexLast(tt.PearsonCorrCoef()), indexed),
    "Tracker": (tracker, pair),
    "FeatureShare": (lambda: w.FeatureShare({"a": FeatureMean(NETWORK), "b": FeatureMean(NETWORK)}), images),
    "MovingAverage": (lambda: w.ExponentialMovingAverage(halflife=5), lambda n, g: images(n, g)),
    "Nested": (lambda: w.MinMaxMetric(w.Running(c.BinaryAccuracy(), 3)), pair),
    "Collection": (collection, pair),
}
QUICK = ("Running", "RunningMean", "Bootstrap", "FeatureShare")
since_2_11 = pytest.mark.skipif(torch.__version__ < (2, 11), reason="not with the Dynamo of PyTorch 2.6; docs/versions.md")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[*([since_2_11] if n.startswith(("Bootstrap", "FeatureShare")) else []), *([] if n in QUICK else [pytest.mark.slow])]) for n in UPDATED])
def test_update_compiles_whole_at_most_twice(name):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    make, batch_of = UPDATED[name]
    metric, plain = make(), make()
    compiled = torch.compile(lambda *batch: metric.update(*batch), backend=counter, fullgraph=True)
    g = torch.Generator().manual_seed(0)
    for size in (4, 7, 9) * 4:
        batch = batch_of(size, g)
        compiled(*batch)
        plain.update(*batch)
    assert counter.frame_count <= 2
    same(metric.compute(), plain.compute())


def test_a_compiled_update_leaves_out_rows_with_nan():
    torch._dynamo.reset()
    metric = w.MultioutputWrapper(tt.MeanSquaredError(), 2)
    compiled = torch.compile(lambda *batch: metric.update(*batch), backend="eager", fullgraph=True)
    g = torch.Generator().manual_seed(0)
    data = [(torch.rand(n, 2, generator=g), torch.rand(n, 2, generator=g)) for n in (5, 5)]
    for k, (preds, target) in enumerate(data):
        preds[k, 0] = target[3, 1] = torch.nan
        compiled(preds, target)
    preds, target = (x.double() for x in joined(data))
    want = [torch.nanmean((preds - target)[:, k].square()) for k in (0, 1)]
    same(metric.compute(), torch.stack(want))


@since_2_11
def test_the_network_of_a_compiled_update_runs_once():
    torch._dynamo.reset()
    seen = []

    def backend(graph, inputs):
        seen.append(sum("linear" in str(node.target) for node in graph.graph.nodes))
        return graph.forward

    metrics = w.FeatureShare({"a": FeatureMean(NETWORK), "b": FeatureMean(NETWORK)})
    torch.compile(lambda x: metrics.update(x), backend=backend, fullgraph=True)(torch.rand(4, 3))
    assert seen == [1]


@since_2_11
@pytest.mark.parametrize(
    "metric",
    [w.Running(tt.MetricCollection([tt.MeanSquaredError()]), 2), w.BootStrapper(tt.PearsonCorrCoef(), 3), w.BootStrapper(c.BinaryAUROC(), 20)],
    ids=["Running", "BootStrapper", "BootStrapper-samples"],
)
def test_what_cannot_be_compiled_says_so(metric):
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"outside of torch\.compile"):
        torch.compile(lambda *batch: metric.update(*batch), backend="eager", fullgraph=True)(*pair(4, torch.Generator()))
    metric.update(*pair(4, torch.Generator()))
    assert metric.update_count == 1
