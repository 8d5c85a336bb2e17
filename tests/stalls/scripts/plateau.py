"""Train, validate after each epoch, let the plateau scheduler and early stopping decide, keep the best weights."""

import copy
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "cuda:0"


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total, count = 0.0, 0
    for x, y in loader:
        x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
        total = total + nn.functional.mse_loss(model(x), y, reduction="sum")
        count += len(x)
    return total / count


def fit(epochs=3):
    torch.manual_seed(0)
    x = torch.randn(24, 5)
    y = x.sum(1, keepdim=True)
    training = DataLoader(TensorDataset(x, y), batch_size=8, pin_memory=True)
    validation = DataLoader(TensorDataset(x, y), batch_size=12, pin_memory=True)
    model = nn.Linear(5, 1)
    model.to(DEVICE)  # expect: host_to_device=2
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    best, best_state = float("inf"), None
    for _ in range(epochs):
        model.train()
        for xb, yb in training:
            xb, yb = xb.to(DEVICE, non_blocking=True), yb.to(DEVICE, non_blocking=True)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(xb), yb).backward()
            optimizer.step()
        loss = validate(model, validation)
        scheduler.step(loss)  # expect: read=epochs
        if loss < best:  # expect: read=epochs
            best = float(loss)  # expect: read=epochs
            best_state = copy.deepcopy(model.state_dict())
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "best.pt")
        torch.save(best_state, file)  # expect: device_to_host=2
        model.load_state_dict(torch.load(file, map_location="cpu"))  # expect: host_to_device=2
    torch.cuda.synchronize()  # expect: synchronize=1


fit()
