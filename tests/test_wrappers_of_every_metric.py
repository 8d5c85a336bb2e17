"""Windows, slices and steps of every metric: what the metric gives of the same rows."""

import pytest
import torch
from cases import CASES, batches
from test_laws import assert_equal, fed

import torchtally as tt

# One case of each statistic in every run, the others with `pytest -m slow`.
SAMPLE = {case.name for case in {tuple(type(s) for s in case.make().statistics): case for case in reversed(CASES)}.values()}
every = pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=() if case.name in SAMPLE else pytest.mark.slow) for case in CASES]
)


def by_name(value, name):
    return [x for n, x in value.items() if n == name or n.startswith(f"{name}_")]


@every
def test_windows_slices_and_steps(case):
    data = batches(case, (7, 1, 12, 5))
    tolerance = max(case.tolerance, 1e-5)
    want = fed(case, data[-2:]).compute()
    window = tt.Running(case.make(), 2)
    for batch in data:
        window.update(*batch)
    assert_equal(window.compute(), want, tolerance)
    again = tt.Running(case.make(), 2)
    again.load_state_dict(window.state_dict())
    assert_equal(again.compute(), want, tolerance)
    for batch in data:
        assert_equal(window(*batch), fed(case, [batch]).compute(), tolerance)
    assert_equal(window.compute(), want, tolerance)

    tracker = tt.MetricTracker(case.make(), maximize=True)
    for batch in data[2:]:
        tracker.increment()
        tracker.update(*batch)
    assert_equal(tracker.compute(), fed(case, data[3:]).compute(), tolerance)

    batch, index = data[2], torch.arange(12) % 3
    if all(len(x) == 12 for x in batch):
        sliced = tt.Sliced(case.make(), 3)
        sliced.update(*batch, index=index)
        value = sliced.compute()
        assert_equal(by_name(value, "1"), fed(case, [tuple(x[index == 1] for x in batch)]).compute(), tolerance)
        if not case.grows:
            assert_equal(by_name(value, "total"), fed(case, [batch]).compute(), tolerance)
