"""Public reports about logging in Lightning: what gives several numbers is logged by its values, as docs/moving.md says."""

import pytest
import torch
from torch import nn, tensor

import torchtally as tt
from torchtally import classification as c

lightning = pytest.importorskip("lightning.pytorch")

X, Y = torch.eye(3)[[0, 1, 2, 2, 1, 0]], tensor([0, 1, 2, 1, 1, 0])  # one of the two class 2 is wrong


class Model(lightning.LightningModule):
    """Says which entry of a row is the largest."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(3))
            self.layer.bias.zero_()
        recall = c.MulticlassRecall(3, average=None)
        self.tally = tt.MetricCollection(
            {
                "recall": tt.ClasswiseWrapper(recall, ["cat", "dog", "cow"], prefix="recall_"),
                "named": c.MulticlassPrecision(3, average=None, labels=["cat", "dog", "cow"]),
                "accuracy": tt.MinMaxMetric(c.MulticlassAccuracy(3, average="micro")),
                "f1": c.MulticlassF1Score(3, average="micro"),
            },
            prefix="val/",
        )
        self.tasks = tt.MultitaskWrapper({"a": tt.MetricCollection({"mse": tt.MeanSquaredError(), "mae": tt.MeanAbsoluteError()}), "b": c.BinaryAccuracy()})

    def validation_step(self, batch, index):
        x, y = batch
        self.tally.update(self.layer(x), y)
        self.tasks.update({"a": x, "b": y}, {"a": x + 0.5, "b": y.clamp(max=1)}) if int(y.max()) < 2 else None
        self.log_dict(dict(self.tasks.items()), on_epoch=True)

    def on_validation_epoch_end(self):
        self.log_dict(self.tally.compute())
        self.tally.reset()


def logged(model):
    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, barebones=False
    )
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=2)
    return trainer.validate(model, loader, verbose=False)[0]


@pytest.mark.filterwarnings("ignore")
def test_values_of_several_numbers_are_logged_by_name():
    """Lightning-AI/torchmetrics#2091, #2338, #2402, #2756, #2763."""
    model = Model()
    for _ in range(2):  # the second time nothing of the first is left
        found = logged(model)
        assert {n: round(x, 4) for n, x in found.items()} == {
            "val/recall_cat": 1.0,
            "val/recall_dog": 0.6667,
            "val/recall_cow": 1.0,
            "val/named_cat": 1.0,
            "val/named_dog": 1.0,
            "val/named_cow": 0.5,
            "val/raw": 0.8333,
            "val/max": 0.8333,
            "val/min": 0.8333,
            "val/f1": 0.8333,
            "a_mse": 0.25,
            "a_mae": 0.5,
            "b": 1.0,
        }
