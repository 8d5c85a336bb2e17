"""Fronts that make the metric of a task: `Accuracy(task="binary")`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar

from ..metric import Metric
from ..options import Constructor, unknown_options
from .options import refuse_impossible

Task = Literal["binary", "multiclass", "multilabel"]
TwoTasks = Literal["binary", "multiclass"]

New = TypeVar("New", bound=Callable[..., Any])


def chooses(new: New) -> New:
    """Marks the `__new__` of a front, which only says what its tasks take together; what it is given goes to the class of the task."""

    @functools.wraps(new)
    def choose(cls: Any, *args: Any, **options: Any) -> Any:
        return cls._of_task(args, options) if "tasks" in vars(cls) else object.__new__(cls)

    return choose  # type: ignore[return-value]  # of the same signature


class FrontConstructor(Constructor):
    """`__signature__` of fronts: their own parameters, and what the classes of the tasks pass on."""

    def __get__(self, metric: Any, cls: Any) -> inspect.Signature:
        if metric is not None or "tasks" not in vars(cls):
            return super().__get__(metric, cls)
        found = {name: p for name, p in cls._front().items() if p.kind is not p.VAR_KEYWORD}
        for made in cls.tasks.values():
            for name, p in inspect.signature(made).parameters.items():
                if p.kind is p.KEYWORD_ONLY:
                    found.setdefault(name, p)
        return inspect.Signature(list(found.values()))


class ClassificationTask(Metric):
    """`Name(task="binary" | "multiclass" | "multilabel", …)` makes the metric of that task.

    Arguments that the task has no use for are left out, as in `Accuracy(task="binary", num_classes=2)`, if they are possible ones.
    """

    tasks: ClassVar[dict[str, type[Metric]]]
    __signature__ = FrontConstructor()

    @classmethod
    def _front(cls) -> dict[str, inspect.Parameter]:
        """Of the front itself."""
        return dict(list(inspect.signature(cls.__new__).parameters.items())[1:])

    @classmethod
    def _of_task(cls, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        own = cls._front()
        order = [p.name for p in own.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        if len(args) > len(order):
            raise TypeError(f"{cls.__name__} takes at most {len(order)} positional arguments; {len(args)} were given.")
        if twice := sorted(set(order[: len(args)]) & set(options)):
            raise TypeError(f"{cls.__name__}: {twice} came twice, by position and by name.")
        if unknown := [n for n in options if n not in inspect.signature(cls).parameters]:
            raise unknown_options(cls, unknown)
        given = {**dict(zip(order, args)), **options}
        if "task" not in given:
            raise TypeError(f"{cls.__name__}: task is missing; expected one of {list(cls.tasks)}.")
        task = given.pop("task")
        if not isinstance(task, str) or task not in cls.tasks:
            raise ValueError(f"{cls.__name__}: task is {task!r}; expected one of {list(cls.tasks)}.")
        made = cls.tasks[task]
        takes = inspect.signature(made).parameters
        for needed, of in (("num_classes", "multiclass"), ("num_labels", "multilabel")):
            if task == of and needed in takes and takes[needed].default is inspect.Parameter.empty and given.get(needed) is None:
                raise ValueError(f"{cls.__name__}: task is {task!r} but {needed} is missing; expected an integer.")
        refuse_impossible(cls.__name__, {n: x for n, x in given.items() if n in own and n not in takes})
        usual = {n: p.default for n, p in own.items() if p.default is not p.empty}
        return made(**{n: x for n, x in {**usual, **given}.items() if n in takes or n not in own})
