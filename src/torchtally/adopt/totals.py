"""What a metric of torchmetrics has seen, as the slots of a statistic of torchtally."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..statistic import Statistic
from ..statistics.averages import Average
from ..statistics.calibration import CalibrationBins
from ..statistics.class_counts import ClassCounts, Hits
from ..statistics.confusion import Confusion
from ..statistics.decisions import LabelCounts
from ..statistics.extremes import Extreme
from ..statistics.groups import GroupCounts
from ..statistics.hinge import HingeSums
from ..statistics.queries import QuerySamples
from ..statistics.samples import NumberSamples
from ..statistics.tokens import Surprises
from ..statistics.whole_rows import WholeRows
from .pair_totals import PAIR_TRANSLATIONS

States = dict[str, Any]
Slots = dict[str, Any]


class Untranslatable(Exception):
    """These states say too little, or something else; the message says what is missing."""


def slots_of(statistic: Statistic, states: States) -> Slots:
    """The totals of a statistic, by slot, from a metric's states by name."""
    translate = TRANSLATIONS.get(type(statistic))
    try:
        if translate is not None:
            return translate(statistic, states)
    except KeyError:  # its class keeps something else than is known of that statistic
        pass
    raise Untranslatable("what it has seen cannot be taken over; adopt it before its first update or after reset()")


def _joined(state: Any) -> Tensor:
    """A state of samples: a list of batches, or one tensor after they were gathered."""
    return torch.cat([torch.atleast_1d(x) for x in state]) if isinstance(state, list) else torch.atleast_1d(state)


def _average(statistic: Any, states: States) -> Slots:
    if "sum_value" in states:
        return {"total": states["sum_value"].double(), "weight": torch.zeros_like(states["sum_value"], dtype=torch.float64)}
    return {"total": states["mean_value"].double(), "weight": states["weight"].double()}


def _extreme(statistic: Any, states: States) -> Slots:
    return {"best": states["max_value" if statistic.largest else "min_value"].double()}


def _numbers(statistic: Any, states: States) -> Slots:
    return {"value": list(states["value"]) if isinstance(states["value"], list) else [states["value"]]}


def _positives(states: States, samplewise: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """tp, fp, tn, fn: one number or one per class; samples first where each has its own."""
    names = ("tp", "fp", "tn", "fn")
    if samplewise:
        tp, fp, tn, fn = (_joined(states[n]) for n in names)
    else:
        tp, fp, tn, fn = (torch.atleast_1d(states[n]) for n in names)
    return tp.long(), fp.long(), tn.long(), fn.long()


def _hits(statistic: Any, states: States) -> Slots:
    if "confmat" in states:
        return {"hit": states["confmat"].long().trace(), "seen": states["confmat"].long().sum()}
    tp, _, _, fn = _positives(states, statistic.input.per_sample)
    if statistic.input.per_sample:  # (N,), or (N, C) where torchmetrics keeps classes apart
        rows = torch.stack([tp, tp + fn], 1)
        return {"rows": [rows.flatten(2).sum(2) if rows.ndim > 2 else rows]}
    return {"hit": tp.sum(), "seen": (tp + fn).sum()}


def _class_counts(statistic: Any, states: States) -> Slots:
    if "confmat" in states:
        matrix = states["confmat"].long()
        tp, fp, fn = matrix.diagonal(), matrix.sum(0) - matrix.diagonal(), matrix.sum(1) - matrix.diagonal()
    else:
        tp, fp, _, fn = _positives(states, statistic.input.per_sample)
    if statistic.input.per_sample:
        return {"rows": [torch.stack([tp, tp + fp, tp + fn], 1)]}
    spare = tp.new_zeros(3, 2)
    return {"counts": torch.cat([torch.stack([tp, tp + fp, tp + fn]), spare], 1)}


def _label_counts(statistic: Any, states: States) -> Slots:
    if "confmat" in states:  # (2, 2), or (L, 2, 2)
        tn, fp, fn, tp = states["confmat"].long().reshape(-1, 4).unbind(1)
    else:
        tp, fp, tn, fn = _positives(states, statistic.input.per_sample)
    counts = [tp, tp + fp, tp + fn, tp + fp + tn + fn]
    if statistic.input.per_sample:
        return {"rows": [torch.stack([c.reshape(len(c), -1) for c in counts], 1)]}
    return {"counts": torch.stack([c.reshape(-1) for c in counts])}


def _confusion(statistic: Any, states: States) -> Slots:
    return {"matrix": torch.nn.functional.pad(states["confmat"].long(), (0, 2, 0, 2))}


def _whole_rows(statistic: Any, states: States) -> Slots:
    if not statistic.listed:
        return {"hit": states["correct"].long().sum(), "seen": states["total"].long().sum()}
    hit = _joined(states["correct"]).long()
    return {"rows": [torch.stack([hit, states["total"].long().expand_as(hit)], 1)]}


def _calibration(statistic: Any, states: States) -> Slots:
    confidence, right = _joined(states["confidences"]).double(), _joined(states["accuracies"])
    bins = statistic.bins
    edges = torch.tensor([i / bins for i in range(1, bins)], dtype=torch.float64, device=confidence.device)
    place = torch.bucketize(confidence, edges)
    counts = torch.stack([torch.bincount(p, minlength=bins + 1) for p in (place, place[right == 1])])
    return {"counts": counts, "confidence": torch.bincount(place, confidence, bins + 1)}


def _hinge(statistic: Any, states: States) -> Slots:
    total = states["measures"].double()
    return {"total": total if statistic.best_other else total.reshape(-1), "count": states["total"].long()}


def _group_counts(statistic: Any, states: States) -> Slots:
    tp, fp, tn, fn = _positives(states, False)
    return {"counts": torch.nn.functional.pad(torch.stack([tn, fn, fp, tp], 1), (0, 0, 0, 1))}


def _queries(statistic: Any, states: States) -> Slots:
    score = _joined(states["preds"])
    mark, query = _joined(states["target"]).to(statistic.input.mark_dtype), _joined(states["indexes"]).long()
    return {"score": [score if score.dtype == torch.float64 else score.float()], "mark": [mark], "query": [query]}


def _surprises(statistic: Any, states: States) -> Slots:
    return {"total": states["total_log_probs"].double(), "count": states["count"].long()}


TRANSLATIONS: dict[type[Statistic], Callable[[Any, States], Slots]] = {
    Average: _average,
    Extreme: _extreme,
    NumberSamples: _numbers,
    Hits: _hits,
    ClassCounts: _class_counts,
    LabelCounts: _label_counts,
    Confusion: _confusion,
    WholeRows: _whole_rows,
    CalibrationBins: _calibration,
    HingeSums: _hinge,
    GroupCounts: _group_counts,
    QuerySamples: _queries,
    Surprises: _surprises,
    **PAIR_TRANSLATIONS,
}
