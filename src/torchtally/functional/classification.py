"""One-shot forms of the classification metrics."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from .. import classification
from ..formula import Formula
from .one_shot import by_task, one_shot

_ORDERS = {
    "multiclass": ("num_classes", "average", "top_k", "weights", "normalize"),
    "multilabel": ("num_labels", "threshold", "average", "normalize"),
    "binary": ("threshold", "weights", "normalize"),
}
_CURVE = ("thresholds", "num_classes", "num_labels", "average", "ignore_index", "validate_args")
_FRONT_ORDERS = {  # of functions that choose by task, where it is not their class's
    "exact_match": ("num_classes", "num_labels", "threshold", "multidim_average", "ignore_index", "validate_args"),
    "logauc": ("thresholds", "num_classes", "num_labels", "fpr_range", "average", "ignore_index", "validate_args"),
    "precision_recall_curve": _CURVE,
    "roc": _CURVE,
}


def _snake(name: str) -> str:
    return re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("FBeta", "Fbeta").replace("CorrCoef", "Corrcoef").replace("LogAUC", "Logauc")
    ).lower()


def _fill(space: dict[str, Any]) -> list[str]:
    """`binary_…`, `multiclass_…`, `multilabel_…` and the front of every task family."""
    names = []
    for front_name in classification.__all__:
        front = getattr(classification, front_name)
        if not (isinstance(front, type) and issubclass(front, classification.tasks.ClassificationTask)):
            continue
        short, made = _snake(front_name), {}
        for task, cls in front.tasks.items():
            assert issubclass(cls, Formula)
            takes = cls.__init__.__code__.co_varnames
            # Curves keep the order of the constructor.
            order = (
                () if "thresholds" in takes else tuple(n for n in (*(("beta",) if "beta" in takes else ()), *_ORDERS[task]) if n in takes)
            )
            defaults: dict[str, Any] = {"average": "macro"} if short == "logauc" and task != "binary" else {}
            made[task] = space[f"{task}_{short}"] = one_shot(cls, f"{task}_{short}", order, **defaults)
            names.append(f"{task}_{short}")
        space[short] = by_task(short, made, front, _FRONT_ORDERS.get(short, ()))
        names.append(short)
    return names


__all__ = _fill(globals())

multilabel_coverage_error = one_shot(classification.MultilabelCoverageError, "multilabel_coverage_error")
multilabel_ranking_average_precision = one_shot(classification.MultilabelRankingAveragePrecision, "multilabel_ranking_average_precision")
multilabel_ranking_loss = one_shot(classification.MultilabelRankingLoss, "multilabel_ranking_loss")
binary_groups_stat_rates = one_shot(classification.BinaryGroupStatRates, "binary_groups_stat_rates")
__all__ += ["binary_groups_stat_rates", "multilabel_coverage_error", "multilabel_ranking_average_precision", "multilabel_ranking_loss"]


def binary_fairness(
    preds: Tensor,
    target: Tensor | None,
    groups: Tensor,
    task: str = "all",
    *args: Any,
    weight: Tensor | None = None,
    **options: Any,
) -> dict[str, Tensor]:
    """One-shot form of `BinaryFairness`, whose further options follow; the number of groups is read from the largest."""
    several = int(groups.max()) + 1 if groups.numel() else 1
    weights = () if weight is None else (weight,)
    metric = classification.BinaryFairness(max(1, several), task, *args, weighted=weight is not None, **options)
    value: dict[str, Tensor] = metric.one_shot(preds, target, groups, *weights)
    return value


def demographic_parity(preds: Tensor, groups: Tensor, *args: Any, **options: Any) -> dict[str, Tensor]:
    """`binary_fairness` with `task="demographic_parity"`, which needs no target."""
    return binary_fairness(preds, None, groups, "demographic_parity", *args, **options)


def equal_opportunity(preds: Tensor, target: Tensor, groups: Tensor, *args: Any, **options: Any) -> dict[str, Tensor]:
    """`binary_fairness` with `task="equal_opportunity"`."""
    return binary_fairness(preds, target, groups, "equal_opportunity", *args, **options)


__all__ += ["binary_fairness", "demographic_parity", "equal_opportunity"]
