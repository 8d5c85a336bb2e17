"""Write docs/metrics.md, the table of all metrics, and docs/metrics/, one page for each, from what the code says. `make docs` runs it.

`python docs/make_pages.py --table` writes the table alone. Both are committed, so that they are read where the code is.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import cases  # noqa: E402

import torchtally  # noqa: E402
from torchtally.adopt.migration.differences import differences  # noqa: E402
from torchtally.classification.tasks import ClassificationTask  # noqa: E402
from torchtally.commands.list import families, first_line  # noqa: E402
from torchtally.formula import Formula  # noqa: E402
from torchtally.metric import Metric  # noqa: E402
from torchtally.options import OPTIONS  # noqa: E402

_SHARED = ("weighted", "absent", "labels")
_FORMULAS = ("rate", "area", "score", "value", "compute")
_LONGEST_FORMULA = 32  # lines of code that still read as a formula


@dataclass
class Page:
    """One metric: the class, or the classes of its tasks and their front."""

    name: str
    family: str
    classes: list[type[Metric]]
    front: type | None = None

    @property
    def what(self) -> str:
        return first_line(self.front or self.classes[0])


def pages() -> list[Page]:
    """Every metric once; the classes of the tasks are on the page of their front."""
    found = []
    for family, metrics in families().items():
        fronts = [t for t in metrics if issubclass(t, ClassificationTask)]
        behind = {made for front in fronts for made in front.tasks.values()}
        found += [Page(f.__name__, family, list(f.tasks.values()), f) for f in fronts]
        found += [Page(t.__name__, family, [t]) for t in metrics if t not in fronts and t not in behind]
    return sorted(found, key=lambda p: (list(families()).index(p.family), p.name.lower()))


def text_of(thing: type) -> str:
    """The docstring as Markdown: examples fenced."""
    lines: list[str] = []
    inside = False
    for line in inspect.cleandoc(thing.__doc__ or "").splitlines():
        if line.startswith(">>>") and not inside:
            lines.append("```pycon")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, *(["```"] if inside else [])])


def signature_of(thing: type) -> str:
    return f"{thing.__name__}{plain(thing)}"


def plain(function: Any) -> str:
    """Parameters without types, but for those that every metric has."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in OPTIONS and p.kind is not p.VAR_KEYWORD]
    return str(inspect.Signature([p.replace(annotation=p.empty) for p in parameters]))


def made(cls: type[Metric]) -> Metric | None:
    """An instance with as few options as it needs, or one of tests/cases.py."""
    for options in ({}, {"num_classes": 5}, {"num_labels": 4}):
        try:
            return cls(**options)
        except (TypeError, ValueError):
            continue
    return next((m for case in cases.CASES if type(m := case.make()) is cls), None)


def functions() -> dict[str, str]:
    """Class → its function in torchtally.functional."""
    found = {}
    for name in torchtally.functional.__all__:
        told = re.match(r"One-shot form of `(\w+)`", getattr(torchtally.functional, name).__doc__ or "")
        if told:
            found.setdefault(told[1], name)
    return found


def formula_of(cls: type[Metric]) -> str:
    """The code of the formula with what it calls in its file, where it is short enough to read as one."""
    if not issubclass(cls, Formula):
        return ""
    for name in _FORMULAS:
        owner = next((c for c in cls.__mro__ if name in vars(c)), None)
        if owner is None or owner in (Metric, Formula) or not inspect.isfunction(vars(owner)[name]):
            continue
        code = _source(vars(owner)[name])
        own = [f for f in vars(sys.modules[owner.__module__]).values() if inspect.isfunction(f) and f.__module__ == owner.__module__]
        code = "\n\n".join([code, *(_source(f) for f in own if f"{f.__name__}(" in code)])
        if "NotImplementedError" not in code and code.count("\n") <= _LONGEST_FORMULA:
            return code
    return ""


def _source(function: Any) -> str:
    return re.sub(r'\n\s+"""(?:.|\n)*?"""', "", dedent(inspect.getsource(function))).rstrip()


def range_of(cls: type[Metric]) -> str:
    low, high, better = (getattr(cls, n, None) for n in ("plot_lower_bound", "plot_upper_bound", "higher_is_better"))
    if isinstance(better, property) or not issubclass(cls, Metric):  # that of the metric inside
        return ""
    reach = (
        f"{low:g} to {high:.3g}"
        if low is not None and high is not None
        else f"from {low:g}"
        if low is not None
        else f"up to {high:g}"
        if high is not None
        else "any"
    )
    return reach + ("" if better is None else ", higher is better" if better else ", lower is better")


def remembers(metric: Metric) -> Iterator[str]:
    for statistic in getattr(metric, "statistics", ()):
        slots = statistic.slots()
        if not slots:
            continue
        parts = [f"`{n}` {'a list' if s.combine == 'cat' else _shape(s)}" for n, s in slots.items()]
        yield f"`{type(statistic).__name__}`: {first_line(type(statistic))} ({'; '.join(parts)})"


def _shape(slot: Any) -> str:
    return f"{str(slot.dtype).removeprefix('torch.')}{list(slot.shape) if slot.shape else ''}"


def sharing(cls: type[Metric], metric: Metric) -> list[str]:
    """Other metrics that keep the same statistics of the same inputs, so that a collection keeps them once."""
    mine = [s for s in getattr(metric, "statistics", ()) if s.slots()]
    return [
        o.__name__ for o, other in _INSTANCES.items() if o is not cls and mine and any(s in getattr(other, "statistics", ()) for s in mine)
    ]


_INSTANCES: dict[type[Metric], Metric] = {}
_PICTURES = {
    "ConfusionMatrix": "confusion",
    "ROC": "roc",
    "PrecisionRecallCurve": "precision-recall",
    "StatScores": "counts",
    "CalibrationError": "calibration",
}


def formulas() -> dict[str, str]:
    """Name of a page → its formula in LaTeX."""
    return {
        name: text
        for family in tomllib.loads((DOCS / "formulas.toml").read_text(encoding="utf-8")).values()
        for name, text in family.items()
    }


def math_of(page: Page) -> str | None:
    """The formula of a metric, or of one task by that of all."""
    return formulas().get(page.name) or formulas().get(re.sub("^(Binary|Multiclass|Multilabel)", "", page.name))


def page_text(page: Page) -> str:
    alone = page.front is None
    lines = [f"# {page.name}", "", *(() if alone else (f"{page.what}.", ""))]
    if (math := math_of(page)) is not None:
        lines += ["```math", math, "```", ""]
    if page.front is not None:
        lines += [f"`{page.name}(task={' | '.join(map(repr, page.front.tasks))}, …)` makes the metric of the task:", ""]
    for cls in page.classes:
        lines += [*(() if alone else (f"## {cls.__name__}", "")), *class_text(cls, page)]
    lines += ["## Differences from torchmetrics", ""]
    told = list(
        dict.fromkeys(d.text for d in differences() if any(d.mentions(n) for n in (page.name, *(c.__name__ for c in page.classes))))
    )
    lines += [f"- {text}" for text in told] or ["None known."]
    picture = next((p for name, p in _PICTURES.items() if page.name.endswith(name)), None)
    if picture is not None:
        lines += [
            "",
            "## Picture",
            "",
            "`metric.plot()` ([all pictures](../plots.md)):",
            "",
            f"![What plot() draws](../images/plot-{picture}.png)",
        ]
    return "\n".join([*lines, "", "[All metrics](../metrics.md)", ""])


def class_text(cls: type[Metric], page: Page) -> list[str]:
    metric = _INSTANCES.get(cls)
    module = f"torchtally.{page.family}" if page.family else "torchtally"
    lines = [
        "```python",
        f"from {module} import {cls.__name__}",
        "",
        signature_of(cls),
        "```",
        "",
        text_of(cls),
        "",
    ]
    facts = [f"Range: {reach}."] if (reach := range_of(cls)) else []
    if getattr(cls, "is_differentiable", False):
        facts.append("Gradients flow through the value of `forward` and of the function.")
    if shared := [f"`{n}`" for n in _SHARED if n in inspect.signature(cls).parameters]:
        facts.append(f"On {', '.join(shared)}: [options that many metrics share](../options.md).")
    if cls.__name__ in _FUNCTIONS:
        function = _FUNCTIONS[cls.__name__]
        facts.append(f"As a function: `torchtally.functional.{function}{plain(getattr(torchtally.functional, function))}`.")
    if metric is not None:
        facts += [f"Remembers {text}." for text in remembers(metric)]
        others = sharing(cls, metric)
        if others:
            facts.append(f"In a collection, with the same options, shares that with {', '.join(others)}.")
    lines += [f"- {f}" for f in facts]
    code = formula_of(cls)
    return [*lines, "", *(["The formula, as the code has it:", "", "```python", code, "```", ""] if code else [])]


def table() -> str:
    lines = ["# All metrics", "", "Made by `make docs` from the code. Which one do I want? [By question](which-metric.md).", ""]
    titles = {"": "More"}
    for family in families():
        own = [p for p in pages() if p.family == family]
        lines += [
            f"## {titles.get(family, family.replace('_', ' ').capitalize())}",
            "",
            f"`from torchtally{'.' + family if family else ''} import …`",
            "",
        ]
        lines += ["| metric | what it is | classes | range | as a function |", "|---|---|---|---|---|"]
        for p in own:
            classes = " ".join(f"`{c.__name__}`" for c in p.classes if c.__name__ != p.name)
            function = next((f"`{n}`" for c in p.classes if (n := _front_function(p, c))), "")
            lines.append(f"| [`{p.name}`](metrics/{p.name}.md) | {p.what} | {classes} | {range_of(p.classes[0])} | {function} |")
        lines.append("")
    return "\n".join(lines)


def _front_function(page: Page, cls: type[Metric]) -> str:
    name = _FUNCTIONS.get(cls.__name__, "")
    if page.front is not None:
        name = re.sub(r"^(binary|multiclass|multilabel)_", "", name)
    return name


_FUNCTIONS = functions()


def write(folder: Path, table_only: bool = False) -> None:
    (folder / "metrics.md").write_text(table(), encoding="utf-8")
    if table_only:
        return
    found = pages()
    _INSTANCES.update({c: m for p in found for c in p.classes if (m := made(c)) is not None})
    (folder / "metrics").mkdir(exist_ok=True)
    for page in found:
        (folder / "metrics" / f"{page.name}.md").write_text(page_text(page), encoding="utf-8")


if __name__ == "__main__":
    write(DOCS, "--table" in sys.argv)
