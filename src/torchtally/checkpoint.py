"""Totals that outlive the process: files that are whole or say that they are not, and sums of files."""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .distributed import is_first, is_outside
from .errors import TallyError
from .formula import Formula
from .metric import Metric
from .saving import saving_all
from .together import leaves_of

if TYPE_CHECKING:
    from .collection import MetricCollection

FORMAT = 1


@dataclass
class Saved:
    """What a file holds: the states by name, and of each metric what it is, how often it was updated and how its states combine."""

    state: dict[str, Any]
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, name: str) -> dict[str, Any]:
        """The states of one metric."""
        start = f"{name}." if name else ""
        others = [n for n in self.metrics if n.startswith(start) and n != name]
        return {
            k[len(start) :]: x
            for k, x in self.state.items()
            if k.startswith(start) and not any(k.startswith(f"{other}.") for other in others)
        }

    def rebuilt(self, name: str) -> Metric | None:
        """The metric with its totals; None where it is not one of torchtally's that its options describe."""
        module, _, cls = self.metrics[name]["class"].partition(":")
        options = self.metrics[name]["options"]
        if options is None or not module.startswith("torchtally."):  # what a file names is not imported from anywhere else
            return None
        try:
            metric = getattr(importlib.import_module(module), cls)(**options)
            metric.load_state_dict(self.of(name))
        except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):
            return None
        return metric if isinstance(metric, Metric) else None


def save(metrics: Metric | MetricCollection, path: str | os.PathLike[str], reduce: bool = False) -> None:
    """Save the totals of a metric or collection: wholly, or not at all.

    The file appears under its name only when it is complete, replaces an older one in one step, and carries a checksum. It is read by
    `torchtally.load`, by `torch.load(path, weights_only=True)["state"]`, and by `torchtally show` and `torchtally merge` on the command line.
    With `reduce=True` all ranks must call; the totals of all of them are saved by the first rank of the metrics' groups.
    """
    metrics = metrics.over_ranks() if reduce else metrics
    if reduce and not _is_to_write(leaves_of(metrics)):
        return
    with saving_all() if isinstance(metrics, Metric) and metrics._modules else nullcontext():
        state = dict(metrics.state_dict())
    content = {"torchtally": FORMAT, "state": state, "metrics": _described(metrics)}
    write({**content, "checksum": checksum(content)}, path)


def _is_to_write(metrics: Mapping[str, Metric]) -> bool:
    """Whether this rank is the first of all groups that metrics are read over."""
    outside = [n for n, m in metrics.items() if is_outside(m.process_group)]
    first = all(is_first(m.process_group) for m in metrics.values())
    if first and outside and any(m.process_group is None for m in metrics.values()):
        raise ValueError(
            f"torchtally.save: the first of all ranks has no totals of {outside}, which are read over a group that it is not in. "
            "Save metrics of different groups in files of their own."
        )
    return first and not outside


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The states in a file written by `save` (or a plain `state_dict` that was saved), to be given to `load_state_dict` or `merge_state`.

    Raises TallyError where the file is not whole.
    """
    saved = read(path)
    state: Any = OrderedDict(saved.state)
    state._metadata = OrderedDict((name, {"updates": int(about["updates"])}) for name, about in saved.metrics.items())
    return state


def _reason(error: Exception) -> str:
    """Why a file was not read, without torch's advice to trust it."""
    if isinstance(error, pickle.UnpicklingError):
        return "it holds other things than tensors and plain values"
    return str(error).partition("\n")[0].partition(". ")[0].rstrip(".") or "it ends too early"


def read(path: str | os.PathLike[str]) -> Saved:
    """All that is in a file. Nothing but tensors and plain values is read from it."""
    path = Path(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise TallyError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # a damaged file fails in many ways
        raise TallyError(f"{path} is damaged or is no file of torchtally.save or torch.save: {_reason(error)}.") from error
    if not isinstance(content, Mapping):
        raise TallyError(
            f"{path} holds a {type(content).__name__}; expected what torchtally.save or torch.save(metrics.state_dict(), …) writes."
        )
    if "torchtally" not in content:
        return Saved(dict(content))
    if content["torchtally"] != FORMAT:
        raise TallyError(f"{path} has format {content['torchtally']}; this torchtally reads format {FORMAT}. Upgrade torchtally.")
    if content.get("checksum") != checksum({k: x for k, x in content.items() if k != "checksum"}):
        raise TallyError(f"{path} is damaged: its content does not agree with its checksum. Take an older copy.")
    return Saved(dict(content["state"]), dict(content["metrics"]))


def write(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a file wholly or not at all: under another name first, and renamed when it is on the disk."""
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY) if os.name == "posix" else None
    if folder is not None:  # the new name, too, must be on the disk
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def merge(paths: Iterable[str | os.PathLike[str]]) -> dict[str, Any]:
    """The content of a file with the totals of several, to be given to `write`. Each file must be of `torchtally.save` and of the same metrics."""
    paths = list(paths)
    files = [read(path) for path in paths]
    first = files[0]
    for path, other in zip(paths, files):
        if not other.metrics:
            raise TallyError(
                f"{path} does not say what its states are; expected a file of torchtally.save. Merge in Python: metrics.merge_state(path)."
            )
        told = [(n, _told(m)) for n, m in other.metrics.items()]
        if told != [(n, _told(m)) for n, m in first.metrics.items()]:
            wrong = [n for n in {**first.metrics, **other.metrics} if _told(first.metrics.get(n)) != _told(other.metrics.get(n))]
            raise TallyError(
                f"{path} and {paths[0]} hold different metrics: {', '.join(wrong) or 'in another order'}. Merge files of the same metrics."
            )
    state: dict[str, Any] = {}
    metrics = {}
    for name, about in first.metrics.items():
        start = f"{name}." if name else ""
        updates = [int(other.metrics[name]["updates"]) for other in files]
        if "group" in about["combine"].values():
            merged = _merged_as_metric(name, files)
        else:
            merged = {k: _combined(f"{start}{k}", how, [f.of(name)[k] for f in files], updates) for k, how in about["combine"].items()}
        state |= {start + k: x for k, x in merged.items()}
        metrics[name] = {**about, "updates": sum(updates)}
    content = {"torchtally": FORMAT, "state": state, "metrics": metrics}
    return {**content, "checksum": checksum(content)}


def _merged_as_metric(name: str, files: list[Saved]) -> dict[str, Any]:
    metrics = [f.rebuilt(name) for f in files]
    total = metrics[0]
    if total is None or None in metrics:
        raise TallyError(f"{name or 'the metric'} can be merged only where it is made: metrics.merge_state(path) in Python.")
    for other in metrics[1:]:
        assert other is not None
        total.merge_state(other)
    return dict(total.state_dict())


def _combined(name: str, how: str, states: list[Any], updates: list[int]) -> Any:
    """One state of several files."""
    if isinstance(states[0], list):
        if how not in ("cat", "list"):
            raise TallyError(f"{name} is combined by a function of its metric; merge in Python: metrics.merge_state(path).")
        return [x for state in states for x in state]
    if how in ("sum", "updates"):
        return torch.stack(states).sum(0, dtype=states[0].dtype)
    if how == "mean":
        return sum(x * n for x, n in zip(states, updates)) / max(sum(updates), 1)
    if how in ("max", "min"):
        stacked = torch.stack(states)
        return stacked.amax(0) if how == "max" else stacked.amin(0)
    if how == "cat":
        return torch.cat([torch.atleast_1d(x) for x in states])
    raise TallyError(f"{name} is combined by a function of its metric; merge in Python: metrics.merge_state(path).")


def _told(about: dict[str, Any] | None) -> Any:
    if about is None:
        return None
    options = about["options"]
    return about["class"], None if options is None else sorted((k, repr(x)) for k, x in options.items()), about["combine"]


def _described(metrics: nn.Module) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "class": f"{type(m).__module__}:{type(m).__qualname__}",
            "options": _options(m),
            "updates": m.update_count,
            "combine": _how(m),
        }
        for name, m in leaves_of(metrics).items()
    }


def _options(metric: Metric) -> dict[str, Any] | None:
    """What to construct it with; None where that cannot be told."""
    if not isinstance(metric, Formula):
        return None
    try:
        return {name: _plain(value) for name, value in metric._options()}
    except TypeError:
        return None


def _plain(x: Any) -> Any:
    """A value that a file may hold and be read without trust."""
    if isinstance(x, list | tuple):
        return [_plain(e) for e in x]
    for kind in (bool, int, float, str):
        if isinstance(x, kind):
            return kind(x)
    if x is None or isinstance(x, Tensor):
        return x
    raise TypeError


def _how(metric: Metric) -> dict[str, str]:
    """How each state combines with the same of another file: "group" where they combine as a group."""
    if not isinstance(metric, Formula):
        return {
            n: how if isinstance(how, str) else "list" if how is None and isinstance(metric._defaults[n], list) else "function"
            for n, how in metric._reductions.items()
        }
    many, out = len(metric.statistics) > 1, {}
    for statistic in metric.statistics:
        for part in (statistic, statistic.input):
            for n, slot in part.slots().items():
                label = f"{statistic.label}.{n}" if many and part is statistic else n
                out[label] = "group" if part is statistic and statistic.merges else slot.combine
    return {**out, "updates": "updates"}


def checksum(value: Any) -> str:
    """A digest of tensors and plain values, in order, whatever the file around them looks like."""
    digest = hashlib.blake2b(digest_size=16)
    _digest(value, digest.update)
    return digest.hexdigest()


def _digest(value: Any, put: Any) -> None:
    if isinstance(value, Mapping):
        put(b"{")
        for k, x in value.items():
            put(f"{k!r}:".encode())
            _digest(x, put)
    elif isinstance(value, list | tuple):
        put(b"[")
        for x in value:
            _digest(x, put)
    elif isinstance(value, Tensor):
        put(f"{value.dtype}{tuple(value.shape)}".encode())
        put(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    else:
        put(f"{type(value).__name__} {value!r}".encode())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
