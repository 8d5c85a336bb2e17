"""An exponential moving average of the weights, a guard against NaN, gradient norms in the log."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

device = torch.device("cuda")
generator = torch.Generator().manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.GELU(), nn.Linear(12, 1)).to(device)  # expect: host_to_device=9
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99), device=device)  # expect: host_to_device=1
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

for step in range(5):
    x = torch.randn(16, 6, generator=generator).pin_memory().to(device, non_blocking=True)
    loss = model(x).square().mean()
    if torch.isnan(loss):  # expect: read=steps
        raise SystemExit("diverged")
    optimizer.zero_grad()
    loss.backward()
    norms = [p.grad.norm() for p in model.parameters()]
    total = torch.stack(norms).norm().cpu()  # expect: device_to_host=steps
    optimizer.step()
    ema.update_parameters(model)  # expect: read=(1 + questions(6))*steps
    print(step, float(total))
