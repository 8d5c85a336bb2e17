"""Two reports side by side, and `torchtally diff`."""

import json as stdlib_json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from torchtally.commands import app
from torchtally.errors import TallyError
from torchtally.stalls.comparison import account, compare, read_account
from torchtally.stalls.renderers import json as json_view
from torchtally.stalls.renderers.comparison import as_dict, headline, render_text
from torchtally.stalls.stall import Report, Site, Stall

LOSS = Stall("read", "aten::item", Site("train.py", 41, "step", "loss.item()"), host_wait_us=10.0)
MASK = Stall("shape_read", "aten::nonzero", Site("train.py", 57, "step", "preds[mask]"), host_wait_us=20.0)
COPY = Stall("host_to_device", "aten::copy_", Site("data.py", 9, "load", "x.to(device)"))


def report(*stalls, steps=2, source="run"):
    return Report("check", source, steps, stalls)


def compared(before, after):
    return compare(account(before), account(after))


def kinds(comparison):
    return [(c.what, c.row.operator) for c in comparison.changes]


def test_each_stall_appears_goes_grows_shrinks_or_stays():
    before = report(LOSS, LOSS, MASK, MASK, COPY, replace(COPY, operator="stays"))
    after = report(LOSS, LOSS, LOSS, LOSS, MASK, replace(COPY, operator="new"), replace(COPY, operator="stays"))
    found = compared(before, after)
    assert kinds(found) == [
        ("appeared", "new"),
        ("grew", "aten::item"),
        ("shrank", "aten::nonzero"),
        ("went", "aten::copy_"),
        ("same", "stays"),
    ]
    assert found.worse
    assert headline(found) == "1 stall appeared, 1 grew, 1 shrank, 1 went; 1 as before."


def test_counts_are_compared_per_step_so_a_longer_run_is_no_change():
    found = compared(report(LOSS, LOSS, steps=2), report(*[LOSS] * 6, steps=6))
    assert kinds(found) == [("same", "aten::item")] and not found.worse


def test_without_steps_counts_are_compared_in_all():
    assert kinds(compared(report(LOSS, LOSS, steps=None), report(*[LOSS] * 3, steps=3))) == [("grew", "aten::item")]


def test_code_that_only_moved_is_no_change():
    moved = replace(LOSS, site=replace(LOSS.site, line=141))
    assert kinds(compared(report(LOSS), report(moved))) == [("same", "aten::item")]
    elsewhere = replace(moved, site=replace(moved.site, file="/home/ci/train.py"))
    assert kinds(compared(report(LOSS), report(elsewhere))) == [("same", "aten::item")]


def test_equal_lines_are_paired_one_to_one():
    twin = replace(LOSS, site=replace(LOSS.site, line=90))
    assert kinds(compared(report(LOSS), report(LOSS, twin))) == [("appeared", "aten::item"), ("same", "aten::item")]
    assert kinds(compared(report(LOSS, twin), report(twin))) == [("went", "aten::item"), ("same", "aten::item")]


def test_another_line_of_the_same_function_is_another_stall():
    other = replace(LOSS, site=Site("train.py", 44, "step", "accuracy.item()"))
    assert kinds(compared(report(LOSS), report(other))) == [("appeared", "aten::item"), ("went", "aten::item")]


def test_lines_without_text_are_paired_by_function():
    old, new = (replace(LOSS, site=Site("train.py", n, "step")) for n in (41, 44))
    assert kinds(compared(report(old), report(new))) == [("same", "aten::item")]


def test_a_report_written_as_json_compares_as_itself():
    first = report(LOSS, MASK, replace(COPY, site=None, metric="MeanMetric"))
    assert read_account(json_view.render(first), "a.json") == replace(account(first), name="a.json")


EXPECTED = """\
old → new
1 stall appeared, 1 went; 1 as before.

            per step  host wait  device idle  line

+ appeared     0 → 1  0 → 40 µs  0 → unknown  train.py:57 in step
                                              preds[mask]
                                              needs a shape that depends on device values
                                              (aten::nonzero)

- went         1 → 0  20 µs → 0  unknown → 0  train.py:41 in step
                                              loss.item()
                                              reads a device value (aten::item)

"""


def test_the_text_is_what_a_reader_should_see():
    found = compared(report(LOSS, LOSS, COPY, source="old"), report(MASK, MASK, COPY, source="new"))
    assert render_text(found) == EXPECTED


def test_the_json_carries_both_sides():
    found = as_dict(compared(report(LOSS), report(LOSS, LOSS)))
    change = found["changes"][0]
    assert (found["compared"], found["worse"], change["what"]) == ("per_step", True, "grew")
    assert (change["before"]["count"], change["after"]["count"]) == (1, 2)


@pytest.fixture
def files(tmp_path):
    def write(name, *stalls):
        path = tmp_path / name
        path.write_bytes(json_view.render(report(*stalls, source=name)))
        return str(path)

    return write


def test_the_command_ends_with_1_if_something_appeared_or_grew(files):
    a, b = files("a.json", LOSS), files("b.json", LOSS, MASK)
    run = CliRunner().invoke
    assert run(app, ["diff", a, b]).exit_code == 1
    assert run(app, ["diff", b, a]).exit_code == 0
    assert run(app, ["diff", a, a]).exit_code == 0
    found = run(app, ["diff", a, b, "--json"])
    assert stdlib_json.loads(found.stdout)["changes"][0]["what"] == "appeared"


def test_the_command_writes_a_page(files, tmp_path):
    evil = replace(LOSS, site=Site("<img src=x onerror=alert(1)>.py", 1, "<b>", "</script><script>alert(1)</script>"))
    page = tmp_path / "diff.html"
    result = CliRunner().invoke(app, ["diff", files("a.json", LOSS), files("b.json", LOSS, evil), "--html", str(page)])
    assert result.exit_code == 1
    text = page.read_text(encoding="utf-8")
    assert "1\N{NO-BREAK SPACE}stall appeared; 1\N{NO-BREAK SPACE}as before." in text
    assert "<img" not in text and "<script>alert" not in text and "&lt;img" in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not json", "is not JSON"),
        (b'{"traceEvents": []}', "a profiler trace"),
        (b"[1]", "came something else"),
        (b'{"source": "x", "stalls": [{"kind": "read"}]}', "docs/json.md"),
        (b'{"source": "x", "stalls": [3]}', "docs/json.md"),
        (b'{"source": "x", "steps": "two", "stalls": []}', "docs/json.md"),
    ],
)
def test_what_is_no_report_is_refused_with_what_to_do(content, said):
    with pytest.raises(TallyError, match=r"torchtally check --json|write the report anew") as error:
        read_account(content, "a.json")
    assert said in str(error.value) and error.value.exit_code == 2


def test_a_missing_file_is_a_user_mistake(tmp_path):
    result = CliRunner().invoke(app, ["diff", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert isinstance(result.exception, TallyError) and "No such file" in str(result.exception)


def test_a_stall_outside_the_steps_is_compared_too():
    setup = replace(COPY, step=None)
    within = replace(LOSS, step=0)
    assert kinds(compared(report(within, setup), report(within, setup))) == [("same", "aten::copy_"), ("same", "aten::item")]
    assert kinds(compared(report(within), report(within, setup))) == [("appeared", "aten::copy_"), ("same", "aten::item")]
