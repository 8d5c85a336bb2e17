"""Two reports side by side: which stalls appeared, which went, which changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any, Literal

import orjson

from ..errors import TallyError
from .stall import Report, Site, StallGroup, group

What = Literal["appeared", "grew", "shrank", "went", "same"]
ORDER: tuple[What, ...] = ("appeared", "grew", "shrank", "went", "same")
WORSE: tuple[What, ...] = ("appeared", "grew")


@dataclass(frozen=True, slots=True)
class Account:
    """What a comparison knows of one report: the JSON of docs/json.md without what it does not compare. `name` tells the two apart."""

    name: str
    source: str
    steps: int | None
    rows: tuple[StallGroup, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One place in both reports, or in one of them. Whether it grew or shrank is told by how often it stalls, which no machine's load blurs."""

    what: What
    before: StallGroup | None
    after: StallGroup | None

    @property
    def row(self) -> StallGroup:
        """The newer of the two."""
        row = self.after or self.before
        assert row is not None
        return row


@dataclass(frozen=True, slots=True)
class Comparison:
    """All changes, the worst first. `per_step` tells whether counts per step were compared, or counts in all because a report has no steps."""

    before: Account
    after: Account
    changes: tuple[Change, ...]
    per_step: bool

    def of(self, what: What) -> list[Change]:
        return [c for c in self.changes if c.what == what]

    @property
    def worse(self) -> bool:
        return any(c.what in WORSE for c in self.changes)

    def often(self, row: StallGroup | None) -> float:
        """How often the row stalls, as compared."""
        if row is None:
            return 0.0
        return (row.per_step or 0.0) if self.per_step else row.count


def account(report: Report) -> Account:
    return Account(report.source, report.source, report.steps, tuple(group(report.stalls, report.steps)))


def read_account(data: bytes, name: str) -> Account:
    """The account in the JSON of `check --json` or `stalls --json`; `name` is what errors call it."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise TallyError(f"{name} is not JSON ({error}); expected the output of `torchtally check --json` or `torchtally stalls --json`.") from None
    if not isinstance(found, dict) or not isinstance(found.get("stalls"), list) or "source" not in found:
        kind = "a profiler trace: run `torchtally stalls --json` on it first" if isinstance(found, dict) and "traceEvents" in found else "something else"
        raise TallyError(f"{name}: expected a report with `source` and `stalls`, as `torchtally check --json` prints; came {kind}.")
    try:
        return Account(name, str(found["source"]), _number(found.get("steps"), int), tuple(_row(entry) for entry in found["stalls"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TallyError(f"{name}: an entry of `stalls` is not as docs/json.md says ({type(error).__name__}: {error}); write the report anew.") from None


def compare(before: Account, after: Account) -> Comparison:
    """Pair what is the same place in both: first by line, then by the line's text, so that code that only moved is no change."""
    per_step = bool(before.steps and after.steps)
    result = Comparison(before, after, (), per_step)
    pairs: list[tuple[StallGroup | None, StallGroup | None]] = []
    old, new = list(before.rows), list(after.rows)
    for key in (_by_line, _by_code, _by_code_elsewhere, _by_function):
        found, old, new = _pair(old, new, key)
        pairs += found
    pairs += [(b, None) for b in old] + [(None, a) for a in new]
    changes = [Change("went" if a is None else "appeared" if b is None else _what(result.often(b), result.often(a)), b, a) for b, a in pairs]
    changes.sort(key=lambda c: (ORDER.index(c.what), -abs(result.often(c.after) - result.often(c.before)), str(c.row.site), c.row.operator))
    return Comparison(before, after, tuple(changes), per_step)


def _what(before: float, after: float) -> What:
    if abs(after - before) <= 1e-9 * max(after, before):
        return "same"
    return "grew" if after > before else "shrank"


def _pair(
    old: list[StallGroup], new: list[StallGroup], key: Callable[[StallGroup], object]
) -> tuple[list[tuple[StallGroup | None, StallGroup | None]], list[StallGroup], list[StallGroup]]:
    """Pairs of equal keys in their order, and what is left of both."""
    waiting: dict[object, list[StallGroup]] = defaultdict(list)
    for row in old:
        waiting[key(row)].append(row)
    pairs: list[tuple[StallGroup | None, StallGroup | None]] = []
    unpaired = []
    for row in new:
        same = waiting[key(row)]
        if same:
            pairs.append((same.pop(0), row))
        else:
            unpaired.append(row)
    paired = {id(b) for b, _ in pairs}
    return pairs, [r for r in old if id(r) not in paired], unpaired


def _by_line(row: StallGroup) -> object:
    return (*_cause(row), row.site, row.inner)


def _by_code(row: StallGroup) -> object:
    """The same text in the same function, wherever it moved to."""
    return (*_cause(row), *(s and (s.file, s.function, _text(s)) for s in (row.site, row.inner)))


def _by_code_elsewhere(row: StallGroup) -> object:
    """As above in a file of the same name: another checkout of the same code."""
    return (*_cause(row), row.site and (PurePath(row.site.file).name, row.site.function, _text(row.site)))


def _by_function(row: StallGroup) -> object:
    """Lines whose text is unknown, in the same function."""
    return (*_cause(row), row.site and (row.site.file, row.site.function, row.site.code and row.site))


def _cause(row: StallGroup) -> tuple[object, ...]:
    return (row.kind, row.operator, row.metric, row.region)


def _text(site: Site) -> object:
    """Its code whatever the spacing, or its line where the code is unknown."""
    return "".join(site.code.split()) or site.line


def _row(entry: dict[str, Any]) -> StallGroup:
    values = {f.name: entry[f.name] for f in fields(StallGroup) if f.name not in ("site", "inner")}
    return StallGroup(
        **{
            **values,
            "count": _number(values["count"], int),
            **{f: _number(values[f], float) for f in ("per_step", "host_wait_us", "device_idle_us")},
            **{f: _site(entry[f]) for f in ("site", "inner")},
            **{f: str(values[f]) for f in ("kind", "operator", "remedy")},
        }
    )


def _number(value: Any, kind: type) -> Any:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise ValueError(f"expected a number or null, came {value!r}")
    return None if value is None else kind(value)


def _site(value: Any) -> Site | None:
    return None if value is None else Site(str(value["file"]), int(value["line"]), str(value.get("function", "")), str(value.get("code", "")))


def counts(changes: Iterable[Change]) -> dict[What, int]:
    found: dict[What, int] = dict.fromkeys(ORDER, 0)
    for change in changes:
        found[change.what] += 1
    return found
