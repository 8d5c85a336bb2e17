"""Public reports about classification metrics."""

from math import nan

import pytest
import torch
from reports import LIGHTNING, TORCHEVAL, TORCHMETRICS, Report, Table, check, fed
from torch import Tensor, tensor
from torch.utils._python_dispatch import TorchDispatchMode

import torchtally as tt
from torchtally import classification as c
from torchtally.stalls import pretend_cuda

reports = Table()


@reports(TORCHMETRICS, (2113, 3043), "samples of one element are refused", [[[1, 0, 2, 0, 1], [0, 1, 1, 1, 1]], [1.0, 0.0], [1.0, 0.0, 1.0], [0.8, 0.0]])
def _():
    options = {"multidim_average": "samplewise", "average": "micro"}
    scores = tensor([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0]])
    counts = fed(c.MulticlassStatScores(3, **options), (scores, tensor([0, 1])))
    f1 = fed(c.MulticlassF1Score(2, multidim_average="samplewise"), (scores[:, :2], tensor([0, 1])))
    binary = fed(c.BinaryAccuracy(multidim_average="samplewise"), (tensor([0.9, 0.2, 0.7]), tensor([1, 1, 1])))
    labels = fed(c.MultilabelF1Score(3, **options), (tensor([[1, 0, 1], [0, 0, 0]]), tensor([[1, 1, 1], [0, 0, 1]])))
    with pretend_cuda():
        for metric, preds, target, value in (
            (c.MulticlassStatScores(3, **options), scores, tensor([0, 1]), counts),
            (c.BinaryAccuracy(multidim_average="samplewise"), tensor([0.9, 0.2, 0.7]), tensor([1, 1, 1]), binary),
        ):
            assert torch.equal(fed(metric.cuda(), (preds.cuda(), target.cuda())).cpu(), value)
    return [counts, f1, binary, labels]


@reports(TORCHMETRICS, (269, 2465), "the counts cannot be read from the metric", [[1, 0, 1], 2, [2, 1], [[1, 1], [0, 2]]])
def _():
    preds, target = tensor([0, 1, 2, 2]), tensor([0, 2, 2, 1])
    recall, micro, matrix = c.MulticlassRecall(3), c.MulticlassRecall(3, average="micro"), c.BinaryConfusionMatrix(normalize="true")
    binary = c.BinaryF1Score(multidim_average="samplewise")
    jaccard = c.MulticlassJaccardIndex(3)
    for metric in (recall, micro, jaccard):
        metric.update(preds, target)
    matrix.update(tensor([1, 1, 0, 1]), tensor([1, 1, 0, 0]))
    binary.update(tensor([[1, 1], [1, 0]]), tensor([[1, 1], [1, 1]]))
    with pytest.raises(AttributeError, match=r"confmat.*ConfusionMatrix"):
        _ = jaccard.confmat
    return [recall.tp, micro.fn, binary.tp, matrix.confmat]


TOLD = {
    "threshold": (lambda: c.BinaryAccuracy(threshold=2.0), r"expected a probability.*logit"),
    "task": (lambda: tt.Accuracy(num_classes=3), r"Accuracy: task is missing; expected one of"),
    "one column": (lambda: c.BinaryAccuracy()(torch.rand(4, 1), tensor([0, 1, 1, 0])), r"Squeeze"),
    "two classes": (lambda: c.BinaryAUROC()(torch.rand(4, 2), tensor([0, 1, 1, 0])), r"2 classes.*multiclass"),
    "one-hot": (lambda: c.MulticlassF1Score(3)(torch.rand(3, 3), torch.eye(3).long()), r"argmax\(1\).*multilabel"),
}


@reports(TORCHMETRICS, (369, 391, 416), "errors do not say what to do", None)
def _():
    for make, said in TOLD.values():
        with pytest.raises((TypeError, ValueError), match=said):
            make()


def rates(make, options, *batch):
    """The value with each of several options."""
    return [fed(make(**o), batch) for o in options]


@reports(TORCHMETRICS, 312, "a prediction of the ignored class counts where the target is ignored", [1 / 6, 1 / 6])
def _():
    return [fed(c.MulticlassJaccardIndex(3, ignore_index=0), (tensor([[1, 2, 1, k]]), tensor([[2, 1, 1, 0]]))) for k in (1, 0)]


@reports(TORCHMETRICS, 1385, "the ignored class is in the mean with 0", [1.0, 1.0])
def _():
    with_class = fed(c.MulticlassJaccardIndex(4, ignore_index=0), (tensor([3, 2, 1, 0, 2]), tensor([3, 2, 1, 0, 0])))
    return [with_class, fed(c.MulticlassJaccardIndex(3, ignore_index=0), (tensor([2, 1, 0, 1]), tensor([2, 1, 0, 0])))]


@reports(TORCHMETRICS, 1861, "ignore_index equal to num_classes fails", 2 / 3)
def _():
    return fed(c.MulticlassJaccardIndex(3, ignore_index=3), (tensor([0, 0, 1, 2, 1]), tensor([0, 1, 1, 2, 3])))


@reports(TORCHMETRICS, 1119, "a weighted Jaccard index with an ignored class fails", 1.0)
def _():
    labels = torch.arange(81).repeat(2)
    return fed(c.MulticlassJaccardIndex(81, average="weighted", ignore_index=0), (labels, labels))


@reports(TORCHMETRICS, 1693, "classes that do not occur lower the mean", [(2 / 3 + 1 / 2) / 2, 1.0, [2 / 3, 0.5, nan]])
def _():
    batch = tensor([0, 1, 0, 1]), tensor([0, 1, 0, 0])
    perfect = tt.functional.classification.multiclass_jaccard_index(tensor([0, 1]), tensor([0, 1]), num_classes=10)
    return [fed(c.MulticlassJaccardIndex(3), batch), perfect, fed(c.MulticlassJaccardIndex(3, average="none", zero_division=nan), batch)]


@reports(TORCHMETRICS, 2658, "zero_division has no effect on a binary Jaccard index", [0.0, 1.0, nan])
def _():
    return rates(c.BinaryJaccardIndex, [{}, {"zero_division": 1.0}, {"zero_division": nan}], tensor([0, 0]), tensor([0, 0]))


@reports("tracel-ai/burn", 2758, "recalls of batches are averaged", 0.5)
def _():
    def batch(hits, misses):
        return torch.cat([torch.ones(hits), torch.zeros(misses)]).long(), torch.ones(hits + misses).long()

    return fed(c.BinaryRecall(), batch(40, 50), batch(20, 10))


@reports(TORCHMETRICS, 1393, "a negative ignore_index fails", (2 / 3 + 1 + 0 + 2 / 3) / 4)
def _():
    batch = tensor([0, 1, 0, 3, 0, 2, 3, 1, 0, 3]), tensor([0, 1, 0, 3, -1, 0, 0, 1, 2, 3])
    return fed(c.MulticlassPrecision(4, ignore_index=-1), batch)


@reports(TORCHMETRICS, 2425, "predictions of the ignored label are refused where the target is ignored", [1.0, 1.0, 0.75, [[1, 0], [0, 1]]])
def _():
    padded = tensor([0, 1, -1])
    return [
        fed(c.MulticlassF1Score(3, ignore_index=-1), (tensor([0, 1, 2, -1]), tensor([0, 1, 2, -1]))),
        fed(c.BinaryAccuracy(ignore_index=-1), (padded, padded)),
        fed(c.MultilabelAccuracy(2, ignore_index=-1, average="micro"), (tensor([[0, 1], [-1, 1], [0, 0]]), tensor([[0, 1], [-1, 0], [-1, 0]]))),
        fed(c.MulticlassConfusionMatrix(2, ignore_index=-1), (padded, padded)),
    ]


@reports(TORCHMETRICS, 2441, "the ignored class is in the macro recall", [2 / 3, 0.5])
def _():
    recall = c.MulticlassRecall(2, ignore_index=0)
    scores = tensor([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    return [fed(recall, (tensor([0, 1, 0, 1, 1]), tensor([0, 0, 1, 1, 1]))), fed(c.MulticlassRecall(2, ignore_index=0), (scores, tensor([0, 0, 1, 1])))]


@reports(TORCHMETRICS, 1508, "exact match takes no notice of ignore_index", 0.5)
def _():
    return fed(c.MulticlassExactMatch(3, ignore_index=-100), (tensor([[1, 1, 2], [2, 2, 2]]), tensor([[1, 1, -100], [1, 2, -100]])))


@reports(TORCHMETRICS, 2198, "scores of samples with ignored positions", [1.0, 2 / 3])
def _():
    f1 = c.MulticlassF1Score(3, multidim_average="samplewise", ignore_index=-1)
    return fed(f1, (tensor([[0, 1, 2], [2, 2, 1]]), tensor([[0, 1, -1], [2, 1, 1]])))


@reports(TORCHMETRICS, (2166, 2417, 2418), "top-k falls with k", [True, [0.5, 0.5, 1.0]])
def _():
    g = torch.Generator().manual_seed(0)
    scores, target = torch.randn(5, 200, generator=g).softmax(-1), torch.randint(200, (5,), generator=g)
    rising = [float(fed(c.MulticlassRecall(200, top_k=k), (scores, target))) for k in (1, 5, 10, 100, 200)]
    few = tensor([[0.8, 0.15, 0.05], [0.7, 0.2, 0.1], [0.6, 0.3, 0.1]])
    return [rising == sorted(rising) and rising[-1] == 1.0, [fed(c.MulticlassAccuracy(3, top_k=k), (few, tensor([0, 0, 2]))) for k in (1, 2, 3)]]


@reports(TORCHMETRICS, 1653, "the F1 score with top_k of all classes is not 1", [True, 1.0])
def _():
    g = torch.Generator().manual_seed(0)
    batch = torch.randn(200, 5, generator=g), torch.randint(5, (200,), generator=g)
    f1 = [float(fed(c.MulticlassF1Score(5, top_k=k), batch)) for k in (1, 3, 5)]
    return [f1 == sorted(f1), f1[-1]]


@reports(TORCHMETRICS, (3037, 3068), "top_k fails with positions, or has no effect with an ignored class", [[1 / 3, 2 / 3, 1.0, 1.0], 1.0])
def _():
    scores = tensor([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.6, 0.1], [0.1, 0.4, 0.3, 0.2], [0.9, 0.05, 0.03, 0.02]])
    options = [{"num_classes": 4, "top_k": k, "average": "micro", "ignore_index": 0} for k in (1, 2, 3, 4)]
    everything = fed(c.MulticlassAccuracy(9, top_k=9, average="micro"), (torch.rand(2, 9, 5), torch.randint(9, (2, 5))))
    return [rates(c.MulticlassAccuracy, options, scores, tensor([2, 2, 3, 0])), everything]


@reports(TORCHMETRICS, (295, 300, 403, 486, 1494, 1664), "classes that do not occur lower the macro F1 score", [[7 / 9, 7 / 9], [1.0, 1.0], 1.0, 2 / 3 / 5])
def _():
    batch = tensor([1, 2, 0, 0]), tensor([1, 2, 0, 2])
    zeros, some = tensor([0, 0, 0, 0]), tensor([1, 6, 6, 3, 5, 4, 0])
    return [
        rates(c.MulticlassF1Score, [{"num_classes": 3}, {"num_classes": 6}], *batch),
        rates(c.MulticlassF1Score, [{"num_classes": 3}, {"num_classes": 3, "ignore_index": 2}], zeros, zeros),
        fed(c.MulticlassF1Score(7), (some, some)),
        fed(c.MulticlassF1Score(11), (tensor([7, 5, 5, 7]), tensor([8, 10, 5, 2]))),
    ]


@reports(TORCHEVAL, 176, "a class that is never predicted is not in the macro F1 score", 2 / 3)
def _():
    return fed(c.MulticlassF1Score(4), (tensor([0, 1, 1, 2]), tensor([0, 1, 3, 2])))


@reports(TORCHEVAL, 191, "F1 of two classes and of yes and no are taken for the same", [0.605, 2 * 55 / (2 * 55 + 45 + 34), (110 / 189 + 132 / 211) / 2])
def _():
    preds, target = (torch.repeat_interleave(tensor(x), tensor(n)) for x, n in (([1, 0, 1, 0], [55, 45, 34, 66]), ([1, 0], [100, 100])))
    return [fed(m, (preds, target)) for m in (c.MulticlassF1Score(2, average="micro"), c.BinaryF1Score(), c.MulticlassF1Score(2))]


@reports(TORCHMETRICS, 1853, "accuracy of labels is taken for that of whole rows", [0.75, 0.5])
def _():
    batch = tensor([[1, 0], [1, 1]]), tensor([[1, 0], [0, 1]])
    return [fed(c.MultilabelAccuracy(2), batch), fed(c.MultilabelExactMatch(2), batch)]


@reports(LIGHTNING, (4187, 4238), "F scores of labels without hits are NaN, or mix the labels", [0.0, 0.0])
def _():
    first = fed(c.MultilabelFBetaScore(1.0, 2), (tensor([[0, 0], [0, 1]]), tensor([[0, 1], [1, 0]])))
    return [first, fed(c.MultilabelF1Score(2), (torch.zeros(8, 2).long(), tensor([[1, 0]] * 8)))]


@reports(TORCHMETRICS, (656, 1970), "counts of yes and no are those of two classes, and bytes are refused", [[1, 1, 1, 1, 2], [0.5, 1.0]])
def _():
    bytes_ = [tensor(x, dtype=torch.uint8) for x in ([[0, 1], [2, 2]], [[0, 2], [2, 2]])]
    accuracy = c.MulticlassAccuracy(3, multidim_average="samplewise", average="micro")
    return [fed(c.BinaryStatScores(), (tensor([1, 0, 0, 1]), tensor([1, 1, 0, 0]))), fed(accuracy, bytes_)]


@reports(TORCHMETRICS, 483, "a class that does not occur is NaN", [[1.0, 1.0, 0.0], [1.0, 1.0, nan]])
def _():
    options = [{"num_classes": 3, "average": "none"}, {"num_classes": 3, "average": "none", "absent": "nan"}]
    return rates(c.MulticlassAccuracy, options, tensor([0, 1]), tensor([0, 1]))


@reports(TORCHMETRICS, 2535, "zero_division=nan is refused", (2 / 3 + 1) / 2)
def _():
    return fed(c.MulticlassRecall(3, zero_division=nan), (tensor([0, 1, 0, 1]), tensor([0, 0, 0, 1])))


@reports(TORCHMETRICS, (779, 2742, 3384), "a correlation with what does not vary is NaN, or made up", [0.0, 0.0, 0.0, 0.0, 0.0])
def _():
    pairs = ([0, 0, 0], [0, 0, 0]), ([1, 1, 1], [1, 0, 1]), ([0, 0, 0], [0, 1, 0]), ([1, 0, 1], [1, 1, 1]), ([1, 0], [0, 0])
    return [fed(c.BinaryMatthewsCorrCoef(), (tensor(p), tensor(y))) for p, y in pairs]


@reports(TORCHMETRICS, 3489, "groups that a batch lacks are counted as others", [{"group_0": [nan] * 4, "group_1": [nan] * 4, "group_2": [0.5, 0.0, 0.5, 0.0]}, [0.5, 0.0, 0.5, 0.0]])
def _():
    rate = fed(c.BinaryGroupStatRates(3), (tensor([1, 0]), tensor([1, 0]), tensor([2, 2])))
    pixels = fed(c.BinaryGroupStatRates(2), (tensor([[1, 0], [1, 1]]), tensor([[1, 0], [1, 1]]), tensor([[1, 1], [0, 0]])))
    for groups in (tensor([5, 0]), tensor([-1, 0])):
        with pytest.raises(ValueError, match="group"):
            c.BinaryGroupStatRates(2).update(tensor([1, 0]), tensor([1, 0]), groups)
    return [rate, pixels["group_1"]]


@reports(LIGHTNING, (4840, 5317), "half precision is refused, or counted wrong", [0.5, 0.75, 0.75])
def _():
    scores, target = tensor([0.1, 0.4, 0.35, 0.8]), tensor([0, 0, 1, 1])
    accuracy = fed(c.BinaryAccuracy(), (tensor([0.9, 0.3, 0.6, 0.2]).half(), tensor([1, 1, 0, 0])))
    return [accuracy, *(fed(c.BinaryAUROC(), (scores.to(dtype), target)) for dtype in (torch.half, torch.bfloat16))]


@reports(LIGHTNING, (3006, 4157), "targets that are all 0 are refused", 0.25)
def _():
    return fed(c.MulticlassAccuracy(4, average="micro"), (tensor([0, 1, 2, 3]), tensor([0, 0, 0, 0])))


@reports(TORCHMETRICS, 2279, "an empty batch fails", [0.0, 1.0, 1.0, 1.0])
def _():
    none, metrics = torch.zeros(0, dtype=torch.long), [c.MulticlassAccuracy(3, ignore_index=2, average="micro"), c.BinaryAccuracy(), c.BinaryAUROC()]
    first = metrics[0](none, none)
    metrics[0].update(tensor([1, 0]), tensor([1, 0]))
    metrics[0].update(none, none)
    for metric in metrics[1:]:
        metric.update(none.float(), none)
        metric.update(tensor([0.1, 0.9]), tensor([0, 1]))
        metric.update(none.float(), none)
    return [first, *(m.compute() for m in metrics)]


@reports(LIGHTNING, (2724, 9448), "normalising rows divides columns, absent classes are NaN, labels are taken for two classes", [[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[[1, 0], [0, 1]], [[1, 0], [0, 1]], [[2, 0], [0, 0]]]])
def _():
    rows = fed(c.MulticlassConfusionMatrix(3, normalize="true"), (tensor([0, 1, 1]), tensor([0, 0, 1])))
    labels = tensor([[0, 1, 0], [1, 0, 0]])
    return [rows, fed(c.MultilabelConfusionMatrix(3), (labels, labels))]


@reports(TORCHMETRICS, 2837, "micro accuracy asks for the number of classes", 0.75)
def _():
    return tt.functional.classification.multiclass_accuracy(tensor([1, 1, 2, 0]), tensor([1, 2, 2, 0]), average="micro")


@reports(TORCHEVAL, 200, "labels beyond the classes, and NaN, count as right", 5 * ["refused"])
def _():
    calls = (
        (c.MulticlassAccuracy(3), tensor([4]), tensor([0])),
        (c.MulticlassAccuracy(3, average="micro"), tensor([[0.1, 0.2, 0.7], [0.1, 0.7, 0.2]]), tensor([5, 1])),
        (c.MulticlassAccuracy(3), tensor([[nan, 0.1, 0.2]]), tensor([0])),
        (c.BinaryAccuracy(), tensor([nan]), tensor([1])),
        (c.BinaryAUROC(), tensor([nan, 0.2]), tensor([1, 0])),
    )
    told = []
    for metric, *batch in calls:
        with pytest.raises(tt.FaultError):
            metric.update(*batch)
        assert metric.update_count == 0
        told.append("refused")
    return told


@reports(TORCHMETRICS, (1279, 1722, 1738, 3343), "memory of classes squared, or samples times thresholds", [True, True, True, True])
def _():
    def biggest(metric, preds, target):
        with Sizes() as sizes:
            metric.update(preds, target)
        return sizes.largest

    labels, scores = torch.arange(64).view(2, 32), torch.linspace(0, 1, 20_000)
    return [
        biggest(c.MulticlassAccuracy(50_000, average="micro"), labels[0], labels[1]) <= 50_000,
        biggest(c.BinaryAUROC(thresholds=500), scores, (scores > 0.5).long()) <= 40_000,
        biggest(c.MulticlassAccuracy(30_522, average="micro", multidim_average="samplewise"), labels, labels) <= 1_000,
        biggest(c.MulticlassAccuracy(2_000), labels[0], labels[1]) <= 8_000,
    ]


@reports(TORCHMETRICS, (3380, 3405, 3440, 3441, 3471), "impossible options are accepted", [])
def _():
    made = (
        *(lambda x=x: c.BinarySpecificityAtSensitivity(min_sensitivity=x) for x in (2.0, -0.5, "a")),
        *(lambda x=x: c.BinarySensitivityAtSpecificity(min_specificity=x) for x in (2.0, -0.5)),
        *(lambda x=x: c.BinaryRecallAtFixedPrecision(min_precision=x) for x in (2.0, -0.5)),
        *(lambda x=x: c.MulticlassPrecisionAtFixedRecall(3, min_recall=x) for x in (2.0, -0.5)),
        *(lambda x=x: c.BinaryAUROC(max_fpr=x) for x in (2.0, 0, -0.1)),
        *(lambda x=x: c.BinaryLogAUC(fpr_range=x) for x in ((0.1, 0.01), (-0.1, 0.1), (0.1, 2.0), (0.1,))),
        *(lambda x=x: c.BinaryFBetaScore(beta=x) for x in (0.0, -1.0, "a")),
        *(lambda x=x: c.MulticlassAccuracy(3, top_k=x) for x in (0, 4, 1.5)),
        *(lambda x=x: c.MulticlassAccuracy(x) for x in (0, -1, 2.5, "3")),
        *(lambda x=x: c.BinaryCalibrationError(n_bins=x) for x in (0, -1, 2.5)),
        *(lambda x=x: c.BinaryAUROC(thresholds=x) for x in (0, -3, [0.5, 2.0])),
        lambda: c.BinaryCalibrationError(norm="l3"),
        lambda: c.MulticlassAccuracy(3, average="mean"),
        lambda: c.BinaryAccuracy(multidim_average="all"),
        lambda: c.BinaryAccuracy(ignore_index=0.5),
    )
    return [place for place, make in enumerate(made) if not refuses(make)]


def refuses(make):
    try:
        make()
    except ValueError:
        return True
    return False


class Sizes(TorchDispatchMode):
    """The most elements of any result within."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, Tensor):
                self.largest = max(self.largest, x.numel())
        return out


@reports("open-edge-platform/anomalib", 2678, "a metric derived from one that makes the metric of a task loses what it adds, or says nothing useful", TypeError)
def _():
    class Mine(tt.Accuracy):
        def compute(self):
            return 7

    Mine(task="binary")


@reports(TORCHMETRICS, 3083, "an exact match counts ignored labels", [0.5, [0.0, 1.0]])
def _():
    batch = tensor([[0.11, 0.22, 0.84], [0.73, 0.33, 0.92]]), tensor([[0, 1, 0], [1, 0, -1]])
    return [fed(c.MultilabelExactMatch(3, ignore_index=-1), batch), [fed(c.MultilabelExactMatch(3, ignore_index=-1), (p[None], t[None])) for p, t in zip(*batch)]]


@reports(TORCHMETRICS, 1556, "ignored elements of several dimensions are looked up among the best classes", [0.5, 4 / 6, 1.0])
def _():
    best = tensor([[0, 1, 2, 3, 0], [3, 2, 1, 0, 1]])
    scores = torch.eye(4)[best].mT + 0.01 * torch.arange(4.0, 0, -1)[:, None]  # (N, C, length); class 0 is next best
    target = tensor([[-100, 1, 0, -100, 0], [-100, 2, 3, 2, -100]])
    return [fed(c.MulticlassAccuracy(4, top_k=k, average="micro", ignore_index=-100), (scores, target)) for k in (1, 2, 4)]


@reports(TORCHMETRICS, 614, "labels are ranked as by the definition", [2.5, 5 / 12, 0.75])
def _():
    batch = tensor([[0.75, 0.5, 1.0], [1.0, 0.2, 0.1]]), tensor([[1, 0, 0], [0, 0, 1]])
    return [fed(made(3), batch) for made in (c.MultilabelCoverageError, c.MultilabelRankingAveragePrecision, c.MultilabelRankingLoss)]


@pytest.mark.parametrize("report", reports.params())
def test_what_was_reported_is_right_here(report: Report) -> None:
    check(report)
