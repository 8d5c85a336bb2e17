"""A Lightning fit of two epochs that logs our metrics by step and epoch, alone and as a collection."""

import pytest
import torch
from torch import nn
from users_metrics import MeanError

import torchtally as tt
from torchtally import classification as c

lightning = pytest.importorskip("lightning.pytorch")
pytest.importorskip("torchmetrics")

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(22, 4, generator=GENERATOR)
Y = torch.randint(0, 3, (22,), generator=GENERATOR)
BATCH = 4  # the last batch is shorter


def counted(preds, target):
    """(accuracy, macro recall over classes that occur) by hand."""
    recalls = []
    for k in sorted({*preds.tolist(), *target.tolist()}):
        there = target == k
        recalls.append((preds[there] == k).double().mean().item() if there.any() else 0.0)
    return (preds == target).double().mean().item(), sum(recalls) / len(recalls)


class Model(lightning.LightningModule):
    """Logs a metric of its own, a collection, a user's metric and a mean; weights stay as they are, so that values are known."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(4, 3)
        self.recall = c.MulticlassRecall(3)
        self.loss = tt.MeanMetric()
        self.mine = MeanError()
        tally = tt.MetricCollection(
            {"accuracy": c.MulticlassAccuracy(3, average="micro"), "f1": c.MulticlassF1Score(3), "recall": c.MulticlassRecall(3)}
        )
        self.train_tally, self.val_tally = tally.clone(prefix="train/"), tally.clone(prefix="val/")
        self.steps, self.epochs = [], []

    def training_step(self, batch, index):
        x, y = batch
        out = self.layer(x)
        loss = nn.functional.cross_entropy(out, y)
        values = self.train_tally(out, y)
        self.recall(out, y)
        self.loss(loss, weight=len(y))
        self.mine(out.argmax(1), y)
        self.log_dict(self.train_tally, on_step=True, on_epoch=True)
        self.log("alone", self.recall, on_step=True, on_epoch=True, prog_bar=True, sync_dist=True)
        self.log("loss", self.loss, on_step=False, on_epoch=True, prog_bar=True)
        self.log("mine", self.mine, on_step=True, on_epoch=True, sync_dist=True)
        self.steps.append({k: float(v) for k, v in values.items()})
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.val_tally.update(self.layer(x), y)
        self.log_dict(self.val_tally, on_epoch=True, sync_dist=True)

    def on_train_epoch_end(self):
        self.epochs.append({k: float(v) for k, v in self.trainer.callback_metrics.items()})

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


@pytest.mark.filterwarnings("ignore")  # Lightning's own, about workers and loggers
def test_two_epochs_logged_by_step_and_epoch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = Model()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=BATCH)
    logged = []

    class Logger(lightning.loggers.logger.Logger):
        name, version = "test", 0

        def log_hyperparams(self, *args, **kwargs):
            pass

        def log_metrics(self, metrics, step=None):
            logged.append({**metrics, "step": step})

    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=Logger(),
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=1,
    )
    trainer.fit(model, data, data)

    out = model.layer(X).detach()
    preds = out.argmax(1)
    accuracy, recall = counted(preds, Y)
    loss = float(nn.functional.cross_entropy(out, Y))
    error = (preds - Y).abs().double().mean().item()
    assert len(model.steps) == 12 and len(model.epochs) == 2
    for i, step in enumerate(model.steps):
        rows = slice(BATCH * (i % 6), BATCH * (i % 6) + BATCH)
        want_accuracy, want_recall = counted(preds[rows], Y[rows])
        assert step["train/accuracy"] == pytest.approx(want_accuracy)
        assert step["train/recall"] == pytest.approx(want_recall)
        by_step = [x for x in logged if x["step"] == i and "train/accuracy_step" in x]
        assert by_step and by_step[0]["train/accuracy_step"] == pytest.approx(want_accuracy)
        assert by_step[0]["alone_step"] == pytest.approx(want_recall)
        assert by_step[0]["mine_step"] == pytest.approx((preds[rows] - Y[rows]).abs().double().mean().item())
    for epoch in model.epochs:  # equal in both epochs: everything was reset in between
        assert epoch["train/accuracy_epoch"] == pytest.approx(accuracy)
        assert epoch["train/recall_epoch"] == epoch["alone_epoch"] == pytest.approx(recall)
        assert epoch["loss"] == pytest.approx(loss)
        assert epoch["mine_epoch"] == pytest.approx(error)
        assert epoch["val/accuracy"] == pytest.approx(accuracy)
        assert epoch["val/recall"] == pytest.approx(recall)
    assert model.train_tally.update_count == model.val_tally.update_count == model.recall.update_count == 0
    assert [m.ledger for m in model.train_tally.values()] == [model.train_tally.ledger] * 3  # still shared
