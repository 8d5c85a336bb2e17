"""Public reports about collections, wrappers, states and aggregation."""

import pytest
from reports import TORCHMETRICS, Report, Table, check, fed
from torch import Tensor, tensor

import torchtally as tt

reports = Table()


class Scaled(tt.Metric):
    """A user's metric: a sum, times what `compute` is asked for, or a dict."""

    full_state_update = False

    def __init__(self, named: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.named = named
        self.add_state("total", default=tensor(0.0), dist_reduce_fx="sum")

    def update(self, value: Tensor) -> None:
        self.total += value

    def compute(self, times: float = 1.0):
        return {"one": self.total, "two": 2 * self.total} if self.named else self.total * times


@reports(TORCHMETRICS, 1772, "names in a value lose the prefix of the inner collection", [["b_a_one", "b_a_two"], ["x_one_y_z", "x_two_y_z"], ["a_one", "a_two", "b_one", "b_two"]])
def _():
    inner = [tt.MetricCollection([Scaled(named=True)], prefix=p) for p in ("a_", "b_")]
    nested = [
        tt.MetricCollection([inner[0].clone()], prefix="b_"),
        tt.MetricCollection([tt.MetricCollection([Scaled(named=True)], prefix="x_", postfix="_y")], postfix="_z"),
        tt.MetricCollection(inner),
    ]
    return [list(fed(m, (1.0,))) for m in nested]


@reports(TORCHMETRICS, 1841, "compute with arguments gives the value of the first call", [2.0, 4.0, 1.0])
def _():
    metric = Scaled()
    metric.update(1.0)
    return [metric.compute(2.0), metric.compute(times=4.0), metric.compute()]


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
