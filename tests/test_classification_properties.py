"""Drawn at random: dtypes, shapes, ties, empties, padding. Host form, device form and definition agree; compiled updates too."""

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from cases import elsewhere, rounding
from class_references import binary, class_counts, close, multiclass, multilabel, top_k_labels, yes_no_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn import metrics as sk
from torch import Tensor

import torchtally as tt
from torchtally import classification as c
from torchtally.statistics.auto_curves import limits

ordinary = settings(max_examples=60, deadline=None)
FLOATS = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8]
SHAPES = [(), (3,), (2, 2)]


def two_forms(make, batches):
    for wrap in (tuple, elsewhere):
        metric = make()
        for batch in batches:
            metric.update(*wrap(batch))
        value = metric.compute()
        yield value.as_subclass(Tensor)


def splits(n, seed):
    cuts = np.sort(np.random.default_rng(seed).integers(0, n + 1, 3))
    return list(zip([0, *cuts], [*cuts, n]))


@ordinary
@given(
    st.integers(0, 25),
    st.integers(1, 7),
    st.sampled_from(SHAPES),
    st.sampled_from([*FLOATS, *INTEGERS]),
    st.sampled_from(INTEGERS),
    st.sampled_from(
        ["Accuracy", "Precision", "Recall", "F1Score", "Specificity", "NegativePredictiveValue", "HammingDistance", "StatScores"]
    ),
    st.sampled_from(["micro", "macro", "weighted", "none"]),
    st.sampled_from([None, 0, 1, 100]),
    st.integers(1, 3),
    st.integers(0, 10**6),
)
def test_multiclass(n, classes, extra, dtype, label_dtype, name, average, ignore, top_k, seed):
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.integers(-3, 4, (n, classes, *extra)).astype(np.float64))  # ties; exact in every dtype
    target = torch.from_numpy(rng.integers(0, classes, (n, *extra)))
    if ignore == 100:
        target[torch.from_numpy(rng.random(target.shape) < 0.3)] = 100
    top_k = min(top_k, classes) if dtype.is_floating_point else 1
    preds = scores.to(dtype) if dtype.is_floating_point else scores.argmax(1).to(dtype)
    options = dict(num_classes=classes, average=average, ignore_index=ignore, top_k=top_k)
    rows = np.moveaxis(scores.numpy(), 1, -1).reshape(-1, classes)
    y = target.reshape(-1).numpy()
    keep = np.ones(len(y), bool) if ignore is None else y != ignore
    counts = class_counts(top_k_labels(rows[keep], y[keep], top_k), y[keep], classes)
    want = multiclass(name, average, counts, 0.0, ignore)
    batches = [(preds[a:b], target[a:b].to(label_dtype)) for a, b in splits(n, seed)]
    for got in two_forms(lambda: getattr(c, "Multiclass" + name)(**options), batches):
        close(got, want)


@ordinary
@given(
    st.integers(0, 25),
    st.booleans(),
    st.sampled_from(SHAPES),
    st.sampled_from([*FLOATS, *INTEGERS, torch.bool]),
    st.sampled_from([*INTEGERS, torch.bool]),
    st.sampled_from(
        ["Accuracy", "Precision", "Recall", "F1Score", "Specificity", "NegativePredictiveValue", "HammingDistance", "StatScores"]
    ),
    st.sampled_from(["micro", "macro", "weighted", "none"]),
    st.sampled_from([None, 0, 100]),
    st.sampled_from([0.5, 0.25, 0.3, 0.7]),
    st.integers(0, 10**6),
)
def test_yes_no(n, many, extra, dtype, label_dtype, name, average, ignore, threshold, seed):
    rng = np.random.default_rng(seed)
    shape = (n, 3, *extra) if many else (n, *extra)
    p = torch.from_numpy(rng.integers(0, 17, shape) / 16)  # exact in every dtype, and often at the threshold
    target = torch.from_numpy(rng.integers(0, 2, shape))
    if ignore == 100 and label_dtype is not torch.bool:
        target[torch.from_numpy(rng.random(shape) < 0.3)] = 100
    decided = (p.numpy() > (threshold if dtype.is_floating_point else 0.5)).astype(int)
    preds = p.to(dtype) if dtype.is_floating_point else torch.from_numpy(decided).to(dtype)
    columns = [np.moveaxis(x, 1, -1).reshape(-1, 3) if many else x.reshape(-1, 1) for x in (decided, target.numpy())]
    counts = yes_no_counts(*columns, np.ones(columns[0].shape, bool) if ignore is None else columns[1] != ignore)
    options = dict(threshold=threshold, ignore_index=ignore)
    if many:
        want = multilabel(name, average, counts, 0.0)
        options |= dict(num_labels=3, average=average)
    else:
        want = binary(name, counts, 0.0)
    batches = [(preds[a:b], target[a:b].to(label_dtype)) for a, b in splits(n, seed)]
    for got in two_forms(lambda: getattr(c, ("Multilabel" if many else "Binary") + name)(**options), batches):
        close(got, want)


@ordinary
@given(st.integers(0, 25), st.integers(1, 6), st.sampled_from([*FLOATS, *INTEGERS]), st.sampled_from([None, 0, -1]), st.integers(0, 10**6))
def test_confusion(n, classes, dtype, ignore, seed):
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.integers(-3, 4, (n, classes)).astype(np.float64))
    target = torch.from_numpy(rng.integers(0, classes, n))
    if ignore == -1:
        target[torch.from_numpy(rng.random(n) < 0.3)] = -1
    p, y = scores.argmax(1).numpy(), target.numpy()
    keep = y != ignore if ignore is not None else np.ones(n, bool)
    want = np.zeros((classes, classes))
    np.add.at(want, (y[keep], p[keep]), 1)
    preds = scores.to(dtype) if dtype.is_floating_point else scores.argmax(1).to(dtype)
    for got in two_forms(lambda: c.MulticlassConfusionMatrix(classes, ignore), [(preds[a:b], target[a:b]) for a, b in splits(n, seed)]):
        close(got, want)


@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded", "channels last", "flipped"])
def test_layouts_of_memory(layout):
    generator = torch.Generator().manual_seed(0)
    scores, target = torch.randn(6, 4, 3, 5, generator=generator), torch.randint(0, 4, (6, 3, 5), generator=generator)
    given_scores, given_target = {
        "transposed": lambda: (scores.transpose(0, 3).contiguous().transpose(0, 3), target.transpose(0, 2).contiguous().transpose(0, 2)),
        "sliced": lambda: (torch.cat([scores, scores], 1)[:, :4], torch.stack([target, target], 3)[..., 0]),
        "expanded": lambda: (scores[:1].expand(6, 4, 3, 5), target[:1].expand(6, 3, 5)),
        "channels last": lambda: (scores.contiguous(memory_format=torch.channels_last), target),
        "flipped": lambda: (scores.flip(0)[::2], target.flip(0)[::2]),
    }[layout]()
    for make in (lambda: c.MulticlassRecall(4), lambda: c.MulticlassAccuracy(4, top_k=2), lambda: c.MulticlassConfusionMatrix(4)):
        want = make()(given_scores.clone(memory_format=torch.contiguous_format), given_target.clone(memory_format=torch.contiguous_format))
        for got in two_forms(make, [(given_scores, given_target)]):
            close(got, want)
    binary_scores = given_scores.sigmoid()[:, 0]
    yes = given_target.clamp(max=1)
    want = c.BinaryF1Score()(binary_scores.clone(memory_format=torch.contiguous_format), yes.clone(memory_format=torch.contiguous_format))
    for got in two_forms(c.BinaryF1Score, [(binary_scores, yes)]):
        close(got, want)


# ---- compiled
def several():
    return tt.MetricCollection(
        {
            "loss": tt.MeanMetric().bind(value="loss"),
            "top": tt.MaxMetric().bind(value="loss"),
            "accuracy": c.MulticlassAccuracy(5, average="micro", ignore_index=0),
            "recall": c.MulticlassRecall(5),
            "top2": c.MulticlassAccuracy(5, top_k=2),
        }
    )


def test_a_collections_update_compiles_whole_at_most_twice():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    tally, plain = several(), several()
    compiled = torch.compile(
        lambda preds, target, loss: tally.update(preds=preds, target=target, loss=loss), backend=counter, fullgraph=True
    )
    generator = torch.Generator().manual_seed(0)
    for n in ([4, 7, 9] * 7)[:20]:
        batch = torch.randn(n, 5, generator=generator), torch.randint(0, 5, (n,), generator=generator)
        loss = torch.randn((), generator=generator)
        compiled(*batch, loss)
        plain.update(preds=batch[0], target=batch[1], loss=loss)
    assert counter.frame_count <= 2
    assert tally.update_count == 20
    for again in range(3):  # reading and resetting compile nothing anew
        got, want = tally.compute(), plain.compute()
        for name in want:
            close(got[name], want[name], name)
        if again:
            tally.reset()
            plain.reset()
        compiled(*batch, loss)
        plain.update(preds=batch[0], target=batch[1], loss=loss)
    assert counter.frame_count <= 2


def test_compiled_updates_count_faults_too():
    torch._dynamo.reset()
    tally = tt.MetricCollection({"recall": c.MulticlassRecall(3), "loss": tt.MeanMetric(nan_strategy="error").bind(value="loss")})
    compiled = torch.compile(lambda p, y, x: tally.update(preds=p, target=y, loss=x), backend="eager", fullgraph=True)
    for i in range(5):
        target = torch.tensor([0, 1, 7 if i == 2 else 2])
        compiled(torch.tensor([0, 1, 2]), target, torch.tensor(float("nan") if i == 3 else 1.0))
    with pytest.raises(tt.FaultError, match=r"recall: 1 value was impossible .* first in update 3\."):
        tally.compute()
    with pytest.raises(tt.FaultError, match=r"1 value was NaN and kept out, first in update 4\."):
        tally["loss"].compute()
    with pytest.raises(tt.FaultError) as raised:
        tally["recall"].compute()
    assert float(raised.value.values) == 1.0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_samples_of_a_compiled_step_join_their_lists_outside_of_its_graph(backend):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    metrics = tt.MetricCollection(
        {
            "area": c.BinaryAUROC(),
            "precision": c.BinaryAveragePrecision(),
            "auto": rounding(c.BinaryAUROC),
            "order": tt.SpearmanCorrCoef(),
            "losses": tt.CatMetric().bind(value="loss"),
            "accuracy": c.BinaryAccuracy(),
        }
    )
    weight = torch.ones(6, requires_grad=True)

    def step(x, y):
        scores = x @ weight
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, y.float())
        metrics.update(preds=scores, target=y, loss=loss)
        return loss, scores

    compiled = torch.compile(step, backend=counter, fullgraph=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        scores, target, losses = [], [], []
        for n in (16,) * 24 + (5,):
            x, y = torch.randn(n, 6, generator=generator), torch.randint(0, 2, (n,), generator=generator)
            loss, out = compiled(x, y)
            loss.backward()
            scores.append(out.detach()), target.append(y), losses.append(loss.detach())
        assert sum(map(len, metrics["auto"].score)) * 5 <= 40  # its budget
        got, (p, y) = metrics.compute(), (torch.cat(scores).numpy(), torch.cat(target).numpy())
        close(got["area"], sk.roc_auc_score(y, p))
        close(got["precision"], sk.average_precision_score(y, p))
        close(got["auto"], sk.roc_auc_score(y, np.searchsorted(limits(64), p.astype(np.float64), "right")))  # rounded down
        close(got["order"], spearmanr(p, y).statistic)
        close(got["accuracy"], ((p > 0) == y).mean())
        assert torch.equal(got["losses"], torch.stack(losses))
        assert metrics["area"].update_count == 25
        metrics.reset()
    assert counter.frame_count <= 2


@pytest.mark.skipif(torch.__version__ < (2, 11), reason="Dynamo of PyTorch 2.6 says in words of its own that it cannot compile this; docs/versions.md")
def test_a_member_updated_alone_does_not_share_in_compiled_updates_until_the_collection_is_reset():
    torch._dynamo.reset()
    tally = tt.MetricCollection({"area": c.BinaryAUROC(), "precision": c.BinaryAveragePrecision()})
    compiled = torch.compile(lambda p, y: tally.update(p, y), backend="eager", fullgraph=True)
    batch = torch.tensor([0.1, 0.9, 0.4]), torch.tensor([0, 1, 1])
    compiled(*batch)
    tally["area"].update(*batch)
    with pytest.raises(Exception, match="Reset the collection, or update it once outside"):
        compiled(*batch)
    assert (tally["area"].update_count, tally["precision"].update_count) == (2, 1)
    tally.update(*batch)  # each in its own way
    compiled(*batch)
    assert (tally["area"].update_count, tally["precision"].update_count) == (4, 3)
    for _ in range(3):
        tally.reset()
        compiled(*batch)
    assert tally["area"].ledger is tally["precision"].ledger
    assert tally["area"].update_count == 1
    close(tally.compute()["area"], 1.0)


def test_a_compiled_collection_with_a_member_that_never_shares_compiles_nothing_anew_after_resets():
    class Twice(c.BinaryAccuracy):
        def compute(self):
            return 2 * super().compute()

    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    tally = tt.MetricCollection({"twice": Twice(), "recall": c.BinaryRecall()})
    compiled = torch.compile(lambda p, y: tally.update(p, y), backend=counter, fullgraph=True)
    for _ in range(12):
        compiled(torch.tensor([0.1, 0.9, 0.4]), torch.tensor([0, 1, 1]))
        assert tally.compute()["twice"] == pytest.approx(4 / 3)
        tally.reset()
    assert counter.frame_count == 1


def test_compiled_updates_of_many_outputs_keep_one_row_of_moments():
    torch._dynamo.reset()
    metric = tt.R2Score()
    compiled = torch.compile(lambda p, y: metric.update(p, y), backend="eager", fullgraph=True)
    data = torch.randn(2, 12, 7, 3, generator=torch.Generator().manual_seed(0))
    for preds, target in zip(*data):
        compiled(preds, target)
    assert [len(pieces) for pieces in metric.ledger.samples.values()] == [1]
    close(metric.compute(), sk.r2_score(*(x.reshape(-1, 3).double().numpy() for x in (data[1], data[0]))))
