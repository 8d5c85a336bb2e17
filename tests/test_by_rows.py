"""Rows added each to its own totals without knowing which: over every metric that can, the same as rows picked on the host."""

import cases
import pytest
import torch
from cases import CASES
from test_laws import as_numbers, assert_equal

from torchtally import classification as c
from torchtally.statistic import Slots
from torchtally.wrappers import by_rows
from torchtally.wrappers.by_rows import ByRow, by_row, told_formula

ROWS = [case for case in CASES if by_row(case.make())]


def one_of(ledger):
    """The slots of a ledger as those of the only group."""
    views = [Slots(None, ledger.clock) for _ in ledger.parts]
    for part, into, slots in zip(ledger.parts, views, ledger.views()):
        for name in part.slots():
            setattr(into, name, getattr(slots, name)[None])
    return views


@pytest.mark.parametrize("elements", [1, 1 << 22], ids=["row by row", "at once"])
@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.name)
def test_rows_that_are_left_out_change_nothing(case, elements, monkeypatch):
    monkeypatch.setattr(by_rows, "ELEMENTS", elements)
    batch = cases.batches(case, (9,))[0]
    if any(len(x) != 9 for x in batch):
        pytest.skip("takes more than rows")
    keep = torch.tensor([True, True, False, True, False, True, True, False, True])
    want = case.make()
    want.update(*(x[keep] for x in batch))
    spoiled = [x.masked_fill(~keep.view(-1, *[1] * (x.ndim - 1)), torch.nan if x.is_floating_point() else 77 if x.dtype != torch.bool else True) for x in batch]
    for data in (batch, spoiled):
        metric = case.make()
        ByRow(metric).add(one_of(metric.ledger), 1, (~keep).long(), list(data), metric.ledger.clock)
        metric.ledger.tick()
        assert_equal(as_numbers(metric.compute()), as_numbers(want.compute()), max(case.tolerance, 1e-5))
        for name, x in want.metric_state.items():
            if name in ("scored", "logits", "bad"):
                assert_equal(metric.metric_state[name], x)


def test_what_can_and_what_cannot():
    assert len(ROWS) > 300
    assert by_row(c.BinaryAccuracy()) and by_row(c.MulticlassAccuracy(1000))
    assert not by_row(c.MulticlassConfusionMatrix(1000)) and not by_row(c.BinaryAUROC())


def test_a_formula_that_is_told():
    metric = c.BinaryAccuracy()
    metric.update(torch.tensor([0.2]), torch.tensor([1]))
    for logits, value in ((True, 1.0), (False, 0.0)):
        told = told_formula(metric, logits)
        assert told.update_count == 0 and "logits" not in told.metric_state
        told.update(torch.tensor([0.2]), torch.tensor([1]))
        assert told.compute() == value
    assert metric.update_count == 1
