"""The experiment on a real GPU: the counts of the pretend one, and values that agree. Runs only where there is one."""

import pytest
import torch

from torchtally.bench import counting, measure, settings
from torchtally.bench.variants import MAIN, VARIANTS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SIZES = dict(model="small", batch=8, image_size=32, classes=10, steps=20, log_interval=10, warmup=3, workers=0)


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if not variant.ddp])
def test_a_real_gpu_waits_as_often_as_a_pretend_one(name):
    chosen = settings.for_device("cuda", **SIZES)
    assert counting.live(VARIANTS[name], chosen).stalls_per_step == counting.pretended(VARIANTS[name], chosen).stalls_per_step


def test_variants_are_measured_and_read_alike():
    rows = measure.measure([VARIANTS[name] for name in MAIN], settings.for_device("cuda", data="digits", **SIZES))
    for row in rows[1:]:
        assert row.step_ms > 0 and row.values["loss"] == pytest.approx(rows[1].values["loss"], rel=0.05)


def test_nccl_moves_nothing_of_the_cpu():
    rows = measure.measure([VARIANTS[name] for name in ("none", "cpu-ddp", "cpu-ddp-nosync")], settings.for_device("cuda", **SIZES))
    assert "No backend type associated with device type cpu" in rows[1].error and rows[2].values["step_s"] > 0
