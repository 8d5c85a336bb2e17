"""The packages that are moved from: what of each torchtally has, which calls it takes, and what a call becomes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from . import offers
from .differences import differences
from .offers import Offer
from .taken import Path
from .text import Edit, Text


class Torchmetrics:
    """The same names, modules and arguments."""

    root: Path = ("torchmetrics",)
    same_paths = True

    def offer(self, module: Path, name: str) -> Offer | None:
        return offers.offer_for(module, name)

    def why_not(self, module: Path, name: str) -> str:
        return offers.why_not(module, name)

    def refused(self, name: str, offer: Offer, call: ast.Call | None) -> str | None:
        return None if call is None else offers.refused(offer, call)

    def edits(self, text: Text, name: str, call: ast.Call | None) -> list[Edit]:
        return []

    def differs(self, name: str, offer: Offer, call: ast.Call | None) -> Iterator[str]:
        """What docs/differences.md says of a use."""
        plain = name if name[:1].isupper() else "".join(p.capitalize() for p in name.split("_"))
        return (d.text for d in differences() if d.speaks_of(plain, call))

    def hold(self, tree: ast.Module) -> tuple[int, str] | None:
        """A line that forbids to move anything of a file, and why."""
        return None


@dataclass(frozen=True, slots=True)
class Twin:
    """A metric of torchtally that equals one of torcheval, for some values of some arguments.

    `only` are the values for which it does, the default first; None is "any". `says` are arguments written out because defaults differ.
    `renamed` are arguments under other names.
    """

    name: str
    module: str = "torchtally"
    only: tuple[tuple[str, tuple[object, ...] | None], ...] = ()
    says: tuple[tuple[str, str], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    note: str = ""


_CLASSES = "torchtally.classification"
_REGRESSION = "torchtally.regression"
_MICRO = (("average", ("micro",)), ("num_classes", None))
_SAYS_MICRO = (("average", '"micro"'),)
_ABSENT = "where only one of the two classes occurs torcheval gives 0.5, torchtally NaN"
_TWINS = {
    "Mean": Twin("MeanMetric", note="before the first update torcheval gives 0, torchtally NaN"),
    "Sum": Twin("SumMetric"),
    "Max": Twin("MaxMetric"),
    "Min": Twin("MinMetric"),
    "Cat": Twin("CatMetric", only=(("dim", (0,)),)),
    "MeanSquaredError": Twin("MeanSquaredError", _REGRESSION, only=(("multioutput", ("uniform_average",)),)),
    "R2Score": Twin(
        "R2Score", _REGRESSION, only=(("multioutput", None), ("num_regressors", None)), renamed=(("num_regressors", "adjusted"),)
    ),
    "MulticlassAccuracy": Twin("MulticlassAccuracy", _CLASSES, only=(*_MICRO, ("k", None)), says=_SAYS_MICRO, renamed=(("k", "top_k"),)),
    "MulticlassPrecision": Twin("MulticlassPrecision", _CLASSES, only=_MICRO, says=_SAYS_MICRO),
    "MulticlassRecall": Twin("MulticlassRecall", _CLASSES, only=_MICRO, says=_SAYS_MICRO),
    "MulticlassF1Score": Twin("MulticlassF1Score", _CLASSES, only=_MICRO, says=_SAYS_MICRO),
    "MulticlassConfusionMatrix": Twin("MulticlassConfusionMatrix", _CLASSES, only=(("num_classes", None), ("normalize", None))),
    "BinaryAUROC": Twin("BinaryAUROC", _CLASSES, only=(("num_tasks", (1,)),), note=_ABSENT),
    "BinaryAUPRC": Twin("BinaryAveragePrecision", _CLASSES, only=(("num_tasks", (1,)),)),
    "Perplexity": Twin("Perplexity", "torchtally.text", only=(("ignore_index", None),)),
}
_NEAR = {
    "BinaryAccuracy": "torcheval counts a score equal to the threshold as yes and never takes scores for logits; if yours are probabilities, write torchtally.classification.BinaryAccuracy",
    "BinaryPrecision": "as BinaryAccuracy: a score equal to the threshold is yes",
    "BinaryRecall": "as BinaryAccuracy: a score equal to the threshold is yes",
    "BinaryF1Score": "as BinaryAccuracy: a score equal to the threshold is yes",
    "BinaryConfusionMatrix": "as BinaryAccuracy: a score equal to the threshold is yes",
    "MulticlassAUROC": "torcheval ranks scores as they are, torchtally the softmax of logits; equal for probabilities: write torchtally.AUROC",
    "MulticlassAUPRC": "torcheval ranks scores as they are, torchtally the softmax of logits; equal for probabilities: write torchtally.AveragePrecision",
    "Metric": "a metric of your own: derive it from torchtally.Metric, with add_state instead of _add_state and no merge_state of its own",
}


class Torcheval:
    """Other names and defaults, `update(input, target)` in the same order; only what is equal is moved."""

    root: Path = ("torcheval", "metrics")
    same_paths = False

    def offer(self, module: Path, name: str) -> Offer | None:
        twin = _TWINS.get(name) if "functional" not in module else None
        return None if twin is None else Offer(twin.module, twin.name)

    def why_not(self, module: Path, name: str) -> str:
        if "functional" in module:
            return "functions of torcheval are not moved: see docs/moving.md for those of torchtally.functional"
        return _NEAR.get(name, f"torchtally has no equal of torcheval's {name}")

    def refused(self, name: str, offer: Offer, call: ast.Call | None) -> str | None:
        twin = _TWINS[name]
        if call is None:
            return f"the class is used as a value; only calls can be rewritten to {offer.name}" if twin.says or twin.renamed else None
        if any(k.arg is None for k in call.keywords) or len(call.args) > (name == "MulticlassConfusionMatrix"):
            return "its arguments cannot be seen here"
        known = dict(twin.only)
        for k in call.keywords:
            if k.arg in ("device", "use_fbgemm"):
                continue
            if k.arg not in known:
                return f"torchtally's {offer.name} has no argument {k.arg}"
            values = known[k.arg or ""]
            if values is not None and not (isinstance(k.value, ast.Constant) and k.value.value in values):
                return f"{k.arg}={ast.unparse(k.value)} has another meaning there; equal are only {', '.join(map(repr, values))}"
        return None

    def edits(self, text: Text, name: str, call: ast.Call | None) -> list[Edit]:
        """Arguments renamed and written out, `device=` turned into `.to(…)`."""
        if call is None:
            return []
        twin, found, given = _TWINS[name], [], {k.arg for k in call.keywords}
        end = text.span(call)[1]
        for k in call.keywords:
            start, last = text.span(k)
            if k.arg in ("device", "use_fbgemm"):
                found.append(_without(text, call, start, last))
                if k.arg == "device":
                    found.append(Edit(end, end, f".to({text.of(k.value)})"))
            elif k.arg in dict(twin.renamed):
                found.append(Edit(start, start + len(k.arg), dict(twin.renamed)[k.arg]))
        said = [f"{n}={value}" for n, value in twin.says if n not in given]
        if said:
            kept = [k for k in call.keywords if k.arg not in ("device", "use_fbgemm")]
            place = text.span(kept[0])[0] if kept else end - 1
            found.append(Edit(place, place, ", ".join(said) + (", " if kept else "")))
        return found

    def differs(self, name: str, offer: Offer, call: ast.Call | None) -> Iterator[str]:
        note = _TWINS[name].note
        return iter((note,) if note else ())

    def hold(self, tree: ast.Module) -> tuple[int, str] | None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                if any(n.startswith("torcheval.metrics.toolkit") for n in names):
                    return (
                        node.lineno,
                        "the file syncs metrics with torcheval's toolkit; torchtally's compute() does that itself. Nothing was moved",
                    )
            if isinstance(node, ast.Attribute) and _calls(node.value, "update"):
                return (
                    node.lineno,
                    "update() of torcheval gives the metric back, torchtally's gives None: put it on a line of its own. Nothing was moved",
                )
            if isinstance(node, ast.Call) and _calls(node, "merge_state"):
                return node.lineno, "merge_state of torcheval takes a list, torchtally's one metric. Nothing was moved"
            if isinstance(node, ast.Call) and _calls(node, "update") and any(k.arg in ("weight", "sample_weight") for k in node.keywords):
                return node.lineno, "an update has weights, which not every twin in torchtally takes. Nothing was moved"
        return None


def _calls(node: ast.AST, method: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def _without(text: Text, call: ast.Call, start: int, end: int) -> Edit:
    """An argument taken out together with a comma."""
    source, close = text.source, text.span(call)[1] - 1
    behind = end
    while behind < close and source[behind] in " \t\r\n":
        behind += 1
    if source[behind] == ",":
        behind += 1
        while behind < close and source[behind] in " \t\r\n":
            behind += 1
        return Edit(start, behind, "")
    before = start
    while source[before - 1] in " \t\r\n":
        before -= 1
    return Edit(before - 1 if source[before - 1] == "," else start, end, "")


_IGNITE = {
    "Accuracy": 'torchtally.Accuracy(task=…, average="micro")',
    "Average": "torchtally.MeanMetric()",
    "AveragePrecision": "torchtally.AveragePrecision(task=…)",
    "CohenKappa": "torchtally.CohenKappa(task=…)",
    "ConfusionMatrix": "torchtally.ConfusionMatrix(task=…)",
    "CosineSimilarity": "torchtally.CosineSimilarity()",
    "Fbeta": "torchtally.FBetaScore(task=…, beta=…)",
    "IoU": "torchtally.JaccardIndex(task=…)",
    "JaccardIndex": "torchtally.JaccardIndex(task=…)",
    "DiceCoefficient": "torchtally.F1Score(task=…), which is Dice",
    "JSDivergence": "torchtally.regression.JensenShannonDivergence()",
    "KendallRankCorrelation": "torchtally.KendallRankCorrCoef()",
    "KLDivergence": "torchtally.KLDivergence()",
    "Loss": 'torchtally.MeanMetric().bind(value="loss")',
    "mIoU": 'torchtally.JaccardIndex(task="multiclass", num_classes=…, average="macro")',
    "MatthewsCorrCoef": "torchtally.MatthewsCorrCoef(task=…)",
    "MeanAbsoluteError": "torchtally.MeanAbsoluteError()",
    "MeanSquaredError": "torchtally.MeanSquaredError()",
    "Metric": "torchtally.Metric, with add_state, update and compute",
    "MetricGroup": "torchtally.MetricCollection({…})",
    "MetricsLambda": "arithmetic on metrics: (precision + recall) / 2",
    "MultiLabelConfusionMatrix": "torchtally.classification.MultilabelConfusionMatrix(num_labels=…)",
    "PearsonCorrelation": "torchtally.PearsonCorrCoef()",
    "Precision": "torchtally.Precision(task=…)",
    "PrecisionRecallCurve": "torchtally.classification.BinaryPrecisionRecallCurve()",
    "R2Score": "torchtally.R2Score()",
    "ROC_AUC": "torchtally.AUROC(task=…)",
    "Recall": "torchtally.Recall(task=…)",
    "RocCurve": "torchtally.classification.BinaryROC()",
    "RootMeanSquaredError": "torchtally.MeanSquaredError(squared=False)",
    "SpearmanRankCorrelation": "torchtally.SpearmanCorrCoef()",
    "TopKCategoricalAccuracy": 'torchtally.Accuracy(task="multiclass", num_classes=…, top_k=…)',
}


class Ignite:
    """Metrics that engines feed: nothing is moved, since `update` takes one tuple and `attach` has no counterpart; the counterparts are told."""

    root: Path = ("ignite", "metrics")
    same_paths = False

    def offer(self, module: Path, name: str) -> Offer | None:
        return None

    def why_not(self, module: Path, name: str) -> str:
        if name not in _IGNITE:
            return f"torchtally has no counterpart of ignite's {name}"
        return f"engines feed metrics with one tuple, so that an import cannot change alone; the counterpart is {_IGNITE[name]} (docs/moving.md)"

    def refused(self, name: str, offer: Offer, call: ast.Call | None) -> str | None:
        return None

    def edits(self, text: Text, name: str, call: ast.Call | None) -> list[Edit]:
        return []

    def differs(self, name: str, offer: Offer, call: ast.Call | None) -> Iterator[str]:
        return iter(())

    def hold(self, tree: ast.Module) -> tuple[int, str] | None:
        return None


Peer = Torchmetrics | Torcheval | Ignite
PEERS: tuple[Peer, ...] = (Torchmetrics(), Torcheval(), Ignite())
