import argparse

import torch
from torch import nn

from .trainer import Trainer, TrainingArguments


class TinyModel(nn.Module):
    def __init__(self, vocabulary=20, labels=2):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocabulary, 8)
        self.head = nn.Linear(8, labels)

    def forward(self, input_ids, labels):
        logits = self.head(self.embed(input_ids))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Sentences(torch.utils.data.Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(n)
        self.ids = torch.randint(20, (n, 5), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i].sum() % 2}


def accuracy(predictions, labels):
    return {"accuracy": float((predictions.argmax(1) == labels).mean())}


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
arguments = parser.parse_args()
trainer = Trainer(TinyModel(), TrainingArguments(num_train_epochs=arguments.epochs), Sentences(32), Sentences(16), accuracy)
trainer.train()
print(trainer.evaluate())
