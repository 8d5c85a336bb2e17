"""The records where all sources of stalls meet."""

import doctest

import numpy as np

from torchtally.stalls import timeline as module
from torchtally.stalls.timeline import CallKind, Draft, WorkKind


def test_a_draft_becomes_columns_in_order_of_start_with_time_zero_at_the_first_record():
    draft = Draft("run", rank=3)
    main, stream = draft.lane("thread 1"), draft.lane("stream 7", device=0, stream=7)
    draft.operator("aten::add", main, 1_000_020.0, 1_000_030.0)
    draft.operator("aten::item", main, 1_000_010.0, 1_000_019.0, stack="train.py(4): step")
    draft.call("cudaLaunchKernel", main, 1_000_022.0, 1_000_024.0, CallKind.LAUNCH, link=5)
    draft.work("add", stream, 1_000_025.0, 1_000_026.5, WorkKind.KERNEL, link=5)
    draft.step(2, 1_000_010.0, 1_000_040.0)
    draft.origin_ns = 0
    run = draft.timeline()
    assert [run.name(i) for i in run.operators.name] == ["aten::item", "aten::add"]
    assert [run.name(i) for i in run.operators.stack] == ["train.py(4): step", ""]
    np.testing.assert_array_equal(run.operators.start_us, [0, 10])
    assert run.calls.link[0] == run.work.link[0] == 5
    assert run.lanes[run.work.lane[0]].device == 0
    assert run.steps[0].start_us == 0.0
    assert run.origin_ns == 1_000_010_000
    assert run.end_us == 20.0
    assert run.rank == 3


def test_of_two_spans_that_start_together_the_enclosing_comes_first():
    draft = Draft("run")
    lane = draft.lane("thread 1")
    draft.frame("inner", lane, 0.0, 5.0)
    draft.frame("outer", lane, 0.0, 9.0)
    run = draft.timeline()
    assert [run.name(i) for i in run.frames.name] == ["outer", "inner"]


def test_picking_spans_keeps_all_columns():
    draft = Draft("run")
    lane = draft.lane("thread 1")
    for i in range(4):
        draft.call("cudaMemcpyAsync", lane, float(i), i + 0.5, CallKind.COPY, link=i)
    calls = draft.timeline().calls
    picked = calls.take(calls.link > 1)
    assert len(picked) == 2
    np.testing.assert_array_equal(picked.start_us, [2, 3])


def test_an_empty_timeline_has_no_length():
    assert Draft("nothing").timeline().end_us == 0.0


def test_the_example_runs():
    assert doctest.testmod(module).failed == 0
