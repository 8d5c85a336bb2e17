"""Metrics as people write them for torchmetrics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import torchtally as tt


class MeanError(tt.Metric):
    """Sum states, updated in place."""

    full_state_update = False
    is_differentiable = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", default=torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("count", default=torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        if preds.shape != target.shape:
            raise ValueError("preds and target differ in shape")
        self.total += (preds - target).abs().sum()
        self.count += target.numel()

    def compute(self) -> Tensor:
        return self.total / self.count


class Total(tt.Metric):
    """A sum state."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros(()), "sum")

    def update(self, x: Any) -> None:
        self.total += x

    def compute(self) -> Tensor:
        return self.total


class Everything(tt.Metric):
    """List states."""

    def __init__(self, how: Any = "cat", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("seen", default=[], dist_reduce_fx=how)

    def update(self, value: Tensor) -> None:
        self.seen.append(value)

    def compute(self) -> Tensor:
        return torch.cat([x.reshape(-1) for x in self.seen]) if self.seen else torch.zeros(0)


class OneState(tt.Metric):
    """One tensor state with a reduction, and an update of that kind."""

    def __init__(self, how: Any, default: Tensor, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.how = how
        self.add_state("x", default=default, dist_reduce_fx=how)

    def update(self, value: Tensor) -> None:
        if self.how == "sum":
            self.x = self.x + value.sum()
        elif self.how in ("max", "min"):
            self.x = torch.maximum(self.x, value.max()) if self.how == "max" else torch.minimum(self.x, value.min())
        elif self.how == "cat":
            self.x = torch.cat([self.x, value])
        else:
            self.x = value.mean()

    def compute(self) -> Tensor:
        return self.x.clone()


class Streak(tt.Metric):
    """What depends on the state before: the batch is not merged, but seen twice."""

    full_state_update = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("best", default=torch.tensor(float("-inf")), dist_reduce_fx="max")
        self.add_state("rounds", default=torch.tensor(0), dist_reduce_fx="sum")

    def update(self, value: Tensor) -> None:
        if value > self.best:
            self.best = value
            self.rounds += 1

    def compute(self) -> Tensor:
        return self.rounds


class Fussy(MeanError):
    """Its update refuses preds above 100; its compute fails while the mean error is above 10."""

    def update(self, preds: Tensor, target: Tensor) -> None:
        if preds.max() > 100:
            raise RuntimeError("too large")
        super().update(preds, target)

    def compute(self) -> Tensor:
        value = super().compute()
        if value > 10:
            raise RuntimeError("mean error above 10")
        return value


class Percent(tt.classification.MulticlassAccuracy):
    """A built-in metric with another compute."""

    def compute(self) -> Any:
        return super().compute() * 100


class Flipped(tt.classification.MulticlassAccuracy):
    """A built-in metric with another update."""

    def update(self, preds: Tensor, target: Tensor) -> None:
        super().update(preds.flip(0), target)


class Doubled(tt.Metric):
    """A forward of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", default=torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, value: Tensor) -> None:
        self.total += value.sum()

    def compute(self) -> Tensor:
        return self.total

    def forward(self, value: Tensor) -> Any:
        self.update(value)
        return 2 * value.sum()
