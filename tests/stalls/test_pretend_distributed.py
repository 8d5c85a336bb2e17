"""DistributedDataParallel and the collectives of "nccl" on the pretend device, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torchtally

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this build of PyTorch has no torch.distributed")

ONE = """
import collections, warnings
import torch, torch.distributed as dist, torch.nn as nn
from torchtally.stalls import pretend_cuda
warnings.simplefilter("ignore")

with pretend_cuda() as recorder:
    def operators(before=0):
        return collections.Counter(stall.operator for stall in recorder.stalls[before:])
    dist.init_process_group("nccl", init_method="file://{file}", rank={rank}, world_size={world})
    rank, world = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == "nccl" and dist.is_nccl_available()
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
    model = nn.parallel.DistributedDataParallel(plain, device_ids=[0], gradient_as_bucket_view={views})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = len(recorder.stalls)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((4, 4), float(rank + step), device="cuda").cumsum(0)).square().mean().backward()
        optimizer.step()
    assert not operators(before), operators(before)
    assert all(p.grad.is_cuda for p in model.parameters())
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    every = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(every, mine)
    assert all(t.is_cuda and torch.equal(t, mine) for t in every)  # the ranks agree: gradients were averaged

    x = torch.full((2,), rank + 1.0, device="cuda")
    dist.all_reduce(x)
    assert x.is_cuda and x.tolist() == [world * (world + 1) / 2] * 2
    for refused in (lambda: dist.all_reduce(torch.ones(2)), lambda: dist.broadcast(torch.ones(2), 0), lambda: dist.all_gather([torch.ones(2)] * world, torch.ones(2))):
        try:
            refused()
        except RuntimeError as error:
            assert str(error) == "No backend type associated with device type cpu", error
        else:
            raise AssertionError("NCCL takes no host tensors")

    every = torch.arange(12.0 * world).view(3 * world, 4).sin()
    plain, synchronised = nn.BatchNorm1d(4), nn.SyncBatchNorm(4).cuda()
    whole, part = plain(every), synchronised(every[3 * rank : 3 * rank + 3].cuda())
    torch.testing.assert_close(part.detach().cpu(), whole[3 * rank : 3 * rank + 3].detach(), rtol=1e-4, atol=1e-5)

    found = [None] * world
    before = len(recorder.stalls)
    dist.all_gather_object(found, {{"rank": rank}})
    assert found == [{{"rank": r}} for r in range(world)] and operators(before)["aten::_local_scalar_dense"] >= world
    before = len(recorder.stalls)
    dist.barrier()
    assert operators(before) == {{"torch.distributed.barrier": 1}}
    gloo = dist.new_group(backend="gloo")
    y = torch.ones(2)
    dist.all_reduce(y, group=gloo)
    assert y.tolist() == [float(world)] * 2
    before = len(recorder.stalls)
    dist.barrier(group=gloo)
    assert not operators(before) and dist.get_backend(gloo) == "gloo"
    dist.destroy_process_group()
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method="file://{file}-again", rank=rank, world_size=world)
    y = torch.ones(2)
    dist.all_reduce(y)  # the name is that of the group before, which took no host tensors
    assert y.tolist() == [float(world)] * 2
    dist.destroy_process_group()
print("done")
"""


def run(tmp_path, world, views=False):
    source = str(Path(torchtally.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    codes = [ONE.format(file=tmp_path / "store", rank=rank, world=world, views=views) for rank in range(world)]
    ranks = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for code in codes
    ]
    for rank in ranks:
        out, _ = rank.communicate(timeout=240)
        assert rank.returncode == 0 and out.strip().endswith("done"), out


def test_one_rank(tmp_path):
    run(tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize("views", [False, True])
def test_two_ranks(tmp_path, views):
    run(tmp_path, 2, views)
