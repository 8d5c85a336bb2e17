"""Two processes, DistributedDataParallel over NCCL, loss averaged over ranks for the log of rank 0."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def worker(rank, world_size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank)
    loader = DataLoader(data, batch_size=4, sampler=sampler, pin_memory=True)
    model = DDP(nn.Linear(4, 1).to(rank), device_ids=[rank])  # expect: host_to_device=2*ranks, read=ranks*ranks
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in loader:
        x, y = x.to(rank, non_blocking=True), y.to(rank, non_blocking=True)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / world_size
        dist.all_reduce(mean)
        if rank == 0:
            print(f"loss {mean.item():.4f}")  # expect: read=steps
    dist.barrier()  # expect: synchronize=ranks
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2, int(os.environ.get("PORT", "29511"))), nprocs=2)
