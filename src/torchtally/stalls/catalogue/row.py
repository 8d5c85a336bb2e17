"""The two records of the catalogue and the conditions that rows share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..stall import Kind


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a device sees: an ATen operator (`aten::index_put_`, overload `default`) or a Python-level function (`Tensor.tolist`).

    `on_device(x)` tells whether a tensor lives on the device, `pinned(x)` whether a host tensor lies in pinned memory.
    """

    operator: str
    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    on_device: Callable[[Any], bool]
    pinned: Callable[[Any], bool]

    def arg(self, position: int, name: str, default: Any = None) -> Any:
        """One argument, however it was given."""
        if len(self.args) > position:
            return self.args[position]
        return self.kwargs.get(name, default)

    def device(self, x: Any) -> bool:
        """Whether `x` is a tensor on the device."""
        return isinstance(x, torch.Tensor) and self.on_device(x)

    def host(self, x: Any) -> bool:
        """Whether `x` is a tensor in host memory."""
        return isinstance(x, torch.Tensor) and not self.on_device(x)


@dataclass(frozen=True, slots=True)
class Row:
    """One way of waiting. `count(call)` says how many times the call waits (0: not in this case).

    `when` says the same in words. An empty `overloads` means all of them. Rows hold for torch versions from `since` up to, but not including, `until`.
    Where `exact` is false the kernel waits at least that often: the number depends on values, sizes or the library behind it.
    """

    operator: str
    kind: Kind
    count: Callable[[Call], int]
    why: str
    remedy: str
    since: str = "2.6"
    until: str | None = None
    when: str = "the input is on the device"
    overloads: tuple[str, ...] = ()
    exact: bool = True

    def holds_for(self, version: tuple[int, int]) -> bool:
        """Whether a torch of this version waits so."""
        return parse(self.since) <= version and (self.until is None or version < parse(self.until))


def parse(version: str) -> tuple[int, int]:
    """Major and minor number: `"2.14.1+cpu"` is `(2, 14)`."""
    major, minor = version.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()))


def always(call: Call) -> int:
    """Waits once, whatever the arguments."""
    return 1


def times(n: int) -> Callable[[Call], int]:
    """Waits `n` times when the first argument is on the device."""
    return lambda call: n * call.device(call.arg(0, "self", call.kwargs.get("input")))


once = times(1)


def argument_on_device(position: int, name: str, n: int = 1) -> Callable[[Call], int]:
    """Waits `n` times when this argument is a tensor on the device."""
    return lambda call: n * call.device(call.arg(position, name))


def any_on_device(call: Call) -> bool:
    """Whether any direct argument is on the device."""
    return any(call.device(x) for x in (*call.args, *call.kwargs.values()))
