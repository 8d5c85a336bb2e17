"""Curves of several columns, points on them, and what is read off them, against scikit-learn and plain definitions."""

import numpy as np
import pytest
import torch
from cases import elsewhere
from class_references import close
from sklearn import metrics as sk

import torchtally as tt
from torchtally import classification as c
from torchtally import functional as f
from torchtally.faults import FaultError
from torchtally.stalls import pretend_cuda
from torchtally.statistics import curves
from torchtally.testing import assert_no_stalls

BOTH_FORMS = pytest.mark.parametrize("form", [tuple, elsewhere], ids=["host", "device"])
IGNORE = pytest.mark.parametrize("ignore", [None, -1])
AT = [0.75, 0.1, 0.5, 0.9]
THRESHOLDS = pytest.mark.parametrize("thresholds", [None, AT], ids=["exact", "binned"])


def data(task, ignore=None, n=60, seed=0):
    """Scores `(N, K)` with ties, targets as the metric takes them, and for each column its targets and what counts."""
    rng = np.random.default_rng(seed)
    if task == "Multiclass":
        scores = rng.integers(1, 9, (n, 4)).astype(np.float32) / 8
        y = rng.integers(0, 3, n)  # class 3 never occurs
        scores[np.arange(n), y] = np.minimum(scores[np.arange(n), y] + 0.125, 1)
        given = np.where(rng.random(n) < 0.3, -1, y) if ignore is not None else y
        yes, live = y[:, None] == np.arange(4), np.broadcast_to((given >= 0)[:, None], (n, 4))
    else:
        shape = (n,) if task == "Binary" else (n, 3)
        scores, y = rng.integers(0, 9, shape).astype(np.float32) / 8, rng.integers(0, 2, shape)
        scores = np.where(rng.random(shape) < 0.4, np.float32(0.875) * y, scores).astype(np.float32)
        given = np.where(rng.random(shape) < 0.3, ignore, y) if ignore is not None else y
        yes, live = (y == 1).reshape(n, -1), (given != -1).reshape(n, -1)
    return scores, given, [(scores.reshape(n, -1)[live[:, k], k], yes[live[:, k], k]) for k in range(yes.shape[1])]


def made(name, task, *args, **options):
    size = {"Binary": (), "Multiclass": (4,), "Multilabel": (3,)}[task]
    return getattr(c, task + name)(*size, *args, **options).set_dtype(torch.float64)


def fed(metric, scores, y, form=tuple, step=9):
    for a, b in zip(torch.from_numpy(scores).split(step), torch.from_numpy(y).split(step)):
        metric.update(*form((a, b)))
    return metric.compute()


def rates(s, y, thresholds):
    """Thresholds from the highest on, and true and false positives at each."""
    at = np.unique(s)[::-1].astype(np.float64) if thresholds is None else np.sort(np.float32(thresholds))[::-1].astype(np.float64)
    return at, np.array([(y & (s >= t)).sum() for t in at]), np.array([(~y & (s >= t)).sum() for t in at])


def roc(s, y, thresholds):
    at, tp, fp = rates(s, y, thresholds)
    if thresholds is None:
        at, tp, fp = np.append(1.0, at), np.append(0, tp), np.append(0, fp)
    with np.errstate(invalid="ignore"):
        return fp / (~y).sum(), tp / y.sum(), at


def in_order(thresholds):
    """The places of given thresholds, the last first, among them from the highest on."""
    return np.argsort(np.argsort(-np.array(thresholds)))[::-1]


@BOTH_FORMS
@IGNORE
@pytest.mark.parametrize("task", ["Multiclass", "Multilabel"])
def test_exact_curves_of_each_column(task, ignore, form):
    scores, given, columns = data(task, ignore)
    drawn = fed(made("ROC", task, ignore_index=ignore), scores, given, form)
    for k, (s, y) in enumerate(columns):
        for a, b in zip((drawn[0][k], drawn[1][k], drawn[2][k]), roc(s, y, None)):
            close(a, b)
        if y.any():
            want = sk.roc_curve(y, s, drop_intermediate=False)
            close(drawn[0][k], want[0])
            close(drawn[1][k], want[1])
    drawn = fed(made("PrecisionRecallCurve", task, ignore_index=ignore), scores, given, form)
    for k, (s, y) in enumerate(columns):
        if y.any():
            for a, b in zip((drawn[0][k], drawn[1][k], drawn[2][k]), sk.precision_recall_curve(y, s)):
                close(a, b)
        else:
            close(drawn[1][k], [*np.ones(len(np.unique(s))), 0.0])


@BOTH_FORMS
@IGNORE
@pytest.mark.parametrize("task", ["Multiclass", "Multilabel"])
def test_binned_curves_of_each_column(task, ignore, form):
    scores, given, columns = data(task, ignore)
    place = in_order(AT)
    fpr, tpr, at = fed(made("ROC", task, thresholds=AT, ignore_index=ignore), scores, given, form)
    close(at, AT[::-1])
    precision, recall, rising = fed(made("PrecisionRecallCurve", task, thresholds=AT, ignore_index=ignore), scores, given, form)
    close(rising, AT)
    for k, (s, y) in enumerate(columns):
        want = roc(s, y, AT)
        close(fpr[k], want[0][place])
        close(tpr[k], want[1][place])
        _, tp, fp = rates(s, y, AT)
        close(precision[k], [*(tp / (tp + fp))[place][::-1], 1.0])
        close(recall[k], [*np.nan_to_num(want[1], nan=1.0)[place][::-1], 0.0])


@BOTH_FORMS
@THRESHOLDS
def test_all_classes_as_one_curve(thresholds, form):
    scores, given, columns = data("Multiclass")
    s, y = np.concatenate([s for s, _ in columns]), np.concatenate([y for _, y in columns])
    place = slice(None) if thresholds is None else in_order(AT)
    drawn = fed(made("ROC", "Multiclass", thresholds, "micro"), scores, given, form)
    for a, b in zip(drawn, roc(s, y, thresholds)):
        close(a, b[place])
    precision, recall, _ = fed(made("PrecisionRecallCurve", "Multiclass", thresholds, "micro"), scores, given, form)
    _, tp, fp = rates(s, y, thresholds)
    close(precision, [*(tp / (tp + fp))[place][::-1], 1.0])
    close(recall, [*(tp / y.sum())[place][::-1], 0.0])
    fpr, tpr, _ = roc(s, y, thresholds)
    nearest = np.abs(fpr - (1 - tpr)).argmin()
    close(fed(made("EER", "Multiclass", thresholds, "micro"), scores, given, form), (fpr[nearest] + 1 - tpr[nearest]) / 2)


@BOTH_FORMS
@IGNORE
@THRESHOLDS
def test_the_mean_of_the_curves_of_all_classes(thresholds, ignore, form):
    """Class 3 never occurs, so it has no curve and is in no mean."""
    scores, given, columns = data("Multiclass", ignore)
    each = [roc(s, y, thresholds) for s, y in columns[:3]]
    fpr, tpr, at = fed(made("ROC", "Multiclass", thresholds, "macro", ignore), scores, given, form)
    grid = np.sort(np.concatenate([x for x, _, _ in each]))
    close(fpr[: len(grid)], grid)
    close(tpr[: len(grid)], np.mean([_after(x, y, grid) for x, y, _ in each], 0))
    assert bool((at.diff() <= 0).all())
    gap = int((fpr - (1 - tpr)).abs().argmin())
    close(fed(made("EER", "Multiclass", thresholds, "macro", ignore), scores, given, form), (fpr[gap] + 1 - tpr[gap]) / 2)

    precision, recall, at = fed(made("PrecisionRecallCurve", "Multiclass", thresholds, "macro", ignore), scores, given, form)
    assert bool((recall.diff() <= 0).all()) and bool((at.diff() >= 0).all())
    if thresholds is None:
        assert len(precision) == len(recall) == len(at) + 3 == sum(len(np.unique(s)) + 1 for s, _ in columns[:3])
        mean = np.mean([sk.average_precision_score(y, s) for s, y in columns[:3]])
        close(float(-(recall.diff() * precision[:-1]).sum()), mean)


def _after(x, y, at):
    """Linear between (0, 0), the points and (1, 1); where several have an x, the last counts."""
    x, y = np.array([0.0, *x, 1.0]), np.array([0.0, *y, 1.0])
    out = []
    for a in at:
        i = np.flatnonzero(x <= a)[-1]
        out.append(y[i] if i == len(x) - 1 or x[i] == a else y[i] + (y[i + 1] - y[i]) * (a - x[i]) / (x[i + 1] - x[i]))
    return np.array(out)


def best(aim, demand, second, at, least, nowhere):
    """The largest aim whose demand is met; of equals the largest `second`, then the highest threshold."""
    found = [(a, b, t) for a, d, b, t in zip(aim, demand, second, at) if d >= least and not np.isnan(a)]
    return (max(found)[0], max(found)[2]) if found else nowhere


def point(name, s, y, thresholds, least):
    if name in ("PrecisionAtFixedRecall", "RecallAtFixedPrecision"):
        at, tp, fp = rates(s, y, thresholds)
        with np.errstate(invalid="ignore"):
            precision, recall = tp / (tp + fp), tp / y.sum()
        aim, demand = (precision, recall) if name.startswith("Precision") else (recall, precision)
        value, threshold = best(aim, demand, demand, at, least, (0.0, np.nan))
        return (value, threshold) if value else (0.0, np.nan)
    if not 0 < y.sum() < len(y):
        return np.nan, np.nan
    fpr, tpr, at = roc(s, y, thresholds)
    specificity = np.round((1 - fpr) * (~y).sum()) / (~y).sum()
    aim, demand = (tpr, specificity) if name.startswith("Sens") else (specificity, tpr)
    return best(aim, demand, demand, at, least, (0.0, 1e6))


POINTS = ["PrecisionAtFixedRecall", "RecallAtFixedPrecision", "SensitivityAtSpecificity", "SpecificityAtSensitivity"]


@BOTH_FORMS
@IGNORE
@THRESHOLDS
@pytest.mark.parametrize("task", ["Binary", "Multiclass", "Multilabel"])
@pytest.mark.parametrize("name", POINTS)
def test_operating_points(name, task, thresholds, ignore, form):
    scores, given, columns = data(task, ignore)
    for least in (0.0, 0.3, 0.5, 0.7, 0.95, 1.0):
        got = fed(made(name, task, least, thresholds, ignore), scores, given, form)
        want = [point(name, s, y, thresholds, least) for s, y in columns]
        for a, b in zip(got, zip(*want)):
            close(a, b[0] if task == "Binary" else b, (name, task, thresholds, least))


@BOTH_FORMS
@IGNORE
@THRESHOLDS
@pytest.mark.parametrize("task", ["Binary", "Multiclass", "Multilabel"])
def test_equal_error_rates_and_logarithmic_areas(task, thresholds, ignore, form):
    scores, given, columns = data(task, ignore)
    want = []
    for s, y in columns:
        fpr, tpr, _ = roc(s, y, thresholds)
        gap = np.abs(np.round((fpr - (1 - tpr)) * y.sum() * (~y).sum()))
        want.append((fpr[gap.argmin()] + 1 - tpr[gap.argmin()]) / 2 if 0 < y.sum() < len(y) else np.nan)
    got = fed(made("EER", task, thresholds=thresholds, ignore_index=ignore), scores, given, form)
    close(got, want[0] if task == "Binary" else want)
    limits = (0.05, 0.6)
    areas = [log_area(*roc(s, y, thresholds)[:2], limits) for s, y in columns]
    got = fed(made("LogAUC", task, limits, thresholds=thresholds, ignore_index=ignore), scores, given, form)
    close(got, areas[0] if task == "Binary" else areas)
    if task != "Binary":
        got = fed(made("LogAUC", task, limits, "macro", thresholds=thresholds, ignore_index=ignore), scores, given, form)
        close(got, np.nanmean(areas))


def log_area(fpr, tpr, limits):
    """Trapezoids over log(fpr) between the limits, of the curve from (0, 0) to (1, 1)."""
    if np.isnan(fpr).any() or np.isnan(tpr).any():
        return np.nan
    x = np.array([limits[0], *fpr[(fpr > limits[0]) & (fpr < limits[1])], limits[1]])
    inner = tpr[(fpr > limits[0]) & (fpr < limits[1])]
    full_x, full_y = np.array([0.0, *fpr, 1.0]), np.array([0.0, *tpr, 1.0])
    first = np.flatnonzero(full_x >= limits[1])[0]  # where the curve reaches the upper limit, before it rises there
    end = full_y[first - 1] + (full_y[first] - full_y[first - 1]) * (limits[1] - full_x[first - 1]) / (full_x[first] - full_x[first - 1])
    y = np.array([_after(fpr, tpr, limits[:1])[0], *inner, end])
    return np.trapezoid(y, np.log(x)) / np.log(limits[1] / limits[0])


def test_functions_and_fronts_give_what_the_classes_give():
    scores, y, _ = data("Binary")
    p, t = torch.from_numpy(scores), torch.from_numpy(y)
    many, of_many, _ = data("Multiclass")
    q, u = torch.from_numpy(many), torch.from_numpy(of_many)
    for name, short, args in (
        ("ROC", "roc", {}),
        ("PrecisionRecallCurve", "precision_recall_curve", {}),
        ("EER", "eer", {}),
        ("LogAUC", "logauc", {}),
        ("PrecisionAtFixedRecall", "precision_at_fixed_recall", {"min_recall": 0.5}),
        ("RecallAtFixedPrecision", "recall_at_fixed_precision", {"min_precision": 0.5}),
        ("SensitivityAtSpecificity", "sensitivity_at_specificity", {"min_specificity": 0.5}),
        ("SpecificityAtSensitivity", "specificity_at_sensitivity", {"min_sensitivity": 0.5}),
    ):
        want = getattr(c, "Binary" + name)(**args)(p, t)
        for got in (
            getattr(c, name)(task="binary", **args)(p, t),
            getattr(f, "binary_" + short)(p, t, **args),
            getattr(f, short)(p, t, task="binary", **args),
        ):
            torch.testing.assert_close(got, want)
        want = getattr(c, "Multiclass" + name)(4, **args, thresholds=5)(q, u)
        torch.testing.assert_close(getattr(f, short)(q, u, task="multiclass", num_classes=4, thresholds=5, **args), want, equal_nan=True)


@BOTH_FORMS
@THRESHOLDS
def test_an_infinite_logit_is_the_limit(thresholds, form):
    """A row with one infinite logit is sure of its class: as with a logit of 1e4."""
    rng = np.random.default_rng(3)
    logits, y = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 3, 40)
    certain = np.arange(0, 40, 7)
    logits[certain, y[certain]] = 1e4
    infinite = logits.copy()
    infinite[certain, y[certain]] = np.inf
    infinite[3, 1], logits[3, 1] = -np.inf, -1e4
    for name in ("AUROC", "AveragePrecision"):
        metric = getattr(c, "Multiclass" + name)
        want = fed(metric(3, "none", thresholds), logits, y, form, 40)
        assert not bool(want.isnan().any())
        close(fed(metric(3, "none", thresholds), infinite, y, form, 40), want)


@THRESHOLDS
@pytest.mark.parametrize("row", [[torch.inf, torch.inf, 0.0], [-torch.inf] * 3], ids=["two infinite", "all -inf"])
def test_logits_without_a_softmax_are_faults(row, thresholds):
    logits, y = torch.tensor([[0.5, 2.0, 0.1], row]), torch.tensor([1, 0])
    metric = c.MulticlassAUROC(3, thresholds=thresholds)
    with pytest.raises(FaultError, match="at most one of them infinite"):
        metric.update(logits, y)
    metric.update(*elsewhere((logits, y)))
    with pytest.raises(FaultError, match="1 value was impossible"):
        metric.compute()


@pytest.mark.parametrize("name", ["ROC", "PrecisionRecallCurve"])
@pytest.mark.parametrize("average", [None, "macro", "micro"])
def test_forward_on_a_device_repeats_points_and_fetch_does_not(name, average):
    scores, y, _ = data("Multiclass", -1)
    batch = torch.from_numpy(scores), torch.from_numpy(y)
    want = made(name, "Multiclass", average=average, ignore_index=-1)(*batch)
    with pretend_cuda():
        metric = made(name, "Multiclass", average=average, ignore_index=-1).to("cuda")
        moved = [x.to("cuda") for x in batch]
        with assert_no_stalls():
            drawn = metric(*moved)
            pending = metric.fetch()
        for got, exact in zip(pending.result(), want):
            for a, b in zip(got if average is None else [got], exact if average is None else [exact]):
                close(a, b)
        for got, exact in zip(drawn, want):
            for a, b in zip(got if average is None else [got], exact if average is None else [exact]):
                a, b = np.unique(a.cpu().numpy().round(6)), np.unique(b.numpy().round(6))
                assert len(a) >= len(b) and set(b[~np.isnan(b)]) <= set(a)


def test_everything_on_one_column_of_scores_is_one_sort(monkeypatch):
    sorts = []
    falling = curves._falling
    monkeypatch.setattr(curves, "_falling", lambda *column: sorts.append(len(column[0])) or falling(*column))
    scores, y, _ = data("Binary")
    least = dict.fromkeys(POINTS, (0.5,))
    names = ("AUROC", "AveragePrecision", "ROC", "PrecisionRecallCurve", "EER", "LogAUC", *POINTS)
    tally = tt.MetricCollection({n: getattr(c, "Binary" + n)(*least.get(n, ())) for n in names})
    for a, b in zip(torch.from_numpy(scores).split(9), torch.from_numpy(y).split(9)):
        tally.update(a, b)
    together = tally.compute()
    for name in names:  # nor is it sorted again for members that are read on their own
        torch.testing.assert_close(tally[name].compute(), together[name], equal_nan=True)
    assert sorts == [60]
    tally.update(torch.from_numpy(scores), torch.from_numpy(y))
    tally.compute()
    assert sorts == [60, 120]


def test_nothing_seen():
    empty = torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)
    fpr, _, at = c.MulticlassROC(4)(*empty)
    assert [len(x) for x in fpr] == [1] * 4 and at[0].tolist() == [1.0]
    precision, recall, at = c.MulticlassPrecisionRecallCurve(4)(*empty)
    assert precision[0].tolist() == [1.0] and recall[0].tolist() == [0.0] and not len(at[0])
    assert c.MulticlassEER(4)(*empty).isnan().all() and c.MulticlassLogAUC(4)(*empty).isnan().all()
    for average in ("micro", "macro"):
        assert c.MulticlassEER(4, average=average)(*empty).isnan()
    value, at = c.MulticlassPrecisionAtFixedRecall(4, 0.5)(*empty)
    assert value.tolist() == [0.0] * 4 and at.isnan().all()
    value, at = c.MulticlassSensitivityAtSpecificity(4, 0.5)(*empty)
    assert value.isnan().all() and at.isnan().all()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: c.MulticlassROC(3, average="weighted"), "expected 'micro', 'macro' or None"),
        (lambda: c.BinaryLogAUC((0.0, 0.1)), "0 has no logarithm"),
        (lambda: c.BinaryLogAUC((0.2, 0.1)), "two rising numbers"),
        (lambda: c.MulticlassLogAUC(3, average="micro"), "average is 'micro'"),
        (lambda: c.BinaryPrecisionAtFixedRecall(1.5), r"min_recall is 1.5; expected a number in \[0, 1\]"),
        (lambda: c.MultilabelSensitivityAtSpecificity(0, 0.5), "num_labels is 0"),
        (lambda: tt.ROC(task="multiclass"), "num_classes is missing"),
    ],
)
def test_impossible_options_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()
