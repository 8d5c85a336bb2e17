"""Every public metric says what its page needs, and the table of all of them is up to date."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
specification = importlib.util.spec_from_file_location("make_pages", DOCS / "make_pages.py")
make_pages = importlib.util.module_from_spec(specification)
sys.modules["make_pages"] = make_pages
specification.loader.exec_module(make_pages)

METRICS = [m for metrics in make_pages.families().values() for m in metrics]


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_a_metric_says_what_its_page_needs(metric):
    lines = inspect.cleandoc(metric.__doc__ or "").splitlines()
    assert lines and lines[0][-1] == "." and len(lines[0]) <= 160, "the first line is a sentence that says what the number is"
    assert any(line.startswith(">>> ") for line in lines), "an example that runs"
    if not hasattr(metric, "tasks"):
        assert len(lines) >= 5, "shapes, range, the rule for the empty case"


def test_the_table_is_up_to_date():
    assert (DOCS / "metrics.md").read_text() == make_pages.table(), (
        "docs/metrics.md is not what the code says: run `python docs/make_pages.py --table`"
    )


def test_every_metric_has_a_page_and_every_link_of_it_a_target(tmp_path):
    make_pages.write(tmp_path)
    pages = {p.stem: p.read_text() for p in (tmp_path / "metrics").iterdir()}
    on_pages = "\n".join(pages.values())
    for metric in METRICS:
        assert re.search(rf"^#+ {metric.__name__}$", on_pages, re.M), metric.__name__
    for target in set(re.findall(r"\]\(\.\./([^)]+)\)", on_pages)):
        assert (DOCS / target).exists(), target
    kept = {p.stem: p.read_text() for p in (DOCS / "metrics").iterdir()}
    assert kept == pages, "docs/metrics is not what the code says: run `python docs/make_pages.py`"


def test_a_page_tells_formula_statistic_sharing_function_and_differences(tmp_path):
    make_pages.write(tmp_path)
    page = (tmp_path / "metrics" / "R2Score.md").read_text()
    for part in (
        "Remembers `PairMoments`",
        "shares that with",
        "`torchtally.functional.r2_score(",
        "def value(",
        "fewer than two pairs: raises",
        ">>> R2Score()",
    ):
        assert part in page, part


def test_every_metric_has_a_formula():
    missing = [
        p.name for p in make_pages.pages() if p.family in ("aggregation", "classification", "regression", "retrieval", "text") and make_pages.math_of(p) is None
    ]
    assert not missing, f"{missing} have no formula: write it in docs/formulas.toml"


def test_which_metric_names_only_what_there_is():
    named = set(re.findall(r"`([A-Z]\w+)`", (DOCS / "which-metric.md").read_text()))
    everything = {n for p in make_pages.pages() for n in (p.name, *(c.__name__ for c in p.classes))} | {"MetricCollection"}
    assert not named - everything
    asked = {p.name for p in make_pages.pages() if p.family in ("aggregation", "classification", "regression", "retrieval", "text")}
    unasked = asked - named
    assert not unasked, f"{sorted(unasked)} answer no question yet: add them to docs/which-metric.md, where a reader would look for them"
