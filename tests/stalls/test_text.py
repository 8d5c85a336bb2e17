"""The report as text and as comma-separated values, against what a reader should see."""

import csv
import io
import json
from dataclasses import replace

import pytest

from torchtally.stalls.renderers import csv as csv_view
from torchtally.stalls.renderers import html as html_view
from torchtally.stalls.renderers import json as json_view
from torchtally.stalls.renderers import text as text_view
from torchtally.stalls.renderers.summary import summarise
from torchtally.stalls.renderers.wording import duration, number, percent, short_path, visible
from torchtally.stalls.stall import Gain, Report, Site, Stall
from torchtally.stalls.timeline import Draft, WorkKind

LOSS = Site("train.py", 41, "train_step", "running_loss += loss.item()")
MASK = Site("train.py", 57, "", "preds = preds[mask]")
INNER = Site("/opt/python/site-packages/torchmetrics/aggregation.py", 88, "_check", "if nans.any():")


def stalls(steps):
    found = []
    for step in range(steps):
        found.append(Stall("read", "aten::item", LOSS, LOSS, step=step, host_wait_us=90.0, device_idle_us=10.0, remedy="Read it once per epoch."))
        found.append(Stall("shape_read", "aten::nonzero", MASK, INNER, "MeanMetric", "forward", step, None, 20.0, 40.0, inferred=True))
    return tuple(found)


def report(**changes):
    values = {"tool": "stalls", "source": "trace.json.gz", "steps": 2, "stalls": stalls(2), "duration_us": 1000.0}
    return Report(**{**values, **changes})


EXPECTED = """\
trace.json.gz
2 lines cost 7.0 % of the step.
4 stalls (2 per step); the host waited 220 µs; the device stood idle 100 µs because of them.

per step  host wait  device idle  line

       1      40 µs        80 µs  train.py:57 (line inferred)
                                  preds = preds[mask]
                                  needs a shape that depends on device values (aten::nonzero) ·
                                  metric MeanMetric · region forward
                                  waits inside torchmetrics/aggregation.py:88 in _check

       1     180 µs        20 µs  train.py:41 in train_step
                                  running_loss += loss.item()
                                  reads a device value (aten::item)
                                  → Read it once per epoch.


What removing them would save
      70 µs  all stalls (4 stalls)

Note: The file is cut short.
"""


def test_the_text_is_what_a_reader_should_see():
    assert text_view.render(report(notes=("The file is cut short.",), gains=(Gain("all stalls", 4, 70.0),))) == EXPECTED


def test_a_narrow_terminal_loses_no_word():
    narrow = text_view.render(report(), width=60)
    assert max(map(len, narrow.splitlines())) <= 60
    for word in ("preds[mask]", "aten::nonzero", "MeanMetric", "_check", "inferred"):
        assert word in narrow


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({}, "2 lines cost 10 % of the step."),
        ({"steps": None}, "2 lines cost 10 % of the run."),
        ({"duration_us": None}, "2 lines make the host wait 2 times per step."),
        ({"duration_us": None, "steps": None}, "2 lines make the host wait 4 times."),
        ({"stalls": stalls(2)[:1], "steps": 1}, "1 line costs 1.0 % of the step."),
        ({"stalls": (Stall("read", "aten::item", LOSS, host_wait_us=250.0),)}, "1 line holds the host up for 25 % of the step."),
        ({"stalls": (Stall("read", "aten::item"), Stall("read", "aten::any")), "steps": 2}, "2 places make the host wait 1 time per step."),
        ({"stalls": (*stalls(2), Stall("print", "print", Site("train.py", 99), step=0))}, "2 of 3 lines cost at least 10 % of the step."),
        ({"gains": (Gain("all stalls", 4, 70.0),)}, "2 lines cost 7.0 % of the step."),
        ({"gains": (Gain("all stalls", 4, 0.0),)}, "2 lines make the host wait 2 times per step, at no cost in time."),
        ({"gains": (Gain("all stalls", 4, None),)}, "2 lines cost 10 % of the step."),
        ({"gains": (Gain("some stalls", 2, 70.0),)}, "2 lines cost 10 % of the step."),
        ({"stalls": (*stalls(2), Stall("print", "print", LOSS, step=0, host_wait_us=500.0))}, "1 of 2 lines holds the host up for 68 % of the step."),
        ({"stalls": ()}, "No stalls."),
    ],
)
def test_the_headline_claims_no_more_than_is_known(changes, headline):
    assert summarise(report(**changes)).headline == headline


def test_few_lines_that_make_most_of_the_cost_are_told_from_the_rest():
    many = tuple(Stall("read", "aten::item", Site("train.py", n), device_idle_us=1.0) for n in range(1, 21))
    costly = Stall("read", "aten::item", Site("train.py", 99), device_idle_us=400.0)
    assert summarise(report(stalls=(*many, costly))).headline == "1 of 21 lines costs 40 % of the step."
    gains = (Gain("all stalls", 21, 200.0),)
    assert summarise(report(stalls=(*many, costly), gains=gains)).headline == "21 lines, above all 1 of them, cost 20 % of the step."


def test_without_device_work_no_stall_is_not_good_news():
    draft = Draft("recorded in part")
    assert summarise(report(stalls=()), [draft.timeline()]).headline == "No device work was recorded, so no stall can be seen."
    assert summarise(report(stalls=(), tool="check"), [draft.timeline()]).headline == "No stalls."
    draft.work("gemm", draft.lane("stream 7", device=0, stream=7), 0.0, 5.0, WorkKind.KERNEL)
    assert summarise(report(stalls=()), [draft.timeline()]).headline == "No calls to the device were recorded, so no stall can be seen."


def test_unknown_and_predicted_figures_say_so():
    unknown = report(stalls=(Stall("read", "aten::item", LOSS),), duration_us=None)
    assert "what they cost is unknown" in text_view.render(unknown)
    assert "host wait  " not in text_view.render(unknown) and "device idle" not in text_view.render(unknown), "a column without a figure is left out"
    partly = report(stalls=(Stall("read", "aten::item", LOSS), Stall("read", "aten::any", LOSS, host_wait_us=5.0)))
    assert partly.stalls[0].host_wait_us is None and text_view.render(partly).count("unknown") == 1
    predicted = text_view.render(report(predicted="A40"), width=160)
    assert "2 lines would cost 10 % of the step on A40." in predicted
    assert "Times are predicted for A40, not measured." in predicted
    assert "≈ 40 µs" in predicted and " 180 µs" not in predicted.replace("≈ 180 µs", "")


def test_names_from_a_file_cannot_steer_the_terminal():
    nasty = Site("evil\x1b[2J.py", 1, "f\u202eg", "x = 1\x07 [bold]")
    out = text_view.render(report(stalls=(Stall("read", "a\x9bb\r\n", nasty),), notes=("\x1b]0;title\x07",), source="\x1b[31m"))
    assert not set(out) & {"\x1b", "\x07", "\x9b", "\r", "\u202e"}
    assert "evil\\x1b[2J.py" in out and "[bold]" in out


def test_half_a_character_stops_no_view():
    broken = report(stalls=(Stall("read", "op\ud800", Site("a\udfff.py", 1, "f", "x\ud83d"), metric="m\ud800"),), notes=("n\ud800",), source="s\ud800")
    for view in (text_view, csv_view, html_view):
        assert "\\ud800" in view.render(broken).encode().decode()
    assert json.loads(json_view.render(broken))["stalls"][0]["operator"] == "op\\ud800"


def test_the_csv_has_one_line_per_site_and_leaves_unknown_figures_empty():
    rows = list(csv.DictReader(io.StringIO(csv_view.render(report(stalls=(*stalls(2), Stall("read", "aten::item")))))))
    assert rows[0] == {
        "kind": "read", "operator": "aten::item", "file": "train.py", "line": "41", "function": "train_step", "code": "running_loss += loss.item()",
        "inner_file": "train.py", "inner_line": "41", "inner_function": "train_step", "inner_code": "running_loss += loss.item()", "metric": "", "region": "",
        "count": "2", "per_step": "1.0", "host_wait_us": "180.0", "device_idle_us": "20.0", "inferred": "false", "remedy": "Read it once per epoch.",
    }  # fmt: skip
    assert (rows[1]["metric"], rows[1]["inferred"], rows[1]["inner_line"]) == ("MeanMetric", "true", "88")
    assert (rows[2]["file"], rows[2]["host_wait_us"], rows[2]["device_idle_us"], rows[2]["count"]) == ("", "", "", "1")


def test_a_spreadsheet_runs_nothing_from_the_csv():
    for formula in ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)"):
        row = next(csv.DictReader(io.StringIO(csv_view.render(report(stalls=(Stall("read", formula),))))))
        assert row["operator"] == "'" + formula


@pytest.mark.parametrize(
    ("us", "said"),
    [(None, "unknown"), (0.0, "0 µs"), (0.25, "0.25 µs"), (12.34, "12.3 µs"), (999.9, "1 ms"), (1500.0, "1.5 ms"), (2_345_678.0, "2.35 s"), (1.2e9, "1,200 s")],
)
def test_durations_read_as_a_person_would_say_them(us, said):
    assert duration(us) == said


def test_numbers_shares_and_paths():
    assert [number(x) for x in (0, 0.001, 0.333, 2.0, 12.34, 100, 12345.6)] == ["0", "under 0.01", "0.33", "2", "12.3", "100", "12,346"]
    assert [percent(x) for x in (0.0, 0.0004, 0.012, 0.0994, 0.123, 1.0)] == ["0.0 %", "under 0.1 %", "1.2 %", "9.9 %", "12 %", "100 %"]
    assert short_path("/opt/lib/site-packages/torch/a.py") == "torch/a.py"
    assert short_path("C:\\venv\\Lib\\site-packages\\torch\\a.py") == "torch/a.py"
    assert visible("a\tb\nc\x00") == "a b c\\x00"


def test_stalls_outside_the_steps_do_not_count_per_step():
    within = tuple(Stall("read", "aten::item", LOSS, step=n) for n in (0, 1))
    setup = Stall("synchronize", "synchronize", MASK)
    found = summarise(report(stalls=(*within, setup), duration_us=None))
    assert (found.count, found.per_step) == (3, 1.0)
    assert found.headline == "1 line makes the host wait 1 time per step."
    assert found.detail == "3 stalls (1 per step); what they cost is unknown."
    only_setup = report(stalls=(setup, replace(setup, step=0)), duration_us=None)
    assert summarise(only_setup).headline == "1 line makes the host wait 0.5 times per step."


def test_a_wait_while_setting_up_is_not_charged_to_the_steps():
    cheap = tuple(Stall("read", "aten::item", LOSS, step=n, host_wait_us=5.0, device_idle_us=50.0) for n in (0, 1))
    costly = Stall("synchronize", "synchronize", MASK, host_wait_us=9000.0, device_idle_us=9000.0)
    found = summarise(report(stalls=(*cheap, costly)))
    assert found.headline == "1 line costs 10 % of the step."
    assert (found.idle.us, found.idle.per_step_us) == (9100.0, 50.0)


def test_times_known_in_part_are_at_least_that():
    found = summarise(report(stalls=(*stalls(2), Stall("read", "aten::item", LOSS, step=0, host_wait_us=1.0))))
    assert found.detail == "5 stalls (2.5 per step); the host waited 221 µs; the device stood idle at least 100 µs because of them."
