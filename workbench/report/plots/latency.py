"""Latency of the variants: fused against unfused, with 95 % intervals."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from .. import format as fmt
from ..document import IntervalUs, VariantPart
from ..run import Run
from ._style import ALERT, INK, empty, figure, text, tidy, title, variant_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# An untuned variant this many times slower than the slowest tuned one would press the others flat.
CROWDING = 2.0


def latency_plot(run: Run, narrow: bool = False) -> Figure:
    """Bars from zero, fastest first, with interval, median and ratio to `unfused`.

    Untuned variants get a scale of their own where they would press the others flat. A wrong or failed variant has no
    bar; it is named under the plot.
    """
    shown = sorted(
        (one for one in run.variants if one.latency_us is not None and one.correct and one.status == "ok"),
        key=lambda one: _latency(one).median,
    )
    missing = [one for one in run.variants if one not in shown]
    if not shown:
        names = "\n".join(_excuse(one, narrow) for one in missing)
        return empty(figure(narrow, 2.0), f"no variant could be timed\n{names}".strip())
    main, apart = _panels(shown)
    rows = [len(panel) for panel in (main, apart) if panel]
    notes = "\n".join(_excuse(one, narrow) for one in missing)
    height = 0.62 * sum(rows) + 0.95 * len(rows) + 0.25 * (notes.count("\n") + bool(notes))
    plot = figure(narrow, max(height, 1.6))
    grid = plot.subplots(len(rows), 1, squeeze=False, height_ratios=rows)[:, 0]
    title(plot, f"{run.model.name}: latency of the whole model")
    for axes, panel in zip(grid, (main, apart), strict=False):
        _bars(axes, panel, narrow)
    if apart:
        heading = "not tuned, for orientation: a scale of its own"
        grid[1].set_title(heading, loc="right" if narrow else "left", **text(fontsize=8.5 if narrow else 9.5))
    caption = (
        f"median with 95 % interval; ratio: how much faster than unfused ({fmt.count(run.target.threads, 'thread')})"
    )
    caption = "\n".join(textwrap.wrap(caption, 46 if narrow else 110))
    grid[-1].set_xlabel(f"{grid[-1].get_xlabel()}\n{caption}", **text(fontsize=8.5))
    if notes:
        plot.supxlabel(notes, x=0.01, ha="left", **text(color=ALERT, fontsize=8.5))
    return plot


def _latency(one: VariantPart) -> IntervalUs:
    assert one.latency_us is not None
    return one.latency_us


def _panels(shown: Sequence[VariantPart]) -> tuple[list[VariantPart], list[VariantPart]]:
    """Variants that share the main scale, and those that need another."""
    tuned = [one for one in shown if one.tuned]
    if not tuned:
        return list(shown), []
    limit = CROWDING * max(_latency(one).median for one in tuned)
    apart = [one for one in shown if not one.tuned and _latency(one).median > limit]
    return [one for one in shown if one not in apart], apart


def _bars(axes: Axes, variants: Sequence[VariantPart], narrow: bool) -> None:
    size, unit = fmt.unit_of(max(_latency(one).median for one in variants))
    top = max(_latency(one).high for one in variants) / size
    for row, one in enumerate(variants):
        latency = _latency(one)
        median = latency.median / size
        spread = [[max(latency.median - latency.low, 0) / size], [max(latency.high - latency.median, 0) / size]]
        axes.barh(
            row, median, height=0.62, color=variant_colour(one.name, row), alpha=1.0 if one.tuned else 0.55,
            xerr=spread, error_kw={"ecolor": INK, "elinewidth": 1.3, "capsize": 4, "capthick": 1.3},
        )  # fmt: skip
        label = fmt.time(latency.median)
        if one.ratio_to_unfused is not None and one.name != "unfused":
            label += ("\n" if narrow else "   ") + fmt.ratio(one.ratio_to_unfused)
        axes.text(max(latency.high, latency.median) / size + 0.02 * top, row, label, va="center", **text(fontsize=9))
    axes.set_yticks(range(len(variants)), [one.name for one in variants])
    axes.invert_yaxis()
    axes.set_xlim(0, top * (1.75 if narrow else 1.45))
    axes.set_xlabel(unit, **text())
    tidy(axes, grid="x")
    axes.tick_params(axis="y", length=0, labelsize=9 if narrow else 10)
    ticks = [tick for tick in axes.get_xticks() if tick <= top * 1.05]
    axes.set_xticks(ticks)


def _excuse(one: VariantPart, narrow: bool) -> str:
    why = {"wrong": "WRONG", "failed": "FAILED"}.get(one.status, "not timed")
    message = f": {one.message}" if one.message else ""
    return "\n".join(textwrap.wrap(f"no bar for {one.name}: {why}{message}", 52 if narrow else 110))
