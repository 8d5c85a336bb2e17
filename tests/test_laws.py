"""What holds for every metric. The table of cases.py must name them all."""

import copy
import gc
import inspect
import io
import pickle
import weakref

import pytest
import torch
import torch._dynamo.testing
from cases import CASES, batches, elsewhere
from torch import Tensor
from torch.utils import _pytree as pytree

import torchtally as tt
from torchtally.classification.tasks import ClassificationTask
from torchtally.formula import Formula

# The first case of each class and of each statistic obeys all laws in every run; the others obey the first two, and the rest with `pytest -m slow`.
SAMPLE = {case.name for key in (lambda c: type(c.make()), lambda c: c.make().statistics) for case in {key(c): c for c in reversed(CASES)}.values()}


def every_case(always):
    return [pytest.param(case, id=case.name, marks=() if case.name in always else pytest.mark.slow) for case in CASES]


without_exception = pytest.mark.parametrize("case", every_case({case.name for case in CASES}))
every = pytest.mark.parametrize("case", every_case(SAMPLE))

# What compiles or is captured is the update, and that is its statistics': one case of each is enough.
BY_STATISTIC = {case.make().statistics: case for case in reversed(CASES)}.values()
of_each_statistic = pytest.mark.parametrize("case", BY_STATISTIC, ids=lambda c: c.name)
of_each_that_stays_small = pytest.mark.parametrize("case", [c for c in BY_STATISTIC if not c.grows], ids=lambda c: c.name)
of_each_that_grows = pytest.mark.parametrize("case", [c for c in BY_STATISTIC if c.grows], ids=lambda c: c.name)


def leaves(value):
    return [x for x in pytree.tree_leaves(value) if isinstance(x, Tensor)]


def assert_equal(got, want, tolerance=1e-6):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        torch.testing.assert_close(a.as_subclass(Tensor), b.as_subclass(Tensor), rtol=tolerance, atol=tolerance, equal_nan=True)


def as_numbers(value):
    """All numbers of a value in one row of float64."""
    return torch.cat([x.as_subclass(Tensor).double().flatten() for x in leaves(value)])


def fed(case, data, metric=None):
    metric = metric or case.make()
    for batch in data:
        metric.update(*batch)
    return metric


def joined(data):
    return tuple(torch.cat(column) for column in zip(*data))


def public_metrics():
    for module in (tt.aggregation, tt.classification, tt.regression, tt.retrieval, tt.text):
        for name in module.__dict__.get("__all__", dir(module)):
            cls = getattr(module, name)
            if inspect.isclass(cls) and issubclass(cls, tt.Metric) and cls.__module__.startswith("torchtally"):
                yield cls


def test_every_public_metric_has_a_case():
    abstract = {"Formula", "BaseAggregator"}
    there = {type(case.make()) for case in CASES}
    missing = {cls.__name__ for cls in public_metrics() if cls not in there and not issubclass(cls, ClassificationTask)} - abstract
    assert not missing


@without_exception
def test_splitting_the_data_changes_nothing(case):
    data = batches(case)
    assert_equal(fed(case, data).compute(), fed(case, [joined(data)]).compute(), case.tolerance)


@without_exception
def test_the_device_form_gives_the_same(case):
    data = batches(case, (7, 7, 7, 12, 1))
    assert_equal(fed(case, map(elsewhere, data)).compute(), fed(case, data).compute(), case.tolerance)


@every
def test_order_changes_nothing(case):
    if case.ordered:
        pytest.skip("depends on the order by definition")
    data = batches(case)
    if case.grows:  # results are listed by sample: compare them sorted
        backwards = fed(case, data[::-1]).compute()
        assert_equal(as_numbers(fed(case, data).compute()).sort()[0], as_numbers(backwards).sort()[0])
    else:
        assert_equal(fed(case, data).compute(), fed(case, data[::-1]).compute(), case.tolerance)


@every
def test_an_empty_batch_changes_nothing(case):
    data = batches(case)
    generator = torch.Generator().manual_seed(1)
    for wrap in (tuple, elsewhere):
        empty = wrap(case.batch(0, generator))
        assert_equal(fed(case, [empty, *data, empty]).compute(), fed(case, data).compute(), case.tolerance)


@every
def test_many_small_batches_give_the_same(case):
    data = batches(case, (3,) * 150)
    whole = fed(case, [joined(data)]).compute()
    assert_equal(fed(case, data).compute(), whole, case.tolerance)
    assert_equal(fed(case, map(elsewhere, data)).compute(), whole, case.tolerance)


@every
def test_forward_gives_the_batch_value_and_accumulates(case):
    data = batches(case)
    metric = case.make()
    for batch in data:
        assert_equal(metric(*batch), fed(case, [batch]).compute(), case.tolerance)
    assert_equal(metric.compute(), fed(case, data).compute(), case.tolerance)
    assert metric.update_count == len(data)


@every
def test_merging_gives_what_one_metric_gives(case):
    data = batches(case)
    parts = [fed(case, [batch]) for batch in data]
    for part in parts[1:]:
        parts[0].merge_state(part)
    assert_equal(parts[0].compute(), fed(case, data).compute(), case.tolerance)
    assert parts[0].update_count == len(data)


@every
@pytest.mark.parametrize("survive", ["pickle", "deepcopy", "clone", "save", "half", "state_dict"])
def test_metrics_survive(case, survive):
    data = batches(case)
    metric = fed(case, data[:2])
    want = fed(case, data).compute()
    if survive == "pickle":
        other = pickle.loads(pickle.dumps(metric))
    elif survive == "deepcopy":
        other = copy.deepcopy(metric)
    elif survive == "clone":
        other = metric.clone()
    elif survive == "save":
        file = io.BytesIO()
        torch.save(metric, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    elif survive == "half":
        holder = torch.nn.Module()
        holder.metric = metric
        holder.half().bfloat16().double().half()
        other = metric
    else:
        other = case.make()
        states = metric.state_dict()
        file = io.BytesIO()
        torch.save(states, file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
    assert_equal(other.compute(), metric.compute(), 0)
    assert_equal(fed(case, data[2:], other).compute(), want, case.tolerance)
    if other is not metric:
        assert_equal(metric.compute(), fed(case, data[:2]).compute(), case.tolerance)


@every
def test_inference_mode_and_deterministic_algorithms(case):
    data = batches(case)
    metric = case.make()
    with torch.inference_mode():
        metric.update(*data[0])
        metric.compute()
        metric.reset()
        metric.update(*data[0])
    metric.update(*data[1])
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        metric.update(*elsewhere(data[2]))
        assert_equal(metric.compute(), fed(case, data).compute(), case.tolerance)
    finally:
        torch.use_deterministic_algorithms(before)


@every
def test_reset_forgets(case):
    data = batches(case)
    metric = fed(case, data)
    metric.reset()
    assert metric.update_count == 0
    assert_equal(fed(case, data[:1], metric).compute(), fed(case, data[:1]).compute(), 0)


@every
def test_inputs_are_never_modified_and_nothing_returned_changes(case):
    data = batches(case)
    before = copy.deepcopy(data)
    metric = fed(case, data[:2])
    metric.set_dtype(torch.float64)
    value = metric.compute()
    batch_value = metric(*data[2])
    states = metric.state_dict()
    kept = copy.deepcopy((value, batch_value, states))
    for batch in data:
        metric.update(*batch)
        metric.update(*elsewhere(batch))
    metric.compute()
    metric.reset()
    assert_equal((value, batch_value, states), kept, 0)
    assert_equal(data, before, 0)


@every
def test_callers_may_overwrite_their_tensors(case):
    data = batches(case)
    want = fed(case, data).compute()
    for wrap in (tuple, elsewhere):
        metric = case.make()
        for batch in data:
            own = wrap(tuple(x.clone() for x in batch))
            metric.update(*own)
            for x in own:
                x.zero_()
        assert_equal(metric.compute(), want, case.tolerance)


@every
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_dtype_counts_as_its_float64_value(case, dtype):
    data = [tuple(x.to(dtype) if x.is_floating_point() else x for x in batch) for batch in batches(case)]
    exact = [tuple(x.double() if x.is_floating_point() else x for x in batch) for batch in data]
    want = as_numbers(fed(case, exact).compute())
    assert_equal(as_numbers(fed(case, data).compute()), want, case.tolerance)
    assert_equal(as_numbers(fed(case, map(elsewhere, data)).compute()), want, case.tolerance)


@every
def test_metrics_are_freed_without_the_garbage_collector_and_hold_no_graph(case):
    data = [tuple(x.requires_grad_() * 1 if x.is_floating_point() else x for x in batch) for batch in batches(case)]
    metric = fed(case, data)
    metric(*data[0])
    value = metric.compute()
    assert not any(x.requires_grad for x in leaves(value))
    gone = weakref.ref(metric)
    ledger = weakref.ref(metric.ledger)
    gc.disable()
    try:
        del metric
        assert gone() is None
        assert ledger() is None
    finally:
        gc.enable()


@every
def test_totals_start_anew_where_a_model_made_on_meta_is_put(case):
    data = batches(case)
    metric = fed(case, data).to("meta").to_empty(device="cpu")
    assert metric.update_count == 0
    assert_equal(fed(case, data, metric).compute(), fed(case, data).compute(), case.tolerance)


@every
def test_state_does_not_grow(case):
    if case.grows:
        pytest.skip("grows with the data by definition")
    metric = fed(case, batches(case))
    size = sum(x.numel() for x in metric.ledger.flats.values())
    for batch in batches(case, (5,) * 200):
        metric.update(*batch)
    assert sum(x.numel() for x in metric.ledger.flats.values()) == size
    assert all(len(line.pieces) < 64 for line in metric.ledger.lines)


@of_each_statistic
def test_update_compiles_whole_at_most_twice(case):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    metric, plain = case.make(), case.make()
    compiled = torch.compile(lambda *batch: metric.update(*batch), backend=counter, fullgraph=True)
    for batch in batches(case, (4, 7, 9) * 7)[:20]:
        compiled(*batch)
        plain.update(*batch)
    assert counter.frame_count <= 2
    assert metric.update_count == 20
    assert_equal(metric.compute(), plain.compute(), case.tolerance)


@every
def test_fetch_gives_python_numbers_in_full_precision(case):
    data = batches(case)
    metric = fed(case, data)
    want = metric.compute()
    pending = metric.fetch(reset=True)
    metric.update(*data[0])
    got = pending.result()
    if isinstance(want, Tensor) and want.ndim == 0:
        assert isinstance(got, float | int)
    assert_equal(as_numbers([torch.as_tensor(x) for x in pytree.tree_leaves(got)]), as_numbers(want), 1e-6)
    assert_equal(metric.compute(), fed(case, data[:1]).compute(), case.tolerance)


@every
def test_repr_says_how_much_was_seen(case):
    metric = case.make()
    assert "no updates yet" in repr(metric)
    assert "3 updates" in repr(fed(case, batches(case), metric))


def test_all_built_in_metrics_are_formulas():
    assert all(isinstance(case.make(), Formula) for case in CASES)
