"""The roofline (Williams, Waterman and Patterson, 2009): kernels under the machine's compute and memory roofs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import format as fmt
from ..frames import RooflinePoint, roofline_points
from ..run import Run
from ._style import GREY, INK, empty, figure, settle, text, tidy, title, variant_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELLED, LABEL_SHARE = 6, 0.03  # at most so many labels, on points with at least this share of the time
MARKERS = {"planned": "o", "greedy": "D", "unfused": "s"}


def roofline_plot(run: Run, narrow: bool = False, variants: tuple[str, ...] | None = None) -> Figure:
    """Points: kernels of the tuned ``variants`` (default: all), their area the share of their variant's time."""
    from matplotlib.collections import PathCollection

    points = roofline_points(run, variants)
    if not points:
        return empty(figure(narrow, 2.0), "no kernel was timed, so there is nothing under the roof")
    plot = figure(narrow, 5.4)
    axes = plot.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = _limits(run, points)
    _roofs(axes, run, low, high, points)
    names = list(dict.fromkeys(one.variant for one in points))
    names.sort(key=lambda name: ("unfused", "greedy", "planned").index(name) if name in MARKERS else 3)
    for position, name in enumerate(names):
        mine = [one for one in points if one.variant == name]
        axes.scatter(
            [one.intensity for one in mine], [one.gflops for one in mine], s=[_area(one) for one in mine],
            marker=MARKERS.get(name, "^"), facecolor=variant_colour(name, position), edgecolor=INK, linewidth=0.6,
            alpha=0.75, zorder=3 + position, label=name,
        )  # fmt: skip
    axes.set_xlim(low, high)
    rates = [one.gflops for one in points]
    axes.set_ylim(min(rates) / 2.2, max([*rates, run.target.peak_gflops]) * 2.4)
    note = "area: share of the variant's kernel time; above the memory roof: served from cache"
    note = note.replace("; ", "\n") if narrow else note
    axes.set_xlabel(f"arithmetic intensity, FLOP per byte\n{note}", **text(fontsize=8.5))
    axes.set_ylabel("GFLOP/s", **text())
    tidy(axes, grid="both")
    title(plot, f"{run.model.name}: kernels under the roofline")
    legend = axes.legend(loc="lower right", frameon=False, fontsize=9, labelcolor=INK)
    for handle in legend.legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_sizes([55])
    largest = [one for one in points if one.variant == names[-1] and one.share >= LABEL_SHARE][:LABELLED]
    _key(plot, largest, narrow)
    settle(plot)  # so that the marks know where points lie
    _mark(axes, largest, points)
    return plot


def _limits(run: Run, points: Sequence[RooflinePoint]) -> tuple[float, float]:
    ridge = run.target.peak_gflops / run.target.peak_gbps
    intensities = [one.intensity for one in points]
    return min(*intensities, ridge) / 2.5, max(*intensities, ridge) * 3.5


def _area(point: RooflinePoint) -> float:
    """Of the marker, in square points."""
    return 20 + 450 * point.share


def _radius(point: RooflinePoint) -> float:
    """Of the marker, in points."""
    return math.sqrt(_area(point)) / 2


def _quiet_place(run: Run, low: float, points: Sequence[RooflinePoint]) -> float:
    """Where on the memory roof a label is furthest from every point: an intensity between ``low`` and the ridge."""
    ridge = run.target.peak_gflops / run.target.peak_gbps
    crowd = [(math.log(one.intensity), math.log(one.gflops)) for one in points]
    places = [low * (ridge / low) ** (0.05 * step) for step in range(1, 11)]

    def room(place: float) -> float:
        middle = place * (ridge / low) ** 0.12  # the label begins at its place
        at = math.log(middle), math.log(middle * run.target.peak_gbps)
        return min(math.dist(at, other) for other in crowd)

    return max(places, key=room)


def _roofs(axes: Axes, run: Run, low: float, high: float, points: Sequence[RooflinePoint]) -> None:
    target = run.target
    how = "measured" if target.peaks_measured else "nominal"
    ridge = target.peak_gflops / target.peak_gbps
    axes.plot([low, ridge, high], [target.peak_gbps * low, target.peak_gflops, target.peak_gflops], color=INK, lw=1.6)
    axes.annotate(
        f"{fmt.number(target.peak_gflops)} GFLOP/s, {how}", (high, target.peak_gflops), xytext=(-2, 7),
        textcoords="offset points", ha="right", va="bottom", **text(fontsize=8.5),
    )  # fmt: skip
    start = _quiet_place(run, low, points)
    above = 1.15 * max(target.peak_gbps, target.nominal_gbps or 0.0) * start
    slope = math.degrees(math.atan2(above, start))  # in data units: the axes' transform turns it parallel to the roof
    axes.text(
        start, above, f"{fmt.number(target.peak_gbps)} GB/s, {how}", rotation=slope, rotation_mode="anchor",
        transform_rotates_text=True, ha="left", va="bottom", **text(fontsize=8.5),
    )  # fmt: skip
    if target.peaks_measured and target.nominal_gflops and target.nominal_gbps:
        corner = target.nominal_gflops / target.nominal_gbps
        axes.plot(
            [low, corner, high], [target.nominal_gbps * low, target.nominal_gflops, target.nominal_gflops],
            color=GREY, lw=0.9, ls=":", zorder=1, label="nominal roof",
        )  # fmt: skip


def _mark(axes: Axes, marked: Sequence[RooflinePoint], points: Sequence[RooflinePoint]) -> None:
    """The ids of the largest kernels, each below its point, or further down where something else stands."""
    dpi = axes.figure.dpi
    pixel = axes.transData.transform
    taken = [(*pixel((one.intensity, one.gflops)), _radius(one) * dpi / 72) for one in points]
    for one in sorted(marked, key=lambda point: -point.gflops):
        x, y = pixel((one.intensity, one.gflops))
        depth = y - _radius(one) * dpi / 72 - 10
        while any(abs(depth - other) < 8 + half and abs(x - across) < 10 + half for across, other, half in taken):
            depth -= 3
        taken.append((x, depth, 8.0))
        axes.annotate(
            one.id, (one.intensity, one.gflops), xytext=(0, (depth - y) * 72 / dpi),
            textcoords="offset points", ha="center", va="center", zorder=9,
            arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.5}, **text(fontsize=8.5),
        )  # fmt: skip


def _key(plot: Figure, points: Sequence[RooflinePoint], narrow: bool) -> None:
    """What the marked ids compute; beside the points there is no room for it."""
    from matplotlib.lines import Line2D

    if points:
        blank = Line2D([], [], linestyle="none")
        labels = [f"{one.id}: {fmt.shorten(one.operators, 42)}, {fmt.percent(one.share)}" for one in points]
        plot.legend(
            [blank] * len(points), labels, loc="outside lower center", ncols=1 if narrow else 2, frameon=False,
            fontsize=8.5, labelcolor=INK, handlelength=0, handletextpad=0, columnspacing=3,
        )  # fmt: skip
