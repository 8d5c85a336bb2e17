"""Large confusion matrices on the host: places in the table wait and are counted many at a time."""

import pickle

import numpy as np
import pytest
import torch

import torchtally as tt
from torchtally.statistics.confusion import LARGE, TOGETHER

CLASSES = 300


def labels(n, seed):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, CLASSES, (2, n)))


def counted(*batches):
    table = np.zeros((CLASSES, CLASSES), np.int64)
    for preds, target in batches:
        np.add.at(table, (target.numpy(), preds.numpy()), 1)
    return table


def metric():
    assert CLASSES**2 > LARGE
    return tt.ConfusionMatrix(task="multiclass", num_classes=CLASSES)


@pytest.mark.parametrize("sizes", [(5000,) * 60, (TOGETHER + 1, 10, TOGETHER, TOGETHER - 1, 2000), (40_000, 90_000, 40_000)])
def test_whatever_the_sizes_of_batches(sizes):
    m, batches = metric(), [labels(n, i) for i, n in enumerate(sizes)]
    for i, batch in enumerate(batches):
        m.update(*batch)
        if i % 7 == 3:
            np.testing.assert_array_equal(m.metric_state["matrix"][:CLASSES, :CLASSES], counted(*batches[: i + 1]))
    np.testing.assert_array_equal(m.compute(), counted(*batches))


def test_what_waits_goes_where_totals_go():
    first, second, third = (labels(3000, i) for i in range(3))
    m = metric()
    m.update(*first)
    copied, other = m.clone(), metric()
    other.update(*second)
    m.update(*second)
    np.testing.assert_array_equal(copied.compute(), counted(first))
    saved = pickle.dumps(m)
    assert len(saved) < 8 * (CLASSES + 2) ** 2 + 100_000, "nothing but totals is saved"
    again = pickle.loads(saved)
    again.update(*third)
    np.testing.assert_array_equal(again.compute(), counted(first, second, third))
    m.merge_state(other)
    np.testing.assert_array_equal(m.compute(), counted(first, second, second))
    m.update(*third)
    m.reset()
    m.update(*third)
    np.testing.assert_array_equal(m.compute(), counted(third))
    np.testing.assert_array_equal(m(*first), counted(first))
    np.testing.assert_array_equal(m.compute(), counted(third, first))
