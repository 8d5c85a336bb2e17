"""The data of the experiment, and one loader that feeds all variants the same batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate

from ..errors import TallyError
from .settings import Settings

ITEMS = 100_000_000
READY = 8  # batches that lie ready


class FakeImages(Dataset[tuple[Tensor, Tensor]]):
    """Item i is a normal image and the label i mod `classes`, the same every time it is asked for."""

    def __init__(self, image_size: int, classes: int) -> None:
        self.shape, self.classes = (3, image_size, image_size), classes

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = torch.randn(self.shape, generator=torch.Generator().manual_seed(index))
        return image, torch.tensor(index % self.classes)


class DigitImages(Dataset[tuple[Tensor, Tensor]]):
    """Scikit-learn's 1,797 handwritten digits, scaled up and repeated without end."""

    def __init__(self, image_size: int) -> None:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise TallyError("--data digits needs scikit-learn: pip install 'torchtally[bench]', or use --data fake.") from None
        digits = load_digits()
        self.image_size = image_size
        self.images = torch.as_tensor(digits.images, dtype=torch.float32).div_(16).unsqueeze(1)
        self.labels = torch.as_tensor(digits.target, dtype=torch.int64)

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        index %= len(self.labels)
        image = interpolate(self.images[index : index + 1], size=self.image_size, mode="bilinear", align_corners=False)
        return image[0].expand(3, -1, -1), self.labels[index]


def dataset(settings: Settings) -> Dataset[tuple[Tensor, Tensor]]:
    return DigitImages(settings.image_size) if settings.data == "digits" else FakeImages(settings.image_size, settings.classes)


class TurnSampler(Sampler[list[int]]):
    """The batches of every turn once per variant, so that one loader with steady prefetching serves them all alike."""

    def __init__(self, turns: list[int], variants: int, batch: int, rank: int = 0, world_size: int = 1) -> None:
        self.turns, self.variants, self.batch, self.rank, self.world_size = turns, variants, batch, rank, world_size

    def __len__(self) -> int:
        return sum(self.turns) * self.variants

    def __iter__(self) -> Iterator[list[int]]:
        first, stride = self.rank, self.batch * self.world_size
        for length in self.turns:
            for _ in range(self.variants):
                for step in range(length):
                    begin = first + step * stride
                    yield list(range(begin, begin + stride, self.world_size))
            first += length * stride


class ReadyBatches:
    """Stands for a loader that is never late: its first batches, made beforehand, come again and again."""

    def __init__(self, items: Dataset[tuple[Tensor, Tensor]], sampler: TurnSampler, pin_memory: bool) -> None:
        self.sampler, self.stride = sampler, sampler.batch * sampler.world_size
        starts = [sampler.rank + k * self.stride for k in range(min(READY, sum(sampler.turns)))]
        self.batches = [default_collate([items[i] for i in range(start, start + self.stride, sampler.world_size)]) for start in starts]
        if pin_memory:
            self.batches = [[x.pin_memory() for x in batch] for batch in self.batches]

    def __iter__(self) -> Iterator[list[Tensor]]:
        for indices in self.sampler:
            yield self.batches[indices[0] // self.stride % len(self.batches)]


def loader(settings: Settings, turns: list[int], variants: int, rank: int = 0, world_size: int = 1) -> Iterable[list[Tensor]]:
    """Batches for `variants` runs side by side, `turns` being how many steps each runs at a time.

    Of several processes, each gets every `world_size`-th item.
    """
    items, sampler = dataset(settings), TurnSampler(turns, variants, settings.batch, rank, world_size)
    pin_memory = settings.device == "cuda"
    if settings.data == "ready":
        return ReadyBatches(items, sampler, pin_memory)
    return DataLoader(items, batch_sampler=sampler, num_workers=settings.workers, pin_memory=pin_memory)
