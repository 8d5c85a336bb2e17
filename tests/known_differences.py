"""Which rows of docs/differences.md tell of a configuration and its data."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from random_configurations import AREAS, CURVES, RATES, Drawn
from torch import Tensor

from torchtally import retrieval

OF_CONFUSION = ("ConfusionMatrix", "JaccardIndex", "CohenKappa", "MatthewsCorrCoef")
POINTS = ("PrecisionAtFixedRecall", "RecallAtFixedPrecision", "SensitivityAtSpecificity", "SpecificityAtSensitivity")
SCORED = (*CURVES, *AREAS, *POINTS, "EER")
LABEL_RANKING = ("CoverageError", "RankingAveragePrecision", "RankingLoss")


class Data:
    """What the batches of a configuration hold, pooled."""

    def __init__(self, d: Drawn, batches: list[tuple[Any, ...]]) -> None:
        self.batches = batches
        self.preds, self.target = (torch.cat([b[i] for b in batches]) for i in (0, 1))
        self.sizes = [len(b[0]) for b in batches]
        ignore = d.options.get("ignore_index")
        self.kept = self.target != ignore if ignore is not None else torch.ones_like(self.target, dtype=torch.bool)
        self.scores = self.preds.is_floating_point()

    def kept_decide(self) -> bool:
        """Whether some batch looks like probabilities once its ignored elements are out."""
        first = [sum(self.sizes[:i]) for i in range(len(self.sizes))]
        parts = [slice(a, a + n) for a, n in zip(first, self.sizes)]
        scores = self.preds if self.preds.shape == self.target.shape else self.preds.movedim(1, -1)
        return any(_outside(scores[p]) != _outside(scores[p][self.kept[p]]) for p in parts)

    def columns(self, task: str, classes: int) -> list[Tensor]:
        """Of each class, which of the kept elements are its own."""
        if task == "multilabel":
            return [self.target[:, k][self.kept[:, k]] == 1 for k in range(classes)]
        y = self.target[self.kept]
        return [y == k for k in range(classes)] if task == "multiclass" else [y == 1]

    def scores_of(self, task: str, classes: int) -> list[Tensor]:
        """The scores of each class, of the kept elements."""
        if task == "binary":
            return [self.preds[self.kept]]
        return [self.preds[:, k][self.kept[:, k] if task == "multilabel" else self.kept] for k in range(classes)]


def known(d: Drawn, batches: list[tuple[Any, ...]], got: Any, want: Any) -> str | None:
    """The beginning of a row of docs/differences.md that tells of this value."""
    if d.family == "aggregation":
        return _of_aggregation(d, batches)
    if d.family == "retrieval":
        return _of_retrieval(d, batches, want)
    return (_of_classification if d.family == "classification" else _of_regression)(d, Data(d, batches), want)


def _of_aggregation(d: Drawn, batches: list[tuple[Any, ...]]) -> str | None:
    if d.name == "MeanMetric" and "weights" in d.facts:
        if d.options["nan_strategy"] == "disable":
            return '`MeanMetric(nan_strategy="disable")` with weights'
        if "NaN" in d.facts and isinstance(d.options["nan_strategy"], float):
            return "`MeanMetric(nan_strategy=0.5)`, a NaN value with a weight"
    if d.name == "CatMetric" and sum(int((~torch.as_tensor(b[0]).isnan()).sum()) for b in batches) < 2:
        return "`CatMetric` of no or one value"
    return None


def _of_retrieval(d: Drawn, batches: list[tuple[Any, ...]], want: Any) -> str | None:
    if d.name == "RetrievalPrecisionRecallCurve" and not want[0].ndim:
        return '`multidim_average="samplewise"`, one sample'
    if d.name == "RetrievalPrecisionRecallCurve" and d.options["adaptive_k"] and len(batches) == 1 and len(want[2]) > len(batches[0][0]):
        return "`retrieval_precision_recall_curve(adaptive_k=True)`"
    if d.name == "RetrievalRecallAtFixedPrecision":
        curve = retrieval.RetrievalPrecisionRecallCurve(**{k: v for k, v in d.options.items() if k != "min_precision"}).set_dtype(
            torch.float64
        )
        for batch in batches:
            curve.update(*batch)
        if bool((curve.compute()[0] - d.options["min_precision"]).abs().lt(1e-6).any()):
            return "`RetrievalRecallAtFixedPrecision` where a precision is `min_precision`"
    preds, target, indexes = (torch.cat(x) for x in zip(*batches))
    if d.options.get("ignore_index") is not None:
        kept = target != d.options["ignore_index"]
        preds, target, indexes = preds[kept], target[kept], indexes[kept]
    each = [(preds[indexes == q].double(), target[indexes == q]) for q in indexes.unique()]
    if any(len(p.unique()) < len(p) for p, _ in each):
        return "`RetrievalMAP`, `RetrievalMRR`, `RetrievalPrecision`, `RetrievalRecall`"
    k = d.options.get("top_k")
    if (
        d.name == "RetrievalMAP"
        and k is not None
        and any(int((t > 0).sum()) > int((t[p.argsort(descending=True)[:k]] > 0).sum()) for p, t in each)
    ):
        return "`RetrievalMAP(top_k=k)`"
    if d.name == "RetrievalAUROC" and any(len(t[p.argsort(descending=True)[:k]].unique()) < 2 for p, t in each):
        return "`RetrievalAUROC` of a query"
    return None


def _of_classification(d: Drawn, data: Data, want: Any) -> str | None:
    o, task, kind = d.options, d.task, d.kind
    ignore, average = o.get("ignore_index"), o.get("average")
    classes = o.get("num_classes") or o.get("num_labels") or 1
    samplewise = o.get("multidim_average") == "samplewise"
    if samplewise and 1 in data.sizes:
        return '`multidim_average="samplewise"`, one sample'
    if o.get("top_k", 1) > 1 and _tied(data.preds):
        return "`top_k` of tied scores"
    if task == "multiclass" and {"logits", "infinite"} <= d.facts and kind in (*SCORED, "CalibrationError", "HingeLoss"):
        return "exact multiclass curves with infinite logits"
    decided_apart = kind in (*SCORED, "HingeLoss") or (kind in (*OF_CONFUSION, "CalibrationError") and task != "multiclass")
    if decided_apart and "logits" in d.facts and data.kept_decide():
        return "`BinaryConfusionMatrix` and `MultilabelConfusionMatrix` with `ignore_index` and scores"
    if kind in (*RATES, "StatScores", "JaccardIndex") and average == "weighted":
        if kind == "StatScores" and (samplewise or bool(torch.as_tensor(want).isnan().any())):
            return '`StatScores(average="weighted"'
        if (kind in ("HammingDistance", "JaccardIndex") or o.get("zero_division") == 1) and _weightless(d, data, samplewise):
            return '`average="weighted"` or `"macro"` where nothing is left to weigh'
    if (
        average == "macro"
        and (kind in ("HammingDistance", "JaccardIndex") or o.get("zero_division") == 1)
        and _weightless(d, data, samplewise)
    ):
        return '`average="weighted"` or `"macro"` where nothing is left to weigh'
    if kind in RATES and task == "multiclass" and average == "macro":
        if ignore in range(classes):
            return '`average="macro"` with `ignore_index` among the classes'
        if o.get("top_k", 1) > 1:
            return '`average="macro"` with `top_k` above 1'
    if kind == "JaccardIndex" and task == "multilabel" and ignore in (0, 1) and average in ("macro", "micro"):
        return "`MultilabelJaccardIndex(ignore_index=1)`"
    if kind == "ExactMatch" and task == "multilabel" and ignore not in (None, -1):
        return "`MultilabelExactMatch(ignore_index=k)`"
    if kind == "MatthewsCorrCoef":
        return _alike(d, data)
    if kind in SCORED:
        return _of_curves(d, data, data.columns(task, classes))
    if kind == "CalibrationError":
        confidence = _confidence(d, data)
        if not bool(data.kept.any()):
            return "`CalibrationError` of nothing"
        if bool(((confidence * o["n_bins"]).sub((confidence * o["n_bins"]).round()).abs() < 1e-5).any()):
            return "`CalibrationError` of a confidence on the edge of two bins"
    if kind in LABEL_RANKING:
        return _of_label_ranking(d, data)
    if kind in ("Fairness", "GroupStatRates"):
        return _of_groups(d, data)
    return None


def _tied(scores: Tensor) -> bool:
    ordered = scores.double().sort(1).values
    return bool((ordered.diff(dim=1) == 0).any())


def _weightless(d: Drawn, data: Data, samplewise: bool) -> bool:
    own = data.kept & ((data.target == 1) if d.task == "multilabel" else True)
    return bool((~own.flatten(1).any(1)).any()) if samplewise else not bool(own.any())


def _alike(d: Drawn, data: Data) -> str | None:
    """Whether predictions or targets are all alike, as far as thresholds and ignored elements can tell."""
    threshold = d.options.get("threshold", 0.5)
    preds = data.preds.double()
    if d.task == "multiclass":
        decided = preds.argmax(1) if data.scores else preds
    elif not data.scores:
        decided = preds
    else:
        decided = torch.cat([(b[0].double().sigmoid() if _outside(b[0]) else b[0].double()) > threshold for b in data.batches])
    pairs = [x[data.kept].double() for x in (decided, data.target)]
    if any(x.numel() == 0 or bool((x == x[0]).all()) for x in pairs):
        return "`MatthewsCorrCoef`, predictions or targets all alike"
    return None


def _outside(scores: Tensor) -> bool:
    return bool(((scores < 0) | (scores > 1)).any())


def _of_curves(d: Drawn, data: Data, own: list[Tensor]) -> str | None:
    o, kind, average = d.options, d.kind, d.options.get("average")
    binned = o.get("thresholds") is not None
    if not binned and "logits" in d.facts and len({_outside(b[0]) for b in data.batches}) > 1:
        return "exact curves, some batches with scores outside [0, 1]"
    scores = data.scores_of(d.task, len(own))
    repeated = any(len(x.unique()) < len(x) for x in scores)
    coarse = d.task == "multiclass" and ("tied" in d.facts or data.preds.dtype in (torch.float16, torch.bfloat16))
    if not binned and "logits" in d.facts and (repeated or coarse):  # their float32 sigmoid of equal logits may differ in the last bit
        return "exact curves of logits"
    if average == "micro" and d.task == "multilabel" and kind != "EER":
        own, scores = [torch.cat(own)], [torch.cat(scores)]
    none, all_ = any(not bool(x.any()) for x in own), any(bool(x.all()) for x in own)
    tied = any(bool(torch.isin(x[y], x[~y]).any()) for x, y in zip(scores, own))
    if kind == "LogAUC" and (none or all_):
        return "`AUROC` where one of the two classes does not occur"
    if kind == "LogAUC" and not binned and (tied or _rises_at_a_bound(d, data)):
        return "`LogAUC` of tied scores, or of a curve that rises just below a bound"
    if kind == "RecallAtFixedPrecision" and none:
        return "`RecallAtFixedPrecision` without positives"
    if average == "macro" and kind == "ROC":
        return '`ROC(average="macro")`'
    if average == "macro" and kind == "PrecisionRecallCurve":
        return '`PrecisionRecallCurve(average="macro")`'
    if average == "micro" and d.task == "multiclass" and binned:
        return 'curves with `average="micro"` and `thresholds`'
    if kind in AREAS and binned:
        return "`AUROC`, `AveragePrecision` and `LogAUC` with `thresholds`"
    if kind == "AveragePrecision" and none:
        return "`AveragePrecision` without positives"
    if kind == "AUROC" and (none or all_):
        return "`AUROC` where one of the two classes does not occur"
    if kind in ("ROC", "EER") and (none or all_):
        return "ROC curves where a class does not occur"
    if kind == "EER" and _equally_close(d, data):
        return "`EER` where the two errors are equally close at several thresholds"
    if kind in ("SensitivityAtSpecificity", "SpecificityAtSensitivity") and (none or all_):
        return "operating points on ROC curves where a class does not occur"
    if kind == "PrecisionRecallCurve" and not binned and any(len(x.unique()) < 2 for x in scores):
        return '`multidim_average="samplewise"`, one sample'
    if kind in ("PrecisionRecallCurve", "PrecisionAtFixedRecall", "RecallAtFixedPrecision") and (none or all_):
        if d.task == "multiclass" and not binned:
            return "exact precision-recall curves of classes where all targets are class 0"
        if binned and none:
            return "precision-recall curves with `thresholds` without positives"
    return None


def _roc(d: Drawn, data: Data) -> list[tuple[Tensor, Tensor]]:
    """Rates of false and of true positives of each curve that the value is made of."""
    options = {k: v for k, v in d.options.items() if k != "fpr_range" and (k != "average" or (d.kind == "EER" and d.task == "multiclass"))}
    curve = getattr(importlib.import_module("torchtally.classification"), d.name.replace(d.kind, "ROC"))(**options)
    curve.set_dtype(torch.float64)
    for batch in data.batches:
        curve.update(*batch)
    fpr, tpr = curve.compute()[:2]
    return [(fpr, tpr)] if isinstance(fpr, Tensor) and fpr.ndim == 1 else list(zip(fpr, tpr))


def _equally_close(d: Drawn, data: Data) -> bool:
    gaps = [(fpr - (1 - tpr)).abs().sort().values for fpr, tpr in _roc(d, data)]
    return any(len(g) > 1 and bool(g[1] - g[0] < 1e-6) for g in gaps)


def _rises_at_a_bound(d: Drawn, data: Data) -> bool:
    bounds = torch.tensor(d.options["fpr_range"], dtype=torch.float64)
    theirs = importlib.import_module("torchmetrics.utilities.data").interp
    return any(not np.allclose(theirs(bounds, *curve), np.interp(bounds, *curve)) for curve in _roc(d, data))


def _confidence(d: Drawn, data: Data) -> Tensor:
    scores = []
    for batch in data.batches:
        x = batch[0].double()
        if d.task == "binary":
            scores.append((x.sigmoid() if _outside(x) else x).flatten())
        else:
            scores.append((x.softmax(1) if _outside(x) else x).amax(1).flatten())
    return torch.cat(scores)


def _of_label_ranking(d: Drawn, data: Data) -> str | None:
    if d.options.get("ignore_index") is not None:
        return "label ranking metrics with `ignore_index`"
    if d.kind == "RankingLoss":
        rows = [b[1].movedim(1, -1).flatten(0, -2) for b in data.batches]
        if any(not bool(((r.sum(1) > 0) & (r.sum(1) < r.shape[1])).any()) for r in rows):
            return "`MultilabelRankingLoss`, a batch without a sample that has both kinds of labels"
        if any(_tied(b[0]) for b in data.batches):
            return "`MultilabelRankingLoss` with tied scores"
    return None


def _of_groups(d: Drawn, data: Data) -> str | None:
    groups = torch.cat([b[2] for b in data.batches])
    for batch in data.batches:
        present = batch[2][batch[1] != d.options.get("ignore_index")] if d.options.get("ignore_index") is not None else batch[2]
        if any(not bool((present == g).any()) for g in range(d.options["num_groups"])):
            return (
                "`BinaryFairness`, a group that does not occur" if d.kind == "Fairness" else "`BinaryGroupStatRates`, a group that does not"
            )
    if d.kind == "Fairness":
        if d.options.get("task") == "demographic_parity" and d.options.get("ignore_index") is not None:
            return '`BinaryFairness(task="demographic_parity")` given a target'
        for g in range(d.options["num_groups"]):
            if not bool((data.target[(groups == g) & data.kept] == 1).any()):
                return "`BinaryFairness`, a group that does not occur, or has no positive target"
        preds = torch.cat(
            [(b[0].double().sigmoid() if b[0].is_floating_point() and _outside(b[0]) else b[0].double()) for b in data.batches]
        )
        yes = (preds > d.options.get("threshold", 0.5)) if data.scores else preds == 1
        if not bool((yes & data.kept & (data.target == 1)).any()):
            return "`BinaryFairness` where the highest rate is 0"
    return None


def _of_regression(d: Drawn, data: Data, want: Any) -> str | None:
    o, kind = d.options, d.name
    target, preds = data.target.double(), data.preds.double()
    n = len(target)
    constant = [bool((x == x[:1]).all(0).any()) if n else True for x in (preds, target)]
    kept = o.get("reduction") == "none" or o.get("keep_sequence_dim") is not None
    if kept and 1 in data.sizes:
        return '`multidim_average="samplewise"`, one sample'
    if kind == "R2Score":
        if n < 2:
            return "`R2Score` with fewer than two pairs"
        if o["adjusted"] and n - 1 <= o["adjusted"]:
            return "`R2Score(adjusted=k)` with too few pairs"
    if kind in ("R2Score", "ExplainedVariance") and constant[1] and o["multioutput"] == "variance_weighted":
        return '`R2Score`, `ExplainedVariance` with `"variance_weighted"`'
    if kind in ("R2Score", "ExplainedVariance") and n > 1 and bool((target.var(0) < 1e-3 * target.square().mean(0)).any()):
        return "`R2Score`, `ExplainedVariance` of targets far from 0, or of tiny variance"
    if kind == "RelativeSquaredError" and constant[1]:
        return "`RelativeSquaredError` of constant targets"
    if kind == "ConcordanceCorrCoef" and any(constant):
        return "`ConcordanceCorrCoef` of constant predictions or targets"
    if kind == "SpearmanCorrCoef" and any(constant):
        return "`SpearmanCorrCoef` of constant predictions or targets"
    if kind == "KendallRankCorrCoef" and o["t_test"] and (n <= 2 or any(constant)):
        return "`KendallRankCorrCoef(t_test=True)`"
    return None
