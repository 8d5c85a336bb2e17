"""FeatureShare: the network of several metrics runs once a batch."""

import copy
import pickle

import pytest
import torch
from torch import nn

import torchtally as tt
from torchtally import wrappers as w


class Doubler(nn.Module):
    runs = 0

    def forward(self, x):
        type(self).runs += 1
        return 2 * x


class FeatureMean(tt.Metric):
    feature_network = "network"

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.add_state("total", torch.tensor(0.0), "sum")

    def update(self, images):
        self.total += self.network(images).mean()

    def compute(self):
        return self.total


@pytest.fixture
def shared():
    Doubler.runs = 0
    return w.FeatureShare({"a": FeatureMean(Doubler()), "b": FeatureMean(Doubler()), "c": FeatureMean(Doubler())})


def test_one_run_a_batch(shared):
    images = torch.ones(3)
    shared.update(images)
    assert Doubler.runs == 1
    shared(images)
    shared.update(images.add_(1))  # the same tensor with other values is another batch
    assert Doubler.runs == 3
    assert {n: float(x) for n, x in shared.compute().items()} == dict.fromkeys("abc", 8.0)
    assert not shared["a"].network._known
    with torch.inference_mode():
        shared.update(torch.ones(3))
    assert Doubler.runs == 4


def test_copies_have_a_network_of_their_own(shared):
    for other in (copy.deepcopy(shared), pickle.loads(pickle.dumps(shared)), shared.clone()):
        assert other["a"].network is other["b"].network is not shared["a"].network
        other.update(torch.ones(3))
        assert other.compute()["a"] == 2.0
    assert shared.compute()["a"] == 0.0


def test_results_beyond_the_size_are_forgotten():
    cache = w.NetworkCache(Doubler(), max_size=2)
    kept = [torch.full((1,), float(k)) for k in range(3)]
    Doubler.runs = 0
    for x in (*kept, *kept):
        assert cache(x) == 2 * x
    assert Doubler.runs == 6
    assert cache.network.runs == cache.runs == 6


def test_what_cannot_be_shared():
    with pytest.raises(AttributeError, match="has no feature_network"):
        w.FeatureShare({"a": tt.MeanMetric()})
    odd = FeatureMean(Doubler())
    odd.feature_network = 3
    with pytest.raises(TypeError, match="expected the name"):
        w.FeatureShare({"a": odd})
    with pytest.raises(TypeError, match="max_cache_size"):
        w.FeatureShare({"a": FeatureMean(Doubler())}, max_cache_size="all")
    with pytest.warns(UserWarning, match="is not like that"):
        w.FeatureShare({"a": FeatureMean(Doubler()), "b": FeatureMean(nn.Identity())})
