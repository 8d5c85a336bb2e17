"""A real Lightning Trainer with torchmetrics logged on the progress bar."""

import lightning as L
import torch
import torchmetrics
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 3)
        self.mean_loss = torchmetrics.MeanMetric()
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3)

    def training_step(self, batch, batch_idx):
        x, y = batch
        out = self.net(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        self.mean_loss(loss)  # expect: read=2*steps, host_to_device=weight*steps
        self.accuracy(out, y)
        self.log("loss", self.mean_loss, on_step=True, on_epoch=True)
        self.log("acc", self.accuracy, on_epoch=True, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


data = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(3, (64,))), batch_size=4, pin_memory=True)
trainer = L.Trainer(
    accelerator="gpu",
    devices=1,
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Classifier(), data)  # expect: read=steps
