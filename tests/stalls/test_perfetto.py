"""The trace for Perfetto: sound by itself, readable by our own reader, and true to the events it was made from."""

import gzip
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from example_run import LOSS, example

from torchtally.stalls.renderers import perfetto
from torchtally.stalls.sources.trace import events_of, read_trace, read_traces
from torchtally.stalls.stall import Report, Stall


def checked(data):
    """The events of a trace, each of which has what the format asks of its phase."""
    found = json.loads(data)
    for event in found["traceEvents"]:
        assert isinstance(event["pid"], (int, str)) and isinstance(event["name"], str)
        match event["ph"]:
            case "X":
                assert event["ts"] >= 0 and event["dur"] >= 0 and "tid" in event
            case "M":
                assert set(event["args"]) & {"name", "sort_index", "labels"}
            case "s" | "f":
                assert {"id", "ts", "tid", "cat"} <= set(event)
            case "i":
                assert event["s"] in "tpg"
            case other:
                raise AssertionError(f"unexpected phase {other}")
    return found["traceEvents"]


def tracks(events):
    """Spans of each track, which must nest: one that starts within another ends within it."""
    found = {}
    for e in events:
        if e["ph"] == "X":
            found.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    return found


def names_of(events, what="process_name"):
    return {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == what}


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_trace_is_sound(ranks):
    report, timelines = example(ranks, 3)
    events = checked(perfetto.render(report, timelines))
    assert sorted(n for n in names_of(events).values() if n.startswith("stalls")) == (["stalls"] if ranks == 1 else ["stalls of rank 0", "stalls of rank 1"])
    assert set(e["pid"] for e in events) == set(names_of(events)), "every process has a name"
    stalls = [e for e in events if e.get("cat") == "stall"]
    assert len(stalls) == len(report.stalls)
    for spans in tracks(events).values():
        ends = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while ends and ends[-1] <= start + 0.002:
                ends.pop()
            assert not ends or end <= ends[-1] + 0.002, "spans of a track overlap without nesting"
            ends.append(end)


def test_arrows_lead_from_each_call_to_the_work_it_started():
    report, timelines = example(2, 2)
    events = checked(perfetto.render(report, timelines))
    starts = Counter(e["id"] for e in events if e["ph"] == "s")
    assert starts == Counter(e["id"] for e in events if e["ph"] == "f") and set(starts.values()) == {1}
    launches = sum(int((t.calls.link >= 0).sum()) for t in timelines)
    assert len(starts) == launches


def test_a_stall_tells_what_it_is():
    report, timelines = example(1, 1)
    (stall,) = [e for e in checked(perfetto.render(report, timelines)) if e.get("cat") == "stall" and e["name"].startswith("train.py:61")]
    source = next(s for s in report.stalls if s.site == LOSS)
    assert stall["ph"] == "X" and stall["dur"] == round(source.host_wait_us, 3)
    assert stall["args"]["code"] == "running_loss += loss.item()" and stall["args"]["device idle (us)"] == 24.0
    assert stall["args"]["instead"] and "line inferred" not in stall["args"]


def test_waits_of_two_threads_at_once_get_a_track_each():
    stalls = tuple(Stall("read", "aten::item", LOSS, start_us=t, host_wait_us=10.0, thread=name) for t, name in ((0.0, "a"), (5.0, "b")))
    events = checked(perfetto.render(Report("check", "run", None, stalls)))
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"waits of a", "waits of b"}
    assert len(tracks(events)) == 2


def test_a_stall_of_unknown_length_is_a_mark_and_one_without_a_time_is_left_out():
    stalls = (Stall("read", "aten::item", start_us=1.0), Stall("read", "aten::any"))
    (mark,) = [e for e in checked(perfetto.render(Report("check", "run", None, stalls))) if e.get("cat") == "stall"]
    assert (mark["ph"], mark["name"]) == ("i", "aten::item")


def test_what_is_written_reads_back_as_the_same_run(tmp_path):
    report, (timeline,) = example(1, 3)
    path = tmp_path / "run.json"
    path.write_bytes(perfetto.render(report, [timeline]))
    read = read_trace(path)
    for table in ("calls", "operators", "regions", "work"):
        ours, theirs = getattr(timeline, table), getattr(read, table)
        np.testing.assert_allclose(theirs.start_us, ours.start_us, atol=0.002)
        assert [read.name(i) for i in theirs.name] == [timeline.name(i) for i in ours.name]
    assert [s.number for s in read.steps] == [0, 1, 2]
    np.testing.assert_array_equal(read.calls.kind, timeline.calls.kind)
    np.testing.assert_array_equal(read.work.link, timeline.work.link)
    assert read.origin_ns == timeline.origin_ns


def original(base=None, epoch=0.0):
    """A small trace as PyTorch's profiler writes it, with fields no timeline keeps and a secret beside its events."""
    events = [
        {"ph": "M", "name": "process_name", "pid": 40, "tid": 0, "ts": epoch, "args": {"name": "python"}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::item", "pid": 40, "tid": 41, "ts": epoch + 100, "dur": 90, "args": {"External id": 3, "Input Dims": [[]]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 40, "tid": 41, "ts": epoch + 110, "dur": 5, "args": {"correlation": 8}},
        {"ph": "s", "id": 8, "pid": 40, "tid": 41, "ts": epoch + 110, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 8, "pid": 0, "tid": 7, "ts": epoch + 150, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "pid": 0, "tid": 7, "ts": epoch + 150, "dur": 2, "args": {"correlation": 8, "bytes": 4}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 40, "tid": 41, "ts": epoch + 120, "dur": 40, "args": {"correlation": 9}},
        {"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "Trace", "ts": epoch + 99},
    ]
    found = {"schemaVersion": 1, "environment": {"TOKEN": "hunter2"}, "traceEvents": events}
    return {**found, "baseTimeNanoseconds": base} if base is not None else found


@pytest.mark.parametrize(("base", "epoch"), [(1_700_000_000_000_000_000, 0.0), (None, 1.7e15), (None, 0.0)])
def test_the_events_of_a_file_are_kept_as_they_stand_and_its_secrets_are_not(tmp_path, base, epoch):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(original(base, epoch)).encode()))
    timeline = read_trace(path)
    start = float(timeline.calls.start_us[1])
    report = Report("stalls", str(path), None, (Stall("read", "aten::item", LOSS, start_us=start, host_wait_us=40.0),))
    data = perfetto.render(report, [timeline], {0: events_of(path)})
    events = checked(data)
    assert [e for e in events if e["pid"] != perfetto.STALLS] == original(base, epoch)["traceEvents"]
    (stall,) = [e for e in events if e.get("cat") == "stall"]
    assert stall["ts"] == pytest.approx(epoch + 120, abs=0.3)
    assert b"hunter2" not in data
    again = tmp_path / "again.json"
    again.write_bytes(data)
    assert read_trace(again).origin_ns == timeline.origin_ns


def test_several_files_keep_their_processes_and_arrows_apart(tmp_path):
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(original(1_700_000_000_000_000_000 + 50_000 * rank)))
    timelines = read_traces([tmp_path])
    stalls = tuple(Stall("read", "aten::item", LOSS, start_us=20.0, host_wait_us=40.0, rank=r) for r in (0, 1))
    events = checked(perfetto.render(Report("stalls", "both", None, stalls), timelines, {t.rank: events_of(t.source) for t in timelines}))
    assert {n for n in names_of(events).values()} >= {"rank 0: python", "rank 1: python", "stalls of rank 0", "stalls of rank 1"}
    assert len({e["id"] for e in events if e["ph"] == "s"}) == 2
    first, second = sorted(e["ts"] for e in events if e["name"] == "cudaStreamSynchronize")
    assert second - first == pytest.approx(50.0)
    marks = sorted(e["ts"] for e in events if e.get("cat") == "stall")
    assert marks == pytest.approx([first, second])


def test_names_that_cannot_be_written_are_spelt_out():
    report, (timeline,) = example(1, 1)
    timeline = replace(timeline, names=tuple(n + "\ud800" for n in timeline.names))
    assert any("\\ud800" in e["name"] for e in checked(perfetto.render(report, [timeline])))
