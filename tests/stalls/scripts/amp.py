"""Mixed precision with a gradient scaler, as in the PyTorch recipes."""

import argparse

import torch
from torch import nn


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--clip", type=float, default=1.0)
    return parser.parse_args()


def train(args):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)  # expect: host_to_device=4
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
    for _ in range(args.epochs):
        for step in range(6):
            inputs = torch.randn(8, 16, device=device)
            labels = torch.randint(4, (8,), device=device)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)  # expect: read=steps
            scaler.update()
            if step % 3 == 0:
                print(f"step {step} loss {loss:.3f} scale {scaler.get_scale()}")  # expect: read=2, print=2


if __name__ == "__main__":
    train(parse())
