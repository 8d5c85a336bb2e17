"""How fast a loop is, as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .values import Scale, plot_values

_TIMES = {"step_time_mean_s": "mean", "step_time_p50_s": "median", "step_time_p90_s": "90 % of steps", "step_time_p99_s": "99 % of steps"}
_RATES = {"samples_per_s": "samples/s", "tokens_per_s": "tokens/s", "steps_per_s": "steps/s"}


def plot_throughput(val: Any, ax: Any, name: str) -> tuple[Any, Any]:
    """Step times as bars, with the rates in the title; of a list of values, the first of the rates over steps."""
    if isinstance(val, list | tuple):
        key = next((k for k in _RATES if val and all(k in v for v in val)), None)
        if key is None:
            raise ValueError(f"{name}: expected a list of what compute() gives, each with one of {list(_RATES)}.")
        return plot_values([v[key] for v in val], ax, scale=Scale(name, label=_RATES[key], higher_is_better=True))
    if not isinstance(val, Mapping):
        raise TypeError(f"{name}: val is {type(val).__name__}; expected what compute() gives, or a list of that, one for each step.")
    times = {told: 1000 * float(val[key]) for key, told in _TIMES.items() if key in val}
    figure, ax = plot_values(times, ax, scale=Scale("StepTime", label="step time (ms, lower is better)", low=0.0))
    rates = [f"{float(val[key]):.4g} {unit}" for key, unit in _RATES.items() if key in val]
    share = [f"{100 * float(val['mfu']):.3g} % of the peak"] if "mfu" in val else []
    ax.set_title(", ".join([*rates[:2], *share]) or name)
    return figure, ax
