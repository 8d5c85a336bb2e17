"""The least work that gives right values: bare arithmetic on CPU tensors, without checks, names or state that could be saved."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from torchtally.kernels import row_argmax


class Mean:
    """A running mean of single numbers."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, value: float | Tensor) -> None:
        number = value if type(value) is float else value.item()  # type: ignore[union-attr]
        if number == number:
            self.total += number
            self.count += 1


class FiveMetrics:
    """Mean loss, and what accuracy, precision, recall and F1 need: two counts, or three vectors of them."""

    RING = 16384

    def __init__(self, classes: int, average: str) -> None:
        self.classes, self.average, self.loss = classes, average, Mean()
        self.hits = self.seen = self.filled = 0
        self.counts = np.zeros((3, classes), np.int64)
        self.ring = np.empty((2, self.RING), np.int64)

    def update(self, preds: Tensor, target: Tensor, loss: Tensor) -> None:
        self.loss.update(loss)
        y = target.numpy()
        p = self._labels(preds)
        if self.average == "micro":
            self.hits += int(np.count_nonzero(p == y))
            self.seen += len(y)
        elif len(y) <= 1024:
            if self.filled + len(y) > self.RING:
                self.settle()
            self.ring[0, self.filled : self.filled + len(y)] = y
            self.ring[1, self.filled : self.filled + len(y)] = p
            self.filled += len(y)
        else:
            self._count(p, y)

    @staticmethod
    def _labels(preds: Tensor) -> np.ndarray:
        if preds.ndim == 1:
            return preds.numpy()
        return row_argmax(preds)[0] if preds.dtype in (torch.bfloat16, torch.float16) else preds.numpy().argmax(1)

    def _count(self, p: np.ndarray, y: np.ndarray) -> None:
        for row, bins in zip(self.counts, (y[p == y], p, y)):
            np.add.at(row, bins, 1)

    def settle(self) -> None:
        self._count(self.ring[1, : self.filled], self.ring[0, : self.filled])
        self.filled = 0

    def reset(self) -> None:
        self.loss.__init__()  # type: ignore[misc]
        self.hits = self.seen = self.filled = 0
        self.counts.fill(0)

    def compute(self) -> dict[str, float]:
        self.settle()
        hit, predicted, actual = self.counts.astype(np.float64)
        occurs = (predicted + actual) > 0
        with np.errstate(all="ignore"):
            recall, precision, f1 = (np.nan_to_num(x) for x in (hit / actual, hit / predicted, 2 * hit / (predicted + actual)))
        n = occurs.sum()
        return {"accuracy": recall.sum() / n, "precision": precision.sum() / n, "recall": recall.sum() / n, "f1": f1.sum() / n}


class Confusion:
    """A confusion matrix."""

    def __init__(self, classes: int) -> None:
        self.classes, self.matrix = classes, np.zeros(classes * classes, np.int64)

    def update(self, preds: Tensor, target: Tensor) -> None:
        key = target.numpy() * self.classes
        key += preds.numpy()
        np.add.at(self.matrix, key, 1)


class TopK:
    """How many targets are among the k highest scores: ranks counted, eight comparisons added at a time; ties across the k-th place one by one."""

    def __init__(self, k: int, rows: int, classes: int) -> None:
        self.k, self.hits, self.seen = k, 0, 0
        self.holds, self.rows = np.zeros((rows, -(-classes // 8) * 8), bool), np.arange(rows)

    def update(self, preds: Tensor, target: Tensor) -> None:
        x, y = preds.numpy(), target.numpy()
        own = x[self.rows, y][:, None]
        above, at_least = self._count(np.greater, x, own), self._count(np.greater_equal, x, own)
        self.hits += int(np.count_nonzero(at_least <= self.k))
        for i in np.flatnonzero((above < self.k) & (at_least > self.k)):
            self.hits += int(above[i] + np.count_nonzero(x[i, : y[i]] == own[i]) < self.k)
        self.seen += len(y)

    def _count(self, compare: np.ufunc, x: np.ndarray, own: np.ndarray) -> np.ndarray:
        compare(x, own, out=self.holds[:, : x.shape[1]])
        return np.add.reduce(self.holds.view(np.uint64), axis=1).view(np.uint8).reshape(len(x), 8).sum(1, dtype=np.int64)


class Segmentation:
    """A table of up to 32 classes against all values of a byte: a running maximum over the classes, then one count of pairs."""

    def __init__(self) -> None:
        self.table = np.zeros((256, 32), np.int64)
        self.top, self.above, self.place = np.empty(1 << 14, np.float32), np.empty(1 << 14, bool), np.empty(1 << 14, np.uint8)

    def update(self, preds: Tensor, target: Tensor) -> None:
        images, labels = preds.flatten(2).numpy(), target.flatten(1).numpy()
        keys = np.empty(labels.shape, np.uint16)
        width = len(self.top)
        for image, label, key in zip(images, labels, keys):
            for start in range(0, len(label), width):
                self._fill(key[start : start + width], image[:, start : start + width], label[start : start + width])
        self.table += np.bincount(keys.ravel(), minlength=8192).reshape(256, 32)

    def _fill(self, key: np.ndarray, scores: np.ndarray, label: np.ndarray) -> None:
        n = len(label)
        top, above, place, best = self.top[:n], self.above[:n], self.place[:n], np.zeros(n, np.uint8)
        np.copyto(top, scores[0])
        for k in range(1, len(scores)):
            np.greater(scores[k], top, out=above)
            np.maximum(top, scores[k], out=top)
            np.multiply(above.view(np.uint8), k, out=place)
            np.maximum(best, place, out=best)
        np.copyto(key, label, casting="unsafe")
        key <<= 5
        key |= best


class ManyMeans:
    """Fifty running means, fed together."""

    def __init__(self, n: int) -> None:
        self.totals, self.counts = [0.0] * n, [0] * n

    def update(self, values: list[float] | list[Tensor]) -> None:
        totals, counts = self.totals, self.counts
        for i, x in enumerate(values):
            number = x if type(x) is float else x.item()  # type: ignore[union-attr]
            if number == number:
                totals[i] += number
                counts[i] += 1


class Regression:
    """The sums behind two errors, R², explained variance and correlation: dot products about a fixed pivot, in the inputs' precision."""

    def __init__(self) -> None:
        self.sums, self.pivots, self.seen = [0.0] * 7, None, 0
        self.length = -1

    def update(self, preds: Tensor, target: Tensor) -> None:
        p, t = preds.numpy(), target.numpy()
        if len(p) != self.length:
            self.length, self.rows, self.ones = len(p), np.empty((3, len(p)), np.float32), np.ones(len(p), np.float32)
        if self.pivots is None:
            self.pivots = p[:256].mean(), t[:256].mean()
        a, b, e = self.rows
        np.subtract(p, self.pivots[0], out=a)
        np.subtract(t, self.pivots[1], out=b)
        np.subtract(p, t, out=e)
        for i, (x, y) in enumerate(((a, self.ones), (b, self.ones), (a, a), (b, b), (a, b), (e, e))):
            self.sums[i] += float(np.dot(x, y))
        np.abs(e, out=e)
        self.sums[6] += float(np.dot(e, self.ones))
        self.seen += len(p)


def _mean_ranks(x: Tensor) -> np.ndarray:
    bits = x.numpy().view(np.int32)
    values, order = torch.sort(torch.from_numpy(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))))
    v = values.numpy()
    starts = np.flatnonzero(np.concatenate(([True], v[1:] != v[:-1])))
    lengths = np.diff(np.append(starts, len(v)))
    ranks = np.empty(len(v))
    ranks[order.numpy()] = np.repeat(starts + (lengths + 1) / 2, lengths)
    return ranks


def spearman(preds: Tensor, target: Tensor) -> float:
    """The rank correlation of numbers without NaN: two sorts and three dot products."""
    a, b = _mean_ranks(preds), _mean_ranks(target)
    a -= a.mean()
    b -= b.mean()
    return float(np.dot(a, b) / np.sqrt(np.dot(a, a) * np.dot(b, b)))


class ExactCurves:
    """AUROC, average precision and both curves of probabilities: one growing buffer of integers that hold a score and its label."""

    def __init__(self) -> None:
        self.keys, self.filled = np.empty(1 << 16, np.int32), 0

    def update(self, preds: Tensor, target: Tensor) -> None:
        begin, end = self.filled, self.filled + len(preds)
        if end > len(self.keys):
            grown = np.empty(max(2 * len(self.keys), end), np.int32)
            grown[:begin] = self.keys[:begin]
            self.keys = grown
        np.left_shift(preds.numpy().view(np.int32), 1, out=self.keys[begin:end])
        np.bitwise_or(self.keys[begin:end], target.numpy(), out=self.keys[begin:end], casting="unsafe")
        self.filled = end

    def reset(self) -> None:
        self.filled = 0

    def compute(self) -> tuple[float, float, tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        one = np.int32(0x3F800000)  # the bits of 1.0
        key = torch.from_numpy((one << 1) + 1 - self.keys[: self.filled]).sort().values.numpy()
        level, yes = key >> 1, (key & 1) ^ 1
        end = np.append(np.flatnonzero(level[1:] != level[:-1]), len(level) - 1)
        tp = np.cumsum(yes, dtype=np.int64)[end]
        tpr, fpr = np.zeros(len(end) + 1), np.zeros(len(end) + 1)
        np.divide(tp, tp[-1], out=tpr[1:])
        np.divide(end + 1 - tp, end[-1] + 1 - tp[-1], out=fpr[1:])
        area = float(np.dot(fpr[1:] - fpr[:-1], tpr[1:] + tpr[:-1]) / 2)
        precision, at = tp / (end + 1.0), (one - level[end]).view(np.float32)
        average = float(np.dot(np.diff(tpr), precision))
        curve = np.append(precision[::-1], 1.0), np.append(tpr[:0:-1], 0.0), at[::-1]
        return area, average, curve, (fpr, tpr, np.concatenate([[np.float32(1)], at]))


class UniformCurves:
    """Counts of probabilities between thresholds at equal distances, whose place is found by arithmetic and then corrected."""

    def __init__(self, thresholds: int, columns: int = 1) -> None:
        self.at = torch.linspace(0, 1, thresholds).numpy()
        self.above = np.append(self.at[1:], np.float32(np.inf))
        self.columns, self.size = columns, 0
        self.counts = np.zeros(columns * 2 * thresholds, np.int64)

    def update(self, preds: Tensor, target: Tensor) -> None:
        p, y, bins = preds.numpy().ravel(), target.numpy().ravel(), len(self.at)
        if len(p) != self.size:
            self.size = len(p)
            self.edge, self.place, self.wrong = np.empty(len(p), np.float32), np.empty(len(p), np.int32), np.empty(len(p), bool)
            self.column = np.tile(np.arange(self.columns) * 2 * bins, len(p) // self.columns)
        np.multiply(p, np.float32(bins - 1), out=self.edge)
        np.copyto(self.place, self.edge, casting="unsafe")
        self.above.take(self.place, out=self.edge, mode="clip")
        np.greater_equal(p, self.edge, out=self.wrong)
        self.place += self.wrong
        self.at.take(self.place, out=self.edge, mode="clip")
        np.less(p, self.edge, out=self.wrong)
        self.place -= self.wrong
        key = y * bins + self.place
        if self.columns > 1:
            key += self.column
        self.counts += np.bincount(key, minlength=len(self.counts))
