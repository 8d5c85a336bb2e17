"""What is common to all metrics of scores at every threshold: their arguments, and curves as results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..options import NamedOptions, Unpack
from ..pending import Unfinished
from ..statistic import Statistic, host_visible
from ..statistics import auto_curves
from ..statistics.auto_curves import AutoSamples, RoundedCurves
from ..statistics.curves import Curve, Curves, ScoreSamples
from ..statistics.score_histogram import BinnedCurves, ScoreHistogram
from ..statistics.scores import Scores, constant
from .naming import Named, by_class
from .options import checked

Thresholds = int | list[float] | Tensor | str | None

AnyCurves = Curves | BinnedCurves | RoundedCurves


def _values(name: str, thresholds: Thresholds) -> tuple[float, ...] | None:
    """Thresholds as numbers of float32 (of their own dtype if a tensor), so that equal float32 scores tie with them."""
    if thresholds is None or (isinstance(thresholds, str) and thresholds == "auto"):
        return None
    if isinstance(thresholds, int) and not isinstance(thresholds, bool) and thresholds > 1:
        return tuple(torch.linspace(0, 1, thresholds, dtype=torch.float64).float().tolist())
    if isinstance(thresholds, list | tuple) and thresholds and all(isinstance(t, int | float) and 0 <= t <= 1 for t in thresholds):
        return tuple(torch.tensor(thresholds, dtype=torch.float32).tolist())
    if isinstance(thresholds, Tensor) and thresholds.ndim == 1 and thresholds.numel():
        values = tuple(thresholds.double().tolist())
        if all(0 <= t <= 1 for t in values):
            return values
    raise ValueError(
        f"{name}: thresholds is {thresholds!r}; expected None for exact curves, a number of thresholds above 1, a list or "
        "1-d tensor of numbers in [0, 1], or 'auto'."
    )


def refuse_micro(metric: Named, average: str | None) -> None:
    """Raise where scores of several classes would be ranked together for one area."""
    if average == "micro":
        raise ValueError(f"{type(metric).__name__}: average is 'micro'; expected 'macro', 'weighted', 'none' or None.")


class CurveFormula(Named):
    """A number or a curve from scores and yes/no targets, exact or binned by `thresholds`."""

    higher_is_better: bool | None = True
    is_differentiable = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    average: str | None = None
    normalization: str | None = "sigmoid"
    columns: int | None = None
    thresholds: tuple[float, ...] | str | None
    _rank: tuple[float, ...] | None

    def _start(self, thresholds: Thresholds, exclusive: bool, validate_args: bool, **kwargs: Any) -> None:
        values = _values(type(self).__name__, thresholds)
        options = {n: self.__dict__[given] for n, given in (("ignore", "ignore_index"), ("logits", "from_logits"))}
        options |= {"labels": self.columns, "exclusive": exclusive}
        scores = Scores(**options, probabilities=values is not None, normalize=self.normalization is not None)
        statistic: Statistic = AutoSamples(scores, auto_curves.BUDGET) if isinstance(thresholds, str) else ScoreSamples(scores)
        if values is not None:
            statistic = ScoreHistogram(scores, tuple(sorted(values)))
        super().__init__(statistic, validate_args=validate_args, **kwargs)
        self.__dict__["thresholds"] = thresholds if isinstance(thresholds, str) else values
        self.__dict__["_rank"] = None
        if values is not None and tuple(sorted(values)) != values:
            place = {t: i for i, t in enumerate(sorted(values))}
            self.__dict__["_rank"] = tuple(float(place[t]) for t in values)

    @property
    def exact(self) -> bool:
        """Whether curves have a point for each score, not for each of the thresholds given."""
        return self.thresholds is None or isinstance(self.thresholds, str)

    def points(self, curves: AnyCurves, curve: Curve) -> Points:
        """A point for each distinct score from the highest on, or for each of the given thresholds, the last first."""
        if self.thresholds is None or isinstance(self.thresholds, str):
            assert curve.score is not None and not isinstance(curves, BinnedCurves)
            return Points(curve, curve.tp, curve.fp, curves.probabilities(curve.score), curve.distinct)
        count = len(self.thresholds)
        tp, fp, at = curve.tp[:, :count], curve.fp[:, :count], constant(self.thresholds, curve.tp.device).flip(0)
        if self._rank is not None:
            place = (count - 1 - constant(self._rank, tp.device)).long().flip(0)
            tp, fp = tp[:, place], fp[:, place]
        return Points(curve, tp, fp, at.expand(tp.shape), None)


class BinaryCurve(CurveFormula):
    """One column of scores."""

    def __init__(
        self,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: str | None = "sigmoid",
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, ignore_index=ignore_index, normalization=normalization, from_logits=from_logits)
        self._start(thresholds, False, validate_args, **kwargs)


class MulticlassCurve(CurveFormula):
    """Each class against the others, all of them as one, or their average."""

    def __init__(
        self,
        num_classes: int,
        thresholds: Thresholds = None,
        average: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, num_classes=num_classes, ignore_index=ignore_index, from_logits=from_logits)
        if average not in ("micro", "macro", None):
            raise ValueError(f"{type(self).__name__}: average is {average!r}; expected 'micro', 'macro' or None.")
        self.columns = num_classes
        self.__dict__["average"] = average
        self._start(thresholds, True, validate_args, **kwargs)


class MultilabelCurve(CurveFormula):
    """Each label on its own."""

    def __init__(
        self,
        num_labels: int,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        from_logits: bool | None = None,
        **kwargs: Unpack[NamedOptions],
    ) -> None:
        checked(self, num_labels=num_labels, ignore_index=ignore_index, from_logits=from_logits)
        self.columns = num_labels
        self._start(thresholds, False, validate_args, **kwargs)


@dataclass
class Points:
    """True and false positives `(K, M)` at falling thresholds; `distinct` tells which are not repetitions (None: all)."""

    curve: Curve
    tp: Tensor
    fp: Tensor
    at: Tensor
    distinct: Tensor | None

    def from_nothing(self) -> Points:
        """The same after the point where nothing is positive, whose threshold is written as 1."""
        tp, fp, at = (pad(x, (1, 0), value=first) for x, first in ((self.tp, 0.0), (self.fp, 0.0), (self.at, 1.0)))
        return Points(self.curve, tp, fp, at, None if self.distinct is None else pad(self.distinct, (1, 0), value=True))

    @property
    def tpr(self) -> Tensor:
        return self.curve.tpr if self.tp is self.curve.tp else self.tp / self.curve.positives[:, None]

    @property
    def fpr(self) -> Tensor:
        return self.curve.fpr if self.fp is self.curve.fp else self.fp / self.curve.negatives[:, None]

    @property
    def precision(self) -> Tensor:
        """NaN where nothing is predicted."""
        return self.curve.precision if self.tp is self.curve.tp else self.tp / (self.tp + self.fp)


@dataclass
class Drawn:
    """Curves of which points that repeat others are not cut out yet, which would wait for a device to tell which.

    `x` and `y` are `(K, M)` and `at` `(K, L)`; `keep` and `keep_at` tell what stays (None: all). `shape` is "one" curve, "list", or "table" for
    curves at common thresholds.
    """

    x: Tensor
    y: Tensor
    at: Tensor
    keep: Tensor | None
    keep_at: Tensor | None
    shape: str

    def rounded(self, to: Callable[[Tensor], Tensor]) -> Drawn:
        """With other numbers."""
        return replace(self, x=to(self.x), y=to(self.y), at=to(self.at))

    def complete(self) -> Drawn:
        """With the end points that all curves have, in memory of its own."""
        return self

    def whole(self) -> tuple[Any, Any, Any]:
        """With the repetitions: of static shape."""
        if self.shape == "one":
            return self.x[0], self.y[0], self.at[0]
        if self.shape == "table":
            return self.x, self.y, self.at[0]
        return list(self.x.unbind()), list(self.y.unbind()), list(self.at.unbind())

    def cut(self) -> tuple[Any, Any, Any]:
        """Without them: waits once for a device."""
        if self.keep is None:
            return self.whole()
        assert self.keep_at is not None
        keep, keep_at = self.keep, self.keep_at
        if not keep.is_cpu:
            both = torch.cat([keep.reshape(-1), keep_at.reshape(-1)]).cpu()
            keep, keep_at = both[: keep.numel()].view(keep.shape), both[keep.numel() :].view(keep_at.shape)
        x, y = _kept(keep, self.x, self.y)
        (at,) = _kept(keep_at, self.at)
        return (x, y, at) if self.shape == "list" else (x[0], y[0], at[0])

    def unfinished(self) -> Any:
        """What can be copied to a host that cuts."""
        if self.keep is None:
            return self.whole()
        stacked, finish = self._uncut()
        return Unfinished(stacked, finish)

    def unfinished_each(self) -> list[Any]:
        """The same of every curve alone."""
        if self.keep is None:
            return by_class(self.whole())
        stacked, finish = replace(self, shape="one")._uncut()
        return [Unfinished(x, finish) for x in stacked.split(1, 1)]

    def _uncut(self) -> tuple[Tensor, Callable[[Tensor], tuple[Any, Any, Any]]]:
        """All in one tensor, and how the host makes curves of it."""
        width, length = self.x.shape[1], self.at.shape[1]
        every = (self.x, self.y, self.at, self.keep, self.keep_at)
        parts = [pad(x.double(), (0, width - x.shape[1])) for x in every]  # type: ignore[union-attr]  # keep is there, and keep_at with it
        shape = self.shape

        def finish(stacked: Tensor) -> tuple[Any, Any, Any]:
            x, y, at, keep, keep_at = stacked
            return Drawn(x, y, at[:, :length], keep.bool(), keep_at[:, :length].bool(), shape).cut()

        return torch.stack(parts), finish


def _kept(keep: Tensor, *tables: Tensor) -> list[list[Tensor]]:
    """The rows of tables of one shape with what stays, as a mask on the host says."""
    lengths = keep.sum(1).tolist()
    place = keep.reshape(-1).nonzero().squeeze(1)
    if tables[0].is_cuda:
        place = place.pin_memory().to(tables[0].device, non_blocking=True)
    elif not tables[0].is_cpu:
        place = place.to(tables[0].device)
    return [list(x.reshape(-1).index_select(0, place).split(lengths)) for x in tables]


class DrawnFormula(CurveFormula):
    """A metric whose value is curves. On a device `forward` gives them with points that repeat others where scores are tied: it never waits."""

    higher_is_better = None

    def value(self, curves: AnyCurves) -> Drawn:
        points = self.points(curves, curves.joined if self.average == "micro" else curves.each)
        shape = "one" if self.columns is None or self.average is not None else "list" if self.exact else "table"
        return self.averaged(points) if self.average == "macro" else self.drawn(points, shape)

    def drawn(self, points: Points, shape: str) -> Drawn:
        raise NotImplementedError

    def averaged(self, points: Points) -> Drawn:
        raise NotImplementedError

    def _finish(self, value: Drawn) -> Any:
        return self._by_name(value.rounded(self._round).complete().cut(), value.shape)

    def _of_batch(self, value: Drawn) -> Any:
        found = value.rounded(self._round).complete()
        return self._by_name(found.cut() if found.keep is None or host_visible(found.keep) else found.whole(), value.shape)

    def _unfinished(self, value: Drawn) -> Any:
        whole = value.complete()
        return whole.unfinished() if self.labels is None or value.shape == "one" else self.named(whole.unfinished_each())

    def _by_name(self, curves: tuple[Any, Any, Any], shape: str) -> Any:
        return curves if shape == "one" else self.named(curves, 0)
