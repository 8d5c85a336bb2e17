"""`torchtally stalls` as a person types it."""

import csv
import io
import json

import pytest
from stalls.make_traces import ERAS, MODERN, defects, text, write
from typer.testing import CliRunner

from torchtally.commands import app
from torchtally.errors import TallyError


def run(*words):
    result = CliRunner().invoke(app, ["stalls", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path, MODERN)


def test_the_table_names_line_and_cost(trace):
    found = run(trace)
    assert found.exit_code == 0
    assert "train.py:28" in found.stdout
    assert "256" in found.stdout or "128" in found.stdout  # µs of device idle, in all or per step


def test_json_to_standard_output_is_nothing_but_json(trace):
    found = json.loads(run(trace, "--json").stdout)
    assert found["tool"] == "stalls"
    assert found["stalls"][0]["count"] == 2
    assert found["stalls"][0]["device_idle_us"] == pytest.approx(256)
    assert found["gains"][0]["saved_us"] == pytest.approx(770)


def test_every_view_to_a_file(trace, tmp_path):
    names = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "html", "pftrace")}
    found = run(trace, f"--json={names['json']}", f"--csv={names['csv']}", "--html", names["html"], "--perfetto", names["pftrace"])
    assert found.exit_code == 0
    assert "train.py:28" in found.stdout
    assert json.loads(names["json"].read_text())["steps"] == 2
    assert next(csv.DictReader(io.StringIO(names["csv"].read_text())))["operator"] == "aten::_local_scalar_dense"
    assert "train.py" in names["html"].read_text()
    kept = json.loads(names["pftrace"].read_text())["traceEvents"]
    assert any(e.get("name") == "gemm" for e in kept)
    assert any("stalls" in str(e.get("args", {}).get("name", "")) for e in kept if e.get("ph") == "M")
    assert "hunter2" not in "".join(p.read_text() for p in names.values()) + found.output


def test_ranks_of_a_folder(tmp_path):
    write(tmp_path, MODERN, 0)
    write(tmp_path, MODERN, 1)
    found = json.loads(run(tmp_path, "--json").stdout)
    assert (found["steps"], found["stalls"][0]["count"]) == (4, 4)


@pytest.mark.parametrize(
    "words, code", [((), 0), (("--budget", 1), 0), (("--budget", 0), 1), (("--budget-ms", 0.5), 0), (("--budget-ms", 0.1), 1)]
)
def test_budgets_decide_the_exit_code(trace, words, code):
    found = run(trace, *words)
    assert found.exit_code == code
    if code:
        assert "train.py:28" in found.stderr
        assert "over the budget" in found.stderr


def test_what_is_allowed_does_not_count(trace):
    assert run(trace, "--budget", 0, "--allow", "train.py:28").exit_code == 0
    assert run(trace, "--budget", 0, "--allow", "other.py").exit_code == 1


def test_warm_up_steps_are_left_out(trace):
    found = json.loads(run(trace, "--json", "--warmup", 1).stdout)
    assert (found["steps"], found["stalls"][0]["count"]) == (1, 1)


def test_a_budget_cannot_be_judged_without_a_device(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}')
    assert "no device work" in run(path).stdout
    with pytest.raises(TallyError, match="cannot be judged"):
        run(path, "--budget", 0)


def test_damage_is_said(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(defects()["cut in the middle of an event"][0])
    found = run(path)
    assert found.exit_code == 0
    assert "ends in the middle" in " ".join(found.stdout.split())


@pytest.mark.parametrize("words", [("nowhere.json",), (__file__,)], ids=["no file", "no trace"])
def test_mistakes_end_with_code_2(words):
    with pytest.raises(TallyError) as error:
        run(*words)
    assert error.value.exit_code == 2


def test_results_never_overwrite_a_trace(trace):
    before = trace.read_bytes()
    with pytest.raises(TallyError, match="one of the traces"):
        run(trace, "--perfetto", trace)
    assert trace.read_bytes() == before


def test_results_that_cannot_be_written_are_known_before_reading(trace, tmp_path):
    with pytest.raises(TallyError, match="cannot be written"):
        run(trace, "--html", tmp_path / "nowhere" / "x.html")


def test_json_and_csv_cannot_both_be_printed(trace):
    with pytest.raises(TallyError, match="cannot both"):
        run(trace, "--json", "--csv")


def test_help_has_an_example():
    assert "torchtally stalls trace.json.gz" in " ".join(run("--help").stdout.split())


@pytest.mark.parametrize("era", [ERAS[0], ERAS[7]], ids=lambda e: e.name)
def test_perfetto_keeps_the_files_own_events(tmp_path, era):
    source = tmp_path / "t.json"
    source.write_text(text(era))
    run(source, "--perfetto", tmp_path / "out.json")
    assert len(json.loads((tmp_path / "out.json").read_text())["traceEvents"]) > text(era).count('"ph"')
