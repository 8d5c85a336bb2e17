"""The answer in one picture: bars of step time against no metrics, the stalls per step written on them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ..errors import TallyError
from .report import Account
from .variants import BASELINE

Bar = tuple[str, float, float, float, str]
"""A variant: step time in per cent of that without metrics, the least and the most it plausibly is, and what is written on the bar."""
PLAIN, WAITING = "#4878a8", "#c8553d"


def draw(account: Account) -> Any:
    """A figure with one panel for what was measured and one for each device it was predicted for; the baseline must be among the variants."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise TallyError("--picture needs matplotlib: pip install 'torchtally[plot]'.") from None
    panels = panels_of(account)
    figure = Figure(figsize=(9, 0.9 + sum(0.8 + 0.34 * len(bars) for _, bars in panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=[2 + len(bars) for _, bars in panels])[:, 0]
    for axis, (title, bars) in zip(axes, panels, strict=True):
        _panel(axis, title, bars)
    return figure


def save(account: Account, file: Path) -> None:
    """Draw into a file of the kind its name says."""
    draw(account).savefig(file, dpi=130)


def svg(account: Account) -> str:
    text = io.StringIO()
    draw(account).savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


def panels_of(account: Account) -> list[tuple[str, list[Bar]]]:
    """What each panel shows: its title and its bars."""
    panels: list[tuple[str, list[Bar]]] = []
    if account.settings.device != "pretend":
        bars = [(r.name, 100 / (1 - r.loss_percent / 100), 0.0, 0.0, _stalls(r.stalls_per_step)) for r in account.rows if r.loss_percent is not None]
        panels.append((f"Measured on {account.device}, {account.settings.batch} images of {account.settings.image_size} pixels", bars))
    for f in account.forecasts:
        if BASELINE not in f.predictions:
            continue
        bars = []
        for row in account.rows:
            if row.name in f.predictions:
                lost = [100 / (1 - (f.figures(row.name)[key] or 0.0) / 100) for key in ("loss_percent", "loss_percent_low", "loss_percent_high")]
                bars.append((row.name, lost[0], lost[1], lost[2], _stalls(row.stalls_per_step)))
        title = f"Predicted, not measured: {f.sizes.model} on {f.price}, {f.sizes.batch} images of {f.sizes.image_size} pixels; lines span what is plausible"
        panels.append((title, bars))
    return panels


def _stalls(count: float | None) -> str:
    return "" if count is None else "no stalls" if count == 0 else f"{count:.3g} stall{'' if count == 1 else 's'} per step"


def _panel(axis: Any, title: str, bars: list[Bar]) -> None:
    names = [name for name, *_ in bars]
    colours = [WAITING if label and label != "no stalls" else PLAIN for *_, label in bars]
    axis.barh(names, [value for _, value, *_ in bars], color=colours, height=0.7)
    for place, (_, value, low, high, label) in enumerate(bars):
        if high > low:
            axis.plot([low, high], [place, place], color="black", linewidth=1.2, marker="|", markersize=6)
        axis.text(1, place, f"{value:.1f} %   {label}", va="center", ha="left", color="white", fontsize=8.5)
    axis.axvline(100, color="grey", linewidth=0.8, linestyle=":")
    axis.invert_yaxis()
    axis.set_xlim(0, max([value for _, value, *_ in bars] + [high for *_, high, _ in bars]) * 1.03)
    axis.set_title(title, loc="left", fontsize=9)
    axis.set_xlabel("step time, per cent of the step without metrics", fontsize=8)
    axis.tick_params(labelsize=8.5)
    axis.spines[["top", "right"]].set_visible(False)
