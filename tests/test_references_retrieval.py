"""Retrieval metrics against their definitions, written out query by query and averaged over every order of tied documents, and against scikit-learn."""

import itertools
import math

import numpy as np
import pytest
import torch
from cases import elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor, tensor

import torchtally as tt
from torchtally import functional as f
from torchtally import retrieval as r

FORMS = {"host": tuple, "device": elsewhere}
forms = pytest.mark.parametrize("form", FORMS)


# ---- definitions, of documents in their order
def precision(y, k, adaptive=False):
    found = sum(x > 0 for x in y[:k])
    return found / (len(y) if k is None else min(k, len(y)) if adaptive else k)


def recall(y, k):
    return sum(x > 0 for x in y[:k]) / sum(x > 0 for x in y)


def fall_out(y, k):
    return sum(x == 0 for x in y[:k]) / sum(x == 0 for x in y)


def hit(y, k):
    return float(any(x > 0 for x in y[:k]))


def r_precision(y, k):
    count = sum(x > 0 for x in y)
    return sum(x > 0 for x in y[:count]) / count


def reciprocal_rank(y, k):
    return next((1 / (i + 1) for i, x in enumerate(y[:k]) if x > 0), 0.0)


def average_precision(y, k):
    precisions = [precision(y, i + 1) for i, x in enumerate(y[:k]) if x > 0]
    count = sum(x > 0 for x in y)
    return sum(precisions) / (count if k is None else min(count, k))


def dcg(y, k):
    return sum(x / math.log2(i + 2) for i, x in enumerate(y[:k]))


def ndcg(y, k):
    return dcg(y, k) / dcg(sorted(y, reverse=True), k)


DEFINED = {
    r.RetrievalPrecision: precision,
    r.RetrievalRecall: recall,
    r.RetrievalFallOut: fall_out,
    r.RetrievalHitRate: hit,
    r.RetrievalRPrecision: r_precision,
    r.RetrievalMRR: reciprocal_rank,
    r.RetrievalMAP: average_precision,
    r.RetrievalNormalizedDCG: ndcg,
}


def orders(scores, y):
    """Every order of the targets in which no document comes before one of higher score."""
    tie = {}
    for s, t in zip(scores, y):
        tie.setdefault(s, []).append(t)
    parts = [list(itertools.permutations(tie[s])) for s in sorted(tie, reverse=True)]
    return [list(itertools.chain(*choice)) for choice in itertools.product(*parts)]


def mean_over_orders(define, scores, y, *options):
    return float(np.mean([define(order, *options) for order in orders(scores, y)]))


def per_query(define, data, k, lacks, empty=0.0):
    """The value of each query; `empty` where it is lacking anything, None: left out."""
    values = []
    for q in np.unique(data[2]):
        scores, y = (x[data[2] == q] for x in data[:2])
        if lacks(y):
            values += [] if empty is None else [empty]
        else:
            values.append(mean_over_orders(define, scores.tolist(), y.tolist(), k))
    return values


def no_relevant(y):
    return not (y > 0).any()


def no_irrelevant(y):
    return not (y == 0).any()


def made(n, queries, seed, grades=2, levels=4):
    g = np.random.default_rng(seed)
    return g.integers(-levels, levels, n) / 2.0, g.integers(0, grades, n), g.integers(0, queries, n) * 7 - 5


def fed(metric, data, form="host", parts=3):
    """The value after updates with parts of the data, of which queries go on in the next."""
    for batch in zip(*(torch.as_tensor(x).tensor_split(parts) for x in data)):
        metric.update(*FORMS[form](batch))
    value = metric.set_dtype(torch.float64).compute()
    return value.as_subclass(Tensor) if isinstance(value, Tensor) else [x.as_subclass(Tensor) for x in value]


def close(got, want):
    got, want = (torch.as_tensor(x, dtype=torch.float64) for x in (got, want))
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@forms
@pytest.mark.parametrize("k", [None, 1, 2, 3, 100])
@pytest.mark.parametrize("cls", DEFINED)
def test_a_mean_of_queries_with_ties(cls, k, form):
    options = {} if cls is r.RetrievalRPrecision else {"top_k": k}
    for seed in range(4):
        data = made(30, 6, seed, grades=4 if cls is r.RetrievalNormalizedDCG else 2)
        lacks, empty = (no_irrelevant, 1.0) if cls is r.RetrievalFallOut else (no_relevant, 0.0)
        close(fed(cls(**options), data, form), np.mean(per_query(DEFINED[cls], data, k, lacks, empty)))


@forms
@pytest.mark.parametrize("aggregation", ["mean", "median", "min", "max", "own"])
@pytest.mark.parametrize("action", ["neg", "pos", "skip"])
def test_what_is_made_of_the_values_of_queries(action, aggregation, form):
    empty = {"neg": 0.0, "pos": 1.0, "skip": None}[action]
    how = {"mean": np.mean, "median": lambda x: np.sort(x)[(len(x) - 1) // 2], "min": np.min, "max": np.max, "own": np.prod}[aggregation]
    given = torch.prod if aggregation == "own" else aggregation
    for seed in range(4):
        data = made(24, 8, seed)
        want = how(per_query(reciprocal_rank, data, 2, no_relevant, empty))
        metric = r.RetrievalMRR(action, top_k=2, aggregation=given)
        close(fed(metric, data, form), want)
        close(metric.fetch().result(), want)


@forms
def test_an_error_where_nothing_is_relevant_loses_nothing(form):
    make = FORMS[form]
    metric = r.RetrievalMAP("error")
    metric.update(*make((tensor([0.5, 0.2]), tensor([1, 0]), tensor([0, 0]))))
    assert float(metric.compute()) == 1.0 == metric.fetch().result()
    metric.update(*make((tensor([0.3]), tensor([0]), tensor([5]))))
    for read in (metric.compute, metric.fetch().result):
        with pytest.raises(ValueError, match="1 query has no relevant document"):
            read()
    metric.update(*make((tensor([0.4]), tensor([1]), tensor([5]))))
    assert float(metric.compute()) == 1.0
    batch = make((tensor([0.4]), tensor([0]), tensor([6])))
    if form == "host":
        with pytest.raises(ValueError, match="no relevant document"):
            metric(*batch)
    else:
        assert metric(*batch).isnan()  # without waiting
    metric.update(*make((tensor([0.5]), tensor([1]), tensor([6]))))
    assert float(metric.compute()) == 1.0


@forms
def test_ndcg_is_scikit_learns(form):
    g = np.random.default_rng(0)
    scores, gains = g.integers(0, 6, (9, 12)) / 4.0, g.random((9, 12)).round(2)
    queries = np.repeat(np.arange(9), 12)
    for k in (None, 1, 5, 12):
        close(fed(r.RetrievalNormalizedDCG(top_k=k), (scores.ravel(), gains.ravel(), queries), form), sk.ndcg_score(gains, scores, k=k))


@forms
@pytest.mark.parametrize("max_fpr", [None, 0.3, 0.75, 1.0])
def test_areas_are_scikit_learns(max_fpr, form):
    for seed in range(5):
        scores, y, queries = made(80, 5, seed)
        values = []
        for q in np.unique(queries):
            mine = queries == q
            both = 0 < y[mine].sum() < mine.sum()
            values.append(sk.roc_auc_score(y[mine], scores[mine], max_fpr=max_fpr) if both else 0.0)
        close(fed(r.RetrievalAUROC(max_fpr=max_fpr), (scores, y, queries), form), np.mean(values))


@forms
def test_the_area_of_the_first_documents_takes_in_those_tied_with_the_last(form):
    scores, y = np.array([0.9, 0.8, 0.5, 0.5, 0.1]), np.array([1, 0, 1, 0, 1])
    close(fed(r.RetrievalAUROC(top_k=3), (scores, y, np.zeros(5, int)), form), sk.roc_auc_score(y[:4], scores[:4]))
    assert fed(r.RetrievalAUROC("pos", top_k=1), (scores, y, np.zeros(5, int)), form) == 1.0  # one sort only


@forms
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("action", ["neg", "pos", "skip"])
@pytest.mark.parametrize("aggregation", ["mean", "median", "max", "own"])
@pytest.mark.parametrize("max_k", [None, 1, 4, 12])
def test_curves_hold_precision_and_recall_at_every_k(max_k, aggregation, action, adaptive, form):
    empty = {"neg": 0.0, "pos": 1.0, "skip": None}[action]
    how = {"mean": np.mean, "median": lambda x: np.sort(x)[(len(x) - 1) // 2], "max": np.max, "own": np.sum}[aggregation]
    given = torch.sum if aggregation == "own" else aggregation
    data = made(22, 6, 3)
    longest = max_k or np.unique(data[2], return_counts=True)[1].max()
    metric = r.RetrievalPrecisionRecallCurve(max_k, adaptive, action, aggregation=given)
    precisions, recalls, k = fed(metric, data, form)
    assert k.tolist() == list(range(1, longest + 1))
    for i in k.tolist():
        close(precisions[i - 1], how(per_query(lambda y, k: precision(y, k, adaptive), data, i, no_relevant, empty)))
        close(recalls[i - 1], how(per_query(recall, data, i, no_relevant, empty)))
    for got, want in zip(metric.fetch().result(), (precisions, recalls, k)):
        close(got, want)


@forms
@pytest.mark.parametrize("least", [0.0, 0.3, 0.5, 0.6, 1.0])
def test_recall_at_fixed_precision_is_the_best_point_of_the_curve(least, form):
    for seed, max_k in itertools.product(range(4), (None, 2, 9)):
        data = made(22, 6, seed)
        precisions, recalls, k = fed(r.RetrievalPrecisionRecallCurve(max_k), data)
        good = [(float(b), int(i)) for a, b, i in zip(precisions, recalls, k) if a >= least - 1e-12]
        best = max(good, default=(0.0, len(k)))
        metric = r.RetrievalRecallAtFixedPrecision(least, max_k)
        recall_there, at = fed(metric, data, form)
        close(recall_there, best[0])
        assert int(at) == (best[1] if best[0] else len(k))
        assert metric.fetch().result() == (float(recall_there), int(at))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=14),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from(sorted(DEFINED, key=lambda c: c.__name__)),
    st.sampled_from(sorted(FORMS)),
    st.randoms(),
)
def test_the_order_of_the_data_changes_nothing(rows, k, cls, form, random):
    options = {} if cls is r.RetrievalRPrecision else {"top_k": k}
    shuffled = random.sample(rows, len(rows))
    values = []
    for each in (rows, shuffled):
        scores, y, queries = (np.array(x) for x in zip(*each))
        values.append(fed(cls(**options), (scores.astype(float), y, queries), form, parts=2))
    close(values[0], values[1])
    lacks, empty = (no_irrelevant, 1.0) if cls is r.RetrievalFallOut else (no_relevant, 0.0)
    scores, y, queries = (np.array(x) for x in zip(*rows))
    close(values[0], np.mean(per_query(DEFINED[cls], (scores, y, queries), k, lacks, empty)))


def test_many_tied_documents():
    """A thousand documents of one score, of which ten are relevant: what a random order would give."""
    n, m = 1000, 10
    scores, y, queries = np.zeros(n), np.repeat([1, 0], [m, n - m]), np.zeros(n, int)
    harmonic = sum((math.comb(n - j, m - 1) / math.comb(n, m)) / j for j in range(1, n + 1))
    close(fed(r.RetrievalMRR(), (scores, y, queries)), harmonic)
    close(fed(r.RetrievalHitRate(top_k=100), (scores, y, queries)), 1 - math.comb(n - m, 100) / math.comb(n, 100))
    close(fed(r.RetrievalPrecision(top_k=100), (scores, y, queries)), m / n)


FUNCTIONS = {
    f.retrieval_precision: precision,
    f.retrieval_recall: recall,
    f.retrieval_fall_out: fall_out,
    f.retrieval_hit_rate: hit,
    f.retrieval_reciprocal_rank: reciprocal_rank,
    f.retrieval_average_precision: average_precision,
    f.retrieval_normalized_dcg: ndcg,
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_take_one_query_or_a_query_a_row(function):
    g = np.random.default_rng(1)
    scores, y = g.normal(size=(5, 7)), g.integers(0, 2, (5, 7))
    y[:, 0], y[:, 1] = 1, 0
    for k in (None, 3):
        want = [mean_over_orders(FUNCTIONS[function], s.tolist(), t.tolist(), k) for s, t in zip(scores, y)]
        for s, t, x in zip(scores, y, want):
            torch.testing.assert_close(function(tensor(s), tensor(t), top_k=k).double(), tensor(x).double(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(function(tensor(scores), tensor(y), k).double(), tensor(np.mean(want)), rtol=1e-6, atol=1e-6)


def test_functions_say_what_they_were_given():
    with pytest.raises(TypeError, match="preds is a list"):
        f.retrieval_precision([0.5], [1])


def test_functions_of_a_query_that_says_nothing_are_zero():
    nothing, all_ = (tensor([0.3, 0.2]), tensor([0, 0])), (tensor([0.3, 0.2]), tensor([1, 1]))
    assert f.retrieval_reciprocal_rank(*nothing) == f.retrieval_auroc(*all_) == f.retrieval_fall_out(*all_) == 0.0
    assert f.retrieval_r_precision(*all_) == 1.0
    precisions, recalls, k = f.retrieval_precision_recall_curve(tensor([0.2, 0.3, 0.5]), tensor([1, 0, 1]), max_k=2)
    assert precisions.tolist() == [1.0, 0.5] and recalls.tolist() == [0.5, 0.5] and k.tolist() == [1, 2]


# ---- what is refused
@pytest.mark.parametrize(
    ("batch", "text"),
    [
        ((tensor([0.1]), tensor([1]), None), "indexes is None"),
        ((tensor([0.1]), tensor([1, 0]), tensor([0])), "target has shape"),
        ((tensor([0.1]), tensor([1]), tensor([0, 1])), "indexes has shape"),
        ((tensor([1]), tensor([1]), tensor([0])), "preds has dtype"),
        ((tensor([0.1]), tensor([0.5]), tensor([0])), "target has dtype"),
        ((tensor([0.1]), tensor([1]), tensor([0.0])), "indexes has dtype"),
        ((tensor([0.1]), tensor([2]), tensor([0])), "expected targets 0 and 1"),
        ((tensor([float("nan")]), tensor([1]), tensor([0])), "scores without NaN"),
    ],
)
def test_a_batch_that_is_refused_says_why_and_changes_nothing(batch, text):
    metric = r.RetrievalMRR()
    metric.update(tensor([0.1, 0.3]), tensor([1, 0]), tensor([0, 0]))
    with pytest.raises((ValueError, TypeError), match=text):
        metric.update(*batch)
    assert float(metric.compute()) == 0.5


def test_gains_below_zero_are_refused():
    for gain in (-1.0, float("inf"), float("nan")):
        with pytest.raises(tt.FaultError, match="at least 0"):
            r.RetrievalNormalizedDCG().update(tensor([0.1]), tensor([gain]), tensor([0]))


def test_on_a_device_what_is_impossible_is_counted_and_kept_out():
    metric = r.RetrievalMRR()
    metric.update(*elsewhere((tensor([0.1, 0.3, 0.9, float("nan")]), tensor([1, 0, 7, 1]), tensor([0, 0, 0, 0]))))
    with pytest.raises(tt.FaultError, match="2 values were impossible") as raised:
        metric.compute()
    assert float(raised.value.values) == 0.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: r.RetrievalMAP("none"),
        lambda: r.RetrievalMAP(top_k=0),
        lambda: r.RetrievalMAP(top_k=1.5),
        lambda: r.RetrievalMAP(ignore_index=0.5),
        lambda: r.RetrievalMAP(aggregation="sum"),
        lambda: r.RetrievalPrecision(adaptive_k=1),
        lambda: r.RetrievalPrecisionRecallCurve(max_k=-1),
        lambda: r.RetrievalRecallAtFixedPrecision(1.5),
        lambda: r.RetrievalAUROC(max_fpr=0.0),
        lambda: r.RetrievalMAP(weighted=True),
    ],
)
def test_options_are_checked(make):
    with pytest.raises(ValueError, match=r"expected|is no option"):
        make()


def test_no_queries_are_zero():
    for cls in (r.RetrievalMAP, r.RetrievalFallOut, r.RetrievalAUROC):
        assert float(cls().compute()) == 0.0
    assert float(fed(r.RetrievalMAP("skip"), (np.zeros(3), np.zeros(3, int), np.arange(3)))) == 0.0
    assert [len(x) for x in r.RetrievalPrecisionRecallCurve().compute()] == [0, 0, 0]
    assert [float(x) for x in r.RetrievalRecallAtFixedPrecision().compute()] == [0.0, 0.0]


def test_a_collection_ranks_once(monkeypatch):
    from torchtally.statistics import queries

    made = []
    before = queries.Queries.__init__
    monkeypatch.setattr(queries.Queries, "__init__", lambda self, *x: (made.append(self), before(self, *x))[1])
    tally = tt.MetricCollection([r.RetrievalMAP(), r.RetrievalMRR(), r.RetrievalPrecision(top_k=2), r.RetrievalFallOut()])
    for n in (3, 5):
        tally.update(preds=torch.rand(n), target=torch.ones(n, dtype=torch.long), indexes=torch.zeros(n, dtype=torch.long))
    assert len(tally.compute()) == 4
    assert len(made) == 1


@forms
def test_a_curve_for_which_there_is_an_error(form):
    metric, make = r.RetrievalPrecisionRecallCurve(empty_target_action="error"), FORMS[form]
    metric.update(*make((tensor([0.5, 0.2, 0.4]), tensor([1, 0, 0]), tensor([0, 0, 3]))))
    for read in (metric.compute, metric.fetch().result):
        with pytest.raises(ValueError, match="1 query has no relevant document"):
            read()
    metric.update(*make((tensor([0.4]), tensor([1]), tensor([3]))))
    assert [x.tolist() for x in metric.fetch().result()] == [[0.75, 0.5], [0.75, 1.0], [1, 2]]
