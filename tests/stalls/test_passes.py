"""Each pass on a handful of hand-written records, with figures worked by hand."""

import numpy as np
import pytest

from torchtally.stalls.passes.artefacts import drop_autotuning, drop_profiler_waits, drop_warm_up
from torchtally.stalls.passes.find import find_waits
from torchtally.stalls.passes.findings import Findings
from torchtally.stalls.passes.gain import Replay, gains
from torchtally.stalls.passes.price import Busy, price_stalls
from torchtally.stalls.passes.remedy import propose_remedies
from torchtally.stalls.stall import Gain, Stall
from torchtally.stalls.timeline import CallKind, Draft, WorkKind


class Run(Draft):
    """A run of one thread and one stream, in few words."""

    def __init__(self):
        super().__init__("run")
        self.main = self.lane("thread 1")
        self.stream = self.lane("device 0, stream 7", device=0, stream=7)
        self.count = 0

    def launches(
        self, start, end, work_start, work_end, name="cudaLaunchKernel", kind=CallKind.LAUNCH, work=WorkKind.KERNEL, lane=None, stream=None
    ):
        self.count += 1
        self.call(name, self.main if lane is None else lane, start, end, kind, link=self.count)
        self.work("work", self.stream if stream is None else stream, work_start, work_end, work, link=self.count)

    def copies(self, start, end, work_start, work_end, work, name="cudaMemcpyAsync"):
        self.launches(start, end, work_start, work_end, name, CallKind.BLOCKING_COPY if "Async" not in name else CallKind.COPY, work)

    def waits(self, start, end, name="cudaStreamSynchronize", kind=CallKind.STREAM_SYNC, link=-1):
        self.call(name, self.main, start, end, kind, link=link)

    def stalls(self):
        return find_waits(self.timeline(), Findings()).stalls


def stall(start, wait, **more):
    return Stall(
        **{"kind": "read", "operator": "aten::item", "start_us": float(start), "host_wait_us": float(wait), "thread": "thread 1", **more}
    )


# Finding


def test_a_copy_and_the_synchronisation_after_it_are_one_stall():
    run = Run()
    run.operator("aten::_local_scalar_dense", run.main, 0, 100)
    run.copies(10, 20, 15, 18, WorkKind.DEVICE_TO_PINNED)
    run.waits(20, 90)
    (found,) = run.stalls()
    assert (found.kind, found.operator, found.start_us, found.host_wait_us) == ("read", "aten::_local_scalar_dense", 10, 80)


def test_the_time_may_lie_in_the_copy():
    run = Run()
    run.operator("aten::copy_", run.main, 0, 100)
    run.copies(10, 88, 80, 85, WorkKind.DEVICE_TO_PAGEABLE)
    run.waits(89, 90)
    (found,) = run.stalls()
    assert (found.kind, found.operator, found.host_wait_us) == ("device_to_host", "aten::copy_", 80)


def test_copy_and_synchronisation_of_two_operators_are_two_stalls():
    run = Run()
    run.operator("aten::copy_", run.main, 0, 30)
    run.copies(10, 25, 12, 20, WorkKind.PAGEABLE_TO_DEVICE)
    run.operator("aten::item", run.main, 40, 100)
    run.waits(50, 90)
    assert [s.kind for s in run.stalls()] == ["host_to_device", "synchronize"]


def test_a_launch_between_copy_and_synchronisation_parts_them():
    run = Run()
    run.copies(10, 25, 12, 20, WorkKind.PAGEABLE_TO_DEVICE)
    run.launches(30, 35, 40, 50)
    run.waits(50, 90)
    assert len(run.stalls()) == 2


def test_outside_operators_they_belong_together_if_close():
    run = Run()
    run.copies(10, 25, 12, 20, WorkKind.DEVICE_TO_PINNED)
    run.waits(26, 90)
    run.copies(1000, 1025, 1012, 1020, WorkKind.DEVICE_TO_PINNED)
    run.waits(9000, 9001)
    assert [(s.start_us, s.kind) for s in run.stalls()] == [(0, "device_to_host"), (8990, "synchronize")]


@pytest.mark.parametrize(
    "work, waits",
    [
        (WorkKind.PAGEABLE_TO_DEVICE, 1),
        (WorkKind.DEVICE_TO_PAGEABLE, 1),
        (WorkKind.PINNED_TO_DEVICE, 0),
        (WorkKind.DEVICE_TO_PINNED, 0),
        (WorkKind.HOST_TO_DEVICE, 0),
        (WorkKind.COPY, 0),
    ],
)
def test_an_asynchronous_copy_waits_only_for_pageable_memory(work, waits):
    run = Run()
    run.copies(10, 25, 12, 20, work)
    assert len(run.stalls()) == waits


@pytest.mark.parametrize("work, kind", [(WorkKind.HOST_TO_DEVICE, "host_to_device"), (WorkKind.DEVICE_TO_HOST, "device_to_host")])
def test_one_blocking_copy_of_rocm_is_one_stall(work, kind):
    run = Run()
    run.copies(10, 90, 80, 85, work, "hipMemcpyWithStream")
    (found,) = run.stalls()
    assert (found.kind, found.operator) == (kind, "hipMemcpyWithStream")


def test_a_second_record_of_a_wait_does_not_count_unless_the_first_is_missing():
    run = Run()
    device = run.lane("device 0, waits of the host", device=0)
    run.waits(10, 50, link=5)
    run.call("Stream Sync", device, 11, 49, CallKind.SYNC_RECORD, link=5)
    assert len(run.stalls()) == 1
    run.call("Context Sync", device, 100, 120, CallKind.SYNC_RECORD, link=6)
    assert [s.operator for s in run.stalls()] == ["cudaStreamSynchronize", "Context Sync"]


def test_a_second_record_without_a_link_is_known_by_its_time():
    run = Run()
    run.waits(10, 50)
    run.call("Stream Sync", run.lane("device 0, waits of the host", device=0), 11, 49, CallKind.SYNC_RECORD)
    assert len(run.stalls()) == 1


def test_what_only_makes_the_device_wait_is_no_stall():
    run = Run()
    run.call("cudaStreamWaitEvent", run.main, 0, 50, CallKind.OTHER)
    run.call("cudaEventQuery", run.main, 60, 70, CallKind.OTHER)
    assert run.stalls() == ()


def test_the_operator_named_is_the_innermost_that_the_catalogue_knows():
    run = Run()
    run.operator("aten::index", run.main, 0, 200)
    run.operator("aten::nonzero", run.main, 5, 150)
    run.operator("some::detail", run.main, 6, 140)
    run.copies(10, 20, 15, 18, WorkKind.DEVICE_TO_PINNED)
    run.waits(20, 90)
    (found,) = run.stalls()
    assert (found.kind, found.operator) == ("shape_read", "aten::nonzero")


def test_an_operator_that_copies_both_ways_does_not_tell_which():
    run = Run()
    run.operator("aten::copy_", run.main, 0, 100)
    run.call("cudaMemcpyAsync", run.main, 10, 20, CallKind.COPY, link=1)  # its record is missing
    run.waits(20, 90)
    assert [(s.kind, s.operator) for s in run.stalls()] == [("synchronize", "aten::copy_")]


def test_steps_count_from_zero_and_a_stall_outside_has_none():
    run = Run()
    run.step(7, 0, 100)
    run.step(8, 100, 200)
    for start in (50, 100, 199, 300):
        run.waits(start, start + 1)
    assert [s.step for s in run.stalls()] == [0, 1, 1, None]


# Artefacts


def test_the_profilers_own_synchronisations_are_known_by_their_functions():
    run = Run()
    run.launches(0, 5, 6, 9)
    run.frame("torch/profiler/profiler.py(235): stop_trace", run.main, 20, 60)
    run.waits(30, 50, "cudaDeviceSynchronize", CallKind.DEVICE_SYNC)
    run.launches(70, 75, 76, 79)
    timeline = run.timeline()
    found = drop_profiler_waits(timeline, find_waits(timeline, Findings()))
    assert found.stalls == ()
    assert "profiler's own" in found.notes[0]


@pytest.mark.parametrize("start, kept", [(2, 0), (150, 1), (350, 0)], ids=["before all launches", "in a step", "after all steps"])
def test_or_by_their_place(start, kept):
    run = Run()
    run.step(1, 0, 300)
    run.launches(10, 15, 20, 30)
    run.waits(start, start + 5, "cudaDeviceSynchronize", CallKind.DEVICE_SYNC)
    run.launches(290, 295, 296, 299)
    timeline = run.timeline()
    assert len(drop_profiler_waits(timeline, find_waits(timeline, Findings())).stalls) == kept


def test_the_allocator_of_the_first_step_is_warm_up():
    run = Run()
    run.step(1, 0, 100)
    run.step(2, 100, 200)
    run.call("cudaMalloc", run.main, 10, 20, CallKind.ALLOCATE)
    run.call("cudaFree", run.main, 150, 170, CallKind.FREE)
    timeline = run.timeline()
    found = drop_warm_up(timeline, find_waits(timeline, Findings()))
    assert [s.operator for s in found.stalls] == ["cudaFree"]


def test_without_steps_allocation_is_warm_up_where_it_ends_early():
    run = Run()
    run.call("cudaMalloc", run.main, 10, 20, CallKind.ALLOCATE)
    run.launches(20, 22, 25, 1000)
    timeline = run.timeline()
    assert drop_warm_up(timeline, find_waits(timeline, Findings())).stalls == ()
    run.call("cudaMalloc", run.main, 900, 950, CallKind.ALLOCATE)
    timeline = run.timeline()
    assert len(drop_warm_up(timeline, find_waits(timeline, Findings())).stalls) == 2


def test_a_library_timing_its_convolutions_is_left_out():
    run = Run()
    run.operator("aten::cudnn_convolution", run.main, 0, 100)
    run.waits(10, 20, "cudaEventSynchronize", CallKind.EVENT_SYNC)
    timeline = run.timeline()
    found = drop_autotuning(timeline, find_waits(timeline, Findings()))
    assert found.stalls == ()
    assert found.notes[0].startswith("1 ")


# Prices


def test_busy_time_of_all_streams_counts_once():
    run = Run()
    other = run.lane("device 0, stream 8", device=0, stream=8)
    run.launches(0, 1, 10, 50)
    run.launches(2, 3, 40, 60, stream=other)
    run.launches(4, 5, 80, 90)
    busy = Busy(run.timeline())
    assert busy.within(0, 100) == 60
    assert busy.within(45, 85) == 20
    assert busy.within(60, 80) == 0


def test_a_stall_is_charged_for_idle_time_until_the_next_work_begins():
    run = Run()
    run.launches(0, 10, 15, 500)
    run.waits(20, 510)
    run.launches(600, 610, 620, 650)
    timeline = run.timeline()
    (found,) = price_stalls(timeline, find_waits(timeline, Findings())).stalls
    assert (found.host_wait_us, found.device_idle_us, found.launch_lag_us) == (490, 120, 110)


def test_but_not_beyond_the_next_stall_of_its_thread():
    run = Run()
    run.launches(0, 10, 15, 500)
    run.waits(20, 510)
    run.waits(550, 560)
    run.launches(600, 610, 620, 650)
    timeline = run.timeline()
    first, second = price_stalls(timeline, find_waits(timeline, Findings())).stalls
    assert (first.device_idle_us, second.device_idle_us) == (50, 70)


def test_nor_beyond_what_another_thread_launches():
    run = Run()
    run.launches(0, 10, 15, 500)
    run.waits(20, 510)
    run.launches(520, 525, 530, 590, lane=run.lane("thread 2"))
    run.launches(600, 610, 620, 650)
    timeline = run.timeline()
    (found,) = price_stalls(timeline, find_waits(timeline, Findings())).stalls
    assert found.device_idle_us == 30


def test_nor_for_time_after_the_last_launch():
    run = Run()
    run.launches(0, 10, 15, 500)
    run.waits(20, 510)
    run.operator("aten::view", run.main, 520, 9000)
    timeline = run.timeline()
    (found,) = price_stalls(timeline, find_waits(timeline, Findings())).stalls
    assert (found.device_idle_us, found.launch_lag_us) == (10, None)


def test_a_wait_behind_a_busy_device_idles_nothing():
    run = Run()
    other = run.lane("device 0, stream 8", device=0, stream=8)
    run.launches(0, 10, 15, 500)
    run.launches(11, 12, 15, 900, stream=other)
    run.waits(20, 510)
    run.launches(600, 610, 620, 950)
    timeline = run.timeline()
    (found,) = price_stalls(timeline, find_waits(timeline, Findings())).stalls
    assert found.device_idle_us == 0


def test_clocks_that_disagree_make_no_negative_times():
    run = Run()
    run.launches(0, 10, 15, 500)
    run.waits(20, 510)
    run.launches(520, 530, 509, 600)  # begins before it is launched
    timeline = run.timeline()
    (found,) = price_stalls(timeline, find_waits(timeline, Findings())).stalls
    assert found.launch_lag_us == 0
    assert found.device_idle_us == pytest.approx(9)


def test_around_a_replayed_graph_the_price_is_unknown():
    run = Run()
    run.call("cudaGraphLaunch", run.main, 0, 10, CallKind.GRAPH_LAUNCH, link=99)
    run.waits(20, 510)
    run.launches(600, 610, 620, 650)
    timeline = run.timeline()
    found = price_stalls(timeline, find_waits(timeline, Findings()))
    assert found.stalls[0].device_idle_us is None
    assert "graphs" in found.notes[0]
    assert gains([timeline], found.stalls) == (Gain("all stalls", 1, None),)


def test_a_graph_whose_kernels_are_recorded_is_like_any_work():
    run = Run()
    run.call("cudaGraphLaunch", run.main, 0, 10, CallKind.GRAPH_LAUNCH, link=99)
    run.work("a", run.stream, 15, 300, WorkKind.KERNEL, link=99)
    run.work("b", run.stream, 301, 500, WorkKind.KERNEL, link=99)
    run.waits(20, 510)
    run.launches(600, 610, 620, 650)
    timeline = run.timeline()
    (found,) = price_stalls(timeline, find_waits(timeline, Findings())).stalls
    assert found.device_idle_us == 121


def test_without_device_work_the_price_is_unknown():
    run = Run()
    run.waits(20, 510)
    timeline = run.timeline()
    (found,) = price_stalls(timeline, find_waits(timeline, Findings())).stalls
    assert found.device_idle_us is None


# What if


def two_steps():
    """The run of make_traces: per step a product of 400 µs, a read that waits 390 µs, 100 µs of host work, an update."""
    run = Run()
    for at in (0, 1000):
        run.launches(at + 100, at + 110, at + 115, at + 515)
        run.copies(at + 130, at + 140, at + 515, at + 517, WorkKind.DEVICE_TO_PINNED)
        run.waits(at + 140, at + 520)
        run.launches(at + 630, at + 640, at + 645, at + 695)
    run.operator("the end", run.main, 2000, 2025)
    timeline = run.timeline()
    return timeline, find_waits(timeline, Findings()).stalls


def test_removing_both_waits_saves_both_where_the_host_is_the_slower():
    timeline, stalls = two_steps()
    replay = Replay(timeline, stalls)
    assert replay.without(set()) == 0
    assert replay.without({0}) == 385  # 390 less the 5 that a call costs
    assert replay.without({0, 1}) == 770


def test_removing_one_wait_moves_it_to_the_next_where_the_device_is_the_slower():
    run = Run()
    run.launches(0, 10, 10, 1000)
    run.waits(20, 1000)
    run.launches(1010, 1015, 1015, 2000)
    run.waits(1020, 2000)
    timeline = run.timeline()
    stalls = find_waits(timeline, Findings()).stalls
    replay = Replay(timeline, stalls)
    assert replay.without({0}) == 10  # of the 980 that the host waited there: the second now waits for both
    assert replay.without({0, 1}) == 10


def test_work_that_waited_for_another_stream_still_does():
    run = Run()
    other = run.lane("device 0, stream 8", device=0, stream=8)
    run.launches(0, 10, 10, 1000)
    run.launches(20, 25, 1002, 1500, stream=other)  # could have begun at 20, but needed the first
    run.waits(30, 1500)
    run.launches(1600, 1610, 1610, 1700)
    timeline = run.timeline()
    replay = Replay(timeline, find_waits(timeline, Findings()).stalls)
    # the last launch moves 1465 forward, to 135; its stream is free at 1000, so it ends at 1100; the other stream still ends at 1500
    assert replay.without({0}) == 200


def test_gains_are_told_for_all_for_each_metric_and_for_the_costliest_lines():
    timeline, stalls = two_steps()
    stalls = [stalls[0].__class__(**{**_fields(stalls[0]), "metric": "F1"}), stalls[1]]
    found = {g.what: (g.stalls, g.saved_us) for g in gains([timeline], stalls)}
    assert found == {"all stalls": (2, 770), "metric F1": (1, 385)}


def test_ranks_are_summed():
    timeline, stalls = two_steps()
    from dataclasses import replace

    both = [*stalls, *(replace(s, rank=1) for s in stalls)]
    assert gains([timeline, replace(timeline, rank=1)], both)[0] == Gain("all stalls", 4, 1540)


def _fields(record):
    return {name: getattr(record, name) for name in record.__slots__}


# Remedies


def test_remedies_come_from_the_catalogue_by_operator_and_kind():
    from torchtally.stalls.catalogue import ROWS

    row = next(r for r in ROWS if r.operator == "aten::_local_scalar_dense")
    timeline = Run().timeline()
    found = propose_remedies(
        timeline, Findings((stall(0, 1, operator=row.operator, kind=row.kind), stall(0, 1, operator="cudaFree", kind="allocator")))
    )
    assert found.stalls[0].remedy == row.remedy
    assert "cache" in found.stalls[1].remedy


def test_a_remedy_that_is_there_already_stays():
    assert propose_remedies(Run().timeline(), Findings((stall(0, 1, remedy="mine"),))).stalls[0].remedy == "mine"


def test_nesting_finds_what_encloses_a_moment_among_many():
    from torchtally.stalls.passes.nesting import Nesting

    random = np.random.default_rng(0)
    run = Run()
    spans = []
    for _ in range(3000):
        start = float(random.integers(0, 10_000))
        end = start + float(random.choice([0, 1, 5, 300, 9000]))
        spans.append((start, end))
        run.frame(f"f{len(spans)}", run.main, start, end)
    run.frame("zero", run.main, 0.0, 0.0)
    timeline = run.timeline()
    nesting = Nesting(timeline.frames)
    for moment in random.integers(0, 12_000, 200).tolist():
        expected = sum(s <= moment < e or s == moment for s, e in spans)
        assert len([i for i in nesting.at(run.main, moment) if timeline.names[timeline.frames.name[i]] != "zero"]) == expected
