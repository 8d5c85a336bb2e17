"""Every metric with batches to feed it: what the laws run over. A metric that is not here fails test_laws.py."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from random_configurations import RATES
from torch import Tensor

import torchtally as tt
from torchtally import classification as c
from torchtally import regression as r
from torchtally import retrieval as ret
from torchtally.statistics import auto_curves

Batch = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A metric and a maker of batches of n elements. `ordered`: the value depends on the order of the data, by definition."""

    name: str
    make: Callable[[], tt.Metric]
    batch: Callable[[int, torch.Generator], Batch]
    ordered: bool = False
    grows: bool = False  # memory grows with the data, by definition
    tolerance: float = 1e-6
    sized_by_data: bool = False  # what the value holds depends on the data, so that reading it (not updating) waits


def batches(case: Case, sizes: tuple[int, ...] = (7, 1, 12), seed: int = 0) -> list[Batch]:
    generator = torch.Generator().manual_seed(seed)
    return [case.batch(n, generator) for n in sizes]


def numbers(n: int, g: torch.Generator) -> Batch:
    return (torch.randn(n, generator=g),)


def weighted_numbers(n: int, g: torch.Generator) -> Batch:
    return torch.randn(n, generator=g), torch.rand(n, generator=g)


def scores(n: int, g: torch.Generator, classes: int = 5) -> Batch:
    return torch.randn(n, classes, generator=g), torch.randint(0, classes, (n,), generator=g)


def padded_scores(n: int, g: torch.Generator) -> Batch:
    preds, target = scores(n, g)
    return preds, target.masked_fill(torch.rand(n, generator=g) < 0.3, -1)


def labels(n: int, g: torch.Generator) -> Batch:
    return torch.randint(0, 5, (n,), generator=g), torch.randint(0, 5, (n,), generator=g)


def images(n: int, g: torch.Generator) -> Batch:
    return torch.randn(n, 5, 2, 3, generator=g), torch.randint(0, 5, (n, 2, 3), generator=g)


def yes_no(n: int, g: torch.Generator) -> Batch:
    return torch.rand(n, generator=g), torch.randint(0, 2, (n,), generator=g)


def yes_no_images(n: int, g: torch.Generator) -> Batch:
    return torch.rand(n, 2, 3, generator=g), torch.randint(0, 2, (n, 2, 3), generator=g)


def multilabel(n: int, g: torch.Generator) -> Batch:
    return torch.rand(n, 4, generator=g), torch.randint(0, 2, (n, 4), generator=g)


def multilabel_images(n: int, g: torch.Generator) -> Batch:
    return torch.rand(n, 4, 3, generator=g), torch.randint(0, 2, (n, 4, 3), generator=g)


def _rates() -> list[Case]:
    """The rates of every task in all their forms."""
    found = []
    for name in (*RATES, "StatScores"):
        extra = {"beta": 2.0} if name == "FBetaScore" else {}
        binary, multiclass, many = (getattr(c, task + name) for task in ("Binary", "Multiclass", "Multilabel"))

        def add(
            label: str, cls: type, batch: Any, grows: bool = False, *, name: str = name, extra: dict[str, Any] = extra, **options: Any
        ) -> None:
            found.append(
                Case(f"{cls.__name__}-{label}" if label else cls.__name__, functools.partial(cls, **extra, **options), batch, grows=grows)
            )

        add("", binary, yes_no)
        add("samplewise", binary, yes_no_images, True, multidim_average="samplewise")
        for average in ("micro", "macro", "weighted", "none"):
            add(average, multiclass, scores, num_classes=5, average=average)
            add(average, many, multilabel, num_labels=4, average=average)
        add("labels", multiclass, labels, num_classes=5)
        add("images", multiclass, images, num_classes=5)
        add("top2", multiclass, scores, num_classes=5, top_k=2)
        add("padded", multiclass, padded_scores, num_classes=5, ignore_index=-1)
        add("padded-micro", multiclass, padded_scores, num_classes=5, ignore_index=-1, average="micro")
        add("ignored", multiclass, scores, num_classes=5, ignore_index=2)
        add("samplewise", multiclass, images, True, num_classes=5, multidim_average="samplewise")
        add("samplewise-micro", multiclass, images, True, num_classes=5, multidim_average="samplewise", average="micro")
        add("images", many, multilabel_images, num_labels=4)
        add("samplewise", many, multilabel_images, True, num_labels=4, multidim_average="samplewise")
        add("ignored", many, multilabel, num_labels=4, ignore_index=0)
    return found


def pairs(n: int, g: torch.Generator) -> Batch:
    target = torch.randn(n, generator=g)
    return target + 0.5 * torch.randn(n, generator=g), target


def pair_columns(n: int, g: torch.Generator) -> Batch:
    target = torch.randn(n, 3, generator=g)
    return target + 0.5 * torch.randn(n, 3, generator=g), target


def pair_images(n: int, g: torch.Generator) -> Batch:
    return torch.randn(n, 2, 3, generator=g), torch.randn(n, 2, 3, generator=g)


def amounts(n: int, g: torch.Generator) -> Batch:
    return torch.rand(n, generator=g) + 0.1, torch.rand(n, generator=g) + 0.1


def distributions(n: int, g: torch.Generator) -> Batch:
    return torch.rand(n, 4, generator=g) + 0.1, torch.rand(n, 4, generator=g) + 0.1


def log_distributions(n: int, g: torch.Generator) -> Batch:
    return torch.randn(n, 4, generator=g).log_softmax(1), torch.randn(n, 4, generator=g).log_softmax(1)


def ensembles(n: int, g: torch.Generator) -> Batch:
    return torch.randn(n, 4, generator=g), torch.randn(n, generator=g)


def _errors() -> list[Case]:
    """Every regression metric in all its forms."""

    def case(label: str, cls: type, batch: Any, grows: bool = False, tolerance: float = 1e-6, **options: Any) -> Case:
        name = f"{cls.__name__}-{label}" if label else cls.__name__
        return Case(name, functools.partial(cls, **options), batch, grows=grows, tolerance=tolerance)

    found = [
        case("", r.MeanSquaredError, pairs),
        case("images", r.MeanSquaredError, pair_images),
        case("root", r.MeanSquaredError, pair_columns, num_outputs=3, squared=False),
        case("", r.MeanAbsoluteError, pairs),
        case("columns", r.MeanAbsoluteError, pair_columns, num_outputs=3),
        case("", r.MeanAbsolutePercentageError, amounts),
        case("", r.SymmetricMeanAbsolutePercentageError, pairs),
        case("", r.WeightedMeanAbsolutePercentageError, pairs),
        case("", r.MeanSquaredLogError, amounts),
        case("", r.LogCoshError, pairs),
        case("columns", r.LogCoshError, pair_columns, num_outputs=3),
        case("1", r.MinkowskiDistance, pairs, tolerance=1e-5, p=1),
        case("3", r.MinkowskiDistance, pairs, p=3),
        case("", r.RelativeSquaredError, pairs),
        case("columns", r.RelativeSquaredError, pair_columns, num_outputs=3, squared=False),
        case("", r.PearsonCorrCoef, pairs),
        case("columns", r.PearsonCorrCoef, pair_columns, num_outputs=3),
        case("", r.ConcordanceCorrCoef, pairs),
        case("columns", r.ConcordanceCorrCoef, pair_columns, num_outputs=3),
        case("", r.SpearmanCorrCoef, pairs, True),
        case("columns", r.SpearmanCorrCoef, pair_columns, True, num_outputs=3),
        case("", r.KendallRankCorrCoef, pairs, True),
        case("columns", r.KendallRankCorrCoef, pair_columns, True, variant="c", num_outputs=3),
        case("", r.ContinuousRankedProbabilityScore, ensembles),
        case("", r.CriticalSuccessIndex, pairs, threshold=0.2),
        case("kept", r.CriticalSuccessIndex, pair_images, True, threshold=0.2, keep_sequence_dim=0),
    ]
    for reduction in ("sum", "mean", "none"):
        kept = reduction == "none"
        found.append(case(reduction, r.CosineSimilarity, pair_columns, kept, reduction=reduction))
        found.append(case(reduction, r.KLDivergence, distributions, kept, reduction=reduction))
        found.append(case(reduction, r.JensenShannonDivergence, distributions, kept, reduction=reduction))
    found.append(case("logs", r.KLDivergence, log_distributions, log_prob=True))
    found.append(case("logs", r.JensenShannonDivergence, log_distributions, log_prob=True))
    for unit in ("mean", "range", "std", "l2"):
        found.append(case(unit, r.NormalizedRootMeanSquaredError, amounts, normalization=unit))
        found.append(
            case(f"{unit}-columns", r.NormalizedRootMeanSquaredError, pair_columns, tolerance=1e-5, normalization=unit, num_outputs=3)
        )
    for power in (-1.0, 0.0, 1.0, 1.5, 2.0, 3.0):
        found.append(case(str(power), r.TweedieDevianceScore, amounts, tolerance=1e-5, power=power))
    for how in ("uniform_average", "raw_values", "variance_weighted"):
        for cls in (r.R2Score, r.ExplainedVariance):
            found.append(case(how, cls, pairs, multioutput=how))
            found.append(case(f"{how}-columns", cls, pair_columns, multioutput=how))
    found.append(case("adjusted", r.R2Score, pair_columns, adjusted=2))
    return found


def _agreement() -> list[Case]:
    """Jaccard index, Matthews' correlation, Cohen's kappa and exact match."""
    found = [
        Case("BinaryJaccardIndex", c.BinaryJaccardIndex, yes_no),
        Case("MulticlassJaccardIndex-padded", functools.partial(c.MulticlassJaccardIndex, 5, ignore_index=-1), padded_scores),
        Case("MulticlassJaccardIndex-ignored", functools.partial(c.MulticlassJaccardIndex, 5, "micro", 2), scores),
        Case("BinaryMatthewsCorrCoef", c.BinaryMatthewsCorrCoef, yes_no),
        Case("MulticlassMatthewsCorrCoef", functools.partial(c.MulticlassMatthewsCorrCoef, 5), scores),
        Case("MultilabelMatthewsCorrCoef", functools.partial(c.MultilabelMatthewsCorrCoef, 4), multilabel),
        Case("BinaryCohenKappa", c.BinaryCohenKappa, yes_no),
        Case("MulticlassExactMatch", functools.partial(c.MulticlassExactMatch, 5), images),
        Case("MulticlassExactMatch-padded", functools.partial(c.MulticlassExactMatch, 5, ignore_index=-1), padded_scores),
        Case("MulticlassExactMatch-samplewise", functools.partial(c.MulticlassExactMatch, 5, "samplewise"), images, grows=True),
        Case("MultilabelExactMatch", functools.partial(c.MultilabelExactMatch, 4), multilabel),
        Case("MultilabelExactMatch-ignored", functools.partial(c.MultilabelExactMatch, 4, ignore_index=0), multilabel_images),
        Case(
            "MultilabelExactMatch-samplewise",
            functools.partial(c.MultilabelExactMatch, 4, multidim_average="samplewise"),
            multilabel_images,
            grows=True,
        ),
    ]
    for average in ("micro", "macro", "weighted", "none"):
        found.append(Case(f"MulticlassJaccardIndex-{average}", functools.partial(c.MulticlassJaccardIndex, 5, average), scores))
        found.append(Case(f"MultilabelJaccardIndex-{average}", functools.partial(c.MultilabelJaccardIndex, 4, average=average), multilabel))
    for weights in (None, "linear", "quadratic"):
        found.append(Case(f"MulticlassCohenKappa-{weights}", functools.partial(c.MulticlassCohenKappa, 5, weights=weights), scores))
    return found


def padded_yes_no(n: int, g: torch.Generator) -> Batch:
    preds, target = yes_no(n, g)
    return preds, target.masked_fill(torch.rand(n, generator=g) < 0.3, -1)


def logits(n: int, g: torch.Generator) -> Batch:
    return torch.randn(n, generator=g), torch.randint(0, 2, (n,), generator=g)


def many_logits(n: int, g: torch.Generator) -> Batch:
    return torch.randn(n, 4, generator=g), torch.randint(0, 2, (n, 4), generator=g)


def probabilities(n: int, g: torch.Generator) -> Batch:
    preds, target = scores(n, g)
    return preds.softmax(1), target


def _told() -> list[Case]:
    """Metrics that are told whether scores are logits, so that splitting cannot matter."""
    found = []
    for said, one, many, classes in ((True, logits, many_logits, scores), (False, yes_no, multilabel, probabilities)):
        told = {"from_logits": said}
        found += [
            Case(f"BinaryAccuracy-{said}", functools.partial(c.BinaryAccuracy, **told), one),
            Case(f"MultilabelF1Score-{said}", functools.partial(c.MultilabelF1Score, 4, **told), many),
            Case(f"BinaryAUROC-{said}", functools.partial(c.BinaryAUROC, **told), one, grows=True),
            Case(f"BinaryROC-{said}", functools.partial(c.BinaryROC, **told), one, grows=True),
            Case(f"BinaryROC-binned-{said}", functools.partial(c.BinaryROC, 11, **told), one),
            Case(f"MulticlassAUROC-{said}", functools.partial(c.MulticlassAUROC, 5, **told), classes, grows=True),
            Case(f"MulticlassAUROC-binned-{said}", functools.partial(c.MulticlassAUROC, 5, thresholds=11, **told), classes),
            Case(f"MultilabelAUROC-binned-{said}", functools.partial(c.MultilabelAUROC, 4, thresholds=11, **told), many),
        ]
    return found


def with_weights(batch: Callable[[int, torch.Generator], Batch]) -> Callable[[int, torch.Generator], Batch]:
    """The same with a weight for each sample."""
    return lambda n, g: (*batch(n, g), torch.rand(n, generator=g))


def _weighted() -> list[Case]:
    """Counts of weighted elements."""

    def case(label: str, cls: type, batch: Any, *args: Any, grows: bool = False, sized_by_data: bool = False, **options: Any) -> Case:
        make = functools.partial(cls, *args, weighted=True, **options)
        return Case(f"{cls.__name__}-{label}", make, with_weights(batch), grows=grows, sized_by_data=sized_by_data)

    def rounded(label: str, cls: type, batch: Any, *args: Any, **options: Any) -> Case:
        make = functools.partial(rounding, cls, *args, weighted=True, **options)
        return Case(f"{cls.__name__}-{label}", make, with_weights(batch), grows=True)

    return [
        case("weights", c.BinaryAccuracy, yes_no),
        case("weights-padded", c.BinaryF1Score, padded_yes_no, ignore_index=-1),
        case("weights-samplewise", c.BinaryRecall, yes_no_images, multidim_average="samplewise", grows=True),
        case("weights", c.MulticlassAccuracy, scores, average="micro"),
        case("weights-padded-micro", c.MulticlassAccuracy, padded_scores, average="micro", ignore_index=-1),
        case("weights", c.MulticlassSpecificity, scores, 5),
        case("weights-padded", c.MulticlassF1Score, padded_scores, 5, ignore_index=-1),
        case("weights-images", c.MulticlassJaccardIndex, images, 5),
        case("weights-top2", c.MulticlassRecall, scores, 5, 2),
        case("weights-samplewise", c.MulticlassPrecision, images, 5, multidim_average="samplewise", grows=True),
        case("weights-samplewise", c.MulticlassAccuracy, images, 5, average="micro", multidim_average="samplewise", grows=True),
        case("weights", c.MultilabelStatScores, multilabel, 4),
        case("weights-images", c.MultilabelPrecision, multilabel_images, 4),
        case("weights", c.MulticlassConfusionMatrix, scores, 5),
        case("weights", c.MulticlassMatthewsCorrCoef, labels, 5),
        case("weights", c.MulticlassCohenKappa, scores, 5),
        case("weights", c.BinaryAUROC, yes_no, grows=True),
        case("weights-padded", c.BinaryAveragePrecision, padded_yes_no, ignore_index=-1, grows=True),
        case("weights-binned", c.BinaryAUROC, yes_no, None, 11),
        case("weights-micro", c.MultilabelAveragePrecision, multilabel_images, 4, "micro", grows=True),
        case("weights-binned", c.MultilabelAveragePrecision, multilabel, 4, thresholds=5),
        case("weights", c.MulticlassAUROC, padded_scores, 5, "weighted", None, -1, grows=True),
        case("weights-binned", c.MulticlassAUROC, scores, 5, "none", 7),
        case("weights-binned", c.BinaryPrecisionRecallCurve, yes_no, 5),
        case("weights", c.BinaryROC, yes_no, grows=True),
        case("weights", c.BinaryCohenKappa, yes_no),
        case("weights-quadratic", c.MulticlassCohenKappa, scores, 5, weights="quadratic"),
        case("weights", c.MultilabelMatthewsCorrCoef, multilabel, 4),
        case("weights", c.BinaryEER, yes_no, grows=True),
        case("weights", c.BinaryLogAUC, yes_no, (0.1, 1.0), validate_args=True, grows=True),
        case("weights-binned", c.MulticlassLogAUC, scores, 5, (0.1, 1.0), thresholds=7),
        case("weights", c.BinaryPrecisionAtFixedRecall, yes_no, 0.4, grows=True),
        case("weights", c.MulticlassRecallAtFixedPrecision, scores, 5, 0.4, grows=True),
        case("weights", c.MultilabelSensitivityAtSpecificity, multilabel, 4, 0.6, grows=True),
        case("weights-binned", c.BinarySpecificityAtSensitivity, yes_no, 0.6, 9),
        case("weights-auto", c.BinaryAUROC, yes_no, thresholds="auto", grows=True),
        rounded("weights-rounded", c.BinaryAUROC, logits),
        rounded("weights-rounded", c.BinaryROC, padded_yes_no, ignore_index=-1),
        rounded("weights-rounded", c.MulticlassAveragePrecision, scores, 5),
        rounded("weights-rounded", c.MultilabelEER, multilabel, 4),
        case("weights", c.MulticlassExactMatch, images, 5),
        case("weights-padded", c.MulticlassExactMatch, padded_scores, 5, ignore_index=-1),
        case("weights", c.MultilabelExactMatch, multilabel, 4),
        case("weights-images", c.MultilabelExactMatch, multilabel_images, 4),
        case("weights-samplewise", c.MultilabelExactMatch, multilabel_images, 4, multidim_average="samplewise", grows=True),
        case("weights-l1", c.BinaryCalibrationError, yes_no, 5),
        case("weights-l2-padded", c.BinaryCalibrationError, padded_yes_no, 5, "l2", -1),
        case("weights-max", c.MulticlassCalibrationError, scores, 5, 5, "max"),
        case("weights-padded", c.MulticlassCalibrationError, padded_scores, 5, ignore_index=-1),
        case("weights", c.BinaryHingeLoss, yes_no),
        case("weights-padded", c.BinaryHingeLoss, padded_yes_no, True, -1),
        case("weights", c.MulticlassHingeLoss, scores, 5),
        case("weights-all", c.MulticlassHingeLoss, padded_scores, 5, False, "one-vs-all", -1),
        *(
            case(f"weights{label}", cls, batch, 4, **options)
            for cls in (c.MultilabelCoverageError, c.MultilabelRankingAveragePrecision, c.MultilabelRankingLoss)
            for label, batch, options in (
                ("", multilabel, {}),
                ("-images", multilabel_images, {}),
                ("-padded", padded_multilabel, {"ignore_index": -1}),
            )
        ),
        case("weights", c.BinaryGroupStatRates, grouped, 3),
        case("weights-padded", c.BinaryGroupStatRates, padded_groups, 3, ignore_index=-1),
        case("weights", c.BinaryFairness, grouped, 3, from_logits=False, sized_by_data=True),
        case("weights", r.MeanSquaredError, pairs),
        case("weights-columns", r.MeanSquaredError, pair_columns, num_outputs=3),
        case("weights", r.MeanAbsoluteError, pair_images),
        case("weights", r.WeightedMeanAbsolutePercentageError, amounts),
        case("weights", r.SymmetricMeanAbsolutePercentageError, pairs),
        case("weights", r.MeanAbsolutePercentageError, amounts),
        case("weights", r.MeanSquaredLogError, amounts),
        case("weights", r.LogCoshError, pairs),
        case("weights-columns", r.LogCoshError, pair_columns, num_outputs=3),
        case("weights-1", r.MinkowskiDistance, pairs, 1),
        case("weights-3", r.MinkowskiDistance, pair_images, 3),
        case("weights-0", r.TweedieDevianceScore, pairs),
        case("weights-1.5", r.TweedieDevianceScore, amounts, 1.5),
        case("weights", r.R2Score, pairs),
        case("weights-columns", r.R2Score, pair_columns, multioutput="variance_weighted"),
        case("weights", r.ExplainedVariance, pairs),
        case("weights-columns", r.ExplainedVariance, pair_columns, multioutput="raw_values"),
        case("weights", r.RelativeSquaredError, pairs),
        case("weights-columns", r.RelativeSquaredError, pair_columns, num_outputs=3, squared=False),
        case("weights", r.PearsonCorrCoef, pairs),
        case("weights-columns", r.PearsonCorrCoef, pair_columns, num_outputs=3),
        case("weights", r.ConcordanceCorrCoef, pairs),
        case("weights-mean", r.NormalizedRootMeanSquaredError, amounts),
        case("weights-range", r.NormalizedRootMeanSquaredError, amounts, "range"),
        case("weights-std-columns", r.NormalizedRootMeanSquaredError, pair_columns, "std", 3),
        case("weights-l2", r.NormalizedRootMeanSquaredError, amounts, "l2"),
        case("weights", r.CosineSimilarity, pair_columns),
        case("weights", r.KLDivergence, distributions),
        case("weights-sum", r.KLDivergence, log_distributions, True, "sum"),
        case("weights", r.JensenShannonDivergence, distributions),
        case("weights", r.ContinuousRankedProbabilityScore, ensembles),
        case("weights", r.CriticalSuccessIndex, pairs, 0.2),
        Case(
            "CriticalSuccessIndex-weights-kept",
            functools.partial(r.CriticalSuccessIndex, 0.2, 0, weighted=True),
            lambda n, g: (*pair_images(n, g), torch.rand(n, 2, 3, generator=g)),
            grows=True,
        ),
    ]


def few_labels(n: int, g: torch.Generator) -> Batch:
    return torch.randint(0, 3, (n,), generator=g), torch.randint(1, 3, (n,), generator=g)


def _averaged() -> list[Case]:
    """Averages that say what absent classes are, and values with names."""
    names = ["a", "b", "c", "d", "e"]
    found = [
        Case(f"MulticlassPrecision-{absent}", functools.partial(c.MulticlassPrecision, 5, absent=absent), few_labels)
        for absent in ("keep", "zero", "nan")
    ]
    return [
        *found,
        Case("MultilabelRecall-skip", functools.partial(c.MultilabelRecall, 4, absent="skip"), multilabel),
        Case("MulticlassF1Score-named", functools.partial(c.MulticlassF1Score, 5, average="none", labels=names), scores),
        Case("MulticlassStatScores-named", functools.partial(c.MulticlassStatScores, 5, average="none", labels=names), scores),
    ]


def grouped(n: int, g: torch.Generator) -> Batch:
    return torch.rand(n, generator=g), torch.randint(0, 2, (n,), generator=g), torch.randint(0, 3, (n,), generator=g)


def padded_groups(n: int, g: torch.Generator) -> Batch:
    preds, target = yes_no_images(n, g)
    return preds, target.masked_fill(torch.rand(n, 2, 3, generator=g) < 0.3, -1), torch.randint(0, 3, (n,), generator=g)


def padded_multilabel(n: int, g: torch.Generator) -> Batch:
    preds, target = multilabel(n, g)
    return preds.round(decimals=1), target.masked_fill(torch.rand(n, 4, generator=g) < 0.3, -1)


def _scores() -> list[Case]:
    """Calibration, hinge loss, label ranking and fairness."""
    found = [
        Case("BinaryHingeLoss", c.BinaryHingeLoss, yes_no),
        Case("BinaryHingeLoss-margins", functools.partial(c.BinaryHingeLoss, True, from_logits=False), logits),
        Case("BinaryHingeLoss-padded", functools.partial(c.BinaryHingeLoss, ignore_index=-1), padded_yes_no),
        Case("MulticlassHingeLoss", functools.partial(c.MulticlassHingeLoss, 5), scores),
        Case("MulticlassHingeLoss-margins", functools.partial(c.MulticlassHingeLoss, 5, from_logits=False), images),
        Case("MulticlassHingeLoss-all", functools.partial(c.MulticlassHingeLoss, 5, True, "one-vs-all", -1), padded_scores),
        Case("BinaryGroupStatRates", functools.partial(c.BinaryGroupStatRates, 3), grouped),
        Case("BinaryGroupStatRates-padded", functools.partial(c.BinaryGroupStatRates, 3, ignore_index=-1), padded_groups),
        Case("BinaryFairness", functools.partial(c.BinaryFairness, 3, from_logits=False), grouped, sized_by_data=True),
        Case("BinaryFairness-parity", functools.partial(c.BinaryFairness, 3, "demographic_parity"), grouped, sized_by_data=True),
        Case("BinaryFairness-opportunity", functools.partial(c.BinaryFairness, 3, "equal_opportunity"), grouped, sized_by_data=True),
    ]
    for norm in ("l1", "l2", "max"):
        found.append(Case(f"BinaryCalibrationError-{norm}", functools.partial(c.BinaryCalibrationError, 5, norm), yes_no))
        found.append(Case(f"MulticlassCalibrationError-{norm}", functools.partial(c.MulticlassCalibrationError, 5, 5, norm), scores))
    for said in (True, False):
        told = functools.partial(c.BinaryCalibrationError, 5, from_logits=said)
        found.append(Case(f"BinaryCalibrationError-{said}", told, logits if said else yes_no))
    found.append(Case("BinaryCalibrationError-padded", functools.partial(c.BinaryCalibrationError, ignore_index=-1), padded_yes_no))
    found.append(
        Case("MulticlassCalibrationError-padded", functools.partial(c.MulticlassCalibrationError, 5, ignore_index=-1), padded_scores)
    )
    for name in ("CoverageError", "RankingAveragePrecision", "RankingLoss"):
        cls = getattr(c, f"Multilabel{name}")
        found.append(Case(cls.__name__, functools.partial(cls, 4), multilabel))
        found.append(Case(f"{cls.__name__}-images", functools.partial(cls, 4), multilabel_images))
        found.append(Case(f"{cls.__name__}-padded", functools.partial(cls, 4, ignore_index=-1), padded_multilabel))
    return found


def rounding(make: Callable[..., tt.Metric], *args: Any, budget: int = 40, **options: Any) -> tt.Metric:
    """A metric with `thresholds="auto"` whose budget is used up after a few samples."""
    before, auto_curves.BUDGET = auto_curves.BUDGET, budget
    try:
        return make(*args, thresholds="auto", **options)
    finally:
        auto_curves.BUDGET = before


def _curves() -> list[Case]:
    """Curves, the areas under them and points on them, exact and binned."""
    found = []
    least = {"PrecisionAtFixedRecall": 0.4, "RecallAtFixedPrecision": 0.4, "SensitivityAtSpecificity": 0.6, "SpecificityAtSensitivity": 0.6}
    for label, options in (("", {}), ("-binned", {"thresholds": [0.8, 0.1, 0.5, 1.0]})):
        for name in ("AUROC", "AveragePrecision", "ROC", "PrecisionRecallCurve", "EER", "LogAUC", *least):
            own = (least[name],) if name in least else ()
            binary = functools.partial(getattr(c, "Binary" + name), *own, **options)
            multiclass = functools.partial(getattr(c, "Multiclass" + name), 5, *own, **options)
            many = functools.partial(getattr(c, "Multilabel" + name), 4, *own, **options)
            for task, make, batch in (("Binary", binary, yes_no), ("Multiclass", multiclass, scores), ("Multilabel", many, multilabel)):
                found.append(Case(f"{task}{name}{label}", make, batch, grows=not options))
        for name in ("ROC", "PrecisionRecallCurve", "EER"):
            for average in ("micro", "macro"):
                make = functools.partial(getattr(c, "Multiclass" + name), 5, average=average, **options)
                found.append(Case(f"Multiclass{name}-{average}{label}", make, scores, grows=not options))
    found += [
        Case("BinaryAUROC-auto", functools.partial(c.BinaryAUROC, thresholds="auto"), yes_no, grows=True),
        Case("BinaryAUROC-rounded", functools.partial(rounding, c.BinaryAUROC), logits, grows=True),
        Case("BinaryROC-rounded", functools.partial(rounding, c.BinaryROC, ignore_index=-1), padded_yes_no, grows=True),
        Case("MulticlassAveragePrecision-rounded", functools.partial(rounding, c.MulticlassAveragePrecision, 5), scores, grows=True),
        Case("MultilabelEER-rounded", functools.partial(rounding, c.MultilabelEER, 4), multilabel, grows=True),
        Case("BinaryAUROC-partial", functools.partial(c.BinaryAUROC, 0.3), yes_no, grows=True),
        Case("BinaryAUROC-padded", functools.partial(c.BinaryAUROC, ignore_index=-1), padded_yes_no, grows=True),
        Case("BinaryROC-padded", functools.partial(c.BinaryROC, ignore_index=-1), padded_yes_no, grows=True),
        Case("BinaryAUROC-padded-binned", functools.partial(c.BinaryAUROC, None, 11, ignore_index=-1), padded_yes_no),
        Case("MulticlassAUROC-padded", functools.partial(c.MulticlassAUROC, 5, "weighted", 11, -1), padded_scores),
        Case("MulticlassAUROC-padded-exact", functools.partial(c.MulticlassAUROC, 5, "none", None, -1), padded_scores, grows=True),
        Case(
            "MultilabelAveragePrecision-micro", functools.partial(c.MultilabelAveragePrecision, 4, "micro"), multilabel_images, grows=True
        ),
        Case("MultilabelAUROC-micro-binned", functools.partial(c.MultilabelAUROC, 4, "micro", 5), multilabel_images),
    ]
    return found


def documents(n: int, g: torch.Generator) -> Batch:
    """Some scores are tied; some queries go on in the next batch."""
    return (torch.randn(n, generator=g) * 4).round() / 4, torch.randint(0, 2, (n,), generator=g), torch.randint(0, 4, (n,), generator=g)


def padded_documents(n: int, g: torch.Generator) -> Batch:
    preds, target, indexes = documents(n, g)
    return preds, target.masked_fill(torch.rand(n, generator=g) < 0.3, -1), indexes


def gains(n: int, g: torch.Generator) -> Batch:
    preds, _, indexes = documents(n, g)
    return preds, torch.randint(0, 4, (n,), generator=g), indexes


def _retrieval() -> list[Case]:
    """Metrics of documents ranked by query."""

    def case(label: str, cls: type, batch: Any = documents, **options: Any) -> Case:
        return Case(f"{cls.__name__}-{label}" if label else cls.__name__, functools.partial(cls, **options), batch, grows=True)

    found = [case("", getattr(ret, name), gains if name == "RetrievalNormalizedDCG" else documents) for name in ret.__all__]
    for cls in (ret.RetrievalPrecision, ret.RetrievalRecall, ret.RetrievalFallOut, ret.RetrievalHitRate, ret.RetrievalMRR, ret.RetrievalMAP, ret.RetrievalAUROC):
        found.append(case("first", cls, padded_documents, top_k=2, ignore_index=-1))
    found += [
        case("median", ret.RetrievalRPrecision, aggregation="median", empty_target_action="skip"),
        case("least", ret.RetrievalMAP, aggregation="min", empty_target_action="pos"),
        case("most", ret.RetrievalMRR, aggregation="max"),
        case("adaptive", ret.RetrievalPrecision, top_k=5, adaptive_k=True),
        case("partial", ret.RetrievalAUROC, max_fpr=0.4),
        case("first", ret.RetrievalNormalizedDCG, gains, top_k=3),
        case("first", ret.RetrievalPrecisionRecallCurve, padded_documents, max_k=3, ignore_index=-1),
        case("adaptive", ret.RetrievalPrecisionRecallCurve, adaptive_k=True, empty_target_action="pos"),
        case("median", ret.RetrievalPrecisionRecallCurve, max_k=6, adaptive_k=True, aggregation="median"),
        case("first", ret.RetrievalRecallAtFixedPrecision, min_precision=0.4, max_k=3),
    ]
    return found


def tokens(n: int, g: torch.Generator) -> Batch:
    return torch.randn(n, 3, 7, generator=g), torch.randint(0, 7, (n, 3), generator=g)


def padded_tokens(n: int, g: torch.Generator) -> Batch:
    preds, target = tokens(n, g)
    return preds, target.masked_fill(torch.rand(n, 3, generator=g) < 0.3, -100)


CASES: list[Case] = [
    Case("MeanMetric", tt.MeanMetric, numbers),
    Case("MeanMetric-weighted", tt.MeanMetric, weighted_numbers),
    Case("MeanMetric-disable", functools.partial(tt.MeanMetric, nan_strategy="disable"), numbers),
    Case("SumMetric", tt.SumMetric, numbers, tolerance=1e-5),
    Case("MaxMetric", tt.MaxMetric, numbers),
    Case("MinMetric", tt.MinMetric, numbers),
    Case("CatMetric", tt.CatMetric, numbers, ordered=True, grows=True),
    Case("BinaryConfusionMatrix", c.BinaryConfusionMatrix, yes_no),
    Case("BinaryConfusionMatrix-true", functools.partial(c.BinaryConfusionMatrix, normalize="true"), yes_no),
    Case("MulticlassConfusionMatrix", functools.partial(c.MulticlassConfusionMatrix, num_classes=5), scores),
    Case("MulticlassConfusionMatrix-all", functools.partial(c.MulticlassConfusionMatrix, 5, -1, "all"), padded_scores),
    Case("MultilabelConfusionMatrix", functools.partial(c.MultilabelConfusionMatrix, num_labels=4), multilabel),
    *_rates(),
    *_errors(),
    *_agreement(),
    *_curves(),
    *_told(),
    *_weighted(),
    *_averaged(),
    *_scores(),
    *_retrieval(),
    Case("Perplexity", tt.text.Perplexity, tokens),
    Case("Perplexity-padded", functools.partial(tt.text.Perplexity, -100), padded_tokens),
]


class Elsewhere(Tensor):
    """A CPU tensor that is not the host's to look into: metrics take the form they take on a device."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(function, types, args, kwargs or {})


def elsewhere(batch: Batch) -> Batch:
    return tuple(x.as_subclass(Elsewhere) if isinstance(x, Tensor) else x for x in batch)
