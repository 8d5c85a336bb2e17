"""What metrics of torchmetrics over predicted numbers have seen, as slots of torchtally's statistics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..statistics.moments import PairMoments, Single, TargetRange, WideMoments
from ..statistics.pairs import ErrorSums
from ..statistics.ranks import PairSamples
from ..statistics.rows import SCORES, EventCounts, RowScores

States = dict[str, Any]
Slots = dict[str, Any]

_SUMS = {
    "absolute": ("sum_abs_error", "minkowski_dist_sum"),
    "target": ("sum_scale",),
    "power": ("minkowski_dist_sum",),
    "percentage": ("sum_abs_per_error",),
    "symmetric": ("sum_abs_per_error",),
    "squared log": ("sum_squared_log_error",),
    "log cosh": ("sum_log_cosh_error",),
    "deviance": ("sum_deviance_score",),
}
_COUNTS = ("total", "num_observations", "num_obs")


def _first(states: States, names: tuple[str, ...], default: Any = None) -> Any:
    found = next((states[n] for n in names if n in states), default)
    if found is None:
        raise KeyError(names[0])
    return found


def _joined(state: Any) -> Tensor:
    return torch.cat([torch.atleast_1d(x) for x in state]) if isinstance(state, list) else torch.atleast_1d(state)


def _error_sums(statistic: Any, states: States) -> Slots:
    total = _first(states, _SUMS[statistic.error]).double()
    count = _first(states, _COUNTS, torch.zeros((), device=total.device)).long()
    return {"total": total.reshape(() if statistic.outputs == 1 else (statistic.outputs,)), "count": count.reshape(-1)[0]}


class _Moments:
    """A table of moments, a column an output. What torchmetrics does not keep is NaN: it shows where it should not be asked for, and nowhere else."""

    def __init__(self, count: Tensor, squared_error: Tensor) -> None:
        self.squared_error = torch.atleast_1d(squared_error).double()
        self.count = count.double().expand_as(self.squared_error) if count.numel() == 1 else count.double()
        unknown = torch.full_like(self.squared_error, torch.nan)
        self.mean_preds = self.mean_target = self.preds = self.target = self.joint = unknown

    def table(self) -> Tensor:
        pivots = [m.nan_to_num(0.0) for m in (self.mean_preds, self.mean_target)]
        beyond = [m - pivot for m, pivot in zip((self.mean_preds, self.mean_target), pivots)]
        return torch.stack([self.count, *pivots, *beyond, self.preds, self.target, self.joint, self.squared_error])


def _moments(states: States) -> _Moments:
    """Of the class that keeps these states."""
    if "mean_x" in states:  # correlations
        gap = (states["mean_x"] - states["mean_y"]).double()
        spread = (states["var_x"] + states["var_y"] - 2 * states["corr_xy"]).double()
        m = _Moments(states["n_total"], spread + states["n_total"] * gap.square())
        m.mean_preds, m.mean_target = states["mean_x"].double(), states["mean_y"].double()
        m.preds, m.target, m.joint = states["var_x"].double(), states["var_y"].double(), states["corr_xy"].double()
        return m
    if "sum_squared_target" in states:  # explained variance: of predictions and products only the combination it needs is known
        n, error = states["num_obs"], torch.atleast_1d(states["sum_error"]).double()
        m = _Moments(n, states["sum_squared_error"])
        m.mean_target = torch.atleast_1d(states["sum_target"]).double() / n
        m.mean_preds = m.mean_target - error / n
        m.target = torch.atleast_1d(states["sum_squared_target"]).double() - n * m.mean_target.square()
        m.joint = torch.zeros_like(error)
        m.preds = m.squared_error - error.square() / n - m.target
        return m
    if "residual" in states:  # R², relative squared error
        n = states["total"]
        m = _Moments(n, states["residual"])
        m.mean_target = torch.atleast_1d(states["sum_error"]).double() / n
        m.target = torch.atleast_1d(states["sum_squared_error"]).double() - n * m.mean_target.square()
        return m
    if "mean_val" in states:  # normalised error
        m = _Moments(states["total"], states["sum_squared_error"])
        m.mean_target, m.target = states["mean_val"].double(), states["var_val"].double()
        return m
    return _Moments(_first(states, _COUNTS), _first(states, ("sum_squared_error", "sum_deviance_score")))


def _pair_moments(statistic: Any, states: States) -> Slots:
    m = _moments(states)
    if statistic.outputs == 1 and m.squared_error.numel() > 1:  # several outputs: the statistic beside this one has them, and this one is not read
        m = _Moments(m.count.sum(), m.squared_error.sum())
    return {"moments": m.table().reshape(-1, statistic.outputs)}


def _wide_moments(statistic: Any, states: States) -> Slots:
    table = _moments(states).table()
    return {"rows": [table.reshape(1, -1)] if table.shape[1] > 1 else []}


def _target_range(statistic: Any, states: States) -> Slots:
    shape = () if statistic.outputs == 1 else (statistic.outputs,)
    return {"least": states["min_val"].double().reshape(shape), "most": states["max_val"].double().reshape(shape)}


def _row_scores(statistic: Any, states: States) -> Slots:
    if statistic.score == "cosine":
        scores = SCORES["cosine"](_joined(states["preds"]).double(), _joined(states["target"]).double(), False)
        return {"scores": [scores]} if statistic.kept else {"total": scores.sum(), "count": torch.tensor(len(scores))}
    scores = _first(states, ("measures", "score"))
    if statistic.kept:
        return {"scores": [_joined(scores).double()]}
    return {"total": scores.double().reshape(()), "count": states["total"].long().reshape(())}


def _events(statistic: Any, states: States) -> Slots:
    names = ("hits", "misses", "false_alarms")
    if statistic.keep is None:
        return {name: states[name].long() for name in names}
    return {name: [_joined(_first(states, (f"{name}_list", name))).long()] for name in names}


def _pairs(statistic: Any, states: States) -> Slots:
    columns = {name: _joined(states[name]) for name in ("preds", "target")}
    return {name: [x.reshape(-1) if statistic.outputs == 1 else x] for name, x in columns.items()}


PAIR_TRANSLATIONS = {
    ErrorSums: _error_sums,
    PairMoments: _pair_moments,
    WideMoments: _wide_moments,
    TargetRange: _target_range,
    Single: lambda statistic, states: {},
    RowScores: _row_scores,
    EventCounts: _events,
    PairSamples: _pairs,
}
