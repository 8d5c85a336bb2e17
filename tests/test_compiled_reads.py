"""Values within compiled functions: of `forward`, `compute` and functions. Where a graph cannot hold a part, it breaks there, and values are right."""

import pytest
import torch
from test_laws import assert_equal

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f

WHOLE = torch.__version__ >= (2, 11)  # the Dynamo of PyTorch 2.6 breaks graphs of forward, and warns of it; docs/versions.md
pytestmark = [] if WHOLE else [pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(autouse=True)
def afresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def yes_no(n):
    return torch.rand(n), torch.randint(0, 2, (n,))


def scores(n):
    return torch.randn(n, 5), torch.randint(0, 5, (n,))


def pairs(n):
    return torch.randn(n), torch.randn(n)


CASES = {
    "accuracy": (lambda: c.MulticlassAccuracy(5), scores),
    "f1": (c.BinaryF1Score, yes_no),
    "matrix": (lambda: c.MulticlassConfusionMatrix(5), scores),
    "binned": (lambda: c.BinaryAUROC(thresholds=5), yes_no),
    "error": (tt.MeanSquaredError, pairs),
    "mean": (tt.MeanMetric, lambda n: (torch.rand(n),)),
}
KEEPING = {
    "curve": (c.BinaryAUROC, yes_no),
    "r2": (tt.R2Score, pairs),
    "samples": (tt.CatMetric, lambda n: (torch.rand(n),)),
    "ranks": (tt.SpearmanCorrCoef, pairs),
}


@pytest.mark.parametrize(("name", "fed_before"), [*((n, False) for n in [*CASES, *KEEPING]), *((n, True) for n in ["accuracy", *KEEPING])])
def test_forward_gives_the_value_of_the_batch_and_counts_it_once(name, fed_before):
    make, batch = (CASES | KEEPING)[name]
    compiled, plain = make(), make()
    if fed_before:
        before = batch(6)
        compiled(*before)
        plain(*before)
    forward = torch.compile(lambda *x: compiled(*x), fullgraph=WHOLE and name in CASES, backend="eager")
    for n in (8, 8, 5):
        each = batch(n)
        assert_equal(forward(*each), plain(*each))
    assert compiled.update_count == plain.update_count
    assert_equal(compiled.compute(), plain.compute())


@pytest.mark.skipif(not WHOLE, reason="PyTorch 2.6 refuses in its own words; docs/versions.md")
@pytest.mark.parametrize("name", KEEPING)
def test_a_graph_that_must_hold_forward_of_samples_is_refused(name):
    make, batch = KEEPING[name]
    metric = make()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="keep samples can be updated within a compiled graph, but not read"):
        torch.compile(lambda *x: metric(*x), fullgraph=True, backend="eager")(*batch(4))


@pytest.mark.parametrize("name", [*CASES, *KEEPING])
def test_a_step_that_updates_and_computes_sees_all_so_far(name):
    make, batch = (CASES | KEEPING)[name]
    compiled, plain = make(), make()

    @torch.compile(backend="eager")
    def step(*x):
        compiled.update(*x)
        return compiled.compute()

    for n in (8, 8, 5):
        each = batch(n)
        plain.update(*each)
        assert_equal(step(*each), plain.compute())


def test_a_collection():
    def make():
        return tt.MetricCollection({"area": c.BinaryAUROC(), "right": c.BinaryAccuracy(), "loss": tt.MeanMetric().bind(value="loss")})

    compiled, plain = make(), make()
    forward = torch.compile(lambda **x: compiled(**x), backend="eager")
    for n in (8, 8, 5):
        preds, target = yes_no(n)
        batch = {"preds": preds, "target": target, "loss": torch.rand(())}
        assert_equal(forward(**batch), plain(**batch))
    assert_equal(compiled.compute(), plain.compute())
    assert [m.update_count for m in compiled.values()] == [3, 3, 3]


@pytest.mark.parametrize("name", ["binary_auroc", "binary_f1_score", "mean_squared_error", "spearman_corrcoef"])
def test_functions(name):
    function = getattr(f, name)
    compiled = torch.compile(lambda *x: function(*x), backend="eager")
    for n in (8, 5):
        batch = (pairs if "binary" not in name else yes_no)(n)
        assert_equal(compiled(*batch), function(*batch))


def test_a_metric_that_is_made_within():
    def joined(a, b):
        metric = tt.CatMetric()
        metric.update(a)
        metric.update(b)
        return metric.compute()

    a, b = torch.rand(3), torch.rand(2)
    assert_equal(torch.compile(joined, backend="eager")(a, b), torch.cat([a, b]))
