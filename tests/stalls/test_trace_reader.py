"""Traces of every era are read alike, broken ones as far as they go, and what is no trace is refused."""

import gzip
import json
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stalls.make_traces import BASE_NS, ERAS, MODERN, defects, document, events, text, write

from torchtally.errors import TallyError
from torchtally.stalls.sources import events as event_blocks
from torchtally.stalls.sources.names import call_kind, work_kind
from torchtally.stalls.sources.trace import read_trace, read_traces
from torchtally.stalls.timeline import CallKind, WorkKind


def read(tmp_path, content, name="t.json"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_trace(path)


def named(run, spans, name):
    return spans.take(spans.name == run.names.index(name))


@pytest.mark.parametrize("era", ERAS, ids=lambda e: e.name)
@pytest.mark.parametrize("block", [1 << 9, 1 << 20], ids=["small blocks", "one block"])
def test_every_era_tells_the_same_run(tmp_path, monkeypatch, era, block):
    monkeypatch.setattr(event_blocks, "BLOCK", block)
    run = read(tmp_path, text(era))
    product = named(run, run.work, "gemm")
    np.testing.assert_allclose(product.start_us, [115, 1115], atol=0.2)
    np.testing.assert_allclose(product.end_us, [515, 1515], atol=0.2)
    assert [(s.number, round(s.start_us), round(s.end_us)) for s in run.steps] == [(3, 0, 1000), (4, 1000, 2000)]
    assert len(named(run, run.operators, "aten::item")) == 2
    assert len(run.work) == 6
    waits = run.calls.take(np.isin(run.calls.kind, [CallKind.STREAM_SYNC, CallKind.BLOCKING_COPY]))
    np.testing.assert_allclose(waits.end_us, [520, 1520], atol=0.2)
    copies = np.isin(run.work.kind, [WorkKind.DEVICE_TO_PAGEABLE, WorkKind.DEVICE_TO_PINNED, WorkKind.DEVICE_TO_HOST])
    assert copies.sum() == 2
    launches = run.calls.take(run.calls.kind == CallKind.LAUNCH)
    assert len(launches) == 4
    assert set(launches.link) <= set(run.work.link)
    assert min(launches.link) > 0
    assert [lane.label for lane in run.lanes if lane.device is None] == ["thread 4242"]
    assert {lane.stream for lane in run.lanes if lane.device == 0} >= {7}
    assert run.notes == ()


@pytest.mark.parametrize("era", ERAS, ids=lambda e: e.name)
def test_layout_and_packing_do_not_matter(tmp_path, era):
    plain = read(tmp_path, text(era))
    for content in (
        text(era, indent=4),
        gzip.compress(text(era).encode()),
        gzip.compress(text(era)[:3000].encode()) + gzip.compress(text(era)[3000:].encode()),
    ):
        other = read(tmp_path, content, "no suffix")
        assert other.names == plain.names
        np.testing.assert_array_equal(other.calls.start_us, plain.calls.start_us)
        np.testing.assert_array_equal(other.work.link, plain.work.link)


def test_absolute_time_is_known_in_every_time_base(tmp_path):
    assert read(tmp_path, text(MODERN)).origin_ns == pytest.approx(BASE_NS + 1_000_000_000_125, abs=1000)
    assert read(tmp_path, text(ERAS[0])).origin_ns == pytest.approx(1_700_000_000_000_000_000, abs=1000)
    assert read(tmp_path, text(ERAS[3])).origin_ns == pytest.approx(1_700_000_000_000_000_250, abs=1000)


def test_rank_and_devices_come_from_the_metadata_and_the_rest_is_forgotten(tmp_path):
    run = read(tmp_path, text(MODERN, rank=5))
    assert run.rank == 5
    assert run.devices == ("Device X", "Device X")
    assert "hunter2" not in repr(run)


def test_the_file_name_tells_the_rank_where_the_metadata_does_not(tmp_path):
    assert read(tmp_path, json.dumps(events(MODERN)), "worker3_step_12.169.pt.trace.json").rank == 3


def test_ranks_of_a_folder_are_read_together_and_other_files_passed_over(tmp_path):
    write(tmp_path, MODERN, 0)
    write(tmp_path, MODERN, 1)
    (tmp_path / "config.json").write_text('{"a": 1}')
    runs = read_traces([tmp_path])
    assert [r.rank for r in runs] == [0, 1]
    assert "config.json" in runs[0].notes[-1]


def test_ranks_that_are_not_told_are_numbered(tmp_path):
    runs = read_traces([write(tmp_path, ERAS[0], 0), write(tmp_path, ERAS[0], 0)])
    assert [r.rank for r in runs] == [0, 1]
    assert "numbered" in runs[0].notes[-1]


def test_a_folder_without_traces_is_refused(tmp_path):
    with pytest.raises(TallyError, match="holds no trace"):
        read_traces([tmp_path])


DAMAGE_SAID = {
    "cut in the middle of an event": "ends in the middle",
    "list not closed": "ends in the middle",
    "cut gzip": "cut short",
    "unescaped quotes in a name": "2 events were not valid JSON",
    "backslashes of a path": "2 events were not valid JSON",
    "negative durations": "4 events end before they start",
    "missing ends": "4 events have no end",
    "a time above 64 bits": "4 events lie at impossible times",
    "every event twice": "9 runtime calls are in the file twice",
}


@pytest.mark.parametrize("block", [1 << 9, 1 << 20], ids=["small blocks", "one block"])
@pytest.mark.parametrize("defect", defects())
def test_broken_files_are_read_as_far_as_they_go(tmp_path, monkeypatch, defect, block):
    monkeypatch.setattr(event_blocks, "BLOCK", block)
    content, calls = defects()[defect]
    run = read(tmp_path, content)
    assert len(run.calls) == calls, run.notes
    if defect in DAMAGE_SAID:
        assert any(DAMAGE_SAID[defect] in note for note in run.notes), run.notes
    if calls == 9:
        assert len(run.steps) == 2
    assert "hunter2" not in repr(run.notes)


@pytest.mark.parametrize("ts", [1e300, float("inf"), "soon", None, 0, -5, True])
def test_an_odd_time_of_the_first_event_does_not_move_the_others(tmp_path, ts):
    whole = document(MODERN)
    whole["traceEvents"].insert(0, {**whole["traceEvents"][0], "ts": ts, "name": "odd"})
    run = read(tmp_path, json.dumps(whole))
    product = named(run, run.work, "gemm")
    np.testing.assert_allclose(product.end_us - product.start_us, [400, 400], atol=0.01)
    assert len(run.calls) == 9


def test_names_with_quotes_survive(tmp_path):
    run = read(tmp_path, defects()["unescaped quotes in a name"][0])
    assert any(name.startswith('gemm<"fast", "x') for name in run.names)
    assert len(run.work) == 6


def test_begin_and_end_events_pair_up_and_a_missing_end_is_said(tmp_path):
    pairs = [
        {"ph": "B", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 100},
        {"ph": "B", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 110},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 120},
        {"ph": "X", "cat": "kernel", "name": "add", "pid": 0, "tid": 7, "ts": 115, "dur": 50},
    ]
    run = read(tmp_path, json.dumps(pairs))
    assert run.operators.end_us[0] - run.operators.start_us[0] == 10
    assert run.steps[0].end_us == 65  # lasts as long as the file
    assert any("have no end" in note for note in run.notes)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (b"<!DOCTYPE html><html>Sign in</html>", "not JSON"),
        (b'{"schema": "1.0", "nodes": [{"id": 1}]}', 'no "traceEvents"'),
        (b"[1, 2, 3]", "not of trace events"),
        (b"\x89PNG\r\n\x1a\n\0\0", "not JSON"),
        (gzip.compress(b""), "empty"),
        (gzip.compress(text(MODERN).encode())[:12], "cut short"),
        (b"\x1f\x8b garbage", "no trace"),
    ],
    ids=["empty", "blank", "a login page", "other JSON", "a list of numbers", "a picture", "empty gzip", "gzip cut at once", "no gzip"],
)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, content, message):
    with pytest.raises(TallyError, match=message) as error:
        read(tmp_path, content)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def test_a_missing_file_is_refused():
    with pytest.raises(TallyError, match="cannot be read"):
        read_trace("nowhere.json")


def test_an_empty_list_of_events_is_a_trace_of_nothing(tmp_path):
    assert len(read(tmp_path, '{"traceEvents": [], "traceName": "x"}').calls) == 0


def test_a_gzip_bomb_is_stopped_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(event_blocks, "BOMB_SIZE", 1 << 23)
    squeeze = zlib.compressobj(9, wbits=31)
    with (tmp_path / "bomb.json.gz").open("wb") as file:
        file.write(squeeze.compress(b'{"traceEvents": ['))
        for _ in range(16):
            file.write(squeeze.compress(b" " * (1 << 20)))
        file.write(squeeze.flush())
    with pytest.raises(TallyError, match="200 times its size"):
        read_trace(tmp_path / "bomb.json.gz")


def test_running_out_of_memory_is_foreseen(tmp_path, monkeypatch):
    monkeypatch.setattr("torchtally.stalls.sources.trace.memory_left", lambda: 1000)
    with pytest.raises(TallyError, match="more memory than this machine has"):
        read(tmp_path, text(MODERN))


def test_nesting_without_end_is_not_followed(tmp_path):
    deep = '{"traceEvents": [{"ph": "X", "args": ' + '{"a": ' * 5000 + "1" + "}" * 5000 + "}]}"
    assert len(read(tmp_path, deep).calls) == 0


def test_lists_of_objects_inside_events_do_not_split_them(tmp_path, monkeypatch):
    monkeypatch.setattr(event_blocks, "BLOCK", 1 << 9)
    whole = document(MODERN)
    for event in whole["traceEvents"]:
        if event["ph"] == "X":
            event["args"]["groups"] = [{"ranks": [0, 1]}, {"ranks": [2]}]
    run = read(tmp_path, json.dumps(whole))
    assert len(run.calls) == 9
    assert run.notes == ()


SEED = text(MODERN).encode()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_leads_to_a_traceback(tmp_path, data):
    content = bytearray(SEED)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        length = data.draw(st.integers(0, 400))
        action = data.draw(st.sampled_from(["flip", "cut", "double", "write", "end"]))
        if action == "flip" and content:
            content[at] ^= data.draw(st.integers(1, 255))
        elif action == "cut":
            del content[at : at + length]
        elif action == "double":
            content[at:at] = content[at : at + length]
        elif action == "write":
            content[at:at] = data.draw(
                st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"null", b"1e999", b"-1", b"\0", b"true", b"[[["])
            )
        elif action == "end":
            del content[at:]
    packed = bytes(content)
    if data.draw(st.booleans()):
        packed = bytearray(gzip.compress(packed))
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(0, 255))
        packed = bytes(packed)
    try:
        run = read(tmp_path, packed)
    except TallyError as error:
        assert "\n" not in str(error)
    else:
        assert np.isfinite(run.end_us)


@pytest.mark.parametrize(
    "name, kind",
    [
        ("cudaStreamSynchronize", CallKind.STREAM_SYNC),
        ("cudaStreamSynchronize_ptsz", CallKind.STREAM_SYNC),
        ("cudaStreamSynchronize_v10000", CallKind.STREAM_SYNC),
        ("cuStreamSynchronize", CallKind.STREAM_SYNC),
        ("hipStreamSynchronize", CallKind.STREAM_SYNC),
        ("cudaDeviceSynchronize", CallKind.DEVICE_SYNC),
        ("cuCtxSynchronize", CallKind.DEVICE_SYNC),
        ("hipDeviceSynchronize", CallKind.DEVICE_SYNC),
        ("cudaEventSynchronize", CallKind.EVENT_SYNC),
        ("zeEventHostSynchronize", CallKind.EVENT_SYNC),
        ("urQueueFinish", CallKind.STREAM_SYNC),
        ("cudaMemcpyAsync", CallKind.COPY),
        ("cuMemcpyDtoHAsync_v2", CallKind.COPY),
        ("hipMemcpyAsync", CallKind.COPY),
        ("cudaMemcpy", CallKind.BLOCKING_COPY),
        ("hipMemcpyWithStream", CallKind.BLOCKING_COPY),
        ("cudaMalloc", CallKind.ALLOCATE),
        ("cudaMallocAsync", CallKind.OTHER),
        ("cudaHostAlloc", CallKind.ALLOCATE),
        ("hipExtMallocWithFlags", CallKind.ALLOCATE),
        ("cuMemMap", CallKind.ALLOCATE),
        ("hipFree", CallKind.FREE),
        ("cudaFreeHost", CallKind.FREE),
        ("cudaFreeAsync", CallKind.OTHER),
        ("cuMemUnmap", CallKind.FREE),
        ("cudaLaunchKernel", CallKind.LAUNCH),
        ("cudaLaunchKernelExC_v11060", CallKind.LAUNCH),
        ("cuLaunchKernelEx", CallKind.LAUNCH),
        ("hipExtModuleLaunchKernel", CallKind.LAUNCH),
        ("cudaMemsetAsync", CallKind.LAUNCH),
        ("cudaGraphLaunch", CallKind.GRAPH_LAUNCH),
        ("hipGraphLaunch", CallKind.GRAPH_LAUNCH),
        ("cudaStreamWaitEvent", CallKind.OTHER),
        ("cudaEventQuery", CallKind.OTHER),
        ("cudaEventRecord", CallKind.OTHER),
        ("cudaStreamIsCapturing", CallKind.OTHER),
    ],
)
def test_runtime_calls_by_name(name, kind):
    assert call_kind(name) == kind


@pytest.mark.parametrize(
    "category, name, kind",
    [
        ("kernel", "memcpy_like_kernel", WorkKind.KERNEL),
        ("gpu_memset", "Memset (Device)", WorkKind.MEMSET),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", WorkKind.PAGEABLE_TO_DEVICE),
        ("Memcpy", "Memcpy HtoD (Pinned -> Device)", WorkKind.PINNED_TO_DEVICE),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", WorkKind.DEVICE_TO_PINNED),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Host)", WorkKind.DEVICE_TO_HOST),
        ("gpu_memcpy", "Memcpy HtoD (Host -> Device)", WorkKind.HOST_TO_DEVICE),
        ("gpu_memcpy", "CopyDeviceToHost", WorkKind.DEVICE_TO_HOST),
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", WorkKind.COPY),
    ],
)
def test_device_work_by_name(category, name, kind):
    assert work_kind(category, name) == kind
