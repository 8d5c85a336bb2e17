"""Modules as Lightning likes them, with torchmetrics as attributes and collections, driven by a loop of one's own."""

import torch
import torchmetrics
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.net = nn.Linear(10, classes)
        self.train_loss = torchmetrics.MeanMetric()
        metrics = torchmetrics.MetricCollection(
            {
                "acc": torchmetrics.Accuracy(task="multiclass", num_classes=classes),
                "confusion": torchmetrics.ConfusionMatrix(task="multiclass", num_classes=classes, validate_args=False),
            }
        )
        self.train_metrics = metrics.clone(prefix="train/")
        self.logged = {}

    def training_step(self, batch):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y)
        self.train_loss.update(loss)  # expect: read=2*steps, host_to_device=weight*steps
        self.train_metrics.update(logits, y)  # expect: shape_read=2*steps
        return loss

    def on_train_epoch_end(self):
        self.logged = {"train/loss": self.train_loss.compute(), **self.train_metrics.compute()}
        self.train_loss.reset()
        self.train_metrics.reset()


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def fit(self, module, loader):
        module.to("cuda")  # expect: host_to_device=module_moved
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        for _ in range(self.max_epochs):
            for batch in loader:
                batch = [t.to("cuda", non_blocking=True) for t in batch]
                loss = module.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            module.on_train_epoch_end()


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 10), torch.randint(4, (24,)))
    module = Classifier(4)
    Trainer(max_epochs=2).fit(module, DataLoader(data, batch_size=8, pin_memory=True))
    print({k: v.tolist() for k, v in module.logged.items()})  # expect: read=3
