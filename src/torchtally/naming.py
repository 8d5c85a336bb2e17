"""Metrics by name: the names in results, and the forms in which named metrics can be given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from .options import affix_of

if TYPE_CHECKING:
    from .metric import Metric

Affixes = tuple[str, str]
"""What stands before and after a name."""


class NamedMetrics(nn.Module):
    """A mapping of names to metrics; in results a name stands between `prefix` and `postfix`."""

    _modules: dict[str, Any]  # type: ignore[assignment]  # nn.Module admits None; here every member is a metric
    prefix: str | None
    postfix: str | None
    _around: dict[str, Affixes]  # of members that came in a collection: what it put around the names in their values

    def __init__(self, prefix: str | None, postfix: str | None) -> None:
        super().__init__()
        for option, x in (("prefix", prefix), ("postfix", postfix)):
            affix_of("MetricCollection", option, x)
        self.__dict__.update(prefix=prefix, postfix=postfix, _around={})

    def _name(self, name: str) -> str:
        return f"{self.prefix or ''}{name}{self.postfix or ''}"

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        """With prefix and postfix; a value that is a dict is spread out, under the member's name where it says so or names would clash."""
        inner = [k for n, v in values.items() if isinstance(v, dict) for k in self._inside(n, v)]
        named = {n for n in values if getattr(self._modules[n], "_names_values", False)} if inner else set()
        if not inner and not self.prefix and not self.postfix:
            return {n: v for n, v in values.items() if not isinstance(v, dict)}
        out: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, dict):
                for (k, v), whole in zip(value.items(), self._inside(name, value)):
                    alone = inner.count(whole) == 1 and whole not in values and name not in named
                    out[self._name(whole if alone else f"{name}_{k}")] = v
            else:
                out[self._name(name)] = value
        return out

    def _inside(self, name: str, value: dict[str, Any]) -> list[str]:
        """Names in a member's value that is a dict, with the prefix and postfix of the collection it came in."""
        before, after = self._around.get(name, ("", ""))
        return [f"{before}{k}{after}" for k in value]

    def items(self, keep_base: bool = False, copy_state: bool = True) -> list[tuple[str, Any]]:
        """Names (with prefix and postfix unless `keep_base`) and members."""
        return [(n if keep_base else self._name(n), m) for n, m in self._modules.items()]

    def keys(self, keep_base: bool = False) -> list[str]:
        """Names, with prefix and postfix unless `keep_base`."""
        return [n if keep_base else self._name(n) for n in self._modules]

    def values(self, copy_state: bool = True) -> list[Any]:
        """Members."""
        return list(self._modules.values())

    def __getitem__(self, name: str, copy_state: bool = True) -> Any:
        if name in self._modules:
            return self._modules[name]
        for n, m in self._modules.items():
            if self._name(n) == name:
                return m
        raise KeyError(f"MetricCollection has no metric {name!r}; it has {self.keys()}.")

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._modules)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        lines = [f"  ({n}): {m!r}".replace("\n", "\n  ") for n, m in self._modules.items()]
        for name in ("prefix", "postfix"):
            if getattr(self, name):
                lines.append(f"  {name}={getattr(self, name)!r}")
        return "MetricCollection(\n" + ",\n".join(lines) + "\n)"


def named_metrics(metrics: Any, additional: Sequence[Any]) -> Iterator[tuple[str, Metric, Affixes]]:
    """Names and metrics of all the forms a collection can be given, and what an inner collection puts around names."""
    if isinstance(metrics, Mapping):
        if additional:
            raise ValueError("MetricCollection: further metrics can be given only after a metric or a list, not after a dict.")
        for name, metric in metrics.items():
            if not isinstance(name, str):
                raise ValueError(f"MetricCollection: name {name!r} is a {type(name).__name__}; expected a string.")
            if isinstance(metric, NamedMetrics):
                yield from ((f"{name}_{inner}", m, around) for inner, m, around in _members_of(metric))
            else:
                yield name, metric, ("", "")
        return
    listed = [metrics] if isinstance(metrics, nn.Module) else metrics
    if not isinstance(listed, list | tuple):
        raise ValueError(f"MetricCollection: got {metrics!r}; expected a metric, a list of metrics, or a dict of names.")
    for metric in (*listed, *additional):
        if isinstance(metric, NamedMetrics):
            yield from _members_of(metric)
        else:
            yield type(metric).__name__, metric, ("", "")


def _members_of(inner: NamedMetrics) -> Iterator[tuple[str, Metric, Affixes]]:
    for name, metric in inner.items(keep_base=True):
        before, after = inner._around.get(name, ("", ""))
        yield inner._name(name), metric, (f"{inner.prefix or ''}{before}", f"{after}{inner.postfix or ''}")
