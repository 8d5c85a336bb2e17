"""Named metrics over shared statistics: one update, one reduction, one read for all."""

from __future__ import annotations

import copy
import functools
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from . import distributed
from .apart import Forwarded, mergeable, update_all
from .entries import taken_by
from .faults import Fault, check_all
from .feeding import Feeding
from .fetching import UnderWay, over_ranks, read_all
from .formula import Formula, wants_grad
from .guard import Guard, guarded
from .interval_reading import joined, of_those_that_have, paired, read_bounds
from .intervals import Intervals
from .ledger import Ledger
from .loose_ledger import LooseLedger
from .metric import Metric
from .naming import Affixes, NamedMetrics, named_metrics
from .pending import Pending
from .saving import asked_alone, check_whole, opened, saving_all
from .scripting import Unscripted
from .sharing import Sharing
from .statistic import map_tensors
from .together import MEMBERS, Members, Read, Together, peers_of, reads_of, signs_of
from .valid import rows_of, valid_part


def later_of(metric: Any, read: Read | None) -> Callable[[], tuple[Any, list[tuple[str, Fault]]]]:
    """What `metric._later` gives; of another library's metric the value, for which it may wait."""
    if hasattr(metric, "_later"):
        return metric._later(read)
    value = metric.compute()
    return lambda: (value, [])


def check_member(name: str, metric: Any) -> None:
    if not isinstance(metric, nn.Module) or not hasattr(metric, "update") or not hasattr(metric, "compute"):
        raise ValueError(f"MetricCollection: member {name!r} is {metric!r}; expected a metric or a collection.")


class MetricCollection(Unscripted, NamedMetrics):
    """Metrics by name, updated, computed, reset and moved together.

    `metrics` is a metric, a list of metrics (named after their classes), a dict of names, or collections among them; names in results are
    `prefix + name + postfix`. Metrics that want the same of a batch share the work and the memory: labels are taken from scores once, and
    accuracy, precision, recall and F1 are four formulas over one set of counts. Sharing is decided by what metrics are, never by the
    values they hold, so `compute_groups` of torchmetrics is accepted and changes nothing.

    In `update(loss=loss, preds=out, target=y)` each metric takes the entries that its own `update` names, or those it was told to take:
    `MeanMetric().bind(value="loss")`. Members can be used on their own at any time: one that is updated, loaded or moved alone keeps
    totals of its own until it is reset together with the others.

    >>> from torch import tensor
    >>> from torchtally import Accuracy, MeanMetric
    >>> tally = MetricCollection({"loss": MeanMetric().bind(value="loss"), "accuracy": Accuracy(task="binary")})
    >>> tally.update(loss=0.25, preds=tensor([1, 0]), target=tensor([1, 1]))
    >>> tally.compute()
    {'loss': tensor(0.2500), 'accuracy': tensor(0.5000)}
    """

    _forward_cache: Any = None

    def __init__(
        self,
        metrics: Metric | MetricCollection | Sequence[Metric | MetricCollection] | Mapping[str, Metric | MetricCollection],
        *additional_metrics: Metric | MetricCollection,
        prefix: str | None = None,
        postfix: str | None = None,
        compute_groups: bool | list[list[str]] = True,
    ) -> None:
        super().__init__(prefix, postfix)
        self.__dict__.update(ledger=Ledger(), _reads={}, _guard=Guard())
        self._put(named_metrics(metrics, additional_metrics))

    ledger: Ledger
    _reads: dict[str, Together]  # by purpose
    _feeding: Feeding
    _sharing: Sharing
    _guard: Guard  # of all members, too
    _told: bool = False  # whether attributes of members tell all about how they are read

    def add_metrics(
        self,
        metrics: Metric | MetricCollection | Sequence[Metric | MetricCollection] | Mapping[str, Metric | MetricCollection],
        *additional_metrics: Metric | MetricCollection,
    ) -> None:
        """More members, in any of the forms the constructor takes."""
        self._put(named_metrics(metrics, additional_metrics))

    @guarded
    def _put(self, members: Iterable[tuple[str, Metric, Affixes]]) -> None:
        new: dict[str, Metric] = {}
        around: dict[str, Affixes] = {}
        for name, metric, affixes in members:
            check_member(name, metric)
            if name in self._modules or name in new:
                raise ValueError(
                    f"MetricCollection: two metrics are named {name!r}. Give them names: MetricCollection({{'a': …, 'b': …}})."
                )
            new[name], around[name] = metric, affixes
        self._modules.update(new)
        self._around.update(around)
        self._share()
        self._adopt()

    def _adopt(self) -> None:
        """Let every metric inside know with whom it is read over ranks."""
        self._forget_reads()
        for m in self.modules():
            if isinstance(m, Metric):
                m.__dict__.update(_guard=self._guard, _collection=weakref.ref(self))
            elif isinstance(m, MetricCollection):
                m.__dict__["_guard"] = self._guard

    def _forget_reads(self) -> None:
        for together in self._reads.values():
            together.forget()

    # ---- sharing
    def _formulas(self) -> list[Formula]:
        """Members whose totals can lie in the shared ledger."""
        return [m for m in dict.fromkeys(self._modules.values()) if isinstance(m, Formula) and m.plain]

    @guarded
    def _share(self) -> None:
        """One ledger for all members that have seen nothing yet; the others keep their own."""
        formulas = self._formulas()
        devices = {m.device: None for m in formulas}
        device = next(iter(devices), torch.device("cpu"))
        join = [m for m in formulas if m.update_count == 0 and m.device == device]
        joining = {id(m) for m in join}
        for m in formulas:
            if id(m) not in joining and m.ledger is self.ledger:
                m._leave()
        ledger = Ledger(dict.fromkeys(k for m in join for k in m.needs()), device)
        ledger.shared = True
        for m in join:
            if m.ledger.shared:
                m._leave()
            m.__dict__.update(ledger=ledger, _emptied=-1)
        self.__dict__["ledger"] = ledger
        self._arrange()

    def _regroup(self) -> None:
        """Some members have left: share again if nobody holds anything, else plan for those who stayed."""
        formulas = self._formulas()
        for m in formulas:
            if m.ledger is self.ledger and m.emptied:
                m._leave()
        apart = [m for m in formulas if m.ledger is not self.ledger]
        stayed = any(m.ledger is self.ledger for m in formulas)
        self.ledger.left = 0
        if all(m.update_count == 0 and m.device == self.ledger.device for m in apart) and (not stayed or self.ledger.updates == 0):
            self._share()
        else:
            self._arrange()

    def _arrange(self) -> None:
        """Who shares and who is fed how, whatever the shape of the call."""
        ledger, formulas = self.ledger, self._formulas()
        for m in formulas:
            if not m.ledger.shared:
                m.__dict__["_left"] = ledger
        feeding = Feeding(ledger, dict(self.items()))
        members = {n: m for n, m in self._modules.items() if isinstance(m, Formula) and m.ledger is ledger}
        sharing = Sharing(ledger, members, feeding.served)
        ledger.members = len(sharing)
        told = all(isinstance(m, Formula) and type(m)._settle is Metric._settle for m in self._modules.values())
        self.__dict__.update(_feeding=feeding, _sharing=sharing, _told=told)

    # ---- the contract
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch to every metric. What is refused raises before anything is written.

        `valid` says how many rows of the batch count, or which (a boolean mask); the rest is padding.
        """
        if "valid" in kwargs and not self._takes_valid():
            return self._update_valid(kwargs.pop("valid"), args, kwargs)
        if torch.compiler.is_compiling():
            self._update_here(args, kwargs, True)
        else:
            guard = self._guard
            guard.acquire()  # half the price of a with statement
            try:
                self._update_here(args, kwargs, False)
            finally:
                guard.release()

    def _update_here(self, args: tuple[Any, ...], kwargs: dict[str, Any], compiling: bool) -> None:
        if self.ledger.left or self.ledger.emptied:
            if compiling:
                raise RuntimeError(
                    "MetricCollection: a member was updated, loaded or reset alone, and a compiled update cannot rearrange what members share. "
                    "Reset the collection, or update it once outside of torch.compile."
                )
            self._regroup()
        self._feeding.add(self.ledger, args, kwargs, update_all, compiling)

    def _takes_valid(self) -> bool:
        """Whether a member's own update has an entry of that name."""
        return any("valid" in (getattr(m, "_entries", {}).get(p, p) for p in taken_by(m)) for m in self._modules.values())

    @guarded
    def _update_valid(self, valid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found = rows_of(valid, [*args, *kwargs.values()], "MetricCollection")
        if isinstance(found, list):
            self.update(*found[: len(args)], **dict(zip(kwargs, found[len(args) :])))
            return
        if self.ledger.left or self.ledger.emptied:
            self._regroup()
        self._feeding.add_unseen(found, args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The values on this batch, which is also accumulated, in one pass. A mask of valid rows on a device is waited for."""
        if "valid" in kwargs and not self._takes_valid():
            args, kwargs = valid_part("MetricCollection", kwargs.pop("valid"), args, kwargs)
        if torch.compiler.is_compiling() or any(getattr(m, "dist_sync_on_step", False) for m in self.modules()):
            return self._forward_here(args, kwargs)  # a thread that waits for other ranks must hold nothing
        with self._guard:
            return self._forward_here(args, kwargs)

    def _forward_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self.ledger.left or self.ledger.emptied:
            self._regroup()
        followed = self._sharing.followed() if wants_grad(args, kwargs) else ()
        batch: Ledger = LooseLedger(self.ledger, followed) if followed else self.ledger.scratch()
        apart = self._feeding.add(batch, args, kwargs, Forwarded, torch.compiler.is_compiling())
        if not isinstance(batch, LooseLedger):
            batch = self.ledger.scratch_in_use()
        self.ledger.absorb(batch, 1)  # before any value: a failed value loses nothing
        values = apart.values()
        first = self._sharing.synced_on_step()
        if first is not None and distributed.available():
            batch = first._over_ranks(batch.settled(), first.process_group)
        read = self._sharing.values(batch)
        for m in self._modules.values():
            if id(m) in read:
                value = m._of_batch(read[id(m)])
                cached = map_tensors(value, Tensor.detach) if followed else value
                values[id(m)] = value if m.is_differentiable else cached
                m.__dict__["_forward_cache"] = cached
        return self._named({n: values[id(m)] for n, m in self._modules.items()})

    def compute(self) -> dict[str, Any]:
        """All values over everything seen since the last reset, by name."""
        first = self._first_to_sync()
        read = None if first is None else self._read_with(first, self, reads_of(self, "compute"))
        with self._guard:
            total = self._sharing.total(read)
            found = self._sharing.values(total, read) if total is not None else {}
            values = {n: m._finish(found[key]) for n, m in self._modules.items() if (key := id(m)) in found}
        if len(values) < len(self._modules):
            with reads_of(self, MEMBERS).lent(read, first and first.process_group):
                values = {n: values[n] if n in values else m.compute() for n, m in self._modules.items()}
        out = self._named(values)
        if found and total is not None:
            check_all(self._sharing.faults(total), out)
        return out

    def _read_with(self, first: Metric, reader: Any, together: Together) -> Read | None:
        """The totals of all ranks of a metric inside, and of all that are read with it."""
        return together.read(reader, partial(self.peers, first, together), first.process_group, first.timeout)

    def _first_to_sync(self) -> Metric | None:
        """A member that is read over ranks by torch.distributed; the others like it are read with it."""
        if not distributed.available():
            return None
        for m in self._modules.values() if self._told else (m for _, m in self._leaves()):
            if m.dist_sync_fn is None and m._to_sync() and distributed.channel_of(m.process_group) is not None:
                return m
        return None

    def _leaves(self) -> Iterator[tuple[str, Metric]]:
        """Every metric that holds totals: the members, and those inside of members."""
        for name, member in self._modules.items():
            inside = member.named_modules(prefix=name) if member._modules else [(name, member)]
            for n, m in inside:
                if isinstance(m, Metric):
                    m._settle()
                    if isinstance(m, Formula) or m._defaults:
                        yield n, m

    def peers(self, metric: Metric, together: Together) -> Members:
        """The metrics that are read over the same ranks as one of them, with their names."""
        signs = signs_of(self._modules.values(), metric.process_group) if self._told else None
        return together.peers(signs, lambda: list(peers_of(self._leaves(), metric)))

    @guarded
    def fetch(self, reset: bool = False) -> Pending:
        """All values as Python numbers in full precision, later: starts what must be sent and copied, and returns at once.

        Ranks are read in the background. With `reset=True` also starts afresh: what is fetched and what is counted from now on are one
        consistent cut.
        """
        under_way = UnderWay(reads_of(self, "fetch"), list(self._leaves()))
        pending = under_way.pending(self._later(under_way.read))
        if reset:
            self.reset()
        return pending

    def _later(self, read: Read | None) -> Callable[[], tuple[Any, list[tuple[str, Fault]]]]:
        """What gives the values, not yet on the host, and what was kept out, once the totals of all ranks have come. What is this rank's is taken now."""
        sharing = self._sharing
        values, faults = self._values_now(read)
        later = {n: (m, None if isinstance(m, Formula) else later_of(m, read)) for n, m in self._modules.items() if n not in values}
        names = list(self._modules)

        def arrived() -> tuple[Any, list[tuple[str, Fault]]]:
            told: set[int] = set()
            for n, (m, thunk) in later.items():
                if thunk is not None:
                    values[n], found = thunk()
                    faults.extend((self._name(n), f) for _, f in found)
                    continue
                assert read is not None  # else the formulas were read already
                ledger = read.ledger_of(m)
                values[n] = m._unfinished(m._value_in(ledger))
                if not ledger.shared:
                    faults.extend((self._name(n), f) for f in m._faults(ledger))
                elif id(ledger) not in told:
                    told.add(id(ledger))
                    faults.extend(sharing.faults(ledger))
            return self._named({n: values[n] for n in names}), faults

        return arrived

    def _values_now(self, read: Read | None) -> tuple[dict[str, Any], list[tuple[str, Fault]]]:
        """The values, and what was kept out, of the formulas that do not wait for other ranks."""
        elsewhere = frozenset(id(m) for m in self._modules.values() if isinstance(m, Formula) and m._to_sync())
        shared = self._sharing.values(self.ledger, skipped=elsewhere, numbers=False)
        faults = self._sharing.faults(self.ledger) if shared else []
        values: dict[str, Any] = {}
        for n, m in self._modules.items():
            if read is not None and m in read:
                continue
            if id(m) in shared:
                values[n] = m._unfinished(shared[id(m)])
            elif isinstance(m, Formula):
                ledger = m._whole()
                values[n] = m._unfinished(m._value_in(ledger))
                faults += [(self._name(n), f) for f in m._faults(ledger)]
        return values, faults

    def interval(self, level: float = 0.95, method: str = "wilson") -> dict[str, tuple[Any, Any]]:
        """The confidence intervals of all metrics that have one, `(low, high)` by the names of the values, in one read over ranks.

        Rates have one in closed form, by `method`: "wilson" or "exact", see `Accuracy.interval`. A `BootStrapper` gives that of its resamples.
        Metrics without are left out; NoInterval, a ValueError, where there is no other.
        """
        asked = Intervals("MetricCollection", level, method)
        read = read_all(self, reads_of(self, "interval"), list(self._leaves()))
        return paired(*read_bounds(self, read, asked))

    def _bounds_later(self, read: Read | None, asked: Intervals) -> Callable[[], tuple[tuple[Any, Any], list[tuple[str, Fault]]]]:
        """As `_later`, of the confidence intervals of the members that have one."""
        return joined(of_those_that_have(self._modules, read, asked, "MetricCollection"), self._named, self._name)

    def plot(self, val: Any = None, ax: Any = None, together: bool = False) -> Any:
        """Draw all values, or `val`: a dict that was computed before, or a list of them, one for each step. Needs matplotlib.

        Gives a list with a figure and axes for each metric, or with `together` one figure and axes for all. `ax`: axes of yours, one for
        each metric or one for all.
        """
        from .plotting.collections import plot_collection

        return plot_collection(self, val, ax, together)

    @guarded
    def reset(self) -> None:
        """Forget everything, in all metrics."""
        for m in dict.fromkeys(self._modules.values()):
            if not isinstance(m, Formula):
                m.reset()
                continue
            if m.ledger is not self.ledger:
                m.reset()
                self.ledger.left += m.plain
            m.__dict__["_forward_cache"] = None
        self.ledger.reset()
        if self.ledger.left:  # all are empty, and those that left may share again
            self._regroup()
        self._forget_reads()

    @guarded
    def merge_state(self, other: MetricCollection | Mapping[str, Any] | str | os.PathLike[str]) -> None:
        """Add what another collection of the same metrics has seen: the collection, its `state_dict`, or a file of `torchtally.save`."""
        other = opened(other)
        if isinstance(other, Mapping):
            states, other = other, self.clone()
            other.reset()  # a member of another library may have saved nothing
            other.load_state_dict(states)
        if not isinstance(other, MetricCollection) or list(other._modules) != list(self._modules):
            raise ValueError(f"MetricCollection.merge_state: expected a collection of {list(self._modules)}, not {other!r}.")
        theirs = other.ledger
        wrong = [n for n, m in self._modules.items() if not mergeable(m, other._modules[n])]
        if wrong:
            raise ValueError(f"MetricCollection.merge_state: {wrong} are not the same metrics in both collections; nothing was merged.")
        together = theirs.keys == self.ledger.keys and not (self.ledger.left or theirs.left or self.ledger.emptied or theirs.emptied)
        if together:
            part = theirs.copy()
            part.to(self.ledger.device)
            self.ledger.absorb(part)
        for name, m in self._modules.items():
            if not (together and isinstance(m, Formula) and m.ledger is self.ledger and other._modules[name].ledger is theirs):
                m.merge_state(other._modules[name])

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> MetricCollection:
        """A copy with the same totals and nothing shared; another prefix or postfix if given."""
        new = copy.deepcopy(self)
        if prefix is not None or postfix is not None:
            new.__dict__.update(prefix=self.prefix if prefix is None else prefix, postfix=self.postfix if postfix is None else postfix)
            new._arrange()
        return new

    def set_dtype(self, dst_type: str | torch.dtype) -> MetricCollection:
        """Give results in this dtype."""
        for m in self._modules.values():
            m.set_dtype(dst_type)
        return self

    def persistent(self, mode: bool = True) -> None:
        """Whether states appear in the `state_dict` of a module that holds the collection (its own is always complete)."""
        for m in self._modules.values():
            m.persistent(mode)

    @property
    def device(self) -> torch.device:
        """Where the totals are."""
        return self.ledger.device

    @property
    def higher_is_better(self) -> dict[str, bool | None]:
        return {n: getattr(m, "higher_is_better", None) for n, m in self.items()}

    @property
    def update_count(self) -> int:
        """How many updates since the last reset."""
        return max((m.update_count for m in self._modules.values() if isinstance(m, Metric)), default=0)

    @property
    def metric_state(self) -> dict[str, dict[str, Any]]:
        return {n: m.metric_state for n, m in self._modules.items()}

    @property
    def compute_groups(self) -> dict[int, list[str]]:
        """Names of members by the statistics they share."""
        groups: dict[Any, list[str]] = {}
        for n, m in self._modules.items():
            groups.setdefault(tuple(m.needs()) if isinstance(m, Formula) else id(m), []).append(n)
        return dict(enumerate(groups.values()))

    # ---- being a module
    @guarded
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move the shared totals first, so that members find them moved and stay."""
        with torch.inference_mode(False):
            device = fn(torch.empty(0, device=self.ledger.device)).device
        if device != self.ledger.device:
            self.ledger.to(device)
        return super()._apply(fn, recurse)

    def state_dict(self, *args: Any, reduce: bool = False, **kwargs: Any) -> Any:
        """All states, when called on the collection itself; what was made `persistent`, when called on a module that holds it.

        They are of this rank and nothing is communicated. With `reduce=True`, which all ranks must call, they are of all of them.
        """
        if reduce:
            return self.over_ranks().state_dict(*args, **kwargs)
        if not asked_alone(args, kwargs):
            return super().state_dict(*args, **kwargs)
        with saving_all():
            alone = all(isinstance(m, Metric) and not m._modules and not m._state_dict_hooks for m in self._modules.values())
            if kwargs.get("prefix") or not alone or self._state_dict_hooks:
                return super().state_dict(*args, **kwargs)
            return self._all_states()

    def over_ranks(self) -> MetricCollection:
        """A copy with the totals of all ranks, which must all call. It is local from then on."""
        return over_ranks(self, list(self._leaves()))

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False, spread: bool = False) -> Any:
        """Go on from saved states. `spread=True` is for the states of a whole job: the first rank takes them and the others start empty."""
        found = super().load_state_dict(state_dict, strict, assign)
        leaves = [m for _, m in self._leaves()]
        later = [m for m in leaves if spread and not distributed.is_first(m.process_group)]
        if later == leaves:
            self.reset()
        else:
            for m in later:
                m.reset()
        return found

    @guarded
    def _all_states(self) -> Any:
        """What `super().state_dict()` gives, in a tenth of the time: shared slots are copied once."""
        out: Any = OrderedDict()
        out._metadata = OrderedDict([("", {"version": self._version})])
        sharing, save = set(self._sharing.names()), self._sharing.slots.saver()
        for name, m in self._modules.items():
            out._metadata[name] = {"version": m._version}
            if name in sharing:
                save(name, out)
            else:
                m._save_to_state_dict(out, f"{name}.", False)
        return out

    @guarded
    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        self.ledger.fold()
        sharing = self._sharing.names()
        told = [int(state_dict[k]) for n in sharing if (k := f"{prefix}{n}.updates") in state_dict]
        if len(told) == len(sharing) or self.ledger.updates == 0:  # else those who are not told keep what they have, and the others leave
            if told:
                self.ledger.clock.load(told[0])
            self._sharing.slots.fill(sharing, state_dict, prefix)  # before members load, so that those who agree with it stay
        if strict and not prefix:  # what the collection itself saved is complete
            for path, m in self.named_modules():
                names = [f"{path}.{n}" for n in m.metric_state] if isinstance(m, Metric) and (isinstance(m, Formula) or m._defaults) else []
                missing_keys += names if not any(n in state_dict for n in names) else []
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_whole("MetricCollection", state, _kept())
        super().__setstate__(state)
        self._adopt()

    @guarded
    def __setitem__(self, name: str, metric: Metric) -> None:
        check_member(name, metric)
        order = list(self._modules)
        if name in order:
            self.pop(name)
        self._put([(name, metric, ("", ""))])
        for n in order[order.index(name) + 1 :] if name in order else ():  # a new metric takes the old one's place
            self._modules[n] = self._modules.pop(n)

    @guarded
    def pop(self, name: str) -> Any:
        """Take a metric out. It keeps what it has seen."""
        gone = self[name]
        base = next(n for n in self._modules if name in (n, self._name(n)))
        del self._modules[base]
        self._around.pop(base, None)
        if not any(gone is m for m in self._modules.values()):
            if isinstance(gone, Formula) and gone.ledger is self.ledger:
                gone._leave()
            for m in gone.modules():
                if isinstance(m, Metric):
                    m.__dict__.update(_guard=gone._guard if m is not gone else Guard(), _collection=None)
        self._arrange()
        self._adopt()
        return gone

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def clear(self) -> None:
        """Take all metrics out."""
        for name in list(self._modules):
            self.pop(name)


@functools.cache
def _kept() -> frozenset[str]:
    """What a pickle holds."""
    return frozenset(MetricCollection({}).__dict__)
