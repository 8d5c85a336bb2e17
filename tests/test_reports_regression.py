"""Public reports about regression metrics and aggregation."""

from math import cosh, inf, log, nan

import numpy as np
import pytest
import torch
from reports import IGNITE, LIGHTNING, TORCHEVAL, TORCHMETRICS, Report, Table, check, fed
from scipy import stats
from sklearn.metrics import explained_variance_score, r2_score
from torch import tensor

import torchtally as tt

reports = Table()

X, Y = tensor([1.0, 2.0, 3.0, 4.0, 5.0]), tensor([2.0, 1.0, 4.0, 3.0, 6.0])
FAR_TARGET = torch.arange(5.0) + 1e4
FAR_PREDS = FAR_TARGET + tensor([0.5, -0.5, 0.5, -0.5, 0.5])


def correlation(x, y):
    return float(np.corrcoef(x.double().numpy(), y.double().numpy())[0, 1])


def noisy():
    g = torch.Generator().manual_seed(42)
    x = torch.rand(1000, generator=g)
    return 1e-4 * x, 1e-4 * (x + 0.1 * torch.randn(1000, generator=g))


# ---- correlation
@reports(TORCHMETRICS, (227, 274, 2014), "pairs one by one give NaN, or fail", [correlation(tensor([3.0, -0.5, 2.0, 7.0]), tensor([2.5, 0.0, 2.0, 8.0])), nan])
def _():
    metric = tt.PearsonCorrCoef()
    first = metric(tensor([3.0]), tensor([2.5]))
    return [fed(metric, *((tensor([x]), tensor([y])) for x, y in ((-0.5, 0.0), (2.0, 2.0), (7.0, 8.0)))), first]


@reports(TORCHMETRICS, 3150, "small values have no correlation", correlation(*noisy()))
def _():
    return fed(tt.PearsonCorrCoef(), noisy())


@reports(IGNITE, 3662, "values far from 0 have another correlation", [correlation(X, Y), correlation(X, Y)])
def _():
    halves = [(X[:2] + 1e6, Y[:2] + 1e6), (X[2:] + 1e6, Y[2:] + 1e6)]
    return [fed(tt.PearsonCorrCoef(), *halves), fed(tt.PearsonCorrCoef(), (X.double() + 1e8, Y.double() + 1e8))]


@reports(TORCHMETRICS, 2920, "the correlation with a constant is 1", [-1.0, 1.0, nan, nan])
def _():
    preds = tensor([[-0.1816, 0.6568, 0.9788, -0.1425], [-0.4111, 0.3940, 1.4834, 0.1322]])
    return fed(tt.PearsonCorrCoef(num_outputs=4), (preds, tensor([[4.0268, 5.9401, 1.0, 1.0], [6.4956, 5.6684, 1.0, 1.0]])))


@reports(TORCHMETRICS, 1055, "float64 is refused", 1.0)
def _():
    return fed(tt.PearsonCorrCoef(), (torch.arange(10.0).double(), 2 * torch.arange(10.0).double()))


RANKED = tensor([1.0, 0.0, 4.0, 1.0, 0.0, 3.0, 0.0]), tensor([4.0, 0.0, 3.0, 3.0, 3.0, 1.0, 1.0])


@reports(TORCHMETRICS, (444, 3102), "ties are ranked by their order, slowly", [float(f(*RANKED)[0]) for f in (stats.spearmanr, stats.kendalltau)])
def _():
    return [fed(m, RANKED) for m in (tt.SpearmanCorrCoef(), tt.KendallRankCorrCoef())]


# ---- errors and variance
@reports(IGNITE, 3748, "R² and explained variance of values far from 0 lose all digits", [0.875, float(explained_variance_score(FAR_TARGET.double(), FAR_PREDS.double()))])
def _():
    return [fed(m, (FAR_PREDS, FAR_TARGET)) for m in (tt.R2Score(), tt.ExplainedVariance())]


NEARLY = tensor([-3.9865, -5.4648, -5.0238, -4.3899, -5.6672, -4.7336]), tensor([-5.1608, -5.1609, -5.1608, -5.1608, -5.1608, -5.1608])
FARTHER = tensor([-311026.0, -311019.0, -311030.0, -311036.0]), tensor([-311026.9062, -311019.5938, -311029.6875, -311036.1875])


@reports(TORCHMETRICS, (1161, 1573, 3077), "R² of nearly constant targets is above 1", [float(r2_score(y.double(), p.double())) for p, y in (NEARLY, FARTHER)])
def _():
    return [fed(tt.R2Score(), pairs) for pairs in (NEARLY, FARTHER)]


@reports(TORCHMETRICS, 423, "R² of a single pair fails", [1.0, nan])
def _():
    return [fed(tt.R2Score(), (tensor([1, 2]), tensor([1, 2])), (tensor([1]), tensor([1]))), fed(tt.R2Score(), (tensor([1.0]), tensor([2.0])))]


@reports(LIGHTNING, 18620, "bfloat16 errors are summed in bfloat16", [1.0, 1.0, 1.0])
def _():
    ones = torch.ones(1001, dtype=torch.bfloat16)
    means = [fed(m, (ones, torch.zeros_like(ones))) for m in (tt.MeanAbsoluteError(), tt.MeanSquaredError())]
    return [*means, fed(tt.MeanMetric(), *((x,) for x in ones))]


@reports("scikit-learn/scikit-learn", 28827, "differences of bytes wrap", [10.0, 100.0])
def _():
    pair = tensor([10, 20], dtype=torch.uint8), tensor([20, 10], dtype=torch.uint8)
    return [fed(tt.MeanAbsoluteError(), pair), fed(tt.MeanSquaredError(), pair)]


@reports(TORCHMETRICS, 3508, "percentages of half precision overflow", [2.0, 2 / 3])
def _():
    value = tensor([48000.0], dtype=torch.half)
    return [fed(tt.SymmetricMeanAbsolutePercentageError(), (value, other)) for other in (-value, value / 2)]


@reports(TORCHMETRICS, 3488, "log cosh of a large error is infinite", [120 - log(2), log(cosh(3))])
def _():
    return [fed(tt.LogCoshError(), (tensor([x]), tensor([0.0]))) for x in (120.0, -3.0)]


@reports(TORCHMETRICS, (892, 1230), "percentages of negative targets are negative", [0.5, 7 / 18])
def _():
    metric = tt.MeanAbsolutePercentageError
    return [fed(metric(), (tensor([-1.0, -3.0]), tensor([-2.0, -2.0]))), fed(metric(), (tensor([1.0, 1.0, 1.0]), tensor([1.0, 2.0, 3.0])))]


@reports(TORCHMETRICS, (2016, 2604), "errors of images are refused, those of columns cannot be told apart", [1.0, [1.0, 2.0]])
def _():
    images = fed(tt.MeanSquaredError(), (torch.ones(4, 3, 3), torch.zeros(4, 3, 3)))
    return [images, fed(tt.MeanAbsoluteError(num_outputs=2), (tensor([[1.0, 2.0]]), tensor([[0.0, 0.0]])))]


@reports(LIGHTNING, 5126, "0 log 0 is NaN", log(2) / 2)
def _():
    return fed(tt.KLDivergence(), (tensor([[0.5, 0.5, 0.0]]), tensor([[0.25, 0.5, 0.25]])))


@reports(TORCHMETRICS, (3440, 3444, 3445, 3471), "impossible options are accepted", [])
def _():
    made = (
        *(lambda m=m, n=n: m(num_outputs=n) for m in (tt.PearsonCorrCoef, tt.LogCoshError, tt.MeanSquaredError, tt.SpearmanCorrCoef) for n in (3.5, 0, -1)),
        *(lambda x=x: tt.R2Score(adjusted=x) for x in (-1, 1.5)),
        *(lambda m=m: m(multioutput="mean") for m in (tt.R2Score, tt.ExplainedVariance)),
        lambda: tt.KendallRankCorrCoef(variant="z"),
        lambda: tt.KendallRankCorrCoef(t_test=True, alternative="both"),
        *(lambda p=p: tt.MinkowskiDistance(p=p) for p in (0.5, "2")),
        lambda: tt.KLDivergence(reduction="all"),
        lambda: tt.TweedieDevianceScore(power=0.5),
        lambda: tt.MeanMetric(nan_strategy="drop"),
        lambda: tt.MeanMetric(your_favorite_word="lightning"),
    )
    found = []
    for place, make in enumerate(made):
        try:
            make()
            found.append(place)
        except ValueError:
            pass
    return found


# ---- aggregation
@reports(TORCHMETRICS, 1063, "zeros are taken for nothing", [[0.0] * 5, 0.0, 0.0])
def _():
    return [fed(m, (torch.zeros(5),)) for m in (tt.CatMetric(), tt.MinMetric(), tt.MaxMetric())]


@reports(TORCHMETRICS, (1897, 3434), "weights are dropped, or out of step with values that are", [7 / 3, 7 / 3, 1.0, 0.5])
def _():
    values, weights = tensor([1.0, nan, 3.0]), tensor([1.0, 1.0, 2.0])
    ignored = [fed(tt.MeanMetric(nan_strategy=s), (values, weights)) for s in ("ignore",)]
    with pytest.warns(UserWarning, match="NaN"):
        ignored.append(fed(tt.MeanMetric(nan_strategy="warn"), (values, weights)))
    disabled = fed(tt.MeanMetric(nan_strategy="disable"), (tensor([1.0, 2.0, 3.0]), tensor([1.0, 0.0, 0.0])))
    return [*ignored, disabled, fed(tt.MeanMetric(nan_strategy=0.0), (tensor([1.0, nan]), tensor([1.0, 1.0])))]


@reports(TORCHEVAL, 123, "sums of float32 stop growing", [2.0**24 + 10, 2.0**24 + 10])
def _():
    sums = tt.SumMetric(), tt.SumMetric()
    for value in (2.0**24, *10 * [1.0]):
        sums[0].update(value)
        sums[1].update(tensor(value))
    return [m.fetch().result() for m in sums]


@reports(IGNITE, 3839, "numbers go through float32", [1e-100, 1e300, inf])
def _():
    def mean(*values):
        metric = tt.MeanMetric()
        for value in values:
            metric.update(value)
        return metric.fetch().result()

    return [mean(1e-100, 1e-100), mean(1e300), mean(inf, 1.0)]


@reports(TORCHMETRICS, 1647, "one output in a column of its own is refused", 2 * [correlation(X, Y)])
def _():
    return [fed(tt.PearsonCorrCoef(), (X, Y)), fed(tt.PearsonCorrCoef(), (X[:, None], Y[:, None])).squeeze()]


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
