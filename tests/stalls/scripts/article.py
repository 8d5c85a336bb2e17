"""Images that need no disk, a ResNet, five metrics: what a loop of an afternoon looks like."""

import time

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchmetrics import Accuracy, F1Score, MeanMetric, Precision, Recall

device = "cuda"
CLASSES = 20
REPORT_EVERY = 3


class Noise(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.randn(3, 32, 32), torch.tensor(index % CLASSES)


loader = DataLoader(Noise(), batch_size=4, num_workers=1, pin_memory=True)
model = torchvision.models.resnet18(num_classes=CLASSES).to(device)  # expect: host_to_device=122
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
metrics = {
    "loss": MeanMetric(),
    "accuracy": Accuracy(task="multiclass", num_classes=CLASSES),
    "precision": Precision(task="multiclass", num_classes=CLASSES),
    "recall": Recall(task="multiclass", num_classes=CLASSES),
    "f1": F1Score(task="multiclass", num_classes=CLASSES),
}
metrics = {name: metric.to(device) for name, metric in metrics.items()}  # expect: host_to_device=moved

model.train()
start = time.perf_counter()
for step, (data, target) in enumerate(loader):
    data = data.to(device, non_blocking=True)
    target = target.to(device, non_blocking=True)
    optimizer.zero_grad()
    output = model(data)
    loss = criterion(output, target)
    loss.backward()
    optimizer.step()
    for name, metric in metrics.items():
        if name == "loss":
            metric.update(loss)  # expect: read=2*steps, host_to_device=weight*steps
        else:
            metric.update(output, target)
    if (step + 1) % REPORT_EVERY == 0:
        values = {name: metric.compute().item() for name, metric in metrics.items()}  # expect: read=5*(steps//3)
        print(step + 1, values, f"{(time.perf_counter() - start) / REPORT_EVERY:.3f} s per step")
        for metric in metrics.values():
            metric.reset()
