"""A trainer after the well-known ones: arguments, a loop, logging, evaluation with NumPy metrics."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader


@dataclass
class TrainingArguments:
    num_train_epochs: int = 1
    per_device_train_batch_size: int = 4
    gradient_accumulation_steps: int = 2
    logging_steps: int = 2
    max_grad_norm: float = 1.0
    learning_rate: float = 1e-2

    @property
    def device(self):
        return torch.device("cuda", torch.cuda.current_device())


class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset, compute_metrics):
        self.args = args
        self.model = model.to(args.device)  # expect: host_to_device=3
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.compute_metrics = compute_metrics

    def _prepare_inputs(self, inputs):
        return {k: v.to(self.args.device) for k, v in inputs.items()}  # expect: host_to_device=2*2*steps + 2*2

    def train(self):
        args = self.args
        loader = DataLoader(self.train_dataset, batch_size=args.per_device_train_batch_size)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate, fused=True)
        tr_loss = torch.tensor(0.0).to(args.device)  # expect: host_to_device=1
        global_step = 0
        for _ in range(args.num_train_epochs):
            for step, inputs in enumerate(loader):
                self.model.train()
                inputs = self._prepare_inputs(inputs)
                loss = self.model(**inputs)["loss"] / args.gradient_accumulation_steps
                loss.backward()
                tr_loss += loss.detach()
                if (step + 1) % args.gradient_accumulation_steps == 0:
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), args.max_grad_norm)
                    optimizer.step()
                    optimizer.zero_grad()
                    global_step += 1
                    if global_step % args.logging_steps == 0:
                        self.log(tr_loss)
        return global_step

    def log(self, tr_loss):
        scalar = tr_loss.item()  # expect: read=steps//2
        tr_loss -= tr_loss
        print({"loss": round(scalar / self.args.logging_steps, 4)})

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        predictions, labels = [], []
        for inputs in DataLoader(self.eval_dataset, batch_size=8):
            inputs = self._prepare_inputs(inputs)
            predictions.append(self.model(**inputs)["logits"].cpu().numpy())  # expect: device_to_host=2
            labels.append(inputs["labels"].cpu().numpy())  # expect: device_to_host=2
        return self.compute_metrics(np.concatenate(predictions), np.concatenate(labels))
