"""Price lists: what a device and its host can do, each number with its source."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...errors import TallyError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LISTS = Path(__file__).parent / "lists"
Pace = Literal["slow", "typical", "fast"]
PACES: tuple[Pace, ...] = ("slow", "typical", "fast")
REQUIRED = ("name", "bandwidth", "bus", "peak")


@dataclass(frozen=True, slots=True)
class Constant:
    """One number: `values` for the slow, the typical and the fast case (equal where there is no doubt), where it comes from, and what unit of the
    device a peak is of (`vector` or `tensor`)."""

    values: tuple[float, float, float]
    source: str
    unit: str = ""

    def at(self, pace: Pace) -> float:
        return self.values[PACES.index(pace)]


@dataclass(frozen=True)
class Price:
    """A device's price list. Rates are per second as the datasheet has them; `efficiency` is the share that real kernels reach."""

    name: str
    bandwidth: Constant
    bus: Constant
    peak: Mapping[str, Constant]
    efficiency: Mapping[str, Constant]
    host: Mapping[str, Constant]
    device: Mapping[str, Constant]
    origin: str = ""

    def rate(self, dtype: str, pace: Pace, kind: str = "") -> float:
        """Operations per second with numbers of a type; a type without an entry runs at float32's rate."""
        peak = self.peak.get(dtype, self.peak["float32"])
        share = "convolution" if (peak.unit, kind) == ("tensor", "convolution") else peak.unit
        return peak.at(pace) * self.efficiency[share].at(pace)

    def memory_rate(self, pace: Pace, kind: str = "") -> float:
        """Bytes per second."""
        return self.bandwidth.at(pace) * self.efficiency["batch_norm" if kind == "batch_norm" else "bandwidth"].at(pace)

    def bus_rate(self, pace: Pace, pinned: bool) -> float:
        rate = self.bus.at(pace) * self.efficiency["bus"].at(pace)
        return rate if pinned else rate * self.host["pageable_share"].at(pace)

    def constants(self) -> Iterator[tuple[str, Constant]]:
        """Every constant by its dotted name, for a report."""
        yield "bandwidth", self.bandwidth
        yield "bus", self.bus
        for table in ("peak", "efficiency", "host", "device"):
            for key, constant in getattr(self, table).items():
                yield f"{table}.{key}", constant


def names() -> list[str]:
    """The price lists that come with the package."""
    return sorted(p.stem for p in LISTS.glob("*.toml") if p.stem != "common")


def price(name: str | Path | Price) -> Price:
    """The price list of that name, or of a TOML or JSON file. A file needs `name`, `bandwidth`, `bus` and `peak.float32`; what it leaves out comes from the common list.

    >>> price("a40").peak["tf32"].values[1] / 1e12
    74.8
    """
    if isinstance(name, Price):
        return name
    if str(name).lower() in names():
        return _build(_read(LISTS / f"{str(name).lower()}.toml"), str(name).lower())
    path = Path(name)
    if not path.is_file():
        raise TallyError(f"There is no price list {str(name)!r}: expected one of {', '.join(names())}, or the path of a TOML or JSON file. See docs/cost-model.md.")
    return _build(_read(path), str(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # both parsers' errors are ValueErrors
        raise TallyError(f"The price list {path} cannot be read: {error}. Expected TOML, or JSON in a file that ends in .json.") from error
    if not isinstance(data, dict):
        raise TallyError(f"The price list {path} holds a {type(data).__name__}; expected a table with {', '.join(REQUIRED)}.")
    return data


def _build(data: dict[str, Any], origin: str) -> Price:
    missing = [key for key in REQUIRED if key not in data]
    if missing:
        raise TallyError(f"The price list {origin} lacks {', '.join(missing)}. See docs/cost-model.md for an example.")
    common = _read(LISTS / "common.toml")
    tables = {}
    for table in ("peak", "efficiency", "host", "device"):
        own = data.get(table, {})
        if not isinstance(own, dict):
            raise TallyError(f"The price list {origin}: expected a table under {table}, not {own!r}.")
        tables[table] = {key: _constant(value, f"{origin}: {table}.{key}") for key, value in {**common.get(table, {}), **own}.items()}
    if "float32" not in tables["peak"]:
        raise TallyError(f"The price list {origin} lacks peak.float32, operations per second.")
    for key, constant in tables["peak"].items():
        if constant.unit not in ("vector", "tensor"):
            raise TallyError(f'The price list {origin}: peak.{key} needs unit = "vector" or "tensor" (got {constant.unit!r}).')
    return Price(
        str(data["name"]), _constant(data["bandwidth"], f"{origin}: bandwidth"), _constant(data["bus"], f"{origin}: bus"), **tables, origin=origin
    )


def _constant(entry: Any, where: str) -> Constant:
    """An entry is a number, three numbers, or a table with `value` and, better, `source`."""
    table = entry if isinstance(entry, dict) else {"value": entry}
    value = table.get("value")
    values: list[Any] = value if isinstance(value, list) else [value] * 3
    if len(values) != 3 or not all(isinstance(v, (int, float)) and not isinstance(v, bool) and v > 0 for v in values):
        raise TallyError(f"The price list {where} is {entry!r}; expected a positive number, or three for the slow, the typical and the fast case.")
    slow, typical, fast = (float(v) for v in values)
    if not min(slow, fast) <= typical <= max(slow, fast):
        raise TallyError(f"The price list {where}: {values} is not in order; expected the slow, the typical and the fast case.")
    return Constant((slow, typical, fast), str(table.get("source", "no source given")), str(table.get("unit", "")))
