"""Constructor arguments of classification metrics, checked."""

from __future__ import annotations

from typing import Any

from ..metric import Metric

_CHOICES = {
    "norm": ("l1", "l2", "max"),
    "multiclass_mode": ("crammer-singer", "one-vs-all"),
    "task": ("demographic_parity", "equal_opportunity", "all"),
}


def checked(metric: Metric, **options: Any) -> None:
    """Raise where an option is impossible; otherwise keep them on the metric."""
    name = type(metric).__name__
    for option, x in options.items():
        problem = _problem(option, x, options, metric)
        if problem:
            raise ValueError(f"{name}: {option} is {x!r}; expected {problem}.")
    metric.__dict__.update(options)


def refuse_impossible(name: str, unused: dict[str, Any]) -> None:
    """Raise where an option that a task has no use for would be impossible for every other, too."""
    for option, x in unused.items():
        problem = None if x is None else _problem(option, x, {}, None)
        if problem:
            raise ValueError(f"{name}: {option} is {x!r}; expected {problem}.")


def _whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _problem(option: str, x: Any, options: dict[str, Any], metric: Metric | None) -> str | None:
    """What was expected of an option, None where it is as expected."""
    if option == "num_classes":
        if x is None:
            return None if options.get("average") == "micro" else "a number of classes; it can be left out only with average='micro'"
        return None if _whole(x) and x >= 1 else "an integer of at least 1"
    if option == "num_labels":
        return None if _whole(x) and x >= 1 else "an integer of at least 1"
    if option == "average":
        return None if x in ("micro", "macro", "weighted", "none", None) else "'micro', 'macro', 'weighted', 'none' or None"
    if option == "top_k":
        classes = options.get("num_classes")
        if not _whole(x) or x < 1:
            return "an integer of at least 1"
        return None if classes is None or x <= classes else f"at most num_classes={classes}"
    if option == "threshold":
        fits = isinstance(x, int | float) and not isinstance(x, bool) and 0 <= x <= 1
        return None if fits else "a probability, from 0 to 1; logits are compared with its logit, so that 0.5 stands for the logit 0"
    if option == "multidim_average":
        return None if x in ("global", "samplewise") else "'global' or 'samplewise'"
    if option == "ignore_index":
        return None if x is None or (_whole(x) and -(2**63) <= x < 2**63) else "an integer of 64 bits or None"
    if option == "zero_division":
        return None if isinstance(x, int | float) and (x != x or 0 <= x <= 1) else "0, 1 or nan"
    if option == "absent":
        return None if x in ("skip", "keep", "zero", "nan") else "'skip', 'keep', 'zero' or 'nan'"
    if option == "labels":
        return None if x is None or metric is None else _problem_of_names(x, metric)
    if option == "normalize":
        return None if x in ("true", "pred", "all", "none", None) else "'true', 'pred', 'all', 'none' or None"
    if option == "max_fpr":
        return (
            None if x is None or (isinstance(x, int | float) and not isinstance(x, bool) and 0 < x <= 1) else "None or a number in (0, 1]"
        )
    if option == "normalization":
        return None if x in ("sigmoid", None) else "'sigmoid' or None"
    if option == "weights":
        return None if x in ("linear", "quadratic", "none", None) else "'linear', 'quadratic', 'none' or None"
    if option in ("n_bins", "num_groups"):
        return None if _whole(x) and x >= 1 else "an integer of at least 1"
    if option == "squared":
        return None if isinstance(x, bool) else "True or False"
    if option in _CHOICES:
        return None if x in _CHOICES[option] else ", ".join(map(repr, _CHOICES[option][:-1])) + f" or {_CHOICES[option][-1]!r}"
    if option == "from_logits":
        return None if x is None or isinstance(x, bool) else "True, False or None"
    if option == "beta":
        return None if isinstance(x, int | float) and not isinstance(x, bool) and x > 0 else "a number above 0"
    return None


def _problem_of_names(x: Any, metric: Metric) -> str | None:
    if isinstance(x, str) or not isinstance(x, list | tuple) or not all(isinstance(n, str) for n in x):
        return "a list of names, one for each class"
    known = metric.__dict__
    size = known.get("num_classes", known.get("num_labels", 2))
    if size is not None and len(x) != size:
        return f"{size} names, one for each class"
    return None if len(set(x)) == len(x) else "names that differ"
