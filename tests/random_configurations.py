"""Random metrics that torchmetrics offers too, with random options and random batches to feed both."""

from __future__ import annotations

import functools
import importlib
import inspect
import random
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

FAMILIES = ("aggregation", "classification", "regression", "retrieval")
TASKS = ("Binary", "Multiclass", "Multilabel")
LABELLESS = (
    "ROC",
    "PrecisionRecallCurve",
    "AUROC",
    "AveragePrecision",
    "LogAUC",
    "EER",
    "At",
    "Calibration",
    "Hinge",
    "Ranking",
    "Coverage",
)
RATES = (
    "Accuracy",
    "Precision",
    "Recall",
    "F1Score",
    "FBetaScore",
    "Specificity",
    "NegativePredictiveValue",
    "HammingDistance",
)
AREAS = ("AUROC", "AveragePrecision", "LogAUC")
CURVES = ("ROC", "PrecisionRecallCurve")
FLOATS = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
FUNCTIONS = {
    "BinaryGroupStatRates": "binary_groups_stat_rates",
    "RetrievalMAP": "retrieval_average_precision",
    "RetrievalMRR": "retrieval_reciprocal_rank",
}


@dataclass
class Drawn:
    """A class of both libraries, what it is made with, and its batches."""

    family: str
    name: str
    options: dict[str, Any]
    batches: list[tuple[Any, ...]]
    facts: set[str] = field(default_factory=set)
    """What is unusual about the data, as the rows of docs/differences.md need to know."""

    @property
    def task(self) -> str:
        return self.options.get("task", "") if self.name in fronts() else next((t for t in TASKS if self.name.startswith(t)), "").lower()

    @property
    def kind(self) -> str:
        """The name without its task."""
        return next((self.name.removeprefix(t) for t in TASKS if self.name.startswith(t)), self.name)

    def __str__(self) -> str:
        data = "\n".join(
            f"  {tuple(x.tolist() if isinstance(x, Tensor) else x for x in b)} {getattr(b[0], 'dtype', '')}" for b in self.batches
        )
        return f"{self.name}({self.options}) {sorted(self.facts)}\n{data}"


@functools.cache
def shared() -> dict[str, str]:
    """Every class of both libraries and the family it is in."""
    found = {}
    for family in FAMILIES:
        ours, theirs = (importlib.import_module(f"{library}.{family}") for library in ("torchtally", "torchmetrics"))
        for name, cls in vars(theirs).items():
            if (
                inspect.isclass(cls)
                and cls.__module__.startswith(f"torchmetrics.{family}")
                and hasattr(ours, name)
                and name != "BaseAggregator"
            ):
                found[name] = family
    return found


@functools.cache
def fronts() -> frozenset[str]:
    """Classes that choose another by `task=`."""
    return frozenset(name for name in shared() if f"Multiclass{name}" in shared())


def function_name(library: Any, name: str) -> str | None:
    flat = name.lower()
    return FUNCTIONS.get(name) or next((n for n in dir(library) if n.replace("_", "") == flat), None)


def parameters(name: str) -> list[str]:
    cls = getattr(importlib.import_module(f"torchmetrics.{shared()[name]}"), name)
    made = cls.__new__ if name in fronts() else cls.__init__
    return [p.name for p in inspect.signature(made).parameters.values()][1:]


def drawn(r: random.Random, name: str) -> Drawn:
    family = shared()[name]
    if family == "classification":
        return _classified(r, name)
    if family == "regression":
        return _regressed(r, name)
    if family == "retrieval":
        return _retrieved(r, name)
    return _aggregated(r, name)


def value(module: Any, name: str, options: dict[str, Any], preds: Tensor, target: Tensor, chunk: int) -> Any:
    """What a metric of either library gives for a batch cut into chunks."""
    metric = getattr(module, name)(**options)
    for p, y in zip(preds.split(chunk), target.split(chunk)):
        metric.update(p, y)
    return metric.compute()


def _classified(r: random.Random, name: str) -> Drawn:
    inner, options = name, {}
    if name in fronts():
        task = r.choice([t for t in TASKS if t + name in shared()])
        inner, options = task + name, {"task": task.lower()}
    task = next(t for t in TASKS if inner.startswith(t))
    kind = inner.removeprefix(task)
    extra = r.choice([(), (), (3,), (2, 2)]) if kind not in ("Fairness", "GroupStatRates") else ()
    if kind == "ExactMatch" and task == "Multiclass":
        extra = r.choice([(3,), (2, 2)])
    for parameter in parameters(name):
        choice = _option(r, parameter, task, kind, extra)
        if choice is not None:
            options[parameter] = choice[0]
    for size in {"num_classes", "num_labels"} - {{"Multiclass": "num_classes", "Multilabel": "num_labels"}.get(task)}:
        options.pop(size, None)
    form = r.choice(["probabilities", "probabilities", "logits", "labels"])
    if form == "labels" and any(part in kind for part in LABELLESS):
        form = "probabilities"
    if "top_k" in options and (task != "Multiclass" or form == "labels" or options["num_classes"] == 2):
        options["top_k"] = 1
    out = Drawn("classification", name, options, [], {form})
    _fill(r, out, task, kind, form, extra)
    return out


def _fill(r: random.Random, out: Drawn, task: str, kind: str, form: str, extra: tuple[int, ...]) -> None:
    """Batches of scores or labels, targets, and what else the metric takes."""
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    curve = any(part in kind for part in LABELLESS[:7])
    large = curve or kind in ("Fairness", "GroupStatRates", "RankingLoss")
    sizes = [r.choice([12, 20, 40] if large and r.random() < 0.8 else [1, 2, 5, 20]) for _ in range(r.choice([1, 2, 4]))]
    if r.random() < 0.1:
        sizes.insert(r.randrange(len(sizes) + 1), 0)
        out.facts.add("an empty batch")
    classes, dtype = out.options.get("num_classes", 2), r.choice(FLOATS)
    whole = r.choice([torch.int64, torch.int64, torch.int32, torch.int16 if out.options.get("ignore_index") == -1 else torch.uint8])
    infinite = r.random() < 0.1
    tied, only = r.random() < 0.4, r.random() < (0.1 if large else 0.2)
    least, most = (r.choice([0, classes - 1]),) * 2 if only else (0, classes - 1)
    out.facts |= {fact for fact, holds in (("tied", tied), ("one class only", only), ("infinite", infinite)) if holds}
    for n in sizes:
        shape = (n, out.options["num_labels"], *extra) if task == "Multilabel" else (n, *extra)
        target = torch.randint(least, most + 1, shape, generator=generator)
        if form == "labels":
            preds = torch.randint(0, classes, shape, generator=generator)
        else:
            score_shape = (n, classes, *extra) if task == "Multiclass" else shape
            preds = torch.randn(score_shape, generator=generator, dtype=torch.float64) * (1.5 if curve else 3.0)
            if form == "probabilities":
                preds = preds.softmax(1) if task == "Multiclass" else preds.sigmoid()
            if tied:
                preds = (preds * 8).round() / 8 if form == "probabilities" else preds.round()
            preds = preds.to(dtype)
            if form == "logits" and infinite and preds.numel():
                preds.view(-1)[0] = torch.inf
        if out.options.get("ignore_index") in (-1, 255):
            target = target.masked_fill(torch.rand(shape, generator=generator) < 0.3, out.options["ignore_index"])
        target = target.to(whole)
        groups = [torch.randint(0, out.options["num_groups"], shape, generator=generator)] if "num_groups" in out.options else []
        out.batches.append((preds, target, *groups))


def _option(r: random.Random, parameter: str, task: str, kind: str, extra: tuple[int, ...]) -> tuple[Any] | None:
    """A random value of an option, or None: the default."""
    curve = any(part in kind for part in LABELLESS[:7])
    table: dict[str, list[Any]] = {
        "threshold": [0.5, 0.3, 0.75],
        "thresholds": [*[None] * (7 if kind in AREAS else 2), 5, [0.0, 0.25, 0.5, 1.0], torch.tensor([0.0, 0.3, 0.9])],
        "multidim_average": ["global", "samplewise"] if extra else ["global"],
        "ignore_index": [None, None, -1, 255, 0, 1] if kind != "ExactMatch" or task == "Multilabel" else [None, -1, 255],
        "normalization": [{"Multiclass": "softmax"}.get(task, "sigmoid"), None],
        "num_classes": [2, 3, 5],
        "num_labels": [2, 4],
        "top_k": [1, 1, 2],
        "zero_division": [0.0, 1.0],
        "weights": [None, "linear", "quadratic"],
        "normalize": [None, "true", "pred", "all"],
        "n_bins": [1, 4, 10, 15],
        "norm": ["l1", "l2", "max"],
        "squared": [False, True],
        "multiclass_mode": ["crammer-singer", "one-vs-all"],
        "beta": [0.5, 2.0],
        "min_recall": [0.0, 0.25, 0.5, 0.83, 1.0],
        "min_precision": [0.0, 0.25, 0.5, 0.83, 1.0],
        "min_specificity": [0.0, 0.25, 0.5, 0.83, 1.0],
        "min_sensitivity": [0.0, 0.25, 0.5, 0.83, 1.0],
        "max_fpr": [None, None, 0.3] if task == "Binary" else [None],
        "fpr_range": [(0.125, 0.75), (0.1, 1.0)],
        "num_groups": [2, 3],
    }
    if parameter == "task" and kind == "Fairness":
        return (r.choice(["all", "demographic_parity", "equal_opportunity"]),)
    if parameter == "average":
        if kind in CURVES or kind == "EER":
            return (r.choice([None, "micro", "macro"]),) if task == "Multiclass" or kind == "EER" else None
        if task == "Binary":
            return None
        if curve:
            less = kind == "LogAUC"  # which torchmetrics averages in one way only
            return (
                r.choice(["macro", "none", *([] if less else ["weighted"]), *(["micro"] if task == "Multilabel" and not less else [])]),
            )
        return (r.choice(["micro", "macro", "weighted", "none"]),)
    if parameter in table and not (parameter == "threshold" and task == "Multiclass"):
        return (r.choice(table[parameter]),)
    return None


def _regressed(r: random.Random, name: str) -> Drawn:
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    table: dict[str, list[Any]] = {
        "num_outputs": [1, 3],
        "squared": [True, False],
        "multioutput": ["uniform_average", "raw_values", "variance_weighted"],
        "adjusted": [0, 0, 2],
        "power": [-1.0, 0.0, 1.0, 1.5, 2.0, 3.0],
        "p": [1.0, 2.0, 3.5],
        "reduction": ["mean", "sum", "none"],
        "log_prob": [False, True],
        "variant": ["a", "b", "c"],
        "t_test": [False, False, True],
        "alternative": ["two-sided", "less", "greater"],
        "threshold": [0.0, 0.5],
        "keep_sequence_dim": [None, 0, 1],
        "normalization": ["mean", "range", "std", "l2"],
    }
    options = {p: r.choice(table[p]) for p in parameters(name) if p in table}
    out = Drawn("regression", name, options, [])
    sizes = [r.choice([1, 2, 5, 20]) for _ in range(r.choice([1, 2, 4]))]
    if r.random() < 0.1:
        sizes.insert(r.randrange(len(sizes) + 1), 0)
        out.facts.add("an empty batch")
    awkward = r.choice(["", "", "", "", "tied", "tied", "constant target", "constant predictions", "equal", "infinite"])
    dtype = r.choice([*FLOATS, torch.int64] if "Divergence" not in name and "Cosine" not in name else FLOATS)
    if dtype is torch.int64:
        out.facts.add("integers")
    if awkward:
        out.facts.add(awkward)
    columns = options.get("num_outputs", r.choice([1, 3]) if name in ("R2Score", "ExplainedVariance") else 1)
    for n in sizes:
        if "Divergence" in name or name == "CosineSimilarity":
            shapes = ((n, 4), (n, 4))
        elif name == "ContinuousRankedProbabilityScore":
            shapes = ((n, 4), (n,))
        elif options.get("keep_sequence_dim") is not None:
            shapes = ((n, 3), (n, 3))
        else:
            shapes = ((n,), (n,)) if columns == 1 else ((n, columns), (n, columns))
        preds, target = (torch.randn(s, generator=generator, dtype=torch.float64) * 2 for s in shapes)
        if name in ("MeanSquaredLogError", "TweedieDevianceScore", "MeanAbsolutePercentageError") or "Divergence" in name:
            preds, target = preds.abs() + 0.25, target.abs() + 0.25
        if options.get("log_prob"):
            preds, target = preds.log_softmax(1), target.log_softmax(1)
        if dtype is torch.int64:
            preds, target = preds.ceil(), target.ceil()
        if awkward == "tied":
            preds, target = (preds * 2).ceil() / 2, (target * 2).ceil() / 2
        if awkward == "constant target":
            target = torch.full_like(target, 1.5 if dtype is not torch.int64 else 2.0)
        if awkward == "constant predictions":
            preds = torch.full_like(preds, 1.5 if dtype is not torch.int64 else 2.0)
        if awkward == "equal" and preds.shape == target.shape:
            preds = target.clone()
        if awkward == "infinite" and dtype is not torch.int64 and n > 1:
            preds.view(-1)[0] = torch.inf
        out.batches.append((preds.to(dtype), target.to(dtype)))
    return out


def _retrieved(r: random.Random, name: str) -> Drawn:
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    table: dict[str, list[Any]] = {
        "empty_target_action": ["neg", "pos", "skip", "error"],
        "ignore_index": [None, None, -1, 0],
        "top_k": [None, 1, 3, 50],
        "max_k": [None, 1, 3, 8],
        "adaptive_k": [False, True],
        "max_fpr": [None, 0.5],
        "min_precision": [0.0, 0.3],
        "aggregation": ["mean", "median", "min", "max"],
    }
    if name == "RetrievalAUROC":  # theirs has no error where there is nothing but relevant documents
        table["empty_target_action"].remove("error")
    options = {p: r.choice(table[p]) for p in parameters(name) if p in table}
    out = Drawn("retrieval", name, options, [])
    tied = r.random() < 0.3
    queries = r.choice([1, 3, 6])
    dtype = r.choice(FLOATS)
    for n in [r.choice([1, 2, 7, 25]) for _ in range(r.choice([1, 2, 4]))]:
        preds = torch.rand(n, generator=generator, dtype=torch.float64) + 0.01  # theirs takes scores up to 0 for not retrieved
        target = torch.randint(0, 4 if name == "RetrievalNormalizedDCG" else 2, (n,), generator=generator)
        if options.get("ignore_index") == -1:
            target[torch.rand(n, generator=generator) < 0.3] = -1
        indexes = torch.randint(0, queries, (n,), generator=generator)
        out.batches.append(((preds * 4).ceil().to(dtype) / 4 if tied else preds.to(dtype), target, indexes))
    return out


def _aggregated(r: random.Random, name: str) -> Drawn:
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    options: dict[str, Any] = {}
    if "nan_strategy" in parameters(name):
        options["nan_strategy"] = r.choice(["warn", "ignore", 0.5, "error", "disable"])
    if "window" in parameters(name):
        options["window"] = r.choice([1, 3, 5])
    out = Drawn("aggregation", name, options, [])
    dtype = r.choice([*FLOATS, torch.int64])
    spoiled = r.random() < 0.3 and dtype is not torch.int64
    out.facts |= {"NaN"} if spoiled else set()
    shape = r.choice([(), (1,), (4,), (2, 3), (0,)])
    if shape == (0,):
        out.facts.add("an empty batch")
    for _ in range(r.choice([1, 3, 7])):
        value = (torch.randn(shape, generator=generator, dtype=torch.float64) * 3).to(dtype)
        if spoiled and value.numel() and r.random() < 0.7:
            value.view(-1)[0] = torch.nan
        if dtype is not torch.int64 and value.numel() > 1 and r.random() < 0.2:
            value.view(-1)[1] = torch.inf
        batch: tuple[Any, ...] = (value.item(),) if value.numel() == 1 and r.random() < 0.4 else (value,)
        if name == "MeanMetric" and dtype.is_floating_point and r.random() < 0.4:
            weight = torch.rand(shape, generator=generator).to(dtype)
            batch = (value, r.choice([weight, weight, 0.5, torch.tensor(0.25)]))
            out.facts.add("weights")
        out.batches.append(batch)
    return out
