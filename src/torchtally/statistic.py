"""What a metric can remember: slots, inputs and statistics. Their memory is the ledger's."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from .faults import Fault

if TYPE_CHECKING:
    from .clock import Clock

Number = float | int
Piece = tuple[Any, ...]


def neutral(combine: str, dtype: torch.dtype) -> Number:
    """The number that changes nothing when combined with."""
    if combine in ("sum", "cat"):
        return 0.0 if dtype.is_floating_point else 0
    if dtype.is_floating_point:
        return -inf if combine == "max" else inf
    return torch.iinfo(dtype).min if combine == "max" else torch.iinfo(dtype).max


@dataclass(frozen=True)
class Slot:
    """One accumulator: the shape and dtype of its tensor and how two of them combine: "sum", "max", "min" or "cat".

    A "cat" slot is a list of tensors that grows with the data; `shape` is then the shape of one sample.
    """

    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.int64
    combine: str = "sum"

    @property
    def neutral(self) -> Number:
        return neutral(self.combine, self.dtype)


class Slots:
    """The slots of one statistic or input as attributes: views of the buffers of a ledger, or lists of samples.

    `host` is the statistic's lane of Python numbers (what `Statistic.lane` made), `clock` the ledger's count of updates.
    """

    def __init__(self, host: Any, clock: Clock) -> None:  # a plain class with plain attributes: Dynamo traces nothing cleverer
        self.host = host
        self.clock = clock

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Input:
    """How a batch is normalised for statistics; equal inputs do it once per update, however many statistics want them.

    In two phases: `take` checks a batch and reduces it to a small piece before anything is written; `settle` turns pieces into
    the normal form that statistics add. Between the two, small pieces may wait, so that many are counted at a time.
    """

    waiting_bytes: ClassVar[int] = 1 << 20
    """How much memory its pieces may hold while they wait."""

    host_values: ClassVar[bool] = False
    """Whether Python numbers and CPU tensors are taken by a ledger on any device."""

    def slots(self) -> dict[str, Slot]:
        """Slots for what this input counts itself: faults."""
        return {}

    def take(self, strict: bool, *batch: Any) -> tuple[Hashable, Piece | None]:
        """Check a batch, raise if it is refused, and return `(key, piece)`.

        A piece with a key owns its memory and may wait with pieces of an equal key; one with key None is settled at once, and
        `(None, None)` is a batch of which nothing is wanted.
        `strict` asks for an error on impossible values where they can be seen without waiting.
        """
        return None, batch

    def settle(self, slots: Slots, pieces: list[Piece], first: Any) -> Piece:
        """The normal form of pieces of one key, the first of which came with update number `first`."""
        (piece,) = pieces
        return piece

    def feed(self, normal: Piece, receivers: list[tuple[Statistic, Slots]]) -> None:
        """Let statistics add the normal form. An input may hand out portions of it, so that all work on one while it is in the cache."""
        for statistic, slots in receivers:
            statistic.update(slots, *normal)

    def faults(self, slots: Slots) -> list[Fault]:
        """What was wrong with values on a device, by sort, to be reported when results are read."""
        return []


@dataclass(frozen=True)
class Statistic:
    """What to remember: declares slots and adds batches to them.

    Fields are numbers, strings and tuples; statistics that are equal and are fed equal batch entries are kept once.
    """

    input = Input()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "totals" in cls.__dict__ and "numbers" not in cls.__dict__:
            cls.numbers = Statistic.numbers  # type: ignore[method-assign]  # what a parent gives is of its own totals

    @property
    def label(self) -> str:
        """Its name in states, where a metric has several."""
        return type(self).__name__

    def slots(self) -> dict[str, Slot]:
        """Names and kinds of the accumulators."""
        raise NotImplementedError

    def update(self, slots: Slots, *normal: Any) -> None:
        """Add the normal form of a batch, in place."""
        raise NotImplementedError

    def tidy(self, slots: Slots) -> None:
        """Make less of the samples that updates append, where there are many: compiled updates cannot, which see their own only."""

    def lane(self) -> Any:
        """Empty host state: Python numbers that wait to join the slots. None where everything goes to the slots."""
        return None

    def drain(self, host: Any) -> dict[str, Number]:
        """Empty the lane and return what to combine with each scalar slot."""
        return {}

    def pour(self, slots: Slots) -> None:
        """Let what waits in the lane join slots that are no single numbers. Only for lanes that `drain` cannot empty; see `pours`."""
        raise NotImplementedError

    @property
    def pours(self) -> bool:
        """Whether the lane is emptied by `pour`."""
        return type(self).pour is not Statistic.pour

    def merge(self, slots: Slots, other: Slots) -> None:
        """Add what another ledger has seen. Only for statistics whose slots do not combine one by one; see `merges`."""
        raise NotImplementedError

    @property
    def merges(self) -> bool:
        """Whether slots combine as a group, by `merge`, instead of each by itself."""
        return type(self).merge is not Statistic.merge

    def update_groups(self, slots: Slots, place: Tensor, *normal: Any) -> None:
        """Add row n to the totals `place[n]` of several, which lie along the first dimension of the slots; beyond them are rows of none.

        Of statistics that merge, whose slots do not follow one by one from those of rows; see `groups`.
        """
        raise NotImplementedError

    @property
    def groups(self) -> bool:
        """Whether it can do that."""
        return type(self).update_groups is not Statistic.update_groups

    def totals(self, slots: Slots) -> Any:
        """What a formula sees."""
        return slots

    def numbers(self, slots: Slots) -> Any:
        """The same in NumPy, from slots on the host as NumPy sees them, for formulas that take either; None where there is no such form."""
        return None


def loose(part: Statistic | Input, device: torch.device, clock: Clock) -> Slots:
    """Empty slots outside any ledger, one tensor each, so that autograd may follow them: for functional forms."""
    slots = Slots(part.lane() if isinstance(part, Statistic) else None, clock)
    for name, slot in part.slots().items():
        value: Any = [] if slot.combine == "cat" else torch.full(slot.shape, slot.neutral, dtype=slot.dtype, device=device)
        setattr(slots, name, value)
    return slots


def map_tensors(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """The same nest of dicts, lists and tuples with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return type(value)((k, map_tensors(v, change)) for k, v in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(v, change) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(v, change) for v in value)
    return value


def host_visible(*tensors: Any) -> bool:
    """Whether NumPy may look at the memory of these: plain CPU tensors, neither traced nor in an autograd graph."""
    for x in tensors:
        if type(x) is not Tensor or not x.is_cpu or x.requires_grad:
            return False
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is None


def may_wait(x: Tensor) -> bool:
    """Whether a tensor holds real data that may be kept for later: not a tracer's stand-in, not during capture."""
    if torch.compiler.is_compiling() or in_functorch():
        return False
    if type(x) is not Tensor and type(x) is not torch.nn.Parameter and _is_stand_in(x):
        return False
    return not captured(x)


def captured(x: Tensor) -> bool:
    """Whether what is done to `x` now becomes part of a CUDA graph, which will do it again without Python."""
    return x.is_cuda and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def recorded(x: Tensor) -> bool:
    """Whether what is done to `x` now will be done again without Python: it is compiled or captured."""
    return torch.compiler.is_compiling() or (x.is_cuda and captured(x))


def in_functorch() -> bool:
    return torch._C._functorch.peek_interpreter_stack() is not None


def _is_stand_in(x: Tensor) -> bool:
    from torch._subclasses import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    return isinstance(x, FakeTensor | FunctionalTensor) or x.is_meta
