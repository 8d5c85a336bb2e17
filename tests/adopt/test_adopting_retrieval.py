"""Retrieval metrics of torchmetrics are taken over with what they have seen."""

import pytest
import torch

from torchtally import retrieval as ours
from torchtally.adopt import adopt

theirs = pytest.importorskip("torchmetrics.retrieval")

OPTIONS = {
    "RetrievalPrecision": {"top_k": 3, "adaptive_k": True},
    "RetrievalPrecisionRecallCurve": {"max_k": 4},
    "RetrievalMRR": {"aggregation": "median"},
}


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(30, generator=g), torch.randint(0, 2, (30,), generator=g), torch.randint(0, 4, (30,), generator=g)


@pytest.mark.parametrize("name", ours.__all__)
def test_what_was_seen_is_taken_over(name):
    if not hasattr(theirs, name):
        pytest.skip(f"this torchmetrics has no {name}")
    metric = getattr(theirs, name)(ignore_index=-1, **OPTIONS.get(name, {}))
    metric.update(*batch(0))
    new = adopt(metric)
    assert type(new) is getattr(ours, name) and new.ignore_index == -1
    for seed in (1, 2):
        torch.testing.assert_close(new.compute(), metric.compute(), check_dtype=False)
        for each in (new, metric):
            each.update(*batch(seed))
