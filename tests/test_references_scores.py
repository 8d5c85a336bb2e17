"""Calibration error, hinge loss, label ranking and fairness against scikit-learn, or NumPy in float64, or numbers worked by hand."""

import math

import numpy as np
import pytest
import torch
from cases import elsewhere
from class_references import close
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve
from torch import Tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f

FORMS = {"host": tuple, "device": elsewhere}
forms = pytest.mark.parametrize("form", FORMS)
IGNORES = (None, -1)


def fed(metric, *columns, form="host", parts=3):
    """The value after updates with parts of the data."""
    tensors = [torch.as_tensor(x) for x in columns]
    for batch in zip(*(x.tensor_split(parts) for x in tensors)):
        metric.update(*FORMS[form](batch))
    value = metric.compute()
    return value.as_subclass(Tensor) if isinstance(value, Tensor) else {k: x.as_subclass(Tensor) for k, x in value.items()}


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


# ---- calibration
def calibration(confidence, right, bins, norm):
    """By its definition, bin after bin."""
    gaps, weights = [], []
    for i in range(bins):
        inside = (confidence <= (i + 1) / bins) & ((confidence > i / bins) if i else True)
        if inside.any():
            gaps.append(abs(right[inside].mean() - confidence[inside].mean()))
            weights.append(inside.mean())
    gaps, weights = np.array(gaps), np.array(weights)
    return {"l1": (gaps * weights).sum(), "l2": math.sqrt((gaps**2 * weights).sum()), "max": gaps.max()}[norm]


@forms
@pytest.mark.parametrize("ignore", IGNORES)
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("bins", [1, 7, 15])
def test_calibration_of_yes_and_no(bins, norm, ignore, form):
    r = np.random.default_rng(0)
    x = r.normal(size=200).astype(np.float32) * 2
    y = (r.random(200) < 1 / (1 + np.exp(-x / 2))).astype(np.int64)
    live = np.ones(200, bool) if ignore is None else r.random(200) < 0.7
    target = np.where(live, y, -1)
    p = 1 / (1 + np.exp(-x.astype(np.float64)))
    want = calibration(p[live], y[live], bins, norm)
    close(fed(c.BinaryCalibrationError(bins, norm, ignore), x, target, form=form), want)
    close(fed(tt.CalibrationError("binary", bins, norm, ignore_index=ignore, from_logits=True), x, target, form=form), want)
    close(fed(c.BinaryCalibrationError(bins, norm, ignore), p, target, form=form), want)
    close(f.binary_calibration_error(torch.from_numpy(x), torch.from_numpy(target), bins, norm, ignore), want)
    if norm == "max":
        true, predicted = calibration_curve(y[live], p[live], n_bins=bins)
        close(want, np.abs(true - predicted).max())


@forms
@pytest.mark.parametrize("ignore", [None, -1, 2])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_calibration_of_classes(norm, ignore, form):
    r = np.random.default_rng(1)
    x, y = r.normal(size=(150, 4)).astype(np.float32) * 2, r.integers(0, 4, 150)
    live = np.ones(150, bool) if ignore is None else r.random(150) < 0.7 if ignore < 0 else y != ignore
    target = np.where(live, y, ignore if ignore is not None else 0)
    p = softmax(x)
    want = calibration(p.max(1)[live], (p.argmax(1) == y)[live].astype(float), 10, norm)
    for scores in (x, p):
        close(fed(c.MulticlassCalibrationError(4, 10, norm, ignore), scores, target, form=form), want)
    close(f.multiclass_calibration_error(torch.from_numpy(x), torch.from_numpy(target), 4, 10, norm, ignore), want)
    images = p.reshape(5, 30, 4).transpose(0, 2, 1).reshape(5, 4, 3, 10), target.reshape(5, 3, 10)
    close(fed(tt.CalibrationError("multiclass", 10, norm, num_classes=4, ignore_index=ignore), *images, form=form), want)


@forms
def test_a_bin_has_its_upper_edge_and_the_first_its_lower(form):
    p, y = np.array([0.0, 0.5, 0.5, 1.0]), np.array([0, 1, 1, 0])
    # (0, .5, .5 | 1): two thirds right at a mean of a third, none right at 1
    for bins, want in ((2, 3 / 4 * 1 / 3 + 1 / 4), (1, 0.0), (4, 1 / 2 * 1 / 2 + 1 / 4)):
        close(fed(c.BinaryCalibrationError(bins), p, y, form=form, parts=2), want)
    edges = np.arange(11) / 10
    true, predicted = calibration_curve(np.arange(11) % 2, edges, n_bins=10)
    close(fed(c.BinaryCalibrationError(10, "max"), edges, np.arange(11) % 2, form=form), np.abs(true - predicted).max())


@forms
def test_confidence_of_exactly_zero(form):  # Lightning-AI/torchmetrics#1646
    p, y = np.array([0.8, 0.8, 0.8, 0.0, 0.0], np.float32), np.array([1, 1, 0, 1, 0])
    close(fed(c.BinaryCalibrationError(2, "l1"), p, y, form=form), 0.28)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_calibration_of_nothing_is_undefined(norm):
    assert c.BinaryCalibrationError(norm=norm).compute().isnan()
    assert c.MulticlassCalibrationError(3, norm=norm).compute().isnan()


def test_calibration_does_not_grow():
    metric = c.MulticlassCalibrationError(10)
    for _ in range(5):
        metric.update(torch.randn(64, 10), torch.randint(0, 10, (64,)))
    assert not metric.ledger.samples
    assert sum(x.numel() for x in metric.metric_state.values()) == 3 * 16 + 4


# ---- hinge loss
def short_of_one(margin, squared):
    loss = np.maximum(0, 1 - margin)
    return loss**2 if squared else loss


@forms
@pytest.mark.parametrize("ignore", IGNORES)
@pytest.mark.parametrize("squared", [False, True])
def test_hinge_loss_of_yes_and_no(squared, ignore, form):
    r = np.random.default_rng(2)
    x, y = r.normal(size=90).astype(np.float32) * 2, r.integers(0, 2, 90)
    live = np.ones(90, bool) if ignore is None else r.random(90) < 0.7
    target, sign = np.where(live, y, -1), 2 * y - 1
    p = 1 / (1 + np.exp(-x.astype(np.float64)))
    for told, scores in ((False, x.astype(np.float64)), (True, p), (None, p)):
        want = short_of_one(sign * scores, squared)[live].mean()
        close(fed(c.BinaryHingeLoss(squared, ignore, from_logits=told), x, target, form=form), want)
        close(f.binary_hinge_loss(torch.from_numpy(x), torch.from_numpy(target), squared, ignore, from_logits=told), want)
        if told is False and not squared:
            close(want, sk.hinge_loss(y[live], x[live]))
    close(
        fed(tt.HingeLoss("binary", squared=squared, ignore_index=ignore), p, target, form=form),
        short_of_one(sign * p, squared)[live].mean(),
    )


@forms
@pytest.mark.parametrize("ignore", IGNORES)
@pytest.mark.parametrize("squared", [False, True])
def test_hinge_loss_of_classes(squared, ignore, form):
    r = np.random.default_rng(3)
    x, y = r.normal(size=(90, 4)).astype(np.float32), r.integers(0, 4, 90)
    live = np.ones(90, bool) if ignore is None else r.random(90) < 0.7
    target, rows = np.where(live, y, -1), np.arange(90)
    for told, scores in ((False, x.astype(np.float64)), (True, softmax(x)), (None, softmax(x))):
        others = scores.copy()
        others[rows, y] = -np.inf
        want = short_of_one(scores[rows, y] - others.max(1), squared)[live].mean()
        options = {"squared": squared, "ignore_index": ignore, "from_logits": told}
        close(fed(c.MulticlassHingeLoss(4, **options), x, target, form=form), want)
        close(f.multiclass_hinge_loss(torch.from_numpy(x), torch.from_numpy(target), 4, **options), want)
        if told is False and not squared:
            close(want, sk.hinge_loss(y[live], x[live], labels=range(4)))
        sign = 2 * (y[:, None] == np.arange(4)) - 1
        each = short_of_one(sign * scores, squared)[live].mean(0)
        close(fed(c.MulticlassHingeLoss(4, multiclass_mode="one-vs-all", **options), x, target, form=form), each)
    images = x.reshape(6, 15, 4).transpose(0, 2, 1), target.reshape(6, 15)
    close(
        fed(tt.HingeLoss("multiclass", num_classes=4, **options), *images, form=form), fed(c.MulticlassHingeLoss(4, **options), x, target)
    )


def test_hinge_loss_of_nothing_is_undefined():
    assert c.BinaryHingeLoss().compute().isnan()
    assert c.MulticlassHingeLoss(3, multiclass_mode="one-vs-all").compute().isnan().tolist() == [True] * 3


@pytest.mark.parametrize("told", [True, False])
def test_gradients_flow_to_hinge_loss(told):
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.tensor([0, 1, 2, 0, -1, 1])
    for mode in ("crammer-singer", "one-vs-all"):
        options = {"multiclass_mode": mode, "ignore_index": -1, "squared": True, "from_logits": told}
        assert torch.autograd.gradcheck(lambda x, o=options: f.multiclass_hinge_loss(x, y, 3, **o).double(), x, atol=1e-3, eps=1e-2)
        metric = c.MulticlassHingeLoss(3, **options)
        metric(x, y).sum().backward()
        assert not metric.compute().requires_grad
        assert x.grad[4].eq(0).all() and x.grad.abs().sum() > 0


# ---- ranking of labels
RANKINGS = {
    "CoverageError": sk.coverage_error,
    "RankingAveragePrecision": sk.label_ranking_average_precision_score,
    "RankingLoss": sk.label_ranking_loss,
}
SNAKE = {"CoverageError": "coverage_error", "RankingAveragePrecision": "ranking_average_precision", "RankingLoss": "ranking_loss"}


@forms
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", RANKINGS)
def test_rankings_of_labels(name, tied, form):
    r = np.random.default_rng(4)
    x, y = r.normal(size=(80, 5)).astype(np.float32), r.integers(0, 2, (80, 5))
    if tied:
        x = np.round(x)
    y[0], y[1] = 0, 1
    want = RANKINGS[name](y, x)
    close(fed(getattr(c, f"Multilabel{name}")(5), x, y, form=form), want)
    close(getattr(f, f"multilabel_{SNAKE[name]}")(torch.from_numpy(x), torch.from_numpy(y), 5), want)
    images = x.reshape(8, 10, 5).transpose(0, 2, 1), y.reshape(8, 10, 5).transpose(0, 2, 1)
    close(fed(getattr(c, f"Multilabel{name}")(5), *images, form=form), want)


@forms
@pytest.mark.parametrize("name", RANKINGS)
def test_ignored_labels_are_in_no_ranking(name, form):
    r = np.random.default_rng(5)
    x, y = np.round(r.normal(size=(60, 6)), 1), r.integers(0, 2, (60, 6))
    live = r.random((60, 6)) < 0.7
    live[0] = False  # a row of padding counts nowhere
    rows = []
    for scores, target, kept in zip(x, y, live):
        if kept.sum() > 1:
            rows.append(RANKINGS[name](target[None, kept], scores[None, kept]))
        elif kept.any():
            rows.append({"CoverageError": target[kept][0], "RankingAveragePrecision": 1.0, "RankingLoss": 0.0}[name])
    metric = getattr(c, f"Multilabel{name}")(6, ignore_index=-1)
    close(fed(metric, x, np.where(live, y, -1), form=form), np.mean(rows))


@forms
def test_rankings_by_hand(form):
    x, y = np.array([[3.0, 2.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0]]), np.array([[0, 1, 0, 1], [1, 0, 0, 0]])
    # First row: the relevant labels have ranks 3 and 4, with 1 and 2 relevant ones up to there; 2 + 2 of 4 pairs are wrong (one is a tie).
    close(fed(c.MultilabelCoverageError(4), x, y, form=form, parts=2), (4 + 4) / 2)
    close(fed(c.MultilabelRankingAveragePrecision(4), x, y, form=form, parts=2), ((1 / 3 + 2 / 4) / 2 + 1 / 4) / 2)
    close(fed(c.MultilabelRankingLoss(4), x, y, form=form, parts=2), (4 / 4 + 3 / 3) / 2)


@forms
def test_rankings_of_infinite_and_huge_scores(form):
    x = np.array([[math.inf, -math.inf, 1e30, 88.0], [100.0, 101.0, -math.inf, -math.inf]], np.float32)
    y = np.array([[0, 1, 1, 0], [1, 0, 1, 0]])
    finite = np.array([[3.0, 0.0, 2.0, 1.0], [1.0, 2.0, 0.0, 0.0]])
    for name, reference in RANKINGS.items():
        close(fed(getattr(c, f"Multilabel{name}")(4), x, y, form=form, parts=2), reference(y, finite))
    assert c.MultilabelRankingLoss(4).compute().isnan()


def test_rankings_share_one_sort():
    tally = tt.MetricCollection([getattr(c, f"Multilabel{name}")(4) for name in RANKINGS])
    assert len(tally.ledger.keys) == 1


# ---- fairness
def group_rates(yes, true, groups, several):
    found = []
    for g in range(several):
        p, t = yes[groups == g], true[groups == g]
        counts = np.array([(p & t).sum(), (p & ~t).sum(), (~p & ~t).sum(), (~p & t).sum()], float)
        found.append(counts / counts.sum() if counts.sum() else np.full(4, np.nan))
    return np.array(found)


def fairness(rates):
    """Names and ratios; a group without a rate is left out."""
    parity, opportunity = rates[:, 0] + rates[:, 1], rates[:, 0] / (rates[:, 0] + rates[:, 3])
    low = {"DP": np.nanargmin(parity), "EO": np.nanargmin(opportunity)}
    high = {"DP": np.nanargmax(parity), "EO": np.nanargmax(opportunity)}
    return {f"{n}_{low[n]}_{high[n]}": x[low[n]] / x[high[n]] for n, x in (("DP", parity), ("EO", opportunity))}


@forms
@pytest.mark.parametrize("ignore", IGNORES)
@pytest.mark.parametrize("scored", [True, False])
def test_rates_of_groups(scored, ignore, form):
    r = np.random.default_rng(6)
    p, y, groups = r.random(200), r.integers(0, 2, 200), r.integers(0, 3, 200)
    live = np.ones(200, bool) if ignore is None else r.random(200) < 0.7
    yes = p > 0.4
    preds, target = (p if scored else yes.astype(np.int64)), np.where(live, y, -1)
    padded = np.where(live, groups, -5)
    want = group_rates(yes[live], y[live] == 1, groups[live], 3)
    got = fed(c.BinaryGroupStatRates(3, 0.4, ignore), preds, target, padded, form=form)
    assert list(got) == ["group_0", "group_1", "group_2"]
    close(torch.stack(list(got.values())), want)
    wanted = fairness(want)
    for task, names in (("all", ("DP", "EO")), ("demographic_parity", ("DP",)), ("equal_opportunity", ("EO",))):
        expected = {n: x for n, x in wanted.items() if n[:2] in names}
        for got in (
            fed(c.BinaryFairness(3, task, 0.4, ignore), preds, target, padded, form=form),
            f.binary_fairness(*map(torch.as_tensor, (preds, target, padded)), task, 0.4, ignore),
        ):
            assert list(got) == list(expected)
            close(torch.stack(list(got.values())), list(expected.values()))
    if ignore is None:
        batch = [torch.as_tensor(x) for x in (preds, target, groups)]
        rates = f.binary_groups_stat_rates(*batch, 3, 0.4)
        close(torch.stack(list(rates.values())), want)
        assert f.demographic_parity(batch[0], batch[2], 0.4) == f.binary_fairness(*batch, "demographic_parity", 0.4)
        assert f.equal_opportunity(*batch, 0.4) == f.binary_fairness(*batch, "equal_opportunity", 0.4)


@forms
def test_one_group_for_each_sample_of_several_elements(form):
    r = np.random.default_rng(7)
    yes, y, groups = r.integers(0, 2, (20, 3, 2)), r.integers(0, 2, (20, 3, 2)), r.integers(0, 2, 20)
    want = group_rates(yes == 1, y == 1, groups, 2)
    close(torch.stack(list(fed(c.BinaryGroupStatRates(2), yes, y, groups, form=form).values())), want)
    each = np.broadcast_to(groups[:, None, None], y.shape).copy()
    close(torch.stack(list(fed(c.BinaryGroupStatRates(2), yes, y, each, form=form).values())), want)


@forms
def test_groups_without_a_rate_are_in_no_comparison(form):
    preds, target, groups = np.array([1, 0, 1, 1]), np.array([1, 1, 1, 0]), np.array([0, 0, 2, 3])
    got = fed(c.BinaryFairness(5), preds, target, groups, form=form, parts=2)  # 1 and 4 do not occur, 3 has no positive target
    assert {k: x.item() for k, x in got.items()} == {"DP_0_2": 0.5, "EO_0_2": 0.5}
    rates = fed(c.BinaryGroupStatRates(5), preds, target, groups, form=form, parts=2)
    assert rates["group_1"].isnan().all() and rates["group_3"].tolist() == [0.0, 1.0, 0.0, 0.0]


def test_equality_of_rates_that_are_all_zero_is_undefined():
    no, groups = torch.zeros(4, dtype=torch.int64), torch.tensor([0, 0, 1, 1])
    assert all(x.isnan() for x in c.BinaryFairness(2)(no, no, groups).values())
    assert all(x.isnan() for x in c.BinaryFairness(2).compute().values())


@forms
def test_demographic_parity_needs_no_target(form):
    metric = c.BinaryFairness(2, "demographic_parity")
    preds, groups = torch.tensor([0.9, 0.1, 0.8, 0.7]), torch.tensor([0, 0, 1, 1])
    for p, g in zip(preds.split(2), groups.split(2)):
        p, g = FORMS[form]((p, g))
        metric.update(p, None, g)
    assert metric.compute()["DP_0_1"] == 0.5
    with pytest.raises(ValueError, match="BinaryFairness: target is None"):
        c.BinaryFairness(2).update(preds, None, groups)


def test_fairness_in_a_collection():
    tally = tt.MetricCollection([c.BinaryFairness(2), c.BinaryGroupStatRates(2), c.BinaryAccuracy()])
    batch = {"preds": torch.tensor([1, 0, 1, 1]), "target": torch.tensor([1, 0, 0, 1]), "groups": torch.tensor([0, 0, 1, 1])}
    tally.update(**batch)
    assert len(tally.ledger.keys) == 2
    assert list(tally.compute()) == ["DP_0_1", "EO_0_0", "group_0", "group_1", "BinaryAccuracy"]
    assert tally.fetch().result()["DP_0_1"] == 0.5


# ---- what is refused
@pytest.mark.parametrize("bad", [-1, 2, 10**12])
def test_impossible_groups(bad):
    good = torch.tensor([1, 0]), torch.tensor([1, 1]), torch.tensor([0, 1])
    batch = torch.tensor([1, 1]), torch.tensor([1, 0]), torch.tensor([0, bad])
    metric = c.BinaryGroupStatRates(2)
    metric.update(*good)
    with pytest.raises(tt.FaultError, match=rf"BinaryGroupStatRates: groups has {bad}; expected 0\.\.1"):
        metric.update(*batch)
    assert metric.compute()["group_0"].tolist() == [1.0, 0.0, 0.0, 0.0]
    metric.update(*elsewhere(batch))
    with pytest.raises(tt.FaultError, match=r"1 value was impossible .* first in update 2") as raised:
        metric.compute()
    assert [x.as_subclass(Tensor).tolist() for x in raised.value.values.values()] == [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    quiet = c.BinaryGroupStatRates(2, validate_args=False)
    quiet.update(*batch)
    assert quiet.compute()["group_0"].tolist() == [1.0, 0.0, 0.0, 0.0]


WRONG = [
    (lambda: c.BinaryCalibrationError(0), "n_bins is 0; expected an integer of at least 1"),
    (lambda: c.BinaryCalibrationError(norm="l3"), "norm is 'l3'; expected 'l1', 'l2' or 'max'"),
    (lambda: tt.CalibrationError("multilabel"), "task is 'multilabel'"),
    (lambda: tt.CalibrationError("multiclass"), "num_classes is missing"),
    (lambda: c.BinaryHingeLoss(squared=1), "squared is 1; expected True or False"),
    (lambda: c.MulticlassHingeLoss(3, multiclass_mode="ovr"), "multiclass_mode is 'ovr'; expected 'crammer-singer' or 'one-vs-all'"),
    (lambda: c.MultilabelRankingLoss(0), "num_labels is 0"),
    (lambda: c.BinaryFairness(0), "num_groups is 0"),
    (lambda: c.BinaryFairness(2, "equality"), "task is 'equality'; expected 'demographic_parity', 'equal_opportunity' or 'all'"),
    (
        lambda: c.BinaryCalibrationError()(torch.tensor([1, 0]), torch.tensor([1, 0])),
        "preds has dtype torch.int64; expected floating-point",
    ),
    (lambda: c.MulticlassHingeLoss(3)(torch.rand(4, 2), torch.arange(4)), r"preds has shape \(4, 2\)"),
    (lambda: c.MultilabelCoverageError(3)(torch.rand(4, 2), torch.ones(4, 2).long()), r"expected \(N, 3, ...\)"),
    (lambda: c.BinaryGroupStatRates(2)(torch.rand(4), torch.ones(4).long(), torch.rand(4)), "groups has dtype torch.float32"),
    (
        lambda: c.BinaryGroupStatRates(2)(torch.rand(4), torch.ones(4).long(), torch.ones(3).long()),
        r"groups has shape \(3,\); expected \(4,\)",
    ),
    (lambda: c.BinaryGroupStatRates(2)(torch.rand(4), torch.ones(3).long(), torch.ones(4).long()), "preds has shape"),
    (lambda: c.BinaryHingeLoss()(torch.tensor([math.nan]), torch.tensor([1])), "expected"),
    (lambda: c.MultilabelRankingLoss(2)(torch.tensor([[math.nan, 1.0]]), torch.tensor([[1, 0]])), "expected"),
]


@pytest.mark.parametrize("make, said", WRONG, ids=[said for _, said in WRONG])
def test_what_is_wrong_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


# ---- beside torchmetrics
@pytest.mark.parametrize("seed", range(5))
def test_values_are_torchmetrics_values_where_both_are_right(seed):
    theirs = pytest.importorskip("torchmetrics.classification")
    g = torch.Generator().manual_seed(seed)
    p, y = torch.rand(64, generator=g), torch.randint(0, 2, (64,), generator=g)
    x, k = torch.randn(64, 4, generator=g) * 2, torch.randint(0, 4, (64,), generator=g)
    labels = torch.randint(0, 2, (64, 4), generator=g)
    groups = torch.randint(0, 3, (64,), generator=g)
    jobs = [(("BinaryCalibrationError", {"norm": norm}), (p, y)) for norm in ("l1", "l2", "max")]
    jobs += [(("MulticlassCalibrationError", {"num_classes": 4, "norm": norm}), (x, k)) for norm in ("l1", "l2", "max")]
    jobs += [(("BinaryHingeLoss", {"squared": s}), (p, y)) for s in (False, True)]
    jobs += [
        (("MulticlassHingeLoss", {"num_classes": 4, "multiclass_mode": m}), (x.softmax(1), k)) for m in ("crammer-singer", "one-vs-all")
    ]
    jobs += [((f"Multilabel{name}", {"num_labels": 4}), (x.sigmoid(), labels)) for name in RANKINGS]
    jobs += [(("BinaryGroupStatRates", {"num_groups": 3}), (p, y, groups)), (("BinaryFairness", {"num_groups": 3}), (p, y, groups))]
    for (name, options), batch in jobs:
        got, want = (getattr(module, name)(**options)(*batch) for module in (c, theirs))
        if isinstance(want, dict):
            assert list(got) == list(want)
            got, want = torch.cat([x.reshape(-1) for x in got.values()]), torch.cat([x.reshape(-1) for x in want.values()])
        close(got, want, (name, options))
