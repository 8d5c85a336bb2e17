"""Ranks whose clocks differ meet in their collectives."""

from dataclasses import replace

from torchtally.stalls.sources.align import aligned
from torchtally.stalls.timeline import Draft, WorkKind


def rank(number, ends, clock_us, names=("ncclAllReduce(x)",)):
    """A rank whose clock is ahead by `clock_us` and that began at its first collective's start; the waits before collectives differ."""
    draft = Draft("run", number)
    stream = draft.lane("device 0, stream 7", device=0, stream=7)
    for i, end in enumerate(ends):
        draft.work(names[i % len(names)], stream, end - 10.0 - number, end, WorkKind.KERNEL)
    draft.origin_ns = round(clock_us * 1000)
    return draft.timeline()


def absolute(timeline):
    return (timeline.origin_ns / 1000 + timeline.work.end_us).tolist()


def test_collectives_end_together_whatever_the_clocks_say():
    first, second = aligned([rank(0, [100, 200, 300, 400], 5_000), rank(1, [100, 200, 300, 400], 9_000)])
    assert absolute(first) == absolute(second)
    assert "4 collectives" in first.notes[-1]
    assert "4,000 µs" in first.notes[-1]


def test_one_collective_that_ends_late_moves_nothing():
    first, second = aligned([rank(0, [100, 200, 300], 0), rank(1, [100, 200, 350], 1_000)])
    assert absolute(first)[:2] == absolute(second)[:2]


def test_ranks_that_show_other_collectives_keep_their_clocks():
    for others in ([100, 200], [100, 200, 300]):
        names = ("ncclAllReduce",) if len(others) == 2 else ("ncclAllGather",)
        given = [rank(0, [100, 200, 300], 0), rank(1, others, 1_000, names)]
        assert [t.origin_ns for t in aligned(given)] == [t.origin_ns for t in given]


def test_too_few_or_no_clocks_are_left_alone():
    given = [rank(0, [100, 200], 0), rank(1, [100, 200], 1_000)]
    assert aligned(given) == given
    timeless = [replace(rank(0, [1, 2, 3], 0), origin_ns=None), rank(1, [1, 2, 3], 0)]
    assert aligned(timeless)[1].origin_ns == timeless[1].origin_ns
