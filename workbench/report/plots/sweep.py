"""Compile time and run time of one model over the most operators that a kernel may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import format as fmt
from ._style import ALERT, BLUE, GREY, INK, ORANGE, empty, figure, text, tidy, title

if TYPE_CHECKING:
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
    timed = [(index, one) for index, one in enumerate(sweep.points) if one.latency_us is not None]
    size, unit = fmt.unit_of(max(one.latency_us.median for _, one in timed if one.latency_us is not None))
    _run_times(above, timed, size)
    above.set_ylabel(f"run time, {unit}", **text())
    built = [(index, one) for index, one in enumerate(sweep.points) if one.compile_s is not None]
    _line(
        below, [index for index, _ in built], [one.compile_s or 0.0 for _, one in built], [o for _, o in built], ORANGE
    )
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


def _run_times(axes: Axes, timed: list[tuple[int, SweepPoint]], size: float) -> None:
    places = [index for index, _ in timed]
    times = [one.latency_us for _, one in timed if one.latency_us is not None]
    medians = [time.median / size for time in times]
    spread = [
        [max(time.median - time.low, 0) / size for time in times],
        [max(time.high - time.median, 0) / size for time in times],
    ]
    axes.errorbar(places, medians, yerr=spread, fmt="none", ecolor=INK, elinewidth=1.3, capsize=4)
    _line(axes, places, medians, [one for _, one in timed], BLUE)
    axes.set_ylim(bottom=0)
    best = min(range(len(medians)), key=lambda i: (medians[i], i))
    axes.annotate(
        "fastest", (places[best], medians[best]), xytext=(0, -14), textcoords="offset points", ha="center", **text()
    )


def _line(axes: Axes, places: list[int], values: list[float], points: list[SweepPoint], colour: str) -> None:
    axes.plot(places, values, color=GREY, linewidth=1.2, zorder=1)
    for place, value, one in zip(places, values, points, strict=True):
        axes.plot(place, value, "o", color=colour, markerfacecolor="white" if one.same_as else colour, zorder=2)
