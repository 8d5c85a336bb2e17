"""Gradient accumulation, warm-up and cosine schedule, a running loss for the progress bar."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4
EPOCHS = 2


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))
    loader = DataLoader(data, batch_size=4, shuffle=True, drop_last=True)
    model = nn.Linear(8, 3).cuda()  # expect: host_to_device=2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = EPOCHS * len(loader) // ACCUMULATE
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=2)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[2])

    for epoch in range(EPOCHS):
        running = 0.0
        for i, (x, y) in enumerate(loader, 1):
            x, y = x.cuda(), y.cuda()  # expect: host_to_device=2*4*steps
            loss = nn.functional.cross_entropy(model(x), y) / ACCUMULATE
            loss.backward()
            running += loss.item()  # expect: read=4*steps
            if i % ACCUMULATE == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        print(f"epoch {epoch}: {running / len(loader):.3f}, lr {scheduler.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main()
