"""Compile time and run time of one model over the most operators that a kernel may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import format as fmt
from ._style import ALERT, BLUE, GREY, INK, ORANGE, empty, figure, text, tidy, title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..sweep import Sweep, SweepPoint


def sweep_plot(sweep: Sweep, narrow: bool = False) -> Figure:
    """Two panels over the limits in order, both from zero. A limit without a time has a cross on the axis.

    A point with the very kernels of an earlier one is hollow: nothing new was measured there.
    """
    if sweep.fastest is None:
        return empty(figure(narrow, 2.0), "no limit gave a program that could be timed")
    plot = figure(narrow, 4.6)
    above, below = plot.subplots(2, 1, sharex=True)
    title(plot, f"{sweep.model.name}: run time and compile time by the size of kernels")
    timed = [(index, one, one.latency_us) for index, one in enumerate(sweep.points) if one.latency_us is not None]
    size, unit = fmt.unit_of(max(time.median for _, _, time in timed))
    spread = [
        [max(time.median - time.low, 0) / size for _, _, time in timed],
        [max(time.high - time.median, 0) / size for _, _, time in timed],
    ]
    values = [(index, time.median / size, one) for index, one, time in timed]
    places, medians = [index for index, _, _ in values], [median for _, median, _ in values]
    above.errorbar(places, medians, yerr=spread, fmt="none", ecolor=INK, elinewidth=1.3, capsize=4)
    _line(above, values, BLUE)
    best = sweep.points.index(sweep.fastest)
    at = (best, medians[places.index(best)])
    above.annotate("fastest", at, xytext=(0, -14), textcoords="offset points", ha="center", **text())
    above.set_ylim(bottom=0)
    above.set_ylabel(f"run time, {unit}", **text())
    _line(below, [(i, one.compile_s, one) for i, one in enumerate(sweep.points) if one.compile_s is not None], ORANGE)
    below.set_ylabel("compile time, s", **text())
    below.set_ylim(bottom=0)
    labels = [f"{one.name}\n{fmt.count(one.kernels, 'kernel')}" if not narrow else one.name for one in sweep.points]
    below.set_xticks(range(len(labels)), labels)
    below.set_xlabel("most operators in one kernel", **text())
    for index, one in enumerate(sweep.points):
        if one.latency_us is None:
            above.text(index, 0, "×", ha="center", va="bottom", **text(color=ALERT, fontsize=13))
    for axes in (above, below):
        tidy(axes, grid="y")
    return plot


def _line(axes: Axes, values: Sequence[tuple[int, float, SweepPoint]], colour: str) -> None:
    """A grey line through (place, value, point), with a marker each."""
    axes.plot([place for place, _, _ in values], [value for _, value, _ in values], color=GREY, linewidth=1.2, zorder=1)
    for place, value, one in values:
        axes.plot(place, value, "o", color=colour, markerfacecolor="white" if one.same_as else colour, zorder=2)
