"""Advice from metrics as they are, before they have run: their options, their device, the source of their `update`."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from ..errors import TallyError
from ..stalls import Site
from .advice import DEVICE, NAN_CHECK, OWN_METRIC, SYNC, WEIGHTS, Advice
from .equivalents import is_theirs

_READS = {
    "item": "keep the tensor and read it in compute",
    "tolist": "keep the tensor and read it in compute",
    "cpu": "keep it on its device; move results, not batches",
    "numpy": "compute with torch on the device; SciPy and NumPy can wait until compute",
    "nonzero": "weigh by the mask, or torch.where with all three arguments",
    "masked_select": "weigh by the mask: (x * mask).sum()",
    "unique": "count into a slot of fixed length with scatter_add_",
    "bincount": "x.new_zeros(K).scatter_add_(0, x, torch.ones_like(x))",
}
"""Calls in an `update` that wait where their tensor lies on a device, and what to write."""
_CONVERSIONS = ("float", "int", "bool")
_QUESTIONS = ("any", "all", "equal", "allclose")


def from_objects(thing: Any) -> list[Advice]:
    """Advice for every metric in an object."""
    found = list(_metrics(thing, "", set()))
    if not found:
        raise TallyError(
            f"advise: {type(thing).__name__} holds no metric, and is neither a script nor a Report. "
            "Give the path of a script, a Report, or a metric or what holds some (dict, list, nn.Module)."
        )
    seen: dict[type, list[Advice]] = {}
    advice: list[Advice] = []
    for name, metric in found:
        label = f"{type(metric).__name__} {name}".strip()
        if is_theirs(metric):
            advice += _of_torchmetrics(metric, label)
        advice += _of_device(metric, label)
        if type(metric) not in seen:
            seen[type(metric)] = _of_source(type(metric), label)
            advice += seen[type(metric)]
    return advice


def _metrics(thing: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Metrics by where they are; a collection's members, not itself."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    collection = any(c.__name__ == "MetricCollection" for c in type(thing).__mro__)
    if not collection and callable(getattr(thing, "update", None)) and callable(getattr(thing, "compute", None)):
        yield name, thing
        return
    if isinstance(thing, nn.Module):
        inside: Mapping[Any, Any] = {
            **{k: v for k, v in vars(thing).items() if isinstance(v, (dict, list, tuple)) and not k.startswith("_")},
            **thing._modules,
        }
    elif isinstance(thing, Mapping):
        inside = thing
    elif isinstance(thing, (list, tuple)):
        inside = dict(enumerate(thing))
    else:
        return
    for key, value in inside.items():
        yield from _metrics(value, f"{name}.{key}" if name else str(key), seen)


def _of_torchmetrics(metric: Any, label: str) -> Iterator[Advice]:
    kind = type(metric).__name__
    if hasattr(metric, "_cast_and_nan_check_input") and not getattr(type(metric), "_nan_check_suppressed", False):
        if metric.nan_strategy == "disable":
            if _drops_weights(type(metric)):
                yield Advice(
                    WEIGHTS,
                    'nan_strategy="disable" of this version of torchmetrics replaces the weights that are given by ones, without a word.',
                    label,
                    before=f'{kind}(nan_strategy="disable")',
                    after=f"suppress_nan_check({kind})()  # or torchtally.{kind}()",
                )
        else:
            yield Advice(
                NAN_CHECK,
                "Each update reads on the host whether a value or a weight is NaN.",
                label,
                before=f"{kind}()",
                after=f"suppress_nan_check({kind})()  # or torchtally.{kind}()",
            )
        weight = inspect.signature(type(metric).update).parameters.get("weight")
        if weight is not None and isinstance(weight.default, float):
            yield Advice(
                WEIGHTS,
                f"update's default weight is the number {weight.default}; making a tensor of it on the GPU is a copy that waits.",
                label,
                before="metric.update(value)",
                after="metric.update(value, torch.ones_like(value))",
            )
    if metric.dist_sync_on_step:
        yield Advice(
            SYNC,
            "dist_sync_on_step=True runs a collective in each forward.",
            label,
            before="dist_sync_on_step=True",
            after="dist_sync_on_step=False",
        )


def _drops_weights(cls: type) -> bool:
    """Tried, not looked up: a version may have it mended."""
    try:
        metric = cls(nan_strategy="disable")
        metric.update(torch.tensor([1.0, 3.0]), torch.tensor([3.0, 1.0]))
        return bool(metric.compute() != 1.5)
    except TypeError:  # takes no weights
        return False


def _of_device(metric: Any, label: str) -> Iterator[Advice]:
    device = getattr(metric, "device", None)
    if not isinstance(device, torch.device) or device.type != "cpu" or not getattr(metric, "sync_on_compute", False):
        return
    group = getattr(metric, "process_group", None)
    if (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_backend(group) == "nccl"
        and is_theirs(metric)
    ):
        yield Advice(
            DEVICE,
            "It lives on the CPU and the job's backend, NCCL, has no collective for CPU tensors: compute will fail. Switch its synchronisation off, "
            "or move it to the GPU and give it tensors.",
            label,
            before=f"{type(metric).__name__}()",
            after=f"{type(metric).__name__}(sync_on_compute=False)",
        )


def _of_source(cls: type, label: str) -> list[Advice]:
    """What the text of a user's own `update` does that waits; libraries' own code is left to those who run it."""
    update = inspect.unwrap(cls.__dict__["update"]) if callable(cls.__dict__.get("update")) else None
    if update is None or cls.__module__.partition(".")[0] in ("torchmetrics", "torchtally"):
        return []
    try:
        lines, first = inspect.getsourcelines(update)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return []
    file = inspect.getsourcefile(update) or getattr(sys.modules.get(cls.__module__), "__file__", "") or ""
    return [
        Advice(
            OWN_METRIC, f"{what} waits where its tensor lies on a GPU.", label, Site(file, first + line - 1, "update", code), code, remedy
        )
        for line, what, remedy in sorted(set(_waiting(tree)))
        for code in [lines[line - 1].strip()]
    ]


def _waiting(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, what waits there, and what to write."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
            yield node.lineno, f".{node.func.attr}()", _READS[node.func.attr]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CONVERSIONS and _computed(node.args):
            yield node.lineno, f"{node.func.id}(…)", "keep the tensor and read it in compute"
        elif isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)) and _asks(node.test):
            yield node.test.lineno, f"Deciding by {ast.unparse(node.test)}", "torch.where, or count it in a state and look in compute"


def _computed(args: list[ast.expr]) -> bool:
    """A value of some computation; `float(x)` of a plain name or of a length may well be a host number."""
    return any(isinstance(a, (ast.Call, ast.BinOp)) and not (isinstance(a, ast.Call) and isinstance(a.func, ast.Name)) for a in args)


def _asks(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _QUESTIONS for n in ast.walk(test))
