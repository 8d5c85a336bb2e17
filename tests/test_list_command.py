"""`torchtally list` names the public metrics."""

import json

from typer.testing import CliRunner

from torchtally.commands import app


def test_lists_metrics_by_word():
    shown = CliRunner().invoke(app, ["list", "accur"])
    assert shown.exit_code == 0
    assert "Accuracy" in shown.output and "MeanMetric" not in shown.output


def test_json_names_tasks_and_what_a_metric_is():
    rows = json.loads(CliRunner().invoke(app, ["list", "--json"]).output)
    by_name = {r["name"]: r for r in rows}
    assert by_name["F1Score"]["tasks"] == ["binary", "multiclass", "multilabel"]
    assert by_name["MeanMetric"]["what"].startswith("Weighted mean")


def test_a_word_nobody_has():
    assert "No metric" in CliRunner().invoke(app, ["list", "zzz"]).output
