"""What tests of sample weights share."""

import numpy as np
import pytest
import torch
from cases import elsewhere
from torch import Tensor

WAYS = {"host": tuple, "device": elsewhere}
ways = pytest.mark.parametrize("way", WAYS)


def value(metric, *batch, way="host", parts=3):
    """The value of a batch that comes in parts, in full precision."""
    metric.set_dtype(torch.float64)
    for part in zip(*(x.tensor_split(parts) for x in batch)):
        metric.update(*WAYS[way](part))
    return metric.compute()


def close(got, want, rtol=1e-12):
    np.testing.assert_allclose(np.asarray(got.as_subclass(Tensor)), want, rtol=rtol, atol=1e-12)
