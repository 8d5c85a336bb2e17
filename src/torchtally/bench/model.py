"""The model that is trained: torchvision's ResNet-18, or a small one where torchvision or patience is missing."""

from __future__ import annotations

import torch
from torch import nn

from ..errors import TallyError
from .settings import Settings


def small_net(classes: int) -> nn.Module:
    """Three convolutions and a linear layer: cheap enough that metrics weigh against it even on a CPU."""

    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(*block(3, 16), *block(16, 32), *block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def build(settings: Settings) -> nn.Module:
    """A fresh model in train mode; the same seed gives the same weights. The caller's random numbers are left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        if settings.model == "small":
            return small_net(settings.classes)
        try:
            from torchvision.models import resnet18
        except ImportError:
            raise TallyError("--model resnet18 needs torchvision: pip install 'torchtally[bench]', or use --model small.") from None
        return resnet18(num_classes=settings.classes)
