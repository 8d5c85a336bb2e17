"""The law of ranks, over every metric: spreading the data over ranks, some of them empty, changes nothing."""

import copy
import warnings

import pytest
import torch
from cases import CASES, batches
from torch import Tensor
from torch.utils import _pytree as pytree

import torchtally as tt
from ranks.harness import Raised, run_ranks


def leaves(value):
    return [x.double() for x in pytree.tree_leaves(value) if isinstance(x, Tensor)]


def differs(got, want, tolerance):
    got, want = leaves(got), leaves(want)
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for a, b in zip(got, want):
        if a.shape != b.shape or not torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"{a.tolist()} instead of {b.tolist()}"
    return None


SPREADS = [([0, 1], [2]), ([], [0, 1, 2]), ([0, 1, 2], [])]


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_spreading_the_data_over_ranks_changes_nothing(turn):
    def work(rank):
        wrong = {}
        for k, case in enumerate(CASES):
            spread = SPREADS[(k + turn) % 3]
            data = batches(case)
            metric, whole = case.make(), case.make()
            for batch in data:
                whole.update(*copy.deepcopy(batch))
            whole.sync_on_compute = False
            for n in spread[rank]:
                metric.update(*data[n])
            try:
                want = whole.compute()
                found = differs(metric.compute(), want, max(case.tolerance, 1e-6))
                later = metric.fetch().result()
                assert type(later) is type(whole.fetch().result())
                states = metric.state_dict(reduce=True)
                again = case.make()
                again.load_state_dict(states)
                again.sync_on_compute = False
                found = found or differs(again.compute(), want, max(case.tolerance, 1e-6))
                if metric.update_count != len(spread[rank]) or again.update_count != 3:
                    found = f"{metric.update_count} and {again.update_count} updates"
            except Exception as error:
                raise RuntimeError(f"{case.name}: {error}") from error
            if found:
                wrong[case.name] = found
        return wrong

    for found in run_ranks(work, limit=250.0):
        assert not isinstance(found, Raised | str), found
        assert found == {}


def outcome(read):
    """The value, or the name of the error."""
    try:
        return read()
    except Exception as error:
        return type(error).__name__


def test_ranks_without_any_data_give_what_an_empty_metric_gives():
    def work(rank):
        wrong = {}
        for case in {type(c.make()): c for c in reversed(CASES)}.values():
            metric, alone = case.make(), case.make()
            alone.sync_on_compute = False
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want, got, later = outcome(alone.compute), outcome(metric.compute), outcome(metric.fetch().result)
            if isinstance(want, str) or isinstance(got, str):
                found = None if want == got == later else f"{got} and {later} instead of {want}"
            else:
                found = differs(got, want, 1e-6)
            if found:
                wrong[case.name] = found
        return wrong

    for found in run_ranks(work, limit=100.0):
        assert not isinstance(found, Raised | str), found
        assert found == {}


def test_all_metrics_in_one_collection_are_read_together():
    """Hundreds of members: what does not fit in the head goes in one collective per dtype, and every value is that of the metric alone."""
    chosen = [case for case in CASES if len(batches(case)[0]) == 2 and not case.ordered][::3]

    def work(rank):
        from torchtally.wire import counted

        members = {}
        for k, case in enumerate(chosen):
            if case.make().entries == ("preds", "target"):
                members[case.name] = case.make().bind(preds=f"preds{k}", target=f"target{k}")
        tally = tt.MetricCollection(members)
        if rank == 0:
            entries = {}
            for k, case in enumerate(chosen):
                if case.name in members:
                    entries[f"preds{k}"], entries[f"target{k}"] = batches(case)[0]
            tally.update(**entries)
        with counted() as traffic:
            values = tally.compute()
        wrong = {}
        for case in chosen:
            if case.name in members:
                alone = case.make()
                alone.sync_on_compute = False
                alone.update(*batches(case)[0])
                found = differs(values[case.name], alone.compute(), max(case.tolerance, 1e-6))
                if found:
                    wrong[case.name] = found
        return wrong, len(members), traffic.collectives

    for found in run_ranks(work, limit=100.0):
        assert not isinstance(found, Raised | str), found
        wrong, members, collectives = found
        assert wrong == {}
        assert members > 20
        assert collectives <= 4
