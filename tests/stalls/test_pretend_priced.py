"""The pretend device with a price: stalls carry the times they would have on a real one."""

import pytest
import torch

from torchtally.errors import TallyError
from torchtally.stalls import pretend_cuda


def test_stalls_carry_predicted_times_and_the_report_says_so():
    with pretend_cuda(price="a40") as recorder:
        x = torch.ones(1024, 1024, device="cuda")
        for _ in range(3):
            y = x @ x
            float(y.sum())
    report = recorder.report("here")
    assert report.predicted == "NVIDIA A40"
    assert any("not measured" in note for note in report.notes)
    first, second, third = report.stalls
    # 2 * 1024**3 operations at 37.4 TFLOP/s and 0.7 take 82 us, far longer than a launch; the host then waits for most of it
    assert 40 < first.host_wait_us < 150
    assert first.start_us < second.start_us < third.start_us
    assert first.device_idle_us > 10 and third.device_idle_us is None  # nothing was queued after the last


def test_without_a_price_nothing_is_predicted():
    with pretend_cuda() as recorder:
        torch.ones(3, device="cuda").sum().item()
    report = recorder.report("here")
    assert report.predicted is None and report.stalls[0].host_wait_us is None


def test_an_unknown_price_is_refused_before_anything_is_pretended():
    with pytest.raises(TallyError, match="no price list"), pretend_cuda(price="a41"):
        pass
    assert torch.empty(1).device.type == "cpu"


def test_waits_of_a_price_are_those_without():
    def run(**options):
        with pretend_cuda(**options) as recorder:
            x = torch.ones(8, 8, device="cuda")
            torch.as_tensor(1.0, device="cuda")
            x[x > 0].sum().tolist()
            torch.cuda.synchronize()
        return [(s.kind, s.operator) for s in recorder.stalls]

    assert run(price="h200") == run() == run(shapes=True)
