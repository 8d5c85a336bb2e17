"""Every class that torchmetrics has too, over random options and data: the same values, but for the rows of docs/differences.md."""

import ast
import importlib
import inspect
import random
import warnings
from pathlib import Path

import known_differences
import numpy as np
import pytest
import torch
from random_configurations import drawn, function_name, shared
from torch.utils import _pytree as pytree

from torchtally.faults import FaultError

pytest.importorskip("torchmetrics", minversion="1.9")  # earlier ones have fewer classes and other defects

NAMES = sorted(shared())
WITHOUT_FUNCTION = ("RetrievalRecallAtFixedPrecision",)
ALWAYS = 20  # configurations of each class in every run


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


def attempt(function, *args, **options):
    """The value, or the exception."""
    try:
        return quietly(function, *args, **options)
    except Exception as error:
        return error


def fed(metric, batches):
    for batch in batches:
        metric.update(*batch)
    return metric.compute()


def given(batches, widen):
    """Copies; for torchmetrics with halves as float32 and labels as int64: what it makes of them as they are is another matter."""
    return [tuple(x if not isinstance(x, torch.Tensor) else widened(x) if widen else x.clone() for x in batch) for batch in batches]


def widened(x):
    return x.long() if not x.is_floating_point() else x.float() if x.dtype in (torch.float16, torch.bfloat16) else x.clone()


def values(library, d):
    """(batches, value) of everything that can be asked: of each forward, of all batches, of the function."""
    batches = given(d.batches, library == "torchmetrics")
    make = getattr(importlib.import_module(f"{library}.{d.family}"), d.name)
    forwards, streamed = (quietly(make, **d.options) for _ in range(2))
    found = [([b], attempt(forwards, *x)) for b, x in zip(d.batches, batches)]
    found.append((d.batches, attempt(fed, streamed, batches)))
    if d.family != "aggregation" and d.name not in WITHOUT_FUNCTION and not (d.family == "retrieval" and d.options["ignore_index"] is not None):
        of_theirs = importlib.import_module(f"torchmetrics.functional.{d.family}")
        takes = inspect.signature(getattr(of_theirs, function_name(of_theirs, d.name))).parameters
        module = importlib.import_module(f"{library}.functional.{d.family}")
        function = getattr(module, function_name(module, d.name))
        last, batch = d.batches[-1], batches[-1]
        if d.family == "retrieval":  # of one query
            last, batch = (*last[:2], torch.zeros_like(last[2])), batch[:2]
        found.append(([last], attempt(function, *batch, **{k: v for k, v in d.options.items() if k in takes})))
    return found


def alike(d, got, want):
    if d.kind == "SpecificityAtSensitivity":  # of several thresholds theirs is the highest
        got, want = got[0], want[0]
    if d.name == "ConcordanceCorrCoef" and d.options["num_outputs"] == 1:  # the value of theirs as a function is (1,)
        got, want = got.reshape(-1), want.reshape(-1)
    got, want = pytree.tree_leaves(got), pytree.tree_leaves(want)
    return len(got) == len(want) and all(_alike(a, b) for a, b in zip(got, want))


def _alike(got, want):
    got, want = (torch.as_tensor(x).double().numpy() for x in (got, want))
    return got.shape == want.shape and np.allclose(got, want, rtol=2e-4, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("seeds", [range(ALWAYS), pytest.param(range(ALWAYS, 200), marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("name", NAMES)
def test_values_are_theirs_but_for_the_known_differences(name, seeds):
    compared = 0
    for seed in seeds:
        d = drawn(random.Random(f"{name} {seed}"), name)
        for (batches, got), (_, want) in zip(values("torchtally", d), values("torchmetrics", d)):
            if isinstance(got, Exception):
                assert isinstance(got, ValueError | FaultError) and isinstance(want, Exception), (got, want, str(d))
            elif not isinstance(want, Exception) and not known_differences.known(d, batches, got, want):
                compared += 1
                assert alike(d, got, want), (seed, got, want, str(d))
    assert compared >= len(seeds) // 20


def test_each_known_difference_is_a_row_of_the_document():
    rows = [line.partition("|")[2].strip() for line in (Path(__file__).parents[1] / "docs/differences.md").read_text().splitlines()]
    source = ast.parse(inspect.getsource(known_differences))
    told = [c.value for r in ast.walk(source) if isinstance(r, ast.Return) for c in ast.walk(r) if isinstance(c, ast.Constant)]
    told = [text for text in told if isinstance(text, str) and " " in text]
    assert len(told) > 30
    assert [text for text in told if not any(row.startswith(text) for row in rows)] == []


def test_all_of_four_families_is_compared():
    assert len(NAMES) > 140
    assert {"MeanMetric", "RunningSum", "Accuracy", "MulticlassLogAUC", "MultilabelRankingLoss", "BinaryFairness", "R2Score", "RetrievalMAP"} <= set(NAMES)


def options_of(function):
    return [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("BaseAggregator", "RunningMean", "RunningSum")])
def test_classes_take_their_options_by_position_and_with_their_defaults(name):
    ours, theirs = (getattr(importlib.import_module(f"{library}.{shared()[name]}"), name) for library in ("torchtally", "torchmetrics"))
    wanted = options_of(theirs)
    found = options_of(ours)[: len(wanted)]
    assert [p.name for p in found] == [p.name for p in wanted]
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in found)
    assert [(p.name, p.default) for p in found if p.name != "num_classes"] == [(p.name, p.default) for p in wanted if p.name != "num_classes"]


@pytest.mark.parametrize("name", [n for n in NAMES if shared()[n] != "aggregation" and n not in ("BinaryFairness", *WITHOUT_FUNCTION)])
def test_functions_take_their_options_by_position_and_with_their_defaults(name):
    module, theirs = (importlib.import_module(f"{library}.functional.{shared()[name]}") for library in ("torchtally", "torchmetrics"))
    function = getattr(module, function_name(module, name))
    wanted = options_of(getattr(theirs, function_name(theirs, name)))
    ours = options_of(function)[: len(wanted)]
    assert [p.name for p in ours] == [p.name for p in wanted]
    without = ("validate_args", "num_classes")  # of no effect here; not needed here
    assert [p.default for p in ours if p.name not in without] == [p.default for p in wanted if p.name not in without]
